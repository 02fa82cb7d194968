/* Footprints against the engine's own figures for the ten real models, and by hand for what they do not show. */
#include "test.h"

#include <inttypes.h>

#include "gguf_maker.h"
#include "memory/footprint.h"

#define Q4_0  2
#define Q8_0  8
#define Q4_K  12
#define BF16  30
#define TQ1_0 34

static struct vr_model *open_model(const char *path)
{
    struct vr_err err = { 0 };
    struct vr_model *m = vr_model_open(path, &err);
    if (!m) fail_msg("%s", err.msg);
    return m;
}

static struct vr_model *fixture(const char *file)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", getenv("VR_MODELS"), file);
    return open_model(path);
}

static struct vr_model *made(const struct maker *g)
{
    const char *path = scratch("made.gguf");
    mk_write(g, path);
    return open_model(path);
}

static struct vr_footprint compute(const struct vr_model *m, struct vr_context c)
{
    struct vr_footprint f;
    struct vr_err err = { 0 };
    if (!vr_footprint_compute(m, &c, &f, &err)) fail_msg("%s: %s", m->name, err.msg);
    return f;
}

static const struct vr_context settings[] = {
    { 2048, 1, 512, 512, 0, VR_TYPE_F16, VR_TYPE_F16, .flash_attn = true, .offload_kqv = true },
    { 5000, 4, 512, 512, 0, VR_TYPE_F16, VR_TYPE_F16, .flash_attn = true, .kv_unified = true, .offload_kqv = true },
    { 131072, 4, 2048, 512, 0, 7, 7 /* q5_1 */, .flash_attn = true, .offload_kqv = true },
    { 8192, 4, 2048, 2048, 0, VR_TYPE_F16, VR_TYPE_F16, .kv_unified = true, .swa_full = true, .offload_kqv = true },
};

/* 0: all on the host. 1: all on one GPU. 2: a third on the host, the rest on two GPUs, the output on the second. */
static void place(int placement, uint32_t n_layers, int *where)
{
    int n = (int)n_layers, host = n / 3, first = (n - host) / 2;
    for (int i = 0; i < n; i++) {
        where[i] = placement - 1;
        if (placement == 2) where[i] = i < host ? -1 : i < host + first ? 0 : 1;
    }
    where[n] = placement == 2 ? 1 : placement - 1;
}

static void test_fixtures_match_engine(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        int settings, placement;
        struct vr_bytes gpus[2], host;
    } rows[] = {
#define FIXTURE(file, settings, placement, m0, c0, m1, c1, mh, ch)                                                     \
    { file, settings, placement, { { m0, c0 }, { m1, c1 } }, { mh, ch } },
#include "test_memory_fixtures.def"
#undef FIXTURE
    };
    struct vr_model *m = NULL;
    for (size_t r = 0; r < VR_COUNT(rows); r++) {
        if (r == 0 || strcmp(rows[r].file, rows[r - 1].file) != 0) {
            vr_model_free(m);
            m = fixture(rows[r].file);
        }
        VR_AUTO_FOOTPRINT f = compute(m, settings[rows[r].settings]);
        int where[513];
        struct vr_bytes gpus[2], host;
        place(rows[r].placement, f.n_layers, where);
        vr_footprint_place(&f, where, 2, gpus, &host);
        assert_true(f.exact);
        for (int i = 0; i < 3; i++) {
            const struct vr_bytes *ours = i < 2 ? &gpus[i] : &host, *truth = i < 2 ? &rows[r].gpus[i] : &rows[r].host;
            if (ours->model != truth->model || ours->context != truth->context)
                fail_msg("%s, settings %d, placement %d, %s %d: %" PRIu64 " + %" PRIu64 ", the engine says %" PRIu64
                         " + %" PRIu64,
                         rows[r].file, rows[r].settings, rows[r].placement, i < 2 ? "GPU" : "host", i, ours->model,
                         ours->context, truth->model, truth->context);
        }
    }
    vr_model_free(m);
}

static void test_nemotron(void **state)
{
    (void)state;
    VR_AUTO(vr_model) m = fixture("nvidia_Llama-3_3-Nemotron-Super-49B-v1_5-Q8_0-00001-of-00002.gguf");
    VR_AUTO_FOOTPRINT f = compute(m, settings[0]);
    assert_int_equal(f.n_layers, 80);
    assert_int_equal(f.n_kv_layers, 49);
    assert_int_equal(f.kv_gpu_bytes, 411041792);
    /* without flash attention the 31 layers without attention get a V, too, as wide as the others' */
    struct vr_context c = settings[0];
    c.flash_attn = false;
    VR_AUTO_FOOTPRINT off = compute(m, c);
    assert_int_equal(off.n_kv_layers, 80);
    assert_int_equal(off.kv_gpu_bytes, 411041792 + 31 * UINT64_C(4194304));
}

