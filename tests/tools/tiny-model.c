/* Makes a small GGUF model with weights of reproducible noise, a byte-level vocabulary and a chat template: something
 * that loads, runs and talks nonsense, in a second and without a download.
 *
 *     tiny-model OUT [--layers 6] [--embd 128] [--heads 4] [--kv 2] [--ff 256] [--experts 0] [--used 2] [--vocab 512]
 *                    [--ctx 8192] [--type f16] [--template tools|think|none|{{Jinja}}] [--embedding] [--seed 1]
 *                    [--arch llama|qwen3|phi3|qwen2vl|gemma3|gemma4|qwen35|mamba|deepseek2] [--window 512] [--hollow]
 *                    [--no-tokenizer] [--pre gpt-2] [--rerank none|TEMPLATE] [--lora RANK] [--fim] [--mtp 0] [--calm]
 *                    [--family] [--known 0] [--own-input] [--own-output] [--shared-output]
 *                    [--shared-kv 0] [--markov 0]
 *
 * The architectures are one of each kind of memory: attention, the same with positions of three dimensions, sliding
 * window, hybrid (a recurrent state in two of three layers), recurrent, and MLA.
 * Tokens are the 256 bytes (spelled as GPT-2 spells them), the pairs that merges make of lower-case letters, filler
 * words up to --vocab, and five special ones at the end. --rerank makes a model that ranks, as Qwen3's rerankers do
 * (with --arch qwen3); --lora makes no model but an adapter of that rank for one with the same options. --fim makes the
 * first five filler words the tokens of infilling. With --hollow the weights are a hole in the file, for random-fill:
 * so that it need not be small. With --mtp 1 (qwen35) there is one layer more, a head for multi-token prediction. With
 * --calm layers change little: a token mostly says which one follows, the text soon repeats itself, and the head, which
 * knows the token, is often right. With --family the output does not depend on the number of layers, so that a model
 * with fewer of them is a draft for a calm one.
 * --arch eagle3 makes an EAGLE-3 head for a model with the same options. With --calm --family it looks a token up, pays
 * attention to that and says what the model's output says of it, as calm layers do. It knows the first --known tokens
 * (0: all), and has token embeddings of its own with --own-input. Its keys and values need as many heads as its
 * queries. With --shared-output it has no output of its own.
 * --arch dflash makes a DFlash head, for blocks of eight. Its token embeddings and its output are the model's, unless
 * there is --own-input or --own-output (or --known). With --calm --family --own-input --own-output it guesses for all
 * places of a block what the model's output says of the last token before it. With --markov it is a DSpark head, with a
 * Markov head of that rank.
 * --arch gemma4-assistant makes an assistant for a gemma4 model with the same options, whose last --shared-kv layers
 * have no keys and values of their own. It is twice as wide as the model, whose hidden states it hardly looks at when
 * calm: it, too, says what the model's output says of a token. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ggml.h>
#include <gguf.h>

static struct {
    long layers, embd, heads, kv, ff, experts, used, vocab, ctx, seed, window, lora, mtp, known, shared_kv, markov;
    const char *type, *template, *arch, *pre, *rerank;
    bool embedding, hollow, no_tokenizer, fim, calm, family, own_input, own_output, shared_output;
} opt = { .layers = 6,
          .embd = 128,
          .heads = 4,
          .kv = 2,
          .ff = 256,
          .used = 2,
          .vocab = 512,
          .ctx = 8192,
          .seed = 1,
          .window = 512,
          .type = "f16",
          .template = "tools",
          .arch = "llama",
          .pre = "gpt-2" };

static const char template_tools[] =
    "{% if tools %}<|im_start|>system\n# Tools\n\nYou may call functions. They are described within "
    "<tools></tools>:\n<tools>"
    "{% for tool in tools %}\n{{ tool | tojson }}{% endfor %}\n</tools>\n\nFor each function call, return a json "
    "object with "
    "function name and arguments within <tool_call></tool_call>:\n<tool_call>{\"name\": <name>, \"arguments\": "
    "<args>}"
    "</tool_call><|im_end|>\n{% endif %}"
    "{% for message in messages %}"
    "{% if message.role == 'tool' %}<|im_start|>user\n<tool_response>\n{{ message.content "
    "}}\n</tool_response><|im_end|>\n"
    "{% elif message.role == 'assistant' and message.tool_calls %}<|im_start|>assistant\n"
    "{% if message.content %}{{ message.content }}{% endif %}"
    "{% for call in message.tool_calls %}\n<tool_call>{\"name\": \"{{ call.function.name }}\", \"arguments\": "
    "{{ call.function.arguments | tojson }}}</tool_call>{% endfor %}<|im_end|>\n"
    "{% else %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

static const char template_think[] =
    "{% for message in messages %}"
    "{% if message.role == 'assistant' %}"
    "{% set content = message.content %}{% set thought = '' %}"
    "{% if message.reasoning_content is string %}{% set thought = message.reasoning_content %}{% endif %}"
    "<|im_start|>assistant\n{% if thought %}<think>\n{{ thought }}\n</think>\n\n{% endif %}{{ content }}<|im_end|>\n"
    "{% else %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% else %}<think>\n{% "
    "endif %}"
    "{% endif %}";

static const char *const special[] = { "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>" };
enum { N_SPECIAL = sizeof special / sizeof special[0] };

struct maker {
    struct ggml_context *ctx;
    struct gguf_context *gguf;
    enum ggml_type type;
    uint32_t random;
};

static void fail(const char *what)
{
    fprintf(stderr, "tiny-model: %s\n", what);
    exit(2);
}

/* --- weights --- */

