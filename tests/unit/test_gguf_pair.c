/* Drafts, mmprojs and adapters that do not belong to a model are refused, each with its reason. */
#include "test.h"

#include "gguf/head.h"
#include "gguf/pair.h"
#include "gguf_maker.h"
#include "scratch.h"

struct vocabulary {
    const char *arch, *model, *prefix;
    size_t n;
    int add_bos; /* -1: not said */
    uint32_t bos;
    const char *layer; /* a further tensor of layer 0; NULL: none */
    uint32_t layers;   /* 0: one */
};

static const struct vocabulary usual = { "llama", "gpt2", "w", 300, 1, 7, NULL };

static struct vr_model *written(struct maker *g, const char *path)
{
    mk_write(g, path);
    struct vr_err err = { 0 };
    struct vr_model *m = vr_model_open(path, &err);
    if (!m) fail_msg("%s", err.msg);
    return m;
}

static struct vr_model *make(const char *path, const struct vocabulary *v)
{
    MK_AUTO g = { 0 };
    mk_str(&g, "general.architecture", v->arch);
    mk_str(&g, "general.name", "some model");
    mk_str(&g, "tokenizer.ggml.model", v->model);
    if (v->n) mk_vocab(&g, "tokenizer.ggml.tokens", v->prefix, v->n);
    if (v->add_bos >= 0) mk_bool(&g, "tokenizer.ggml.add_bos_token", v->add_bos);
    mk_u32(&g, "tokenizer.ggml.bos_token_id", v->bos);
    char key[64];
    snprintf(key, sizeof key, "%s.block_count", v->arch);
    mk_u32(&g, key, v->layers ? v->layers : 1);
    snprintf(key, sizeof key, "%s.embedding_length", v->arch);
    mk_u32(&g, key, 64);
    mk_tensor(&g, "token_embd.weight", VR_TYPE_F16, 64, v->n ? v->n : 300, 0);
    if (v->layer) mk_tensor(&g, v->layer, VR_TYPE_F16, 64, 64, 0);
    return written(&g, path);
}

static void test_drafts(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        struct vocabulary draft;
        const char *refusal; /* NULL: it can draft */
    } rows[] = {
        { "the same", { "llama", "gpt2", "w", 300, 1, 7, NULL }, NULL },
        { "another architecture", { "qwen3", "gpt2", "w", 300, 1, 7, NULL }, NULL },
        { "a few tokens more", { "llama", "gpt2", "w", 428, 1, 7, NULL }, NULL },
        { "too many more",
          { "llama", "gpt2", "w", 429, 1, 7, NULL },
          "its vocabulary has 429 tokens, the model's has 300" },
        { "too few", { "llama", "gpt2", "w", 171, 1, 7, NULL }, "its vocabulary has 171 tokens" },
        { "other words", { "llama", "gpt2", "v", 300, 1, 7, NULL }, "token 5 differs" },
        { "another tokenizer",
          { "llama", "llama", "w", 300, 1, 7, NULL },
          "its tokenizer is 'llama', the model's is 'gpt2'" },
        { "does not start", { "llama", "gpt2", "w", 300, 0, 7, NULL }, "only one of them adds a 'bos' token" },
        { "begins otherwise", { "llama", "gpt2", "w", 300, 1, 8, NULL }, "its 'bos' is token 8, the model's is 7" },
        { "says nothing", { "llama", "gpt2", "w", 300, -1, 8, NULL }, NULL },
        { "no words", { "llama", "gpt2", "w", 0, 1, 7, NULL }, NULL },
        { "recurrent", { "mamba", "gpt2", "w", 300, 1, 7, "blk.0.ssm_in.weight" }, "cannot be rolled back" },
        { "half a model", { "dflash", "gpt2", "w", 300, 1, 7, NULL }, "a DFlash head names the layers" },
        { "its successor", { "dflash", "gpt2", "w", 300, 1, 7, "selector_hidden.weight" }, "is a DFlash 2 head" },
        { "another", { "dflash", "gpt2", "w", 300, 1, 7, "markov_w1.weight" }, "names the layers" },
        { "a third",
          { "gemma4-assistant", "gpt2", "w", 300, 1, 7, NULL },
          "is a Gemma 4 assistant, and some model is not" },
        { "a head that says nothing", { "eagle3", "gpt2", "w", 300, 1, 7, NULL }, "names three layers" },
        { "an mmproj", { "clip", "gpt2", "w", 300, 1, 7, NULL }, "give it with --mmproj" },
    };
    const char *a = scratch("model.gguf"), *b = scratch("draft.gguf");
    VR_AUTO(vr_model) m = make(a, &usual);
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        VR_AUTO(vr_model) draft = make(b, &rows[i].draft);
        struct vr_err err = { 0 };
        bool ok = vr_pair_draft(m, draft, &err);
        if (ok != !rows[i].refusal || (!ok && !strstr(err.msg, rows[i].refusal)))
            fail_msg("%s: %s", rows[i].what, ok ? "taken" : err.msg);
    }
}

