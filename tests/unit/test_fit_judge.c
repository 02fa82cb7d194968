/* Judging a placement: layers where the engine puts them, shortages to the byte, and the first user's first command. */
#include "test.h"

#include "base/text.h"
#include "fit_stage.h"

static void open_stage(struct stage *s, const char *model, const char *rig, const char *order)
{
    stage_rig(s, rig);
    stage_model(s, model);
    stage_ask(s, s->model, order, 2048);
}

/* Layers as told, weighed with memory/'s own figures, are what the engine allocated. */
static void assert_layers_are_true(const struct stage *s, const struct vr_outcome *o)
{
    struct vr_err err = { 0 };
    VR_AUTO_FOOTPRINT f = { 0 };
    if (!vr_footprint_compute(s->model, &s->ask.context, &f, &err)) fail_msg("%s", err.msg);
    int where[513];
    uint32_t n = s->model->n_layers;
    for (uint32_t i = 0; i <= n; i++) where[i] = -1;
    for (size_t d = 0; d < o->verdict.n_devices; d++) {
        const struct vr_judged *j = &o->verdict.devices[d];
        for (uint32_t i = 0; i < j->n_layers; i++) where[j->first_layer + i] = (int)d;
        if (j->output) where[n] = (int)d;
    }
    struct vr_bytes gpus[VR_MAX_VGPUS], host;
    vr_footprint_place(&f, where, o->verdict.n_devices, gpus, &host);
    for (size_t d = 0; d < o->verdict.n_devices; d++) {
        assert_int_equal(gpus[d].model, o->verdict.devices[d].use.model_bytes);
        assert_int_equal(gpus[d].context, o->verdict.devices[d].use.context_bytes);
    }
    assert_int_equal(host.model, o->verdict.host.model_bytes);
}

static void test_layers(void **state)
{
    (void)state;
    static const struct {
        const char *model, *rig;
        double split[4];
        size_t n_split;
        int n_gpu_layers;
    } rows[] = {
        { "nemotron-super-49b", "laptop-4080m-2x3090ti", { 0 }, 0, -1 },
        { "nemotron-super-49b", "laptop-4080m-2x3090ti", { 0.35, 0.45, 0.20 }, 3, -1 },
        { "nemotron-super-49b", "laptop-4080m-2x3090ti", { 8, 47, 26 }, 3, -1 },
        { "nemotron-super-49b", "laptop-4080m-2x3090ti", { 0.1, 0.3, 0.6 }, 3, 40 },
        { "llama-3.3-70b", "2x3090-2x3060", { 0.4, 0.4, 0.1, 0.1 }, 4, -1 },
        { "llama-3.3-70b", "2x3090-2x3060", { 40, 41, 0, 0 }, 4, -1 },
        { "llama-3.3-70b", "2x3090-2x3060", { 0 }, 0, 0 },
        { "llama-3.3-70b", "2x3090-2x3060", { 0 }, 0, 1 },
        { "gemma-3-27b", "3090-2060", { 0 }, 0, -1 },
        { "falcon-mamba-7b", "3090-2060", { 3, 1 }, 2, 30 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct stage s;
        open_stage(&s, rows[i].model, rows[i].rig, "index");
        struct vr_given g = { .n_gpu_layers = rows[i].n_gpu_layers,
                              .split = rows[i].n_split ? rows[i].split : NULL,
                              .n_split = rows[i].n_split };
        VR_AUTO_OUTCOME o = { 0 };
        struct vr_err err = { 0 };
        if (!vr_fit_given(&s.ask, &g, &o, &err)) fail_msg("row %zu: %s", i, err.msg);
        assert_layers_are_true(&s, &o);
        vr_model_free(s.model);
    }
}

/* Three GPUs, default split: the first card was asked for 27,343 MiB and had 23,287. */
static void test_first_command(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s, "nemotron-super-49b", "laptop-4080m-2x3090ti", "free_desc");
    VR_AUTO_OUTCOME o = { 0 };
    struct vr_err err = { 0 };
    if (!vr_fit_given(&s.ask, &(struct vr_given){ .n_gpu_layers = -1 }, &o, &err)) fail_msg("%s", err.msg);
    const struct vr_judged *first = &o.verdict.devices[0];
    assert_false(o.verdict.fits);
    assert_true(o.verdict.exact);
    assert_string_equal(s.machine.devices[first->device].id, "CUDA1");
    assert_int_equal(first->short_bytes >> 20, 4056);
    assert_int_equal(first->over_bytes - first->short_bytes, 1024ull << 20);
    assert_int_equal(o.verdict.devices[1].over_bytes, 0);
    struct vr_reason why[VR_MAX_REASONS];
    assert_int_equal(vr_outcome_shortages(&s.ask, &o, why), 1);
    assert_int_equal(why[0].kind, VR_REASON_SHORT);
    assert_int_equal(why[0].devices, 1u << first->device);
    assert_true(why[0].figures[VR_FIGURE_NEED_BYTES] - why[0].figures[VR_FIGURE_FREE_BYTES] ==
                why[0].figures[VR_FIGURE_SHORT_BYTES]);
    vr_model_free(s.model);
}