/* The last of the filler words, in place of what a DFlash head shall guess. */
static long mask_token(void) { return opt.vocab - N_SPECIAL - 1; }

static void add(struct maker *m, const char *name, enum ggml_type type, long a, long b, long c)
{
    struct ggml_tensor *t = b == 0   ? ggml_new_tensor_1d(m->ctx, type, a)
                            : c == 0 ? ggml_new_tensor_2d(m->ctx, type, a, b)
                                     : ggml_new_tensor_3d(m->ctx, type, a, b, c);
    if (!t) fail("out of memory");
    ggml_set_name(t, name);
    int64_t rows = opt.hollow ? 0 : ggml_nelements(t) / a;
    bool decay = strstr(name, ".ssm_a") && !strstr(name, ".ssm_alpha"); /* a state that fades, and slowly */
    bool branch = strstr(name, "attn_output") || strstr(name, "ssm_out") || strstr(name, "ffn_down");
    bool joint = strstr(name, "eh_proj"), eagle = opt.calm && strcmp(opt.arch, "eagle3") == 0;
    float self = !eagle || !strstr(name, "attn_")                     ? 0
                 : strstr(name, "attn_q.") || strstr(name, "attn_k.") ? 2
                 : strstr(name, "attn_v.")                            ? 1
                 : strstr(name, "attn_output.")                       ? 4
                                                                      : 0;
    bool assistant = opt.calm && strcmp(opt.arch, "gemma4-assistant") == 0;
    bool half = assistant && (strstr(name, "output_norm") || strstr(name, "token_embd")); /* the model's, and nothing */
    bool dflash = opt.calm && strcmp(opt.arch, "dflash") == 0;
    bool gemma = assistant || (opt.calm && strcmp(opt.arch, "gemma4") == 0);
    float *row = calloc((size_t)a, sizeof *row);
    for (int64_t r = 0; row && r < rows; r++) {
        for (long i = 0; i < (half ? a / 2 : a); i++) {
            m->random = m->random * 1664525u + 1013904223u;
            float noise = (float)(m->random >> 8) / (float)(1 << 24) - 0.5f;
            if (opt.calm && (branch || joint)) noise *= 0.08f / sqrtf((float)opt.embd); /* as little for wide ones */
            row[i] = decay ? -0.02f * (1 + noise) : b == 0 ? 1 + noise / 8 : noise / sqrtf((float)a) * 4;
            if (gemma && strstr(name, ".post_")) row[i] /= 16; /* what a branch adds */
        }
        if (dflash && strcmp(name, "enc.output_norm.weight") == 0) /* what was before counts little */
            for (long i = 0; i < a; i++) row[i] /= 4096;
        if (dflash && (strstr(name, "attn_v.") || strstr(name, "attn_output.")))
            for (long i = 0; i < a; i++) row[i] = row[i] / 64 + (i != r ? 0 : strstr(name, "attn_v.") ? 1.0f : 8.0f);
        if (dflash && strstr(name, "markov"))
            for (long i = 0; i < a; i++) row[i] /= 2;
        if (dflash && strcmp(name, "token_embd.weight") == 0 && r == mask_token())
            for (long i = 0; i < a; i++) row[i] = 0;
        if (assistant && strstr(name, "pre_projection")) /* the token's embedding, and little noise */
            for (long i = 0; i < a; i++) row[i] = row[i] / 64 + (i == r && i < opt.embd ? 1 : 0);
        if (opt.calm && joint && r < a) row[r] += 1;               /* the token's embedding comes first */
        if (eagle && (self > 0 || strcmp(name, "fc.weight") == 0)) /* an identity, and little noise */
            for (long i = 0; i < a; i++) row[i] = row[i] / 64 + (i == r ? self : 0);
        ggml_quantize_chunk(type, row, (char *)t->data + (size_t)r * ggml_row_size(type, a), 0, 1, a, NULL);
    }
    free(row);
    gguf_add_tensor(m->gguf, t);
}

/* A tensor of a layer; c and b are 0 where it has fewer dimensions. */
struct row {
    const char *name;
    enum ggml_type type;
    long a, b, c;
    bool want;
};

static void add_rows(struct maker *m, long il, const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char name[96];
        bool whole =
            strchr(rows[i].name, '.') || strcmp(rows[i].name, "ssm_a") == 0 || strcmp(rows[i].name, "ssm_d") == 0;
        snprintf(name, sizeof name, "blk.%ld.%s%s", il, rows[i].name, whole ? "" : ".weight");
        if (rows[i].want) add(m, name, rows[i].type, rows[i].a, rows[i].b, rows[i].c);
    }
}