static void test_context_rounding(void **state)
{
    (void)state;
    static const struct {
        uint32_t n_ctx, n_seq;
        bool unified;
        uint32_t want_ctx, want_seq, want_streams;
    } rows[] = {
        { 1, 1, false, 256, 256, 1 },      { 2048, 1, false, 2048, 2048, 1 },
        { 2049, 1, false, 2304, 2304, 1 }, { 5000, 4, false, 5120, 1280, 4 },
        { 5000, 4, true, 5120, 5120, 1 },  { 8192, 3, false, 8448, 2816, 3 },
        { 100, 2, false, 512, 256, 2 },    { 4096, 256, false, 65536, 256, 256 },
        { 0, 0, false, 2048, 2048, 1 }, /* as trained, one sequence */
    };
    MK_AUTO g = { 0 };
    mk_llama(&g, 2);
    VR_AUTO(vr_model) m = made(&g);
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_context c = VR_CONTEXT_DEFAULT;
        c.n_ctx = rows[i].n_ctx;
        c.n_seq = rows[i].n_seq;
        c.kv_unified = rows[i].unified;
        VR_AUTO_FOOTPRINT f = compute(m, c);
        assert_int_equal(f.n_ctx, rows[i].want_ctx);
        assert_int_equal(f.n_ctx_seq, rows[i].want_seq);
        assert_int_equal(f.n_stream, rows[i].want_streams);
        assert_int_equal(f.n_ubatch, c.n_ctx && c.n_ctx < 512 ? c.n_ctx : 512);
        /* 2 layers, K and V, 2 heads of 16, f16 */
        assert_int_equal(f.kv_host_bytes, (uint64_t)2 * 2 * 2 * 16 * 2 * f.n_ctx_seq * f.n_stream);
    }
}

static void test_tensor_padding(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        uint64_t ne0, ne1, bytes, gpu, host;
    } rows[] = {
        { VR_TYPE_F32, 1, 1, 4, 128, 32 },
        { VR_TYPE_F32, 100, 1, 400, 512, 416 },
        { VR_TYPE_F16, 2880, 3, 17280, 17280, 17280 }, /* rows of floats are not padded */
        { Q8_0, 512, 1, 544, 640, 544 },
        { Q8_0, 64, 2, 136, 640, 160 },      /* 448 more weights: 136 + 476 = 612 */
        { Q4_K, 2816, 4, 6336, 6528, 6336 }, /* 256 more: 144 */
        { Q4_K, 4096, 4096, 9437184, 9437184, 9437184 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_tensor t = { .type = rows[i].type, .n_dims = 2, .ne = { rows[i].ne0, rows[i].ne1, 1, 1 } };
        t.bytes = vr_type_row_bytes(t.type, t.ne[0]) * t.ne[1];
        assert_int_equal(t.bytes, rows[i].bytes);
        assert_int_equal(vr_weight_gpu_bytes(&t), rows[i].gpu);
        assert_int_equal(vr_weight_host_bytes(&t), rows[i].host);
    }
}

/* A model of one architecture with the tensors given; the keys are those that every architecture here needs. */
static void begin(struct maker *g, const char *arch, uint32_t n_layers)
{
    static const char *const keys[] = { "embedding_length", "context_length", "attention.head_count",
                                        "ssm.inner_size",   "ssm.state_size", "ssm.group_count" };
    char key[128];
    mk_str(g, "general.architecture", arch);
    mk_str(g, "general.name", "made");
    snprintf(key, sizeof key, "%s.block_count", arch);
    mk_u32(g, key, n_layers);
    for (size_t i = 0; i < VR_COUNT(keys); i++) {
        snprintf(key, sizeof key, "%s.%s", arch, keys[i]);
        mk_u32(g, key, i == 2 ? 4 : 256);
    }
}

