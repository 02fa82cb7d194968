/* Makes a small GGUF model with weights of reproducible noise, a byte-level vocabulary and a chat template: something
 * that loads, runs and talks nonsense, in a second and without a download.
 *
 *     tiny-model OUT [--layers 6] [--embd 128] [--heads 4] [--kv 2] [--ff 256] [--experts 0] [--used 2] [--vocab 512]
 *                    [--ctx 8192] [--type f16] [--template tools|think|none] [--embedding] [--seed 1]
 *                    [--arch llama|qwen2vl] [--hollow]
 *
 * Tokens are the 256 bytes (spelled as GPT-2 spells them), the pairs that merges make of lower-case letters, filler
 * words up to --vocab, and five special ones at the end. With --hollow the weights are a hole in the file, for
 * random-fill: so that it need not be small. */
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
    long layers, embd, heads, kv, ff, experts, used, vocab, ctx, seed;
    const char *type, *template, *arch;
    bool embedding, hollow;
} opt = { 6, 128, 4, 2, 256, 0, 2, 512, 8192, 1, "f16", "tools", "llama", false, false };

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

static void add(struct maker *m, const char *name, enum ggml_type type, long a, long b, long c)
{
    struct ggml_tensor *t = b == 0   ? ggml_new_tensor_1d(m->ctx, type, a)
                            : c == 0 ? ggml_new_tensor_2d(m->ctx, type, a, b)
                                     : ggml_new_tensor_3d(m->ctx, type, a, b, c);
    if (!t) fail("out of memory");
    ggml_set_name(t, name);
    int64_t rows = opt.hollow ? 0 : ggml_nelements(t) / a;
    float *row = malloc((size_t)a * sizeof *row);
    for (int64_t r = 0; row && r < rows; r++) {
        for (long i = 0; i < a; i++) {
            m->random = m->random * 1664525u + 1013904223u;
            float noise = (float)(m->random >> 8) / (float)(1 << 24) - 0.5f;
            row[i] = b == 0 ? 1 + noise / 8 : noise / sqrtf((float)a) * 4;
        }
        ggml_quantize_chunk(type, row, (char *)t->data + (size_t)r * ggml_row_size(type, a), 0, 1, a, NULL);
    }
    free(row);
    gguf_add_tensor(m->gguf, t);
}