/* A token that differs far behind the first window of the file. */
static void test_one_late_token(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    const char *a = scratch("long.gguf"), *b = scratch("late.gguf");
    struct vocabulary many = usual;
    many.n = 60000;
    VR_AUTO(vr_model) m = make(a, &many);
    vr_model_free(make(b, &many));
    VR_AUTO_FCLOSE FILE *f = fopen(b, "r+b");
    assert_non_null(f);
    static char text[1 << 20];
    size_t n = fread(text, 1, sizeof text, f);
    char *at = memmem(text, n, "w59998", 6);
    assert_non_null(at);
    fseek(f, at - text, SEEK_SET);
    fputc('x', f);
    fflush(f);
    VR_AUTO(vr_model) draft = vr_model_open(b, &err);
    assert_non_null(draft);
    assert_false(vr_pair_draft(m, draft, &err));
    assert_non_null(strstr(err.msg, "token 59998 differs"));
}

/* A file that becomes shorter between two looks is an error, and not the end. */
static void test_shrunk(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    const char *a = scratch("whole.gguf"), *b = scratch("shrunk.gguf");
    struct vocabulary many = usual;
    many.n = 60000;
    VR_AUTO(vr_model) m = make(a, &many);
    VR_AUTO(vr_model) draft = make(b, &many);
    assert_int_equal(truncate(b, 4000), 0);
    assert_false(vr_pair_draft(m, draft, &err));
    assert_non_null(strstr(err.msg, "shrunk.gguf"));
}

static void test_mmproj(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    const char *a = scratch("model.gguf"), *b = scratch("vision.gguf");
    struct vocabulary clip = usual;
    clip.arch = "clip";
    VR_AUTO(vr_model) m = make(a, &usual);
    VR_AUTO(vr_model) vision = make(b, &clip);
    assert_true(vr_pair_model(m, &err) && vr_pair_mmproj(vision, &err) && vr_pair_width(m, vision, 64, &err));
    assert_false(vr_pair_model(vision, &err));
    assert_non_null(strstr(err.msg, "this file with --mmproj"));
    assert_false(vr_pair_mmproj(m, &err));
    assert_non_null(strstr(err.msg, "is a 'llama' model, not a vision projector (mmproj)"));
    assert_false(vr_pair_width(m, vision, 128, &err));
    assert_non_null(strstr(err.msg, "have 128 dimensions, those of some model have 64"));
}

/* An EAGLE-3 head. What is 0 is left out, but for layers. */
struct head {
    int32_t taps[4];
    size_t n_taps;
    uint32_t reads, width, layers; /* the model's dimensions, its own, its layers */
    size_t n_tokens;
    uint64_t own_input, output; /* rows */
    uint64_t known;             /* of d2t */
    int64_t last;               /* the token that the last of them stands for */
};

static struct vr_model *make_head(const char *path, const struct head *h)
{
    MK_AUTO g = { 0 };
    mk_str(&g, "general.architecture", "eagle3");
    mk_str(&g, "tokenizer.ggml.model", "gpt2");
    mk_vocab(&g, "tokenizer.ggml.tokens", "w", h->n_tokens);
    if (h->n_taps) mk_i32s(&g, "eagle3.target_layers", h->taps, h->n_taps);
    if (h->reads) mk_u32(&g, "eagle3.target_hidden_size", h->reads);
    mk_u32(&g, "eagle3.block_count", h->layers);
    mk_u32(&g, "eagle3.embedding_length", h->width);
    mk_tensor(&g, "fc.weight", VR_TYPE_F16, (uint64_t)3 * 64, h->width, 0);
    if (h->own_input) mk_tensor(&g, "token_embd.weight", VR_TYPE_F16, h->width, h->own_input, 0);
    if (h->output) mk_tensor(&g, "output.weight", VR_TYPE_F16, h->width, h->output, 0);
    if (h->known) mk_tensor(&g, "d2t", (uint32_t)vr_type_by_name("i64"), h->known, 0, 0);
    struct vr_model *m = written(&g, path);
    const struct vr_tensor *map = vr_model_tensor(m, "d2t");
    VR_AUTO_FCLOSE FILE *f = map ? fopen(path, "r+b") : NULL;
    if (f && (fseek(f, (long)(map->offset + 8 * (h->known - 1)), SEEK_SET) != 0 || fwrite(&h->last, 8, 1, f) != 1))
        fail_msg("cannot write the map");
    return m;
}

