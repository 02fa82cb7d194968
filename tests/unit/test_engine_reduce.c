/* Reductions of split mode tensor, measured through the engine on virtual cards that execute: a time for every size, on
 * two and three; and what cannot be measured is an error, not a hang. */
#include "test.h"

#include <stdio.h>

#include "base/text.h"
#include "engine/llama/cpu.h"
#include "engine/measure/measure.h"

static char cpu[1024];
static struct vr_vgpu_spec cards[3];

static int setup(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    if (!vr_cpu_choose(cpu, sizeof cpu, &err)) fail_msg("%s", err.msg);
    for (size_t i = 0; i < VR_COUNT(cards); i++) {
        cards[i] = (struct vr_vgpu_spec){ .total_bytes = 1024 * VR_MIB, .free_bytes = 1024 * VR_MIB, .cc = 860 };
        snprintf(cards[i].name, sizeof cards[i].name, "CUDA%zu", i);
    }
    return 0;
}

static struct vr_measure_where on(size_t n)
{
    return (
        struct vr_measure_where){ .device = "CUDA0", .cpu = cpu, .vgpus = cards, .n_vgpus = n, .timeout_ms = 300000 };
}

static void test_every_size(void **state)
{
    (void)state;
    for (size_t n = 2; n <= VR_COUNT(cards); n++) {
        struct vr_measure_where w = on(n);
        struct vr_measured_reduction r = { .devices = 7 };
        struct vr_err err = { 0 };
        if (!vr_measure_reduce(&w, n, &r, &err)) fail_msg("%zu: %s", n, err.msg);
        for (size_t i = 0; i < VR_REDUCE_SIZES; i++) assert_true(r.us[i] > 0 && (i == 0 || r.us[i] >= r.us[i - 1]));
        assert_true(r.us[VR_REDUCE_SIZES - 1] > r.us[0]); /* 32 MiB copied and added: whatever else the machine does */
        assert_int_equal(r.devices, 7);                   /* the caller's */
    }
}

/* A model in split mode tensor, as `bench` runs one: timed, and what each device holds. */
static void test_run(void **state)
{
    (void)state;
    const char *path = scratch("small.gguf");
    struct vr_err err = { 0 };
    struct vr_load_params p = vr_load_params_default();
    struct vr_measure_run r = { 0 };
    if (!vr_measure_make(path, &(struct vr_measure_tiny){ .n_layers = 2 }, &err)) fail_msg("%s", err.msg);
    p.model = path;
    p.cpu = cpu;
    p.context.n_ctx = 512;
    p.n_gpu_layers = 1000;
    p.devices = p.vgpus = cards;
    p.n_devices = p.n_vgpus = p.n_order = 2;
    p.order[1] = 1;
    p.split_mode = VR_SPLIT_TENSOR;
    p.flash_auto = true;
    if (!vr_measure_run(&p, NULL, 0, 4, 0.1, 300000, &r, &err)) fail_msg("%s", err.msg);
    assert_true(r.decode_ms[0] > 0 && r.prefill_ms[0] > 0);
    assert_int_equal(r.n_devices, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(r.devices[i].name, cards[i].name);
        assert_true(r.devices[i].model_bytes > 0 && r.devices[i].context_bytes > 0 && r.devices[i].compute_bytes > 0);
    }
}

static void test_cannot(void **state)
{
    (void)state;
    struct vr_measure_where w = on(2);
    struct vr_measured_reduction r = { 0 };
    struct vr_err err = { 0 };
    assert_false(vr_measure_reduce(&w, 3, &r, &err)); /* there are two */
    assert_int_equal(err.code, VR_EDEVICE);
    assert_non_null(strstr(err.msg, "CUDA2"));
    cards[1].free_bytes = 8 * VR_MIB; /* the engine asserts that it has its memory */
    assert_false(vr_measure_reduce(&w, 2, &r, &err));
    assert_true(r.us[0] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup(test_every_size, setup),
                                        cmocka_unit_test_setup(test_run, setup),
                                        cmocka_unit_test_setup(test_cannot, setup) };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