/* Layers 53-70 have no attention: a device with only those passes every dry run and fails every load. */
static void test_empty_cache(void **state)
{
    (void)state;
    static const struct {
        double split[3];
        bool refused;
    } rows[] = { { { 53, 18, 10 }, true }, { { 52, 19, 10 }, false }, { { 53, 19, 9 }, false } };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct stage s;
        open_stage(&s, "nemotron-super-49b", "laptop-4080m-2x3090ti", "index");
        VR_AUTO_OUTCOME o = { 0 };
        struct vr_err err = { 0 };
        struct vr_given g = { .n_gpu_layers = -1, .split = rows[i].split, .n_split = 3 };
        if (!vr_fit_given(&s.ask, &g, &o, &err)) fail_msg("%s", err.msg);
        assert_int_equal(o.verdict.devices[1].no_cache, rows[i].refused);
        struct vr_reason why[VR_MAX_REASONS];
        size_t n = vr_outcome_shortages(&s.ask, &o, why), empty = 0;
        for (size_t k = 0; k < n; k++) empty += why[k].kind == VR_REASON_EMPTY_CACHE;
        assert_int_equal(empty, rows[i].refused && !o.verdict.devices[1].short_bytes);
        vr_model_free(s.model);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s, "qwen3-30b-a3b", "3090-2060", "index");
    static const double three[] = { 1, 2, 3 }, zeros[] = { 0, 0 };
    const struct {
        struct vr_given given;
        const char *message;
    } rows[] = {
        { { .n_gpu_layers = -1, .split = three, .n_split = 3 }, "has 3 values for 2 devices" },
        { { .n_gpu_layers = -1, .split = zeros, .n_split = 2 }, "all values are 0" },
        { { .n_gpu_layers = -1, .overrides = "exps" }, "'exps' is not PATTERN=DEVICE" },
        { { .n_gpu_layers = -1, .overrides = "exps=CUDA7" }, "unknown device 'CUDA7'; did you mean CUDA" },
        { { .n_gpu_layers = -1, .overrides = "(exps=CPU" }, "is not a regular expression" },
        { { .n_gpu_layers = -1, .overrides = "exps=CPU,expz=CPU" }, "no tensor of the model matches 'expz'" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        VR_AUTO_OUTCOME o = { 0 };
        struct vr_err err = { 0 };
        if (vr_fit_given(&s.ask, &rows[i].given, &o, &err)) fail_msg("row %zu was accepted", i);
        assert_contains(err.msg, rows[i].message);
    }
    vr_model_free(s.model);
}

/* Experts on the host: no weights of theirs on the card, no pipeline, and the host does most of the work. */
static void test_overrides(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s, "qwen3-30b-a3b", "3060-12g-64g-ram", "index");
    VR_AUTO_OUTCOME o = { 0 };
    struct vr_err err = { 0 };
    struct vr_given g = { .n_gpu_layers = -1, .overrides = "ffn_(up|down|gate)_exps=CPU" };
    if (!vr_fit_given(&s.ask, &g, &o, &err)) fail_msg("%s", err.msg);
    uint64_t experts = 0;
    for (uint32_t i = 0; i < s.model->n_layers; i++) experts += s.model->layers[i].role_bytes[VR_ROLE_EXPERT];
    assert_int_equal(o.verdict.host.model_bytes, experts + s.model->input_bytes);
    assert_true(o.verdict.fits);
    assert_false(o.verdict.pipeline);
    assert_true(o.verdict.host_ms[VR_DECODE] > o.verdict.devices[0].ms[VR_DECODE]);
    vr_model_free(s.model);
}

/* Beside its buffers a device holds what was measured, recorded splits, and addresses of what is pinned on the host. */
static void test_beside(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s, "qwen3-30b-a3b", "3060-12g-64g-ram", "index");
    s.machine.devices[0].measured.runtime_bytes = 300 * VR_MIB;
    VR_AUTO_OUTCOME mapped = { 0 }, pinned = { 0 }, none = { 0 };
    struct vr_err err = { 0 };
    struct vr_given g = { .n_gpu_layers = -1, .overrides = "ffn_(up|down|gate)_exps=CPU" };
    if (!vr_fit_given(&s.ask, &g, &mapped, &err)) fail_msg("%s", err.msg);
    vr_speeds_pin(&s.speeds);
    if (!vr_fit_given(&s.ask, &g, &pinned, &err)) fail_msg("%s", err.msg);
    uint64_t before = mapped.verdict.devices[0].overhead_bytes, after = pinned.verdict.devices[0].overhead_bytes;
    assert_true(before > 300 * VR_MIB + 3 * 40 * VR_MIB / 8 && before < 350 * VR_MIB); /* three splits a layer */
    uint64_t pages = (mapped.verdict.host.model_bytes + 4095) / 4096;
    assert_true(after - before >= (pages - 1) * 8 && after - before <= pages * 8);
    assert_true(pinned.verdict.price.prefill_tok_s > mapped.verdict.price.prefill_tok_s);
    s.machine.devices[0].measured.runtime_bytes = 0; /* what was not measured is not told */
    if (!vr_fit_given(&s.ask, &g, &none, &err)) fail_msg("%s", err.msg);
    assert_int_equal(none.verdict.devices[0].overhead_bytes, 0);
    vr_model_free(s.model);
}