static void test_heads(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        struct head head;
        const char *refusal; /* NULL: it belongs to the model */
    } rows[] = {
        { "all tokens", { { 0, 1, 3 }, 3, 64, 64, 1, 300, 0, 300, 0, 0 }, NULL },
        { "some tokens", { { 0, 1, 3 }, 3, 64, 64, 1, 300, 0, 200, 200, 299 }, NULL },
        { "narrower, with its own embeddings", { { 0, 1, 3 }, 3, 64, 32, 1, 300, 300, 300, 0, 0 }, NULL },
        { "narrower, without",
          { { 0, 1, 3 }, 3, 64, 32, 1, 300, 0, 300, 0, 0 },
          "has no token embeddings of its own and cannot use those of some model, which have 64 dimensions instead" },
        { "embeddings that end too early",
          { { 0, 1, 3 }, 3, 64, 64, 1, 300, 299, 300, 0, 0 },
          "has embeddings of 299 tokens, and some model has 300" },
        { "two layers to read", { { 0, 1 }, 2, 64, 64, 1, 300, 0, 300, 0, 0 }, "names three layers that it reads" },
        { "four", { { 0, 1, 2, 3 }, 4, 64, 64, 1, 300, 0, 300, 0, 0 }, "names three layers that it reads" },
        { "the output of the last", { { 0, 1, 4 }, 3, 64, 64, 1, 300, 0, 300, 0, 0 }, "layer 4, and some model has 4" },
        { "no layer", { { 0, -1, 3 }, 3, 64, 64, 1, 300, 0, 300, 0, 0 }, "it reads layer" },
        { "of a wider model",
          { { 0, 1, 3 }, 3, 128, 64, 1, 300, 0, 300, 0, 0 },
          "reads hidden states of 128 dimensions, those of some model have 64" },
        { "two layers", { { 0, 1, 3 }, 3, 64, 64, 2, 300, 0, 300, 0, 0 }, "has one layer, this one has 2" },
        { "the model's output", { { 0, 1, 3 }, 3, 64, 64, 1, 300, 0, 0, 0, 0 }, NULL },
        { "narrower, with the model's output",
          { { 0, 1, 3 }, 3, 64, 32, 1, 300, 300, 0, 0, 0 },
          "has no output matrix of its own and cannot use that of some model, which has 64 dimensions instead of 32" },
        { "a map for the model's output", { { 0, 1, 3 }, 3, 64, 64, 1, 300, 0, 0, 200, 0 }, "it is corrupt" },
        { "a map of another length", { { 0, 1, 3 }, 3, 64, 64, 1, 300, 0, 200, 199, 0 }, "a 64-bit number for each" },
        { "a map beyond the tokens",
          { { 0, 1, 3 }, 3, 64, 64, 1, 300, 0, 200, 200, 300 },
          "token 199 stands for token 300 of the model (d2t), and some model has 300" },
        { "a map before them", { { 0, 1, 3 }, 3, 64, 64, 1, 300, 0, 200, 200, -1 }, "token 199 stands for token" },
        { "one token more", { { 0, 1, 3 }, 3, 64, 64, 1, 301, 0, 301, 0, 0 }, "its vocabulary has 301 tokens" },
    };
    struct vocabulary four = usual, phi = usual;
    four.layers = 4;
    four.add_bos = phi.add_bos = -1;
    phi.arch = "phi3";
    VR_AUTO(vr_model) m = make(scratch("model.gguf"), &four);
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        VR_AUTO(vr_model) head = make_head(scratch("head.gguf"), &rows[i].head);
        struct vr_err err = { 0 };
        bool ok = vr_pair_draft(m, head, &err);
        if (ok != !rows[i].refusal || (!ok && !strstr(err.msg, rows[i].refusal)))
            fail_msg("%s: %s", rows[i].what, ok ? "taken" : err.msg);
    }
    struct vr_err err = { 0 };
    VR_AUTO(vr_model) other = make(scratch("phi.gguf"), &phi);
    VR_AUTO(vr_model) head = make_head(scratch("head.gguf"), &rows[0].head);
    assert_false(vr_pair_draft(other, head, &err));
    assert_non_null(strstr(err.msg, "does not give out the layers of 'phi3' models"));
    assert_false(vr_pair_model(head, &err));
    assert_non_null(strstr(err.msg, "this file with --draft"));
    uint32_t taps[VR_MOST_TAPS];
    assert_int_equal(vr_head_taps(head, taps), 3);
    assert_int_equal(taps[2], 3);
    assert_int_equal(vr_head_taps(m, taps), 0);
}

