/* Executing virtual GPUs: the same logits as the plain CPU, bit for bit, and memory that ends where the device's does.
 * Each run is a child of its own, because devices are registered once per process. */
#include "test.h"

#include <llama.h>

#include "base/child.h"
#include "base/text.h"
#include "engine/llama/cpu.h"
#include "engine/probe/probe.h"
#include "engine/vgpu/rules.h"
#include "engine/vgpu/vgpu.h"
#include "tiny_model.h"

enum { PROMPT = 40, STEPS = 3, MAX_GPUS = 3 };
#define LOTS ((uint64_t)4 << 30)

static char cpu_path[1024], dense_path[512], moe_path[512];

struct run { /* one way to compute */
    const char *name;
    int n_gpus, n_gpu_layers;
    float split[16];
    const char *on_cpu; /* override pattern */
    bool flash, q8_cache, no_offload, two_threads;
};

struct outcome { /* what the child tells */
    int stage;   /* 0 done, 1 load failed, 2 context failed, 3 decode failed */
    int status;
    bool refused;
    struct vr_vgpu_refusal refusal; /* its device is a pointer into the child: see name */
    char name[24];
    uint64_t after_load[MAX_GPUS], after_context[MAX_GPUS];
    float logits[1 + STEPS][TINY_VOCAB];
};

struct job {
    const struct run *run;
    const char *model;
    uint64_t free_bytes[MAX_GPUS], run_bytes;
};

static uint64_t used(size_t i)
{
    struct vr_vgpu_use u = vr_vgpu_used(i);
    return u.weight_bytes + u.compute_bytes + u.other_bytes;
}

static void quiet(enum ggml_log_level level, const char *text, void *ctx)
{
    (void)ctx;
    if (level == GGML_LOG_LEVEL_ERROR) dprintf(2, "%s", text);
}

static int decode(struct llama_context *ctx, struct outcome *o)
{
    llama_token tokens[PROMPT];
    for (int i = 0; i < PROMPT; i++) tokens[i] = (i * 37 + 11) % TINY_VOCAB;
    int n = PROMPT;
    for (int step = 0; step <= STEPS; step++) {
        int status = llama_decode(ctx, llama_batch_get_one(tokens, n));
        if (status != 0) return status;
        const float *logits = llama_get_logits_ith(ctx, -1);
        memcpy(o->logits[step], logits, sizeof o->logits[step]);
        int best = 0;
        for (int i = 1; i < TINY_VOCAB; i++)
            if (logits[i] > logits[best]) best = i;
        tokens[0] = best;
        n = 1;
    }
    return 0;
}

static void compute(const struct job *j, struct outcome *o)
{
    const struct run *r = j->run;
    ggml_backend_dev_t devices[MAX_GPUS + 1] = { 0 };
    struct llama_model_tensor_buft_override overrides[2] = { 0 };
    struct llama_model_params mp = llama_model_default_params();
    mp.devices = devices;
    for (int i = 0; i < r->n_gpus; i++) devices[i] = vr_vgpu_device((size_t)i);
    mp.n_gpu_layers = r->n_gpus ? r->n_gpu_layers : 0;
    mp.use_extra_bufts = false;
    mp.load_mode = LLAMA_LOAD_MODE_NONE;
    if (r->split[0] > 0) mp.tensor_split = r->split;
    overrides[0] =
        (struct llama_model_tensor_buft_override){ r->on_cpu ? r->on_cpu : "^none$", ggml_backend_cpu_buffer_type() };
    mp.tensor_buft_overrides = overrides; /* also ends pipelining, whose failure would be tried again without */
    struct llama_model *model = llama_model_load_from_file(j->model, mp);
    o->stage = 1;
    if (!model) return;
    for (int i = 0; i < r->n_gpus; i++) o->after_load[i] = used((size_t)i);

    struct llama_context_params cp = llama_context_default_params();
    cp.n_ctx = 2048;
    cp.n_batch = cp.n_ubatch = 256;
    cp.n_threads = cp.n_threads_batch = r->two_threads ? 2 : 1;
    cp.flash_attn_type = r->flash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    cp.type_k = cp.type_v = r->q8_cache ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
    cp.op_offload = !r->no_offload;
    struct llama_context *ctx = llama_init_from_model(model, cp);
    o->stage = 2;
    if (ctx) {
        for (int i = 0; i < r->n_gpus; i++) o->after_context[i] = used((size_t)i);
        o->status = decode(ctx, o);
        o->stage = o->status == 0 ? 0 : 3;
        llama_free(ctx);
    }
    llama_model_free(model);
    for (int i = 0; i < r->n_gpus; i++) /* all memory came back */
        if (used((size_t)i) != 0) o->stage = 9;
}