#define ADD_ROWS(m, il, rows) add_rows(m, il, rows, sizeof rows / sizeof rows[0])

static bool is_arch(const char *name) { return strcmp(opt.arch, name) == 0; }

static void add_ffn(struct maker *m, long il)
{
    long e = opt.experts;
    bool fused = is_arch("phi3"); /* gate and up are one, and so are Q, K and V */
    const struct row rows[] = {
        { "ffn_norm", GGML_TYPE_F32, opt.embd, 0, 0, !is_arch("qwen35") },
        { "ffn_gate", m->type, opt.embd, opt.ff, 0, !e && !fused },
        { "ffn_up", m->type, opt.embd, fused ? 2 * opt.ff : opt.ff, 0, !e },
        { "ffn_down", m->type, opt.ff, opt.embd, 0, !e },
        { "ffn_gate_inp", GGML_TYPE_F32, opt.embd, e, 0, e > 0 },
        { "ffn_gate_exps", m->type, opt.embd, opt.ff, e, e > 0 },
        { "ffn_up_exps", m->type, opt.embd, opt.ff, e, e > 0 },
        { "ffn_down_exps", m->type, opt.ff, opt.embd, e, e > 0 },
        { "post_ffw_norm", GGML_TYPE_F32, opt.embd, 0, 0, is_arch("gemma3") || is_arch("gemma4") },
    };
    ADD_ROWS(m, il, rows);
}

/* Gemma 4: from the end, every third layer attends to everything, with heads twice as wide. */
static bool in_window(long il) { return (opt.layers - 1 - il) % 3 != 0; }

static void add_attention(struct maker *m, long il)
{
    bool gemma4 = is_arch("gemma4"), keys = !gemma4 || il < opt.layers - opt.shared_kv;
    long head = opt.embd / opt.heads * (gemma4 && !in_window(il) ? 2 : 1), kv = head * opt.kv, all = head * opt.heads;
    bool gated = is_arch("qwen35"), fused = is_arch("phi3");
    bool normed = gated || is_arch("gemma3") || gemma4 || is_arch("qwen3");
    const struct row rows[] = {
        { "attn_norm", GGML_TYPE_F32, opt.embd, 0, 0, true },
        { "attn_q", m->type, opt.embd, all * (gated ? 2 : 1), 0, !fused },
        { "attn_k", m->type, opt.embd, kv, 0, !fused && keys },
        { "attn_v", m->type, opt.embd, kv, 0, !fused && keys },
        { "attn_qkv", m->type, opt.embd, opt.embd + 2 * kv, 0, fused },
        { "attn_output", m->type, all, opt.embd, 0, true },
        { "attn_q_norm", GGML_TYPE_F32, head, 0, 0, normed },
        { "attn_k_norm", GGML_TYPE_F32, head, 0, 0, normed && keys },
        { "post_attention_norm", GGML_TYPE_F32, opt.embd, 0, 0, normed && !is_arch("qwen3") },
    };
    ADD_ROWS(m, il, rows);
}

/* Gated delta net: so many heads of keys and of values, each with a state of STATE x STATE. */
enum { STATE = 32, KEY_HEADS = 2, VALUE_HEADS = 4, KERNEL = 4, EVERY = 3 };

static void add_delta_net(struct maker *m, long il)
{
    long keys = STATE * KEY_HEADS, values = STATE * VALUE_HEADS;
    const struct row rows[] = {
        { "attn_norm", GGML_TYPE_F32, opt.embd, 0, 0, true },
        { "post_attention_norm", GGML_TYPE_F32, opt.embd, 0, 0, true },
        { "attn_qkv", m->type, opt.embd, 2 * keys + values, 0, true },
        { "attn_gate", m->type, opt.embd, values, 0, true },
        { "ssm_conv1d", GGML_TYPE_F32, KERNEL, 2 * keys + values, 0, true },
        { "ssm_dt.bias", GGML_TYPE_F32, VALUE_HEADS, 0, 0, true },
        { "ssm_a", GGML_TYPE_F32, VALUE_HEADS, 0, 0, true },
        { "ssm_beta", m->type, opt.embd, VALUE_HEADS, 0, true },
        { "ssm_alpha", m->type, opt.embd, VALUE_HEADS, 0, true },
        { "ssm_norm", GGML_TYPE_F32, STATE, 0, 0, true },
        { "ssm_out", m->type, values, opt.embd, 0, true },
    };
    ADD_ROWS(m, il, rows);
}

enum { MAMBA_STATE = 16 };

static long time_steps(void) { return opt.embd / 16; }