/* A Gemma 4 model or an assistant for one; what is 0 is left out. */
struct gemma {
    const char *arch;
    uint32_t layers, full, embd, out, heads, kv, key, key_swa, mtp, shared; /* full: layers without a window, as bits */
};

static struct vr_model *make_gemma(const char *path, const struct gemma *x)
{
    MK_AUTO g = { 0 };
    int32_t windows[16] = { 0 };
    const struct {
        const char *key;
        uint32_t value;
    } keys[] = { { "block_count", x->layers },
                 { "embedding_length", x->embd },
                 { "embedding_length_out", x->out },
                 { "attention.head_count", x->heads },
                 { "attention.head_count_kv", x->kv },
                 { "attention.key_length", x->key },
                 { "attention.value_length", x->key },
                 { "attention.key_length_swa", x->key_swa },
                 { "attention.value_length_swa", x->key_swa },
                 { "nextn_predict_layers", x->mtp },
                 { "attention.shared_kv_layers", x->shared } };
    char key[96];
    mk_str(&g, "general.architecture", x->arch);
    mk_str(&g, "general.name", "some model");
    mk_str(&g, "tokenizer.ggml.model", "gpt2");
    mk_vocab(&g, "tokenizer.ggml.tokens", "w", 300);
    for (size_t i = 0; i < VR_COUNT(keys); i++) {
        snprintf(key, sizeof key, "%s.%s", x->arch, keys[i].key);
        if (keys[i].value) mk_u32(&g, key, keys[i].value);
    }
    for (uint32_t i = 0; i < x->layers; i++) windows[i] = !(x->full >> i & 1);
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", x->arch);
    mk_i32s(&g, key, windows, x->layers);
    mk_tensor(&g, "token_embd.weight", VR_TYPE_F16, x->embd, 300, 0);
    return written(&g, path);
}

#define GEMMA     "gemma4", 6, 0x24, 64, 0, 4, 2, 32, 16, 0
#define ASSISTANT "gemma4-assistant", 2, 2