static int job_main(void *ctx)
{
    const struct job *j = ctx;
    static struct outcome o;
    struct vr_vgpu_spec specs[MAX_GPUS] = { 0 };
    setenv("GGML_NO_BACKTRACE", "1", 1);
    llama_log_set(quiet, NULL);
    if (!vr_cpu_load(cpu_path, NULL)) return 2;
    for (int i = 0; i < j->run->n_gpus; i++) {
        snprintf(specs[i].name, sizeof specs[i].name, "CUDA%d", i);
        snprintf(specs[i].about, sizeof specs[i].about, "NVIDIA GeForce RTX 3090");
        specs[i].total_bytes = specs[i].free_bytes = j->free_bytes[i];
        specs[i].run_bytes = j->run_bytes;
        specs[i].cc = 860;
    }
    if (j->run->n_gpus && !vr_vgpu_register(specs, (size_t)j->run->n_gpus, VR_VGPU_EXECUTING, NULL)) return 2;
    compute(j, &o);
    o.refused = vr_vgpu_refused(&o.refusal);
    if (o.refused) snprintf(o.name, sizeof o.name, "%s", o.refusal.device);
    return write(1, &o, sizeof o) == sizeof o ? 0 : 3;
}

static struct outcome *do_job(struct job j)
{
    static struct outcome all[2];
    static unsigned at;
    struct outcome *o = &all[at++ % 2];
    struct vr_child c = { .main = job_main, .ctx = &j, .timeout_ms = 60000 };
    VR_AUTO_CHILD_END end = { 0 };
    struct vr_err err = { 0 };
    char how[128];
    if (!vr_child_run(&c, &end, &err)) fail_msg("%s", err.msg);
    if (end.exit_status != 0 || end.out.n != sizeof *o)
        fail_msg("%s: %s; %s", j.run->name, vr_child_how(&c, &end, how, sizeof how), vr_buf_str(&end.err));
    memcpy(o, end.out.data, sizeof *o);
    return o;
}

static const struct run runs[] = {
    { "one GPU", 1, -1 },
    { "one GPU, flash", 1, -1, .flash = true, .two_threads = true },
    { "three GPUs", 3, 5, { 2, 1, 2 } },
    { "three GPUs, flash", 3, 5, { 1, 3, 1 }, .flash = true },
    { "three GPUs, q8_0 cache", 3, 5, { 1, 1, 3 }, .flash = true, .q8_cache = true },
    { "half on the CPU", 3, 3, { 1, 1, 1 }, .flash = true },
    { "half on the CPU, no offload", 2, 2, { 1, 1 }, .flash = true, .no_offload = true },
    { "feed-forward on the CPU", 3, 5, { 2, 2, 1 }, "ffn_(up|gate|down)", .flash = true },
    { "attention on the CPU", 2, 5, { 2, 3 }, "attn_(q|k|v)\\.", .flash = true },
    { "output only", 1, 1, .flash = true },
};

static void check_same_logits(const char *model)
{
    for (size_t i = 0; i < VR_COUNT(runs); i++) {
        struct run plain = { "plain CPU", .flash = runs[i].flash, .q8_cache = runs[i].q8_cache,
                             .two_threads = runs[i].two_threads };
        struct outcome *want = do_job((struct job){ &plain, model });
        assert_int_equal(want->stage, 0);
        assert_true(want->logits[0][0] != want->logits[0][1]); /* not all the same: something was computed */
        struct outcome *got = do_job((struct job){ &runs[i], model, { LOTS, LOTS, LOTS } });
        if (got->stage != 0) fail_msg("%s: stage %d, status %d", runs[i].name, got->stage, got->status);
        for (int s = 0; s <= STEPS; s++)
            if (memcmp(want->logits[s], got->logits[s], sizeof want->logits[s]) != 0)
                fail_msg("%s: other logits at step %d", runs[i].name, s);
    }
}