static void test_homes(void **state)
{
    (void)state;
    /* 100 f32 values take 512 bytes on a GPU and 416 on the host */
    enum { IN = 1, FIRST = 2, LAYER1 = 4, OUT = 8, TABLES = 16, NOWHERE = 32, UNKNOWN = 64 };
    static const struct {
        const char *arch, *name;
        int home;
    } rows[] = {
        { "llama", "position_embd.weight", IN },
        { "gemma4", "per_layer_token_embd.weight", IN },
        { "bert", "token_types.weight", IN },
        { "bloom", "token_embd_norm.weight", FIRST },
        { "lfm2", "token_embd_norm.weight", OUT },
        { "gemma4", "per_layer_model_proj.weight", FIRST },
        { "llama", "blk.1.attn_norm.weight", LAYER1 },
        { "t5", "dec.blk.1.attn_q.weight", LAYER1 },
        { "t5", "enc.blk.1.attn_q.weight", LAYER1 },
        { "t5", "dec.blk.1.cross_attn_rel_b.weight", NOWHERE },
        { "llama", "output_norm.weight", OUT },
        { "llama", "output_norm.bias", OUT },
        { "bert", "cls.output.weight", OUT },
        { "gemma3n", "altup_proj.weight", OUT },
        { "llama", "rope_freqs.weight", TABLES },
        { "phi3", "rope_factors_long.weight", TABLES },
        { "gemma4-assistant", "masked_embd_ordering", NOWHERE },
        { "llama", "something_new.weight", UNKNOWN },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        MK_AUTO g = { 0 };
        begin(&g, rows[i].arch, 2);
        mk_tensor(&g, "token_embd.weight", VR_TYPE_F32, 256, 4, 0);
        mk_tensor(&g, "output.weight", VR_TYPE_F32, 256, 4, 0);
        mk_tensor(&g, rows[i].name, VR_TYPE_F32, 100, 0, 0);
        VR_AUTO(vr_model) m = made(&g);
        VR_AUTO_FOOTPRINT f = compute(m, VR_CONTEXT_DEFAULT);
        int home = rows[i].home;
        if (f.input_host_bytes != 4096 + (home == IN ? 416 : 0) ||
            f.layers[0].weights_gpu_bytes != (home == FIRST ? 512 : 0) ||
            f.layers[1].weights_gpu_bytes != (home == LAYER1 ? 512 : 0) ||
            f.layers[1].weights_host_bytes != (home == LAYER1 ? 416 : 0) ||
            f.output_gpu_bytes != 4096 + (home == OUT ? 512 : 0) ||
            f.output_host_bytes != 4096 + (home == OUT ? 416 : 0) || f.tables_gpu_bytes != (home == TABLES ? 512 : 0) ||
            f.tables_host_bytes != (home == TABLES ? 416 : 0) ||
            f.skipped_bytes != (home == NOWHERE || home == UNKNOWN ? 400 : 0))
            fail_msg("%s: '%s' went to the wrong place", rows[i].arch, rows[i].name);
        if (strcmp(rows[i].arch, "gemma4-assistant") != 0) assert_int_equal(f.exact, home != UNKNOWN);
    }
}

static void test_tied_output(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *only;
        uint64_t input_host, output_gpu, output_host;
    } rows[] = {
        { "llama", "token_embd.weight", 4096, 4096, 0 }, /* a second copy, on a GPU only */
        { "gemma3n", "token_embd.weight", 4096, 4096, 4096 },
        { "bert", "token_embd.weight", 4096, 0, 0 },     /* no output matrix at all */
        { "codeshell", "output.weight", 0, 8192, 8192 }, /* two copies, both at the output */
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        MK_AUTO g = { 0 };
        begin(&g, rows[i].arch, 1);
        mk_tensor(&g, rows[i].only, VR_TYPE_F32, 256, 4, 0);
        VR_AUTO(vr_model) m = made(&g);
        VR_AUTO_FOOTPRINT f = compute(m, VR_CONTEXT_DEFAULT);
        assert_int_equal(f.input_host_bytes, rows[i].input_host);
        assert_int_equal(f.output_gpu_bytes, rows[i].output_gpu);
        assert_int_equal(f.output_host_bytes, rows[i].output_host);
    }
}