static void add_mamba(struct maker *m, long il)
{
    long inner = 2 * opt.embd;
    const struct row rows[] = {
        { "attn_norm", GGML_TYPE_F32, opt.embd, 0, 0, true },
        { "ssm_in", m->type, opt.embd, 2 * inner, 0, true },
        { "ssm_conv1d", GGML_TYPE_F32, KERNEL, inner, 0, true },
        { "ssm_conv1d.bias", GGML_TYPE_F32, inner, 0, 0, true },
        { "ssm_x", m->type, inner, time_steps() + 2 * MAMBA_STATE, 0, true },
        { "ssm_dt", GGML_TYPE_F32, time_steps(), inner, 0, true },
        { "ssm_dt.bias", GGML_TYPE_F32, inner, 0, 0, true },
        { "ssm_a", GGML_TYPE_F32, MAMBA_STATE, inner, 0, true },
        { "ssm_d", GGML_TYPE_F32, inner, 0, 0, true },
        { "ssm_out", m->type, inner, opt.embd, 0, true },
    };
    ADD_ROWS(m, il, rows);
}

enum { LORA = 64, NOPE = 32, ROPE = 16, VALUE = 32 };

static void add_mla(struct maker *m, long il)
{
    const struct row rows[] = {
        { "attn_norm", GGML_TYPE_F32, opt.embd, 0, 0, true },
        { "attn_kv_a_norm", GGML_TYPE_F32, LORA, 0, 0, true },
        { "attn_q", m->type, opt.embd, opt.heads * (NOPE + ROPE), 0, true },
        { "attn_kv_a_mqa", m->type, opt.embd, LORA + ROPE, 0, true },
        { "attn_k_b", m->type, NOPE, LORA, opt.heads, true },
        { "attn_v_b", m->type, LORA, VALUE, opt.heads, true },
        { "attn_output", m->type, opt.heads * VALUE, opt.embd, 0, true },
    };
    ADD_ROWS(m, il, rows);
}

/* The layer for multi-token prediction: attention, and what joins a token with the hidden state before it. */
static void add_head(struct maker *m, long il)
{
    const struct row rows[] = {
        { "nextn.eh_proj.weight", m->type, 2 * opt.embd, opt.embd, 0, true },
        { "nextn.enorm.weight", GGML_TYPE_F32, opt.embd, 0, 0, true },
        { "nextn.hnorm.weight", GGML_TYPE_F32, opt.embd, 0, 0, true },
    };
    add_attention(m, il);
    add_ffn(m, il);
    ADD_ROWS(m, il, rows);
}

static void add_layer(struct maker *m, long il)
{
    if (is_arch("mamba")) return add_mamba(m, il);
    if (is_arch("deepseek2"))
        add_mla(m, il);
    else if (is_arch("qwen35") && (il + 1) % EVERY)
        add_delta_net(m, il);
    else
        add_attention(m, il);
    add_ffn(m, il);
}

/* --- vocabulary --- */

/* How GPT-2 writes byte b: itself where it can be seen, else a code point from 256 on. */
static void spell(int b, char out[4])
{
    int code = b, hidden = 0;
    for (int i = 0; i <= b; i++) {
        bool seen = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174;
        if (!seen) {
            if (i == b) code = 256 + hidden;
            hidden++;
        }
    }
    if (code < 128) {
        out[0] = (char)code, out[1] = '\0';
    } else {
        out[0] = (char)(0xC0 | code >> 6), out[1] = (char)(0x80 | (code & 63)), out[2] = '\0';
    }
}

static void add_vocabulary(struct maker *m)
{
    static const char *const pairs[] = { "th", "he", "in", "er", "an", "re", "on", "at", "en", "nd" };
    enum { N_PAIRS = sizeof pairs / sizeof pairs[0] };
    size_t n = (size_t)opt.vocab, at = 0;
    if (n < 256 + N_PAIRS + N_SPECIAL) fail("--vocab is too small");
    char(*text)[24] = calloc(n, sizeof *text), merges[N_PAIRS][8];
    const char **words = calloc(n, sizeof *words), *rules[N_PAIRS];
    int32_t *types = calloc(n, sizeof *types);
    if (!text || !words || !types) fail("out of memory");
    for (int b = 0; b < 256; b++) spell(b, text[at++]);
    for (size_t i = 0; i < N_PAIRS; i++) {
        snprintf(text[at++], sizeof *text, "%s", pairs[i]);
        snprintf(merges[i], sizeof merges[i], "%c %c", pairs[i][0], pairs[i][1]);
        rules[i] = merges[i];
    }
    for (size_t i = 0; at < n - N_SPECIAL; i++) snprintf(text[at++], sizeof *text, "word%zu", i);
    for (size_t i = 0; i < N_SPECIAL; i++) snprintf(text[at++], sizeof *text, "%s", special[i]);
    for (size_t i = 0; i < n; i++) {
        words[i] = text[i];
        types[i] = i < n - N_SPECIAL ? 1 : i < n - 2 ? 3 : 4; /* normal, control, defined by the user */
    }
    gguf_set_val_str(m->gguf, "tokenizer.ggml.model", "gpt2");
    gguf_set_val_str(m->gguf, "tokenizer.ggml.pre", opt.pre);
    gguf_set_arr_str(m->gguf, "tokenizer.ggml.tokens", words, n);
    gguf_set_arr_data(m->gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types, n);
    gguf_set_arr_str(m->gguf, "tokenizer.ggml.merges", rules, N_PAIRS);
    gguf_set_val_u32(m->gguf, "tokenizer.ggml.bos_token_id", (uint32_t)(n - N_SPECIAL));
    gguf_set_val_u32(m->gguf, "tokenizer.ggml.eos_token_id", (uint32_t)(n - N_SPECIAL + 2));
    gguf_set_val_bool(m->gguf, "tokenizer.ggml.add_bos_token", false);
    static const char *const fim[] = { "pre", "suf", "mid", "rep", "sep" };
    for (uint32_t i = 0; opt.fim && i < sizeof fim / sizeof fim[0]; i++) {
        char key[64];
        snprintf(key, sizeof key, "tokenizer.ggml.fim_%s_token_id", fim[i]);
        gguf_set_val_u32(m->gguf, key, 256 + N_PAIRS + i);
    }
    if (strcmp(opt.template, "none") != 0)
        gguf_set_val_str(m->gguf, "tokenizer.chat_template",
                         strcmp(opt.template, "think") == 0   ? template_think
                         : strcmp(opt.template, "tools") == 0 ? template_tools
                                                              : opt.template);
    free(text);
    free(words);
    free(types);
}