static void test_assistants(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        struct gemma model, head;
        const char *refusal; /* NULL: it belongs to the model */
    } rows[] = {
        { "one of it", { GEMMA, 0 }, { ASSISTANT, 128, 64, 4, 2, 32, 16, 2, 0 }, NULL },
        { "with more heads", { GEMMA, 0 }, { ASSISTANT, 128, 64, 8, 2, 32, 16, 2, 0 }, NULL },
        { "layers that share", { GEMMA, 3 }, { ASSISTANT, 128, 64, 4, 2, 32, 16, 2, 0 }, NULL },
        { "whose last does not, and those before do",
          { GEMMA, 2 },
          { ASSISTANT, 128, 64, 4, 2, 32, 16, 2, 0 },
          "is not a" },
        { "all share", { GEMMA, 6 }, { ASSISTANT, 128, 64, 4, 2, 32, 16, 2, 0 }, "is not a Gemma 4 model" },
        { "the last has a window",
          { "gemma4", 6, 0x14, 64, 0, 4, 2, 32, 16, 0, 0 },
          { ASSISTANT, 128, 64, 4, 2, 32, 16, 2, 0 },
          "is not a Gemma 4 model" },
        { "an older model",
          { "gemma3", 6, 0x24, 64, 0, 4, 2, 32, 16, 0, 0 },
          { ASSISTANT, 128, 64, 4, 2, 32, 16, 2, 0 },
          "is a Gemma 4 assistant, and some model is not a Gemma 4 model" },
        { "of a wider model",
          { GEMMA, 0 },
          { ASSISTANT, 128, 96, 4, 2, 32, 16, 2, 0 },
          "hidden states of 96 dimensions, those of some model have 64" },
        { "as wide as the model",
          { GEMMA, 0 },
          { ASSISTANT, 64, 64, 4, 2, 32, 16, 2, 0 },
          "reads hidden states of 64" },
        { "says no width", { GEMMA, 0 }, { ASSISTANT, 128, 0, 4, 2, 32, 16, 2, 0 }, "reads hidden states of 0" },
        { "other KV heads", { GEMMA, 0 }, { ASSISTANT, 128, 64, 4, 4, 32, 16, 2, 0 }, "layer 0 reads keys of 4 heads" },
        { "heads that do not divide",
          { GEMMA, 0 },
          { ASSISTANT, 128, 64, 3, 2, 32, 16, 2, 0 },
          "a head of another model" },
        { "other heads",
          { GEMMA, 0 },
          { ASSISTANT, 128, 64, 4, 2, 64, 16, 2, 0 },
          "layer 1 reads keys of 2 heads with 64" },
        { "others in the window", { GEMMA, 0 }, { ASSISTANT, 128, 64, 4, 2, 32, 32, 2, 0 }, "with 32 dimensions" },
        { "layers of its own", { GEMMA, 0 }, { ASSISTANT, 128, 64, 4, 2, 32, 16, 1, 0 }, "of this one 1 of 2" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        VR_AUTO(vr_model) m = make_gemma(scratch("model.gguf"), &rows[i].model);
        VR_AUTO(vr_model) head = make_gemma(scratch("head.gguf"), &rows[i].head);
        struct vr_err err = { 0 };
        bool ok = vr_pair_draft(m, head, &err);
        if (ok != !rows[i].refusal || (!ok && !strstr(err.msg, rows[i].refusal)))
            fail_msg("%s: %s", rows[i].what, ok ? "taken" : err.msg);
        assert_true(vr_head_shares_cache(head) && vr_head_shares_input(head) && !vr_head_shares_cache(m));
        assert_false(vr_pair_model(head, &err));
        uint32_t layers[VR_MOST_ANCHORS];
        assert_int_equal(vr_head_anchors(m, head, layers), 2);
        if (ok) assert_int_equal(layers[1], rows[i].model.shared ? 2 : 5);
        if (ok) assert_int_equal(layers[0], layers[1] - 1);
    }
}

/* A DFlash head; what is 0 is left out, but for the mask. */
struct block_head {
    int32_t taps[4];
    size_t n_taps;
    uint32_t width, block, mask, value; /* its width, tokens of a block, the masked token, width of a head of values */
    uint64_t own_input, output, known;  /* rows */
    uint32_t streams;                   /* of residuals, as DeepSeek-V4 has them */
    bool markov, not_first;             /* DSpark; and its first row does not guess */
};

static struct vr_model *make_block_head(const char *path, const struct block_head *h)
{
    MK_AUTO g = { 0 };
    mk_str(&g, "general.architecture", "dflash");
    mk_str(&g, "tokenizer.ggml.model", "gpt2");
    mk_vocab(&g, "tokenizer.ggml.tokens", "w", 300);
    if (h->n_taps) mk_i32s(&g, "dflash.target_layers", h->taps, h->n_taps);
    if (h->block) mk_u32(&g, "dflash.block_size", h->block);
    if (h->mask) mk_u32(&g, "tokenizer.ggml.mask_token_id", h->mask);
    mk_u32(&g, "dflash.block_count", 2);
    mk_u32(&g, "dflash.embedding_length", h->width);
    mk_u32(&g, "dflash.attention.head_count", 4);
    if (h->value) mk_u32(&g, "dflash.attention.value_length", h->value);
    if (h->not_first) mk_bool(&g, "dflash.sample_from_anchor", false);
    if (h->markov) mk_tensor(&g, "markov_w1.weight", VR_TYPE_F16, 32, 300, 0);
    if (h->streams) mk_u32(&g, "dflash.hyper_connection.count", h->streams);
    mk_tensor(&g, "fc.weight", VR_TYPE_F16, (h->n_taps ? h->n_taps : 1) * h->width, h->width, 0);
    if (h->own_input) mk_tensor(&g, "token_embd.weight", VR_TYPE_F16, h->width, h->own_input, 0);
    if (h->output) mk_tensor(&g, "output.weight", VR_TYPE_F16, h->width, h->output, 0);
    if (h->known) mk_tensor(&g, "d2t", (uint32_t)vr_type_by_name("i64"), h->known, 0, 0);
    return written(&g, path);
}