/* What CUDA has no kernel for stays on the host although its layer is on a GPU. */
static void test_left_on_host(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *name;
        uint32_t type;
        uint64_t ne0, ne1;
        bool left;
    } rows[] = {
        { "llama", "blk.0.attn_q.weight", TQ1_0, 256, 256, true },
        { "llama", "blk.0.attn_q.weight", BF16, 256, 256, false },
        { "llama", "blk.0.attn_norm.weight", VR_TYPE_F16, 256, 0, false },
        { "llama", "blk.0.attn_norm.weight", BF16, 256, 0, true },
        { "gpt-oss", "blk.0.attn_sinks.weight", BF16, 64, 0, false },
        { "gpt-oss", "blk.0.ffn_up_exps.bias", BF16, 64, 4, false },
        { "gpt-oss", "blk.0.attn_q.bias", BF16, 64, 0, true },
        { "rwkv7", "blk.0.time_mix_lerp_fused.weight", Q8_0, 256, 6, true },
        { "mamba", "blk.0.ssm_a", VR_TYPE_F32, 16, 256, false },
        { "mamba", "blk.0.ssm_a", VR_TYPE_F32, 8, 256, true },
        { "mamba", "blk.0.ssm_conv1d.weight", VR_TYPE_F32, 4, 256, false },
        { "mamba", "blk.0.ssm_conv1d.weight", VR_TYPE_F32, 4, 200, true },
        { "mamba2", "blk.0.ssm_a", VR_TYPE_F32, 1, 16, false },
        { "mamba2", "blk.0.ssm_a", VR_TYPE_F32, 1, 32, true },   /* heads of 8 */
        { "plamo2", "blk.0.ssm_a", VR_TYPE_F32, 16, 256, true }, /* groups */
        { "qwen3next", "blk.0.ssm_a", VR_TYPE_F32, 32, 0, false },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        MK_AUTO g = { 0 };
        begin(&g, rows[i].arch, 1);
        mk_tensor(&g, "token_embd.weight", VR_TYPE_F32, 256, 4, 0);
        mk_tensor(&g, "output.weight", VR_TYPE_F32, 256, 4, 0);
        mk_tensor(&g, rows[i].name, rows[i].type, rows[i].ne0, rows[i].ne1, 0);
        VR_AUTO(vr_model) m = made(&g);
        VR_AUTO_FOOTPRINT f = compute(m, VR_CONTEXT_DEFAULT);
        const struct vr_layer_footprint *l = &f.layers[0];
        if ((l->weights_left_bytes > 0) != rows[i].left || (l->weights_gpu_bytes > 0) == rows[i].left)
            fail_msg("%s: '%s' of type %s should %s", rows[i].arch, rows[i].name, vr_type(rows[i].type)->name,
                     rows[i].left ? "stay on the host" : "go to the GPU");
        const int on_gpu[2] = { 0, 0 };
        struct vr_bytes gpu, host;
        vr_footprint_place(&f, on_gpu, 1, &gpu, &host);
        assert_int_equal(host.model, 4096 + l->weights_left_bytes);
    }
}

static void test_mtp_layers(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        bool load, loaded;
    } rows[] = { { "glm4moe", false, false }, { "glm4moe", true, true }, { "glm4", true, false } };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        MK_AUTO g = { 0 };
        char key[64];
        begin(&g, rows[i].arch, 3);
        snprintf(key, sizeof key, "%s.nextn_predict_layers", rows[i].arch);
        mk_u32(&g, key, 1);
        mk_tensor(&g, "token_embd.weight", VR_TYPE_F32, 256, 4, 0);
        mk_tensor(&g, "output.weight", VR_TYPE_F32, 256, 4, 0);
        mk_tensor(&g, "blk.2.attn_norm.weight", VR_TYPE_F32, 256, 0, 0);
        VR_AUTO(vr_model) m = made(&g);
        struct vr_context c = VR_CONTEXT_DEFAULT;
        c.load_mtp = rows[i].load;
        VR_AUTO_FOOTPRINT f = compute(m, c);
        assert_int_equal(f.n_layers, 3);
        assert_true(f.layers[2].mtp);
        assert_int_equal(f.layers[2].weights_gpu_bytes, rows[i].loaded ? 1024 : 0);
        assert_int_equal(f.skipped_bytes, rows[i].loaded ? 0 : 1024);
        assert_int_equal(f.layers[2].kv_gpu_bytes, 0); /* the trunk never attends to it */
        assert_int_not_equal(f.layers[1].kv_gpu_bytes, 0);
        c.mtp = c.load_mtp = true; /* a second context attends to it, in f16 whatever the first one has */
        c.type_k = Q8_0;
        VR_AUTO_FOOTPRINT head = compute(m, c);
        assert_int_equal(head.layers[2].kv_gpu_bytes, f.layers[1].kv_gpu_bytes);
        assert_true(head.layers[1].kv_gpu_bytes < f.layers[1].kv_gpu_bytes);
    }
}