static void set_u32(struct gguf_context *g, const char *key, long v)
{
    char name[96];
    snprintf(name, sizeof name, "%s.%s", opt.arch, key);
    gguf_set_val_u32(g, name, (uint32_t)v);
}

static void add_sections(struct gguf_context *g) /* positions of three dimensions share the pairs of a head */
{
    long head = opt.embd / opt.heads;
    const int32_t sections[4] = { (int32_t)head / 8, (int32_t)head * 3 / 16, (int32_t)head * 3 / 16, 0 };
    char name[96];
    snprintf(name, sizeof name, "%s.rope.dimension_sections", opt.arch);
    gguf_set_arr_data(g, name, GGUF_TYPE_INT32, sections, 4);
}

/* Gemma 4, and its assistant of two layers. */
static void add_windows(struct gguf_context *g)
{
    long head = opt.embd / opt.heads, n = is_arch("gemma4") ? opt.layers : 2;
    bool windows[512];
    char name[96];
    if (n > 512) fail("too many layers");
    for (long il = 0; il < n; il++) windows[il] = is_arch("gemma4") ? in_window(il) : il == 0;
    snprintf(name, sizeof name, "%s.attention.sliding_window_pattern", opt.arch);
    gguf_set_arr_data(g, name, GGUF_TYPE_BOOL, windows, (size_t)n);
    set_u32(g, "attention.sliding_window", opt.window);
    set_u32(g, "attention.key_length", 2 * head);
    set_u32(g, "attention.value_length", 2 * head);
    set_u32(g, "attention.key_length_swa", head);
    set_u32(g, "attention.value_length_swa", head);
    set_u32(g, "rope.dimension_count", 2 * head);
    set_u32(g, "rope.dimension_count_swa", head);
    set_u32(g, "attention.shared_kv_layers", opt.shared_kv);
    if (is_arch("gemma4")) set_u32(g, "embedding_length_per_layer_input", 0);
}

/* What an architecture has besides. */
static void add_own_settings(struct gguf_context *g)
{
    bool mamba = is_arch("mamba"), delta = is_arch("qwen35");
    if (is_arch("qwen2vl") || delta) add_sections(g);
    if (is_arch("gemma3")) set_u32(g, "attention.sliding_window", opt.window);
    if (is_arch("gemma4") || is_arch("gemma4-assistant")) add_windows(g);
    if (delta) set_u32(g, "full_attention_interval", EVERY);
    if (delta) set_u32(g, "ssm.group_count", KEY_HEADS);
    if (delta || mamba) {
        set_u32(g, "ssm.conv_kernel", KERNEL);
        set_u32(g, "ssm.inner_size", mamba ? 2 * opt.embd : STATE * VALUE_HEADS);
        set_u32(g, "ssm.state_size", mamba ? MAMBA_STATE : STATE);
        set_u32(g, "ssm.time_step_rank", mamba ? time_steps() : VALUE_HEADS);
    }
    if (!is_arch("deepseek2")) return;
    set_u32(g, "attention.q_lora_rank", 0);
    set_u32(g, "attention.kv_lora_rank", LORA);
    set_u32(g, "attention.key_length", LORA + ROPE);
    set_u32(g, "attention.value_length", LORA);
    set_u32(g, "attention.key_length_mla", NOPE + ROPE);
    set_u32(g, "attention.value_length_mla", VALUE);
    set_u32(g, "leading_dense_block_count", opt.layers);
    set_u32(g, "expert_feed_forward_length", opt.ff);
    set_u32(g, "expert_shared_count", 0);
}

