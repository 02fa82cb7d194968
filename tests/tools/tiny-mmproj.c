/* Makes an mmproj (a vision tower and a projector, as Gemma 3 has them) with weights of reproducible noise.
 *
 *     tiny-mmproj OUT [--width 128] [--layers 2] [--embd 64] [--heads 4] [--ff 128] [--image 56] [--patch 14] [--merge
 * 2]
 *                     [--seed 1] [--hole 1] [--merger 1] [--ears 1]
 *
 * --width is that of the model's embeddings. With --hole the weights are a hole in the file: a header to plan with.
 * With
 * --merger it is as Qwen2-VL has it: pictures of any size, and positions of two dimensions; with --ears as Qwen2-Audio:
 * sounds, and no pictures. */
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
    long width, layers, embd, heads, ff, image, patch, merge, seed, hole, merger, ears;
} opt = { 128, 2, 64, 4, 128, 56, 14, 2, 1, 0, 0, 0 };

static struct ggml_context *ctx;
static struct gguf_context *gguf;
static uint32_t state;

static void fail(const char *what)
{
    fprintf(stderr, "tiny-mmproj: %s\n", what);
    exit(2);
}

static float noise(void)
{
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / (float)(1 << 24) - 0.5f;
}

/* A matrix in f16; with one dimension a norm or a bias in f32, as are the positions, which are added. */
static void add(const char *name, float middle, long a, long b, long c, long d)
{
    bool half = b && !strstr(name, "position") && !strstr(name, "bias");
    enum ggml_type type = half ? GGML_TYPE_F16 : GGML_TYPE_F32;
    struct ggml_tensor *t = ggml_new_tensor_4d(ctx, type, a, b ? b : 1, c ? c : 1, d ? d : 1);
    if (!t) fail("out of memory");
    ggml_set_name(t, name);
    for (int64_t i = 0; !opt.hole && i < ggml_nelements(t); i++) {
        float v = middle + noise() / (b ? sqrtf((float)a) : 8) * (b ? 4 : 1);
        if (half)
            ((ggml_fp16_t *)t->data)[i] = ggml_fp32_to_fp16(v);
        else
            ((float *)t->data)[i] = v;
    }
    gguf_add_tensor(gguf, t);
}

static void add_layer(long il)
{
    const struct {
        const char *name;
        long a, b;
    } rows[] = { { "attn_q", opt.embd, opt.embd }, { "attn_k", opt.embd, opt.embd },
                 { "attn_v", opt.embd, opt.embd }, { "attn_out", opt.embd, opt.embd },
                 { "ffn_up", opt.embd, opt.ff },   { "ffn_down", opt.ff, opt.embd },
                 { "ln1", opt.embd, 0 },           { "ln2", opt.embd, 0 } };
    char name[96];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(name, sizeof name, "%s.blk.%ld.%s.weight", opt.ears ? "a" : "v", il, rows[i].name);
        add(name, rows[i].b ? 0 : 1, rows[i].a, rows[i].b, 0, 0);
        if (opt.ears && strcmp(rows[i].name, "attn_k") == 0) continue; /* it has none */
        snprintf(name, sizeof name, "%s.blk.%ld.%s.bias", opt.ears ? "a" : "v", il, rows[i].name);
        add(name, 0, rows[i].b ? rows[i].b : rows[i].a, 0, 0, 0);
    }
}

enum { MELS = 128, STEPS = 1500 };

static void add_ears(void)
{
    gguf_set_val_str(gguf, "general.architecture", "clip");
    gguf_set_val_str(gguf, "general.name", "tiny ears");
    gguf_set_val_bool(gguf, "clip.has_audio_encoder", true);
    gguf_set_val_str(gguf, "clip.projector_type", "qwen2a");
    gguf_set_val_bool(gguf, "clip.use_gelu", true);
    gguf_set_val_u32(gguf, "clip.audio.num_mel_bins", MELS);
    gguf_set_val_u32(gguf, "clip.audio.embedding_length", (uint32_t)opt.embd);
    gguf_set_val_u32(gguf, "clip.audio.feed_forward_length", (uint32_t)opt.ff);
    gguf_set_val_u32(gguf, "clip.audio.block_count", (uint32_t)opt.layers);
    gguf_set_val_u32(gguf, "clip.audio.projection_dim", (uint32_t)opt.width);
    gguf_set_val_u32(gguf, "clip.audio.attention.head_count", (uint32_t)opt.heads);
    gguf_set_val_f32(gguf, "clip.audio.attention.layer_norm_epsilon", 1e-5f);
    add("a.conv1d.1.weight", 0, 3, MELS, opt.embd, 0);
    add("a.conv1d.1.bias", 0, 1, opt.embd, 0, 0);
    add("a.conv1d.2.weight", 0, 3, opt.embd, opt.embd, 0);
    add("a.conv1d.2.bias", 0, 1, opt.embd, 0, 0);
    add("a.position_embd.weight", 0, opt.embd, STEPS, 0, 0);
    for (long il = 0; il < opt.layers; il++) add_layer(il);
    add("a.post_ln.weight", 1, opt.embd, 0, 0, 0);
    add("a.post_ln.bias", 0, opt.embd, 0, 0, 0);
    add("mm.a.fc.weight", 0, opt.embd, opt.width, 0, 0);
    add("mm.a.fc.bias", 0, opt.width, 0, 0, 0);
}