static void test_rolling_back(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        bool recurrent, can;
    } rows[] = { { "llama", false, true },
                 { "qwen35", true, true },
                 { "mamba", true, false },
                 { "qwen3next", true, false },
                 { "nemotron_h_moe", true, true } };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        MK_AUTO g = { 0 };
        begin(&g, rows[i].arch, 2);
        mk_tensor(&g, "token_embd.weight", VR_TYPE_F32, 256, 4, 0);
        if (rows[i].recurrent) mk_tensor(&g, "blk.1.ssm_out.weight", VR_TYPE_F32, 256, 4, 0);
        VR_AUTO(vr_model) m = made(&g);
        assert_int_equal(vr_model_rolls_back(m), rows[i].can);
    }
}

/* One copy of the rope tables per device that has a layer with them; KV on the host when it is not offloaded. */
static void test_placement(void **state)
{
    (void)state;
    MK_AUTO g = { 0 };
    mk_llama(&g, 4);
    mk_tensor(&g, "rope_freqs.weight", VR_TYPE_F32, 8, 0, 0);
    VR_AUTO(vr_model) m = made(&g);
    struct vr_context c = VR_CONTEXT_DEFAULT;
    VR_AUTO_FOOTPRINT f = compute(m, c);
    const uint64_t layer_gpu = f.layers[0].weights_gpu_bytes, layer_host = f.layers[0].weights_host_bytes;
    const uint64_t kv = f.layers[0].kv_gpu_bytes;
    assert_int_equal(f.tables_gpu_bytes, 128);
    assert_int_equal(f.tables_host_bytes, 32);
    struct vr_bytes gpus[3], host;

    const int split[5] = { -1, 0, 0, 2, 1 };
    vr_footprint_place(&f, split, 3, gpus, &host);
    assert_int_equal(gpus[0].model, 2 * layer_gpu + 128);
    assert_int_equal(gpus[1].model, f.output_gpu_bytes); /* the output uses no tables */
    assert_int_equal(gpus[2].model, layer_gpu + 128);
    assert_int_equal(host.model, f.input_host_bytes + layer_host + 32);
    assert_int_equal(gpus[0].context, 2 * kv);
    assert_int_equal(gpus[1].context, 0);
    assert_int_equal(host.context, kv);

    c.offload_kqv = false;
    VR_AUTO_FOOTPRINT kept = compute(m, c);
    vr_footprint_place(&kept, split, 3, gpus, &host);
    assert_int_equal(gpus[0].context, 0);
    assert_int_equal(host.context, 4 * kv);
}