static void test_block_heads(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        struct block_head head;
        const char *refusal; /* NULL: it belongs to the model */
        size_t anchors;
        uint32_t block;
    } rows[] = {
        { "all is the model's", { { 0, 3 }, 2, 64, 8, 299, 0, 0, 0, 0 }, NULL, 1, 7 },
        { "a block of no size", { { 0, 3 }, 2, 64, 0, 299, 0, 0, 0, 0 }, NULL, 1, 15 },
        { "its own output", { { 0, 1, 2, 3 }, 4, 64, 2, 1, 0, 0, 300, 0 }, NULL, 0, 1 },
        { "for some tokens", { { 0 }, 1, 64, 8, 1, 0, 0, 100, 100 }, NULL, 0, 7 },
        { "its own embeddings, which are its output", { { 0, 3 }, 2, 64, 8, 7, 0, 300, 0, 0 }, NULL, 0, 7 },
        { "embeddings that end too early", { { 0, 3 }, 2, 64, 8, 7, 0, 299, 0, 0 }, "has embeddings of 299", 0, 7 },
        { "of a narrower model", { { 0, 3 }, 2, 32, 8, 7, 0, 0, 0, 0 }, "hidden states of 32 dimensions", 1, 7 },
        { "reads nothing", { { 0 }, 0, 64, 8, 7, 0, 0, 0, 0 }, "names the layers that it reads", 1, 7 },
        { "reads beyond the model",
          { { 0, 4 }, 2, 64, 8, 7, 0, 0, 0, 0 },
          "it reads layer 4, and some model has 4",
          1,
          7 },
        { "a map for the model's output", { { 0 }, 1, 64, 8, 1, 0, 0, 0, 100 }, "it is corrupt", 1, 7 },
        { "a map of another length", { { 0 }, 1, 64, 8, 1, 0, 0, 100, 99 }, "a 64-bit number for each", 0, 7 },
        { "no mask", { { 0, 3 }, 2, 64, 8, 0, 0, 0, 0, 0 }, "names its mask", 1, 7 },
        { "a mask that is no token", { { 0, 3 }, 2, 64, 8, 300, 0, 0, 0, 0 }, "names its mask", 1, 7 },
        { "blocks of one token", { { 0, 3 }, 2, 64, 1, 7, 0, 0, 0, 0 }, "no token to guess", 1, 0 },
        { "a Markov head", { { 0, 3 }, 2, 64, 8, 7, 0, 0, 0, 0, 0, true, false }, NULL, 1, 8 },
        { "one that knows the first", { { 0, 3 }, 2, 64, 8, 7, 0, 0, 0, 0, 0, true, true }, NULL, 1, 7 },
        { "of blocks of no size",
          { { 0, 3 }, 2, 64, 0, 7, 0, 0, 0, 0, 0, true, false },
          "how long its blocks are",
          1,
          16 },
        { "DeepSeek-V4's layers", { { 0, 3 }, 2, 64, 8, 7, 0, 0, 0, 0, 4 }, "has DeepSeek-V4's layers", 1, 7 },
        { "values of another width", { { 0, 3 }, 2, 64, 8, 7, 8, 0, 0, 0 }, "differ in width", 1, 7 },
    };
    struct vocabulary four = usual;
    four.layers = 4;
    four.add_bos = -1;
    VR_AUTO(vr_model) m = make(scratch("model.gguf"), &four);
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        VR_AUTO(vr_model) head = make_block_head(scratch("head.gguf"), &rows[i].head);
        struct vr_err err = { 0 };
        bool ok = vr_pair_draft(m, head, &err);
        if (ok != !rows[i].refusal || (!ok && !strstr(err.msg, rows[i].refusal)))
            fail_msg("%s: %s", rows[i].what, ok ? "taken" : err.msg);
        uint32_t layers[VR_MOST_ANCHORS];
        assert_int_equal(vr_head_anchors(m, head, layers), rows[i].anchors);
        if (rows[i].anchors) assert_int_equal(layers[0], 4); /* the output */
        assert_int_equal(vr_head_block(head), rows[i].block);
    }
}