/* Scratch memory that the reserve has no room for is part of what a card must have, and told. */
static void test_scratch_is_counted(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s, "qwen3-30b-a3b", "3060-12g-64g-ram", "index");
    s.ask.context.n_ctx = 8192;
    s.ask.context.n_batch = s.ask.context.n_ubatch = 2048;
    s.ask.context.flash_attn = s.ask.flash_auto = false; /* the library that multiplies K wants a copy in floats */
    s.budgets.items[0].reserve_bytes = 64 * VR_MIB;
    VR_AUTO_OUTCOME o = { 0 }, tight = { 0 };
    struct vr_err err = { 0 };
    struct vr_given g = { .n_gpu_layers = -1, .overrides = "ffn_(up|down|gate)_exps=CPU" };
    if (!vr_fit_given(&s.ask, &g, &o, &err)) fail_msg("%s", err.msg);
    const struct vr_judged *j = &o.verdict.devices[0];
    assert_true(j->beside_bytes > 100 * VR_MIB);
    assert_int_equal(vr_judged_bytes(j), vr_use_bytes(&j->use) + j->beside_bytes);
    assert_int_equal(o.n_reasons, 1);
    assert_int_equal(o.reasons[0].kind, VR_REASON_BESIDE_BUFFERS);
    assert_int_equal((uint64_t)o.reasons[0].figures[VR_FIGURE_BESIDE_BYTES], j->beside_bytes);
    s.budgets.items[0].budget_bytes = vr_judged_bytes(j) - 1; /* the buffers have room, the scratch memory has not */
    if (!vr_fit_given(&s.ask, &g, &tight, &err)) fail_msg("%s", err.msg);
    assert_false(tight.verdict.fits);
    assert_int_equal(tight.verdict.devices[0].over_bytes, 1);
    vr_model_free(s.model);
}

/* Why bytes are an estimate, and because of which card. */
static void test_estimates(void **state)
{
    (void)state;
    static const struct {
        const char *backend;
        uint16_t cc_major;
        enum vr_inexact inexact;
        enum vr_reason_kind kind;
    } rows[] = { { "CUDA", 0, VR_INEXACT_CAPABILITY, VR_REASON_ESTIMATE_CAPABILITY },
                 { "Vulkan", 8, VR_INEXACT_NOT_CUDA, VR_REASON_ESTIMATE_NOT_CUDA } };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct stage s;
        open_stage(&s, "qwen3-30b-a3b", "3090-2060", "index");
        struct vr_device *d = &s.machine.devices[1];
        snprintf(d->backend, sizeof d->backend, "%s", rows[i].backend);
        d->cc_major = rows[i].cc_major;
        VR_AUTO_OUTCOME o = { 0 };
        struct vr_err err = { 0 };
        if (!vr_fit_given(&s.ask, &(struct vr_given){ .n_gpu_layers = -1 }, &o, &err)) fail_msg("%s", err.msg);
        assert_false(o.verdict.exact);
        assert_int_equal(o.verdict.inexact, rows[i].inexact);
        assert_int_equal(o.reasons[0].kind, rows[i].kind);
        assert_int_equal(o.reasons[0].devices, 2);
        vr_model_free(s.model);
    }
}

/* llama.cpp's fit, on the same devices: it says what it costs, and its placement is judged like any other. */
static void test_llama_fit(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s, "nemotron-super-49b", "laptop-4080m-2x3090ti", "free_desc");
    VR_AUTO_OUTCOME o = { 0 };
    struct vr_err err = { 0 };
    if (!vr_fit_llama(&s.ask, &o, &err)) fail_msg("%s", err.msg);
    assert_true(o.dry_runs > 5);
    assert_true(o.ms > 0);
    uint32_t layers = o.verdict.host_layers;
    for (size_t i = 0; i < o.verdict.n_devices; i++) layers += o.verdict.devices[i].n_layers;
    assert_int_equal(layers, s.model->n_layers);
    assert_layers_are_true(&s, &o);
    vr_model_free(s.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),   cmocka_unit_test(test_first_command),      cmocka_unit_test(test_empty_cache),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_overrides),          cmocka_unit_test(test_llama_fit),
        cmocka_unit_test(test_beside),   cmocka_unit_test(test_scratch_is_counted), cmocka_unit_test(test_estimates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