static void test_expert_share(void **state)
{
    (void)state;
    VR_AUTO(vr_model) m = fixture("Qwen3-30B-A3B-Q4_K_M.gguf");
    VR_AUTO_FOOTPRINT f = compute(m, VR_CONTEXT_DEFAULT);
    for (uint32_t i = 0; i < f.n_layers; i++) {
        assert_true(f.layers[i].experts_gpu_bytes >= m->layers[i].role_bytes[VR_ROLE_EXPERT]); /* padded */
        assert_true(f.layers[i].experts_gpu_bytes < f.layers[i].weights_gpu_bytes);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        struct vr_context c;
        const char *says;
    } rows[] = {
        { "gemma-3-27b-it-q4_0.gguf", { 4096, 257 }, "257 sequences" },
        { "gemma-3-27b-it-q4_0.gguf", { UINT32_MAX, 1 }, "4294967295 tokens" },
        { "gemma-3-27b-it-q4_0.gguf", { 4096, 1, .type_k = Q4_K }, "K cache cannot have type q4_K" },
        { "gemma-3-27b-it-q4_0.gguf", { 4096, 1, .type_v = 9999 }, "V cache cannot have type unknown" },
        { "gemma-3-27b-it-q4_0.gguf", { 4096, 1, .type_v = Q8_0 }, "q8_0 needs flash attention" },
        { "falcon-mamba-7B-instruct-Q4_K_M.gguf", { 4096, 1, .type_v = Q8_0 }, "q8_0 needs flash attention" },
        { "Kimi-K2.5-UD-IQ3_XXS-00001-of-00009.gguf",
          { 4096, 1, .type_k = Q8_0, .type_v = 1, .flash_attn = true },
          "must be the same" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        VR_AUTO(vr_model) m = fixture(rows[i].file);
        struct vr_err err = { 0 };
        VR_AUTO_FOOTPRINT f;
        assert_false(vr_footprint_compute(m, &rows[i].c, &f, &err));
        assert_int_equal(err.code, VR_EUSAGE);
        assert_contains(err.msg, rows[i].says);
        assert_null(f.layers);
    }
}

/* Numbers that a damaged header may hold: refused, or computed without overflow. */
static void test_absurd_headers(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *key;
        uint32_t value;
        const char *says; /* NULL: computed */
    } rows[] = {
        { "llama", "attention.head_count_kv", UINT32_MAX, "more than any model has" },
        { "llama", "attention.key_length", 1 << 25, "more than any model has" },
        { "llama", "attention.key_length", 1 << 24, NULL },
        { "llama", "attention.head_count_kv", 1 << 24, NULL },
        { "llama", "nextn_predict_layers", 5, "multi-token prediction" },
        { "gemma3", "attention.sliding_window", UINT32_MAX, NULL },
        { "gemma3", "attention.sliding_window_pattern", 0, NULL },
        { "gemma4", "attention.shared_kv_layers", 9, NULL },
        { "mamba", "ssm.conv_kernel", 1 << 20, "impossible" },
        { "mamba", "ssm.conv_kernel", 0, NULL },
        { "rwkv7", "wkv.head_size", UINT32_MAX, "more than any model has" },
        { "kimi-linear", "kda.head_dim", 1 << 20, "impossible" },
        { "qwen3next", "full_attention_interval", 0, NULL },
        { "nanbeige", "num_loops", 1 << 20, "the engine supports 1 to 512" },
        { "deepseek4", "attention.indexer.key_length", 1 << 24, NULL },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        MK_AUTO g = { 0 };
        char key[128];
        begin(&g, rows[i].arch, 2);
        snprintf(key, sizeof key, "%s.%s", rows[i].arch, rows[i].key);
        mk_u32(&g, key, rows[i].value);
        mk_tensor(&g, "token_embd.weight", VR_TYPE_F32, 256, 4, 0);
        mk_write(&g, scratch("made.gguf"));
        struct vr_err err = { 0 };
        VR_AUTO(vr_model) m = vr_model_open(scratch("made.gguf"), &err);
        if (!m) continue; /* the reader refused it first */
        struct vr_context c = { .n_ctx = 1 << 30, .n_seq = 256, .n_rollback = UINT32_MAX };
        VR_AUTO_FOOTPRINT f;
        bool ok = vr_footprint_compute(m, &c, &f, &err);
        if (rows[i].says && ok) fail_msg("%s: %s = %u was taken", rows[i].arch, rows[i].key, rows[i].value);
        if (rows[i].says) assert_contains(err.msg, rows[i].says);
    }
    /* every width at its most: the product is told, not wrapped */
    MK_AUTO g = { 0 };
    begin(&g, "llama", 2);
    mk_u32(&g, "llama.attention.key_length", 1 << 24);
    mk_u32(&g, "llama.attention.head_count_kv", 1 << 24);
    mk_tensor(&g, "token_embd.weight", VR_TYPE_F32, 256, 4, 0);
    VR_AUTO(vr_model) m = made(&g);
    struct vr_context c = { .n_ctx = 1 << 30, .n_seq = 1 };
    struct vr_err err = { 0 };
    VR_AUTO_FOOTPRINT f;
    assert_false(vr_footprint_compute(m, &c, &f, &err));
    assert_contains(err.msg, "larger than any memory");
}

static void test_quantized_heads(void **state)
{
    (void)state;
    MK_AUTO g = { 0 };
    mk_llama(&g, 2); /* heads of 16, rows of 32 */
    VR_AUTO(vr_model) m = made(&g);
    struct vr_context c = VR_CONTEXT_DEFAULT;
    struct vr_err err = { 0 };
    VR_AUTO_FOOTPRINT f;
    c.type_k = Q4_0;
    assert_false(vr_footprint_compute(m, &c, &f, &err));
    assert_contains(err.msg, "head size that is a multiple of 32, but layer 0 has 16");
    c.flash_attn = false; /* then only a row must be whole */
    assert_true(vr_footprint_compute(m, &c, &f, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixtures_match_engine),
        cmocka_unit_test(test_nemotron),
        cmocka_unit_test(test_context_rounding),
        cmocka_unit_test(test_tensor_padding),
        cmocka_unit_test(test_homes),
        cmocka_unit_test(test_tied_output),
        cmocka_unit_test(test_left_on_host),
        cmocka_unit_test(test_mtp_layers),
        cmocka_unit_test(test_rolling_back),
        cmocka_unit_test(test_placement),
        cmocka_unit_test(test_expert_share),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_absurd_headers),
        cmocka_unit_test(test_quantized_heads),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