static void add_settings(struct gguf_context *g)
{
    long head = opt.embd / opt.heads;
    bool mla = is_arch("deepseek2"), mamba = is_arch("mamba");
    char name[96];
    gguf_set_val_str(g, "general.architecture", opt.arch);
    gguf_set_val_str(g, "general.name", "tiny");
    set_u32(g, "block_count", opt.layers + opt.mtp);
    if (opt.mtp) set_u32(g, "nextn_predict_layers", opt.mtp);
    set_u32(g, "context_length", opt.ctx);
    set_u32(g, "embedding_length", opt.embd);
    set_u32(g, "feed_forward_length", mamba ? 0 : opt.ff);
    set_u32(g, "attention.head_count", mamba ? 0 : opt.heads);
    if (!mamba) set_u32(g, "attention.head_count_kv", mla ? 1 : opt.kv);
    if (!mamba) set_u32(g, "rope.dimension_count", mla ? ROPE : head);
    set_u32(g, "vocab_size", opt.vocab);
    snprintf(name, sizeof name, "%s.attention.layer_norm_rms_epsilon", opt.arch);
    gguf_set_val_f32(g, name, 1e-5f);
    add_own_settings(g);
    if (opt.experts) {
        set_u32(g, "expert_count", opt.experts);
        set_u32(g, "expert_used_count", opt.used);
    }
    if (opt.embedding) set_u32(g, "pooling_type", 1);
    if (!opt.rerank) return;
    static const char *classes[] = { "yes", "no" };
    set_u32(g, "pooling_type", 4);
    snprintf(name, sizeof name, "%s.classifier.output_labels", opt.arch);
    gguf_set_arr_str(g, name, classes, 2);
    if (strcmp(opt.rerank, "none") != 0) gguf_set_val_str(g, "tokenizer.chat_template.rerank", opt.rerank);
}

/* An adapter of some matrices in every layer, and of the output. */
static void add_lora(struct maker *m)
{
    const struct row rows[] = {
        { "attn_q.weight.lora_a", m->type, opt.embd, opt.lora, 0, true },
        { "attn_q.weight.lora_b", m->type, opt.lora, opt.embd, 0, true },
        { "ffn_down.weight.lora_a", m->type, opt.ff, opt.lora, 0, !opt.experts },
        { "ffn_down.weight.lora_b", m->type, opt.lora, opt.embd, 0, !opt.experts },
        { "ffn_down_exps.weight.lora_a", m->type, opt.ff, opt.lora, opt.experts, opt.experts },
        { "ffn_down_exps.weight.lora_b", m->type, opt.lora, opt.embd, opt.experts, opt.experts },
    };
    gguf_set_val_str(m->gguf, "general.architecture", opt.arch);
    gguf_set_val_str(m->gguf, "general.type", "adapter");
    gguf_set_val_str(m->gguf, "adapter.type", "lora");
    gguf_set_val_f32(m->gguf, "adapter.lora.alpha", (float)opt.lora);
    gguf_set_val_str(m->gguf, "adapter.lora.task_name", "noise");
    for (long il = 0; il < opt.layers; il++) ADD_ROWS(m, il, rows);
    add(m, "output.weight.lora_a", m->type, opt.embd, opt.lora, 0);
    add(m, "output.weight.lora_b", m->type, opt.lora, opt.vocab, 0);
}

static void add_map(struct maker *m, long known)
{
    struct ggml_tensor *t = ggml_new_tensor_1d(m->ctx, GGML_TYPE_I64, known);
    if (!t) fail("out of memory");
    ggml_set_name(t, "d2t");
    for (int64_t i = 0; i < known && !opt.hollow; i++) ((int64_t *)t->data)[i] = i;
    gguf_add_tensor(m->gguf, t);
}

/* Which layers it reads, and what else an EAGLE-3 head is. */
static void add_eagle3(struct maker *m)
{
    const int32_t taps[] = { 1, (int32_t)opt.layers / 2, (int32_t)opt.layers - 1 };
    long known = opt.known ? opt.known : opt.vocab;
    gguf_set_arr_data(m->gguf, "eagle3.target_layers", GGUF_TYPE_INT32, taps, 3);
    set_u32(m->gguf, "target_hidden_size", opt.embd);
    set_u32(m->gguf, "block_count", 1);
    gguf_set_val_bool(m->gguf, "eagle3.norm_before_residual", true);
    if (opt.own_input) add(m, "token_embd.weight", m->type, opt.embd, opt.vocab, 0);
    const struct row rows[] = {
        { "attn_norm", GGML_TYPE_F32, opt.embd, 0, 0, true },   { "attn_norm_2", GGML_TYPE_F32, opt.embd, 0, 0, true },
        { "attn_q", m->type, 2 * opt.embd, opt.embd, 0, true }, { "attn_k", m->type, 2 * opt.embd, opt.embd, 0, true },
        { "attn_v", m->type, 2 * opt.embd, opt.embd, 0, true }, { "attn_output", m->type, opt.embd, opt.embd, 0, true },
    };
    ADD_ROWS(m, 0, rows);
    add_ffn(m, 0);
    add(m, "fc.weight", m->type, 3 * opt.embd, opt.embd, 0);
    if (opt.known) add_map(m, known);
    m->random = ~(uint32_t)opt.seed;
    add(m, "output_norm.weight", GGML_TYPE_F32, opt.embd, 0, 0);
    if (!opt.shared_output) add(m, "output.weight", m->type, opt.embd, known, 0);
}