static void add_settings(void)
{
    const float half[3] = { 0.5f, 0.5f, 0.5f };
    gguf_set_val_str(gguf, "general.architecture", "clip");
    gguf_set_val_str(gguf, "general.name", "tiny eyes");
    gguf_set_val_bool(gguf, "clip.has_vision_encoder", true);
    gguf_set_val_str(gguf, "clip.projector_type", opt.merger ? "qwen2vl_merger" : "gemma3");
    gguf_set_val_bool(gguf, "clip.use_gelu", true);
    gguf_set_val_u32(gguf, "clip.vision.image_size", (uint32_t)opt.image);
    gguf_set_val_u32(gguf, "clip.vision.patch_size", (uint32_t)opt.patch);
    gguf_set_val_u32(gguf, "clip.vision.embedding_length", (uint32_t)opt.embd);
    gguf_set_val_u32(gguf, "clip.vision.feed_forward_length", (uint32_t)opt.ff);
    gguf_set_val_u32(gguf, "clip.vision.block_count", (uint32_t)opt.layers);
    gguf_set_val_u32(gguf, "clip.vision.projection_dim", (uint32_t)opt.width);
    gguf_set_val_u32(gguf, "clip.vision.attention.head_count", (uint32_t)opt.heads);
    gguf_set_val_f32(gguf, "clip.vision.attention.layer_norm_epsilon", 1e-6f);
    gguf_set_val_u32(gguf, "clip.vision.projector.scale_factor", (uint32_t)opt.merge);
    gguf_set_arr_data(gguf, "clip.vision.image_mean", GGUF_TYPE_FLOAT32, half, 3);
    gguf_set_arr_data(gguf, "clip.vision.image_std", GGUF_TYPE_FLOAT32, half, 3);
}

static void add_eyes(long side)
{
    add_settings();
    add("v.patch_embd.weight", 0, opt.patch, opt.patch, 3, opt.embd);
    if (opt.merger) {
        add("v.patch_embd.weight.1", 0, opt.patch, opt.patch, 3, opt.embd);
    } else {
        add("v.patch_embd.bias", 0, opt.embd, 0, 0, 0);
        add("v.position_embd.weight", 0, opt.embd, side * side, 0, 0);
    }
    for (long il = 0; il < opt.layers; il++) add_layer(il);
    add("v.post_ln.weight", 1, opt.embd, 0, 0, 0);
    add("v.post_ln.bias", 0, opt.embd, 0, 0, 0);
    if (opt.merger) { /* four patches become one token */
        add("mm.0.weight", 0, 4 * opt.embd, 4 * opt.embd, 0, 0);
        add("mm.0.bias", 0, 4 * opt.embd, 0, 0, 0);
        add("mm.2.weight", 0, 4 * opt.embd, opt.width, 0, 0);
        add("mm.2.bias", 0, opt.width, 0, 0, 0);
    } else {
        add("mm.soft_emb_norm.weight", 1, opt.embd, 0, 0, 0);
        add("mm.input_projection.weight", 0, opt.width, opt.embd, 0, 0);
    }
}

static void read_options(int argc, char **argv)
{
    const struct {
        const char *name;
        long *value;
    } rows[] = { { "--width", &opt.width }, { "--layers", &opt.layers }, { "--embd", &opt.embd },
                 { "--heads", &opt.heads }, { "--ff", &opt.ff },         { "--image", &opt.image },
                 { "--patch", &opt.patch }, { "--merge", &opt.merge },   { "--seed", &opt.seed },
                 { "--hole", &opt.hole },   { "--merger", &opt.merger }, { "--ears", &opt.ears } };
    for (int i = 2; i < argc; i += 2) {
        long *value = NULL;
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
            if (strcmp(rows[k].name, argv[i]) == 0) value = rows[k].value;
        if (!value || i + 1 == argc) fail("no such option, or no value");
        *value = atol(argv[i + 1]);
    }
}

int main(int argc, char **argv)
{
    if (argc < 2) fail("OUT is missing");
    read_options(argc, argv);
    state = (uint32_t)opt.seed;
    long side = opt.image / opt.patch;
    size_t weights = (size_t)(opt.layers * (4 * opt.embd * opt.embd + 2 * opt.embd * opt.ff) +
                              opt.embd * (6 * opt.patch * opt.patch + side * side + 4 * opt.width + 16 * opt.embd +
                                          4 * MELS + STEPS));
    ctx = ggml_init((struct ggml_init_params){ (opt.hole ? 0 : weights * 4) + (16 << 20), NULL, opt.hole != 0 });
    gguf = gguf_init_empty();
    if (!ctx || !gguf) fail("out of memory");
    if (opt.ears)
        add_ears();
    else
        add_eyes(side);
    size_t data = 0;
    for (int64_t i = 0; i < gguf_get_n_tensors(gguf); i++)
        data = gguf_get_tensor_offset(gguf, i) + GGML_PAD(gguf_get_tensor_size(gguf, i), gguf_get_alignment(gguf));
    if (!gguf_write_to_file(gguf, argv[1], opt.hole != 0)) fail("cannot write the file");
    if (opt.hole && truncate(argv[1], (off_t)(gguf_get_meta_size(gguf) + data)) != 0) fail("cannot stretch the file");
    gguf_free(gguf);
    ggml_free(ctx);
    return 0;
}