struct adapter {
    const char *arch, *type, *kind;
    const char *names[2];
    uint64_t ne[2][2];
    bool whole_alpha;
};

static struct vr_model *make_adapter(const char *path, const struct adapter *a)
{
    MK_AUTO g = { 0 };
    mk_str(&g, "general.architecture", a->arch);
    mk_str(&g, "general.type", a->type);
    mk_str(&g, "adapter.type", a->kind);
    if (a->whole_alpha)
        mk_u32(&g, "adapter.lora.alpha", 8);
    else
        mk_f32(&g, "adapter.lora.alpha", 8);
    for (size_t i = 0; i < 2 && a->names[i]; i++) mk_tensor(&g, a->names[i], VR_TYPE_F16, a->ne[i][0], a->ne[i][1], 0);
    return written(&g, path);
}

#define Q "blk.0.attn_q.weight"

static void test_loras(void **state)
{
    (void)state;
    static const struct {
        struct adapter a;
        const char *refusal; /* NULL: it is one of the model's */
    } rows[] = {
        { { "llama", "adapter", "lora", { Q ".lora_a", Q ".lora_b" }, { { 64, 4 }, { 4, 64 } }, false }, NULL },
        { { "llama",
            "adapter",
            "lora",
            { "token_embd.weight.lora_a", "token_embd.weight.lora_b" },
            { { 4, 300 }, { 4, 64 } },
            false },
          NULL },
        { { "qwen3", "adapter", "lora", { Q ".lora_a", Q ".lora_b" }, { { 64, 4 }, { 4, 64 } }, false },
          "of a 'qwen3' model, and some model is a 'llama' model" },
        { { "llama", "adapter", "cvec", { Q ".lora_a", Q ".lora_b" }, { { 64, 4 }, { 4, 64 } }, false },
          "is not a LoRA adapter" },
        { { "llama", "adapter", "lora", { Q ".lora_a", Q ".lora_b" }, { { 64, 4 }, { 4, 64 } }, true },
          "adapter.lora.alpha" },
        { { "llama", "adapter", "lora", { Q ".lora_a", Q ".lora_b" }, { { 64, 4 }, { 5, 64 } }, false },
          "does not have the shape" },
        { { "llama", "adapter", "lora", { Q ".lora_a", Q ".lora_b" }, { { 32, 4 }, { 4, 64 } }, false },
          "does not have the shape" },
        { { "llama", "adapter", "lora", { Q ".lora_a", NULL }, { { 64, 4 }, { 0, 0 } }, false },
          "the tensor '" Q ".lora_b' is missing" },
        { { "llama", "adapter", "lora", { "blk.7.attn_q.weight.lora_a", NULL }, { { 64, 4 }, { 0, 0 } }, false },
          "has no tensor 'blk.7.attn_q.weight'" },
        { { "llama", "adapter", "lora", { Q, NULL }, { { 64, 4 }, { 0, 0 } }, false }, "is none of a LoRA adapter" },
        { { "llama", "adapter", "lora", { NULL, NULL }, { { 0, 0 }, { 0, 0 } }, false }, "one file with tensors" },
    };
    struct vocabulary with_layer = usual;
    with_layer.layer = Q;
    VR_AUTO(vr_model) m = make(scratch("model.gguf"), &with_layer);
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_err err = { 0 };
        VR_AUTO(vr_model) lora = make_adapter(scratch("lora.gguf"), &rows[i].a);
        bool ok = vr_pair_lora(m, lora, &err);
        if (ok != !rows[i].refusal) fail_msg("row %zu: %s", i, err.msg);
        if (!ok && !strstr(err.msg, rows[i].refusal)) fail_msg("row %zu: %s", i, err.msg);
        assert_false(vr_pair_model(lora, &err));
        assert_non_null(strstr(err.msg, "this file with --lora"));
    }
    struct vr_err err = { 0 };
    assert_false(vr_pair_lora(m, m, &err));
    assert_non_null(strstr(err.msg, "is not a LoRA adapter"));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_drafts),     cmocka_unit_test(test_one_late_token),
                                        cmocka_unit_test(test_shrunk),     cmocka_unit_test(test_mmproj),
                                        cmocka_unit_test(test_loras),      cmocka_unit_test(test_heads),
                                        cmocka_unit_test(test_assistants), cmocka_unit_test(test_block_heads) };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