/* Two layers, one with a window and one without, which read the model's keys and values. */
static void add_assistant(struct maker *m)
{
    long width = 2 * opt.embd;
    set_u32(m->gguf, "block_count", 2);
    set_u32(m->gguf, "nextn_predict_layers", 2);
    set_u32(m->gguf, "embedding_length", width);
    set_u32(m->gguf, "embedding_length_out", opt.embd);
    add(m, "nextn.pre_projection.weight", m->type, 2 * opt.embd, width, 0);
    add(m, "nextn.post_projection.weight", m->type, width, opt.embd, 0);
    add(m, "rope_freqs.weight", GGML_TYPE_F32, opt.embd / opt.heads, 0, 0);
    for (long il = 0; il < 2; il++) {
        long head = opt.embd / opt.heads * (il ? 2 : 1), all = head * opt.heads;
        const struct row rows[] = {
            { "attn_norm", GGML_TYPE_F32, width, 0, 0, true },
            { "attn_q", m->type, width, all, 0, true },
            { "attn_output", m->type, all, width, 0, true },
            { "attn_q_norm", GGML_TYPE_F32, head, 0, 0, true },
            { "post_attention_norm", GGML_TYPE_F32, width, 0, 0, true },
            { "layer_output_scale", GGML_TYPE_F32, 1, 0, 0, true },
            { "ffn_norm", GGML_TYPE_F32, width, 0, 0, true },
            { "ffn_gate", m->type, width, opt.ff, 0, true },
            { "ffn_up", m->type, width, opt.ff, 0, true },
            { "ffn_down", m->type, opt.ff, width, 0, true },
            { "post_ffw_norm", GGML_TYPE_F32, width, 0, 0, true },
        };
        ADD_ROWS(m, il, rows);
    }
    m->random = ~(uint32_t)opt.seed;
    add(m, "output_norm.weight", GGML_TYPE_F32, width, 0, 0);
    add(m, "token_embd.weight", m->type, width, opt.vocab, 0);
}

/* One layer, that reads three of the model's. */
static void add_dflash(struct maker *m)
{
    const int32_t taps[] = { 1, (int32_t)opt.layers / 2, (int32_t)opt.layers - 1 };
    long head = opt.embd / opt.heads, kv = head * opt.kv;
    gguf_set_arr_data(m->gguf, "dflash.target_layers", GGUF_TYPE_INT32, taps, 3);
    gguf_set_val_u32(m->gguf, "tokenizer.ggml.mask_token_id", (uint32_t)mask_token());
    set_u32(m->gguf, "block_size", 8);
    set_u32(m->gguf, "block_count", 1);
    if (opt.own_input) add(m, "token_embd.weight", m->type, opt.embd, opt.vocab, 0);
    const struct row rows[] = {
        { "attn_norm", GGML_TYPE_F32, opt.embd, 0, 0, true },
        { "attn_q", m->type, opt.embd, opt.embd, 0, true },
        { "attn_k", m->type, opt.embd, kv, 0, true },
        { "attn_v", m->type, opt.embd, kv, 0, true },
        { "attn_output", m->type, opt.embd, opt.embd, 0, true },
        { "attn_q_norm", GGML_TYPE_F32, head, 0, 0, true },
        { "attn_k_norm", GGML_TYPE_F32, head, 0, 0, true },
    };
    ADD_ROWS(m, 0, rows);
    add_ffn(m, 0);
    add(m, "fc.weight", m->type, 3 * opt.embd, opt.embd, 0);
    add(m, "enc.output_norm.weight", GGML_TYPE_F32, opt.embd, 0, 0);
    if (opt.known) add_map(m, opt.known);
    if (opt.markov) add(m, "markov_w1.weight", m->type, opt.markov, opt.vocab, 0);
    if (opt.markov) add(m, "markov_w2.weight", m->type, opt.markov, opt.known ? opt.known : opt.vocab, 0);
    m->random = ~(uint32_t)opt.seed;
    add(m, "output_norm.weight", GGML_TYPE_F32, opt.embd, 0, 0);
    if (opt.own_output || opt.known) add(m, "output.weight", m->type, opt.embd, opt.known ? opt.known : opt.vocab, 0);
}