static void test_dense_logits_are_the_same(void **state) { (void)state, check_same_logits(dense_path); }
static void test_expert_logits_are_the_same(void **state) { (void)state, check_same_logits(moe_path); }

/* With one MiB less than was used, each stage fails for that device and exactly that MiB. */
static void check_short(const char *model, const char *what, int stage, struct job j, const char *device)
{
    (void)model;
    struct outcome *o = do_job(j);
    if (o->stage != stage) fail_msg("%s: ended at stage %d, not %d", what, o->stage, stage);
    assert_true(o->refused);
    assert_string_equal(o->name, device);
    assert_int_equal(o->refusal.asked_bytes - o->refusal.free_bytes, VR_MIB);
}

static void check_one_mib_short(const char *model)
{
    const struct run *r = &runs[3];
    struct job j = { r, model, { LOTS, LOTS, LOTS }, 64 * VR_MIB };
    struct outcome all = *do_job(j);
    assert_int_equal(all.stage, 0);
    for (int i = 0; i < MAX_GPUS; i++) {
        char device[24];
        snprintf(device, sizeof device, "CUDA%d", i);
        assert_true(all.after_load[i] > VR_MIB);
        struct job s = j;
        s.free_bytes[i] = all.after_load[i] - VR_MIB;
        check_short(model, "load", 1, s, device);
        s.free_bytes[i] = all.after_context[i] - VR_MIB;
        check_short(model, "context", 2, s, device);
        s.free_bytes[i] = all.after_context[i] + j.run_bytes - VR_MIB;
        check_short(model, "decode", 3, s, device);
        s.free_bytes[i] = all.after_context[i] + j.run_bytes;
        assert_int_equal(do_job(s)->stage, 0); /* and to the byte it fits */
    }
}

static void test_dense_one_mib_short(void **state) { (void)state, check_one_mib_short(dense_path); }
static void test_experts_one_mib_short(void **state) { (void)state, check_one_mib_short(moe_path); }

/* What the probe foretells is what executing takes, to the byte. */
static void check_foretold(const char *model)
{
    struct vr_err err = { 0 };
    VR_AUTO(vr_model) m = vr_model_open(model, &err);
    VR_CLEANUP(vr_prober_close) struct vr_prober prober = { .fd = -1 };
    if (!m || !vr_prober_open(m, &prober, &err)) fail_msg("%s", err.msg);
    for (size_t i = 0; i < VR_COUNT(runs); i++) {
        const struct run *r = &runs[i];
        struct outcome *o = do_job((struct job){ r, model, { LOTS, LOTS, LOTS } });
        struct vr_vgpu_spec specs[MAX_GPUS] = { 0 };
        struct vr_override on_cpu = { r->on_cpu, VR_ON_CPU };
        struct vr_trial t = vr_trial_default();
        for (int d = 0; d < r->n_gpus; d++) {
            snprintf(specs[d].name, sizeof specs[d].name, "CUDA%d", d);
            specs[d].total_bytes = specs[d].free_bytes = LOTS;
            specs[d].cc = 860;
        }
        t.load.devices = specs;
        t.load.n_devices = (size_t)r->n_gpus;
        t.load.n_gpu_layers = r->n_gpu_layers;
        t.load.has_split = r->split[0] > 0;
        memcpy(t.load.split, r->split, sizeof t.load.split);
        t.load.overrides = &on_cpu;
        t.load.n_overrides = r->on_cpu != NULL;
        t.load.pipeline = false;
        t.load.context.n_ctx = 2048;
        t.load.context.n_batch = t.load.context.n_ubatch = t.load.n_outputs = 256; /* as the job's context */
        t.load.flash_auto = false;
        t.load.context.flash_attn = r->flash;
        t.load.context.type_k = t.load.context.type_v = r->q8_cache ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
        t.load.op_offload = !r->no_offload;
        struct vr_proof p = { 0 };
        if (!vr_probe(&prober, &t, &p, &err)) fail_msg("%s: %s", r->name, err.msg);
        for (int d = 0; d < r->n_gpus; d++) {
            assert_int_equal(p.devices[d].model_bytes, o->after_load[d]);
            assert_int_equal(p.devices[d].model_bytes + p.devices[d].context_bytes + p.devices[d].compute_bytes,
                             o->after_context[d]);
        }
    }
}