static void add_layer(struct maker *m, long il)
{
    long head = opt.embd / opt.heads, kv = head * opt.kv, e = opt.experts;
    const struct {
        const char *name;
        enum ggml_type type;
        long a, b, c;
        bool want;
    } rows[] = {
        { "attn_norm", GGML_TYPE_F32, opt.embd, 0, 0, true },
        { "attn_q", m->type, opt.embd, opt.embd, 0, true },
        { "attn_k", m->type, opt.embd, kv, 0, true },
        { "attn_v", m->type, opt.embd, kv, 0, true },
        { "attn_output", m->type, opt.embd, opt.embd, 0, true },
        { "ffn_norm", GGML_TYPE_F32, opt.embd, 0, 0, true },
        { "ffn_gate", m->type, opt.embd, opt.ff, 0, !e },
        { "ffn_up", m->type, opt.embd, opt.ff, 0, !e },
        { "ffn_down", m->type, opt.ff, opt.embd, 0, !e },
        { "ffn_gate_inp", GGML_TYPE_F32, opt.embd, e, 0, e > 0 },
        { "ffn_gate_exps", m->type, opt.embd, opt.ff, e, e > 0 },
        { "ffn_up_exps", m->type, opt.embd, opt.ff, e, e > 0 },
        { "ffn_down_exps", m->type, opt.ff, opt.embd, e, e > 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[96];
        snprintf(name, sizeof name, "blk.%ld.%s.weight", il, rows[i].name);
        if (rows[i].want) add(m, name, rows[i].type, rows[i].a, rows[i].b, rows[i].c);
    }
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
    gguf_set_val_str(m->gguf, "tokenizer.ggml.pre", "gpt-2");
    gguf_set_arr_str(m->gguf, "tokenizer.ggml.tokens", words, n);
    gguf_set_arr_data(m->gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types, n);
    gguf_set_arr_str(m->gguf, "tokenizer.ggml.merges", rules, N_PAIRS);
    gguf_set_val_u32(m->gguf, "tokenizer.ggml.bos_token_id", (uint32_t)(n - N_SPECIAL));
    gguf_set_val_u32(m->gguf, "tokenizer.ggml.eos_token_id", (uint32_t)(n - N_SPECIAL + 2));
    gguf_set_val_bool(m->gguf, "tokenizer.ggml.add_bos_token", false);
    if (strcmp(opt.template, "none") != 0)
        gguf_set_val_str(m->gguf, "tokenizer.chat_template",
                         strcmp(opt.template, "think") == 0 ? template_think : template_tools);
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

static void add_settings(struct gguf_context *g)
{
    long head = opt.embd / opt.heads;
    char name[96];
    gguf_set_val_str(g, "general.architecture", opt.arch);
    gguf_set_val_str(g, "general.name", "tiny");
    set_u32(g, "block_count", opt.layers);
    set_u32(g, "context_length", opt.ctx);
    set_u32(g, "embedding_length", opt.embd);
    set_u32(g, "feed_forward_length", opt.ff);
    set_u32(g, "attention.head_count", opt.heads);
    set_u32(g, "attention.head_count_kv", opt.kv);
    set_u32(g, "rope.dimension_count", head);
    set_u32(g, "vocab_size", opt.vocab);
    snprintf(name, sizeof name, "%s.attention.layer_norm_rms_epsilon", opt.arch);
    gguf_set_val_f32(g, name, 1e-5f);
    if (strcmp(opt.arch, "qwen2vl") == 0) { /* positions of three dimensions, which share the pairs of a head */
        const int32_t sections[4] = { (int32_t)head / 8, (int32_t)head * 3 / 16, (int32_t)head * 3 / 16, 0 };
        gguf_set_arr_data(g, "qwen2vl.rope.dimension_sections", GGUF_TYPE_INT32, sections, 4);
    }
    if (opt.experts) {
        set_u32(g, "expert_count", opt.experts);
        set_u32(g, "expert_used_count", opt.used);
    }
    if (opt.embedding) set_u32(g, "pooling_type", 1);
}

/* --- the program --- */

static long *option(const char *name)
{
    const struct {
        const char *name;
        long *value;
    } rows[] = { { "--layers", &opt.layers }, { "--embd", &opt.embd },   { "--heads", &opt.heads },
                 { "--kv", &opt.kv },         { "--ff", &opt.ff },       { "--experts", &opt.experts },
                 { "--used", &opt.used },     { "--vocab", &opt.vocab }, { "--ctx", &opt.ctx },
                 { "--seed", &opt.seed } };
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
        else if (strcmp(argv[i], "--hollow") == 0)
            opt.hollow = true;
        else if (i + 1 == argc)
            fail("an option has no value");
        else if (number)
            *number = atol(argv[++i]);
        else if (strcmp(argv[i], "--type") == 0)
            opt.type = argv[++i];
        else if (strcmp(argv[i], "--template") == 0)
            opt.template = argv[++i];
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
    size_t per_layer = (size_t)(4 * opt.embd * opt.embd + 3 * opt.embd * opt.ff * experts);
    size_t bytes = (per_layer * (size_t)opt.layers + 2 * (size_t)(opt.embd * opt.vocab)) * 4 + (64 << 20);
    m.ctx = ggml_init((struct ggml_init_params){ opt.hollow ? 64 << 20 : bytes, NULL, opt.hollow });
    m.gguf = gguf_init_empty();
    if (!m.ctx || !m.gguf) fail("out of memory");
    add_settings(m.gguf);
    add_vocabulary(&m);
    add(&m, "token_embd.weight", m.type, opt.embd, opt.vocab, 0);
    for (long il = 0; il < opt.layers; il++) add_layer(&m, il);
    add(&m, "output_norm.weight", GGML_TYPE_F32, opt.embd, 0, 0);
    add(&m, "output.weight", m.type, opt.embd, opt.vocab, 0);
    if (!gguf_write_to_file(m.gguf, argv[1], opt.hollow)) fail("cannot write the file");
    int64_t last = gguf_get_n_tensors(m.gguf) - 1;
    size_t end = gguf_get_meta_size(m.gguf) + gguf_get_tensor_offset(m.gguf, last) + gguf_get_tensor_size(m.gguf, last);
    if (opt.hollow && truncate(argv[1], (off_t)end) != 0) fail("cannot make the file as large as it is");
    gguf_free(m.gguf);
    ggml_free(m.ctx);
    return 0;
}