static void add_model(struct maker *m)
{
    add_settings(m->gguf);
    if (opt.no_tokenizer)
        gguf_set_val_str(m->gguf, "tokenizer.ggml.model", "no_vocab");
    else
        add_vocabulary(m);
    if (is_arch("eagle3")) {
        add_eagle3(m);
        return;
    }
    if (is_arch("gemma4-assistant")) {
        add_assistant(m);
        return;
    }
    if (is_arch("dflash")) {
        add_dflash(m);
        return;
    }
    if (is_arch("gemma4")) add(m, "rope_freqs.weight", GGML_TYPE_F32, opt.embd / opt.heads, 0, 0);
    add(m, "token_embd.weight", m->type, opt.embd, opt.vocab, 0);
    for (long il = 0; il < opt.layers; il++) add_layer(m, il);
    for (long il = 0; il < opt.mtp; il++) add_head(m, opt.layers + il);
    if (opt.family) m->random = ~(uint32_t)opt.seed;
    add(m, "output_norm.weight", GGML_TYPE_F32, opt.embd, 0, 0);
    add(m, "output.weight", m->type, opt.embd, opt.vocab, 0);
    if (opt.rerank) add(m, "cls.output.weight", m->type, opt.embd, 2, 0);
}

/* --- the program --- */

static long *option(const char *name)
{
    const struct {
        const char *name;
        long *value;
    } rows[] = { { "--layers", &opt.layers }, { "--embd", &opt.embd },     { "--heads", &opt.heads },
                 { "--kv", &opt.kv },         { "--ff", &opt.ff },         { "--experts", &opt.experts },
                 { "--used", &opt.used },     { "--vocab", &opt.vocab },   { "--ctx", &opt.ctx },
                 { "--seed", &opt.seed },     { "--window", &opt.window }, { "--lora", &opt.lora },
                 { "--mtp", &opt.mtp },       { "--known", &opt.known },   { "--shared-kv", &opt.shared_kv },
                 { "--markov", &opt.markov } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, name) == 0) return rows[i].value;
    return NULL;
}

static void read_options(int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        long *number = option(argv[i]);
        if (strcmp(argv[i], "--embedding") == 0)
            opt.embedding = true;
        else if (strcmp(argv[i], "--fim") == 0)
            opt.fim = true;
        else if (strcmp(argv[i], "--hollow") == 0)
            opt.hollow = true;
        else if (strcmp(argv[i], "--calm") == 0)
            opt.calm = true;
        else if (strcmp(argv[i], "--family") == 0)
            opt.family = true;
        else if (strcmp(argv[i], "--own-input") == 0)
            opt.own_input = true;
        else if (strcmp(argv[i], "--own-output") == 0)
            opt.own_output = true;
        else if (strcmp(argv[i], "--shared-output") == 0)
            opt.shared_output = true;
        else if (strcmp(argv[i], "--no-tokenizer") == 0)
            opt.no_tokenizer = true;
        else if (i + 1 == argc)
            fail("an option has no value");
        else if (number)
            *number = atol(argv[++i]);
        else if (strcmp(argv[i], "--type") == 0)
            opt.type = argv[++i];
        else if (strcmp(argv[i], "--template") == 0)
            opt.template = argv[++i];
        else if (strcmp(argv[i], "--pre") == 0)
            opt.pre = argv[++i];
        else if (strcmp(argv[i], "--rerank") == 0)
            opt.rerank = argv[++i];
        else if (strcmp(argv[i], "--arch") == 0)
            opt.arch = argv[++i];
        else
            fail("no such option");
    }
}

int main(int argc, char **argv)
{
    if (argc < 2) fail("OUT is missing");
    read_options(argc, argv);
    struct maker m = { .type = GGML_TYPE_COUNT, .random = (uint32_t)opt.seed };
    for (int t = 0; t < GGML_TYPE_COUNT; t++) {
        const char *name = ggml_type_name((enum ggml_type)t);
        if (name && strcmp(name, opt.type) == 0) m.type = (enum ggml_type)t;
    }
    if (m.type == GGML_TYPE_COUNT) fail("no such type");
    long experts = opt.experts ? opt.experts : 1;
    size_t per_layer = (size_t)(16 * opt.embd * opt.embd + 3 * opt.embd * opt.ff * experts);
    size_t bytes = (per_layer * (size_t)(opt.layers + opt.mtp) + 2 * (size_t)(opt.embd * opt.vocab)) * 4 + (64 << 20);
    m.ctx = ggml_init((struct ggml_init_params){ opt.hollow ? 64 << 20 : bytes, NULL, opt.hollow });
    m.gguf = gguf_init_empty();
    if (!m.ctx || !m.gguf) fail("out of memory");
    if (opt.lora)
        add_lora(&m);
    else
        add_model(&m);
    if (!gguf_write_to_file(m.gguf, argv[1], opt.hollow)) fail("cannot write the file");
    int64_t last = gguf_get_n_tensors(m.gguf) - 1;
    size_t end = gguf_get_meta_size(m.gguf) + gguf_get_tensor_offset(m.gguf, last) + gguf_get_tensor_size(m.gguf, last);
    if (opt.hollow && truncate(argv[1], (off_t)end) != 0) fail("cannot make the file as large as it is");
    gguf_free(m.gguf);
    ggml_free(m.ctx);
    return 0;
}