static void test_dense_is_foretold(void **state) { (void)state, check_foretold(dense_path); }
static void test_experts_are_foretold(void **state) { (void)state, check_foretold(moe_path); }

/* Of the heads that look at one of the cache, as the engine's switches have them (fattn.cu, fattn-tile.cuh). */
static void test_heads_together(void **state)
{
    (void)state;
    static const struct {
        int cc, size, heads, tokens, together;
    } rows[] = {
        { 900, 128, 1, 512, 1 },   { 900, 128, 2, 512, 2 },    { 900, 128, 3, 512, 4 },  { 750, 128, 4, 512, 4 },
        { 860, 128, 5, 512, 8 },   { 1200, 256, 11, 512, 8 },  { 900, 64, 8, 512, 8 },   { 900, 128, 16, 512, 8 },
        { 700, 128, 6, 512, 2 },   { 700, 128, 11, 512, 1 },   { 610, 128, 12, 512, 4 }, { 610, 128, 4, 512, 1 },
        { 900, 128, 4, 1, 1 }, /* a vector kernel */
        { 900, 576, 16, 512, 16 }, { 900, 576, 128, 512, 16 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct ggml_context *c = ggml_init((struct ggml_init_params){ .mem_size = 1 << 14, .no_alloc = true });
        int64_t values = rows[i].size == 576 ? 512 : rows[i].size;
        struct ggml_tensor *q = ggml_new_tensor_3d(c, GGML_TYPE_F32, rows[i].size, rows[i].tokens, 2 * rows[i].heads),
                           *k = ggml_new_tensor_3d(c, GGML_TYPE_F16, rows[i].size, 4096, 2),
                           *v = ggml_new_tensor_3d(c, GGML_TYPE_F16, values, 4096, 2),
                           *mask = ggml_new_tensor_2d(c, GGML_TYPE_F16, 4096, 512);
        int got = vr_rule_attn_together(ggml_flash_attn_ext(c, q, k, v, mask, 1, 0, 0), rows[i].cc);
        if (got != rows[i].together) fail_msg("row %zu: %d heads at once, not %d", i, got, rows[i].together);
        ggml_free(c);
    }
}

static void test_too_many_devices(void **state)
{
    (void)state;
    struct vr_vgpu_spec specs[16] = { 0 };
    struct vr_err err = { 0 };
    assert_false(vr_vgpu_register(specs, 16, VR_VGPU_SIZING, &err));
    assert_contains(err.msg, "16 devices: the engine supports 1 to 15");
    assert_false(vr_vgpu_register(specs, 0, VR_VGPU_SIZING, &err));
}

static int setup(void **state)
{
    struct vr_err err = { 0 };
    if (scratch_setup(state) != 0) return -1;
    snprintf(dense_path, sizeof dense_path, "%s", scratch("dense.gguf"));
    snprintf(moe_path, sizeof moe_path, "%s", scratch("moe.gguf"));
    if (!vr_cpu_choose(cpu_path, sizeof cpu_path, &err)) {
        print_error("%s\n", err.msg);
        return -1;
    }
    print_message("CPU variant: %s\n", cpu_path);
    return tiny_write(dense_path, false) && tiny_write(moe_path, true) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense_logits_are_the_same),
        cmocka_unit_test(test_expert_logits_are_the_same),
        cmocka_unit_test(test_dense_one_mib_short),
        cmocka_unit_test(test_experts_one_mib_short),
        cmocka_unit_test(test_dense_is_foretold),
        cmocka_unit_test(test_experts_are_foretold),
        cmocka_unit_test(test_heads_together),
        cmocka_unit_test(test_too_many_devices),
    };
    return cmocka_run_group_tests(tests, setup, scratch_teardown);
}
