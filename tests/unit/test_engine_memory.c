/* memory/ against the engine: weights and caches of every fixture over a grid of settings and placements, to the byte;
 * and the table of tensor types against GGML's own. */
#include "test.h"

#include <ggml.h>

#include "engine_fixtures.h"
#include "gguf/type.h"

static void test_types(void **state)
{
    (void)state;
    uint32_t known = 0;
    for (uint32_t id = 0; id < 2 * GGML_TYPE_COUNT; id++) {
        const struct vr_type *ours = vr_type(id);
        const struct ggml_type_traits *theirs = id < GGML_TYPE_COUNT ? ggml_get_type_traits((enum ggml_type)id) : NULL;
        bool exists = theirs && theirs->blck_size > 0;
        if (exists != (ours != NULL)) fail_msg("type %u exists for %s alone", id, exists ? "the engine" : "us");
        if (!exists) continue;
        known++;
        assert_string_equal(ours->name, theirs->type_name);
        assert_int_equal(ours->block, theirs->blck_size);
        assert_int_equal(ours->bytes, theirs->type_size);
        assert_int_equal(vr_type_is_quantized(id), theirs->is_quantized);
        assert_int_equal(vr_type_row_bytes(id, 1024), ggml_row_size((enum ggml_type)id, 1024));
    }
    assert_true(known > 30);
}

static const struct setting {
    uint32_t n_ctx, n_seq, n_ubatch;
    const char *k, *v;
    bool flash, unified, swa_full, offload;
} settings[] = {
    { 2048, 1, 512, "f16", "f16", true, false, false, true },
    { 5000, 4, 512, "f16", "f16", true, false, false, true },
    { 8192, 4, 64, "q8_0", "q8_0", true, true, false, true },
    { 32768, 1, 2048, "f16", "f16", true, false, true, true },
    { 4096, 2, 512, "bf16", "bf16", true, false, false, false },
    { 4096, 1, 512, "f16", "f16", false, false, false, true },
    { 131072, 3, 512, "q4_0", "q4_0", true, false, false, true },
};

/* Layers on the host and on each of three devices; the output goes with the last. Counts are per mille of all. */
static const struct {
    unsigned host, a, b;
} placements[] = { { 0, 1000, 0 }, { 0, 330, 330 }, { 400, 200, 100 }, { 1001, 0, 0 } };

static void compare(const char *name, const struct vr_model *m, struct vr_prober *p, const struct setting *s, size_t k,
                    unsigned *compared)
{
    struct vr_trial t = trial_on(3, 80000);
    t.load.context = (struct vr_context){ .n_ctx = s->n_ctx,
                                          .n_seq = s->n_seq,
                                          .n_batch = 2048,
                                          .n_ubatch = s->n_ubatch,
                                          .type_k = vr_type_by_name(s->k),
                                          .type_v = vr_type_by_name(s->v),
                                          .flash_attn = s->flash,
                                          .kv_unified = s->unified,
                                          .swa_full = s->swa_full,
                                          .offload_kqv = s->offload };
    t.load.flash_auto = false;
    struct vr_err err = { 0 };
    VR_AUTO_FOOTPRINT f = { 0 };
    struct vr_proof proof = { 0 };
    bool ours = vr_footprint_compute(m, &t.load.context, &f, &err);
    if (ours && !f.exact) fail_msg("%s is not exact: %s", name, f.inexact);

    uint32_t slots = m->n_layers + 1, host = slots * placements[k].host / 1000;
    if (host > slots) host = slots;
    uint32_t a = (slots - host) * placements[k].a / 1000, b = (slots - host) * placements[k].b / 1000;
    t.load.n_gpu_layers = (int)(slots - host);
    t.load.has_split = host < slots;
    t.load.split[0] = (float)a;
    t.load.split[1] = (float)b;
    t.load.split[2] = (float)(slots - host - a - b);
    bool theirs = vr_probe(p, &t, &proof, &err);
    if (ours != theirs)
        fail_msg("%s, setting %zu: %s alone refuses: %s", name, (size_t)(s - settings), ours ? "the engine" : "memory/",
                 err.msg);
    if (!ours) return;

    int where[513];
    for (uint32_t i = 0; i < slots; i++) where[i] = i < host ? -1 : i < host + a ? 0 : i < host + a + b ? 1 : 2;
    struct vr_bytes gpus[3], host_bytes;
    vr_footprint_place(&f, where, 3, gpus, &host_bytes);
    for (size_t d = 0; d < 3; d++) {
        if (gpus[d].model != proof.devices[d].model_bytes || gpus[d].context != proof.devices[d].context_bytes)
            fail_msg("%s, setting %zu, placement %zu, device %zu: %lu + %lu, the engine says %lu + %lu", name,
                     (size_t)(s - settings), k, d, gpus[d].model, gpus[d].context, proof.devices[d].model_bytes,
                     proof.devices[d].context_bytes);
    }
    assert_int_equal(host_bytes.model, proof.host.model_bytes);
    assert_int_equal(host_bytes.context, proof.host.context_bytes);
    (*compared)++;
    vr_proof_done(&proof);
}

static void test_formulas(void **state)
{
    (void)state;
    unsigned compared = 0;
    for (size_t i = 0; i < VR_COUNT(fixture_names); i++) {
        struct vr_err err = { 0 };
        VR_AUTO(vr_model) m = vr_model_open(fixture_path(fixture_names[i]), &err);
        if (!m) fail_msg("%s", err.msg);
        for (size_t s = 0; s < VR_COUNT(settings); s++)
            for (size_t k = (i + s) % EACH; k < VR_COUNT(placements); k += EACH)
                compare(fixture_names[i], m, prober(fixture_names[i]), &settings[s], k, &compared);
    }
    print_message("%u placements compared\n", compared);
    assert_true(compared >= (EACH == 1 ? 250 : 250 / EACH / 2)); /* a few settings are refused, by both */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_types), cmocka_unit_test(test_formulas) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
