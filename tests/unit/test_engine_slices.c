/* Split mode tensor in a dry run: slices add up to the model, with what every device has whole; work and additions over
 * devices as the engine's graph has them; and what the engine cannot split is told from other failures. (make oracle
 * compares the bytes with the CUDA backend's, case by case.) */
#include "test.h"

#include "base/text.h"
#include "engine_fixtures.h"
#include "gguf/type.h"

static struct vr_trial spread_on(size_t n, const float *shares)
{
    struct vr_trial t = trial_on(n, 200000);
    t.want_work = true;
    t.load.split_mode = VR_SPLIT_TENSOR;
    t.load.context.n_ctx = 8192;
    t.load.has_split = shares != NULL;
    for (size_t i = 0; shares && i < n; i++) t.load.split[i] = shares[i];
    return t;
}

static struct vr_proof probe(const char *model, const struct vr_trial *t)
{
    struct vr_proof p = { 0 };
    struct vr_err err = { 0 };
    if (!vr_probe(prober(model), t, &p, &err)) fail_msg("%s", err.msg);
    return p;
}

static struct vr_use sum(const struct vr_proof *p)
{
    struct vr_use all = { 0 };
    for (size_t i = 0; i < p->n_devices; i++) {
        all.model_bytes += p->devices[i].model_bytes;
        all.context_bytes += p->devices[i].context_bytes;
    }
    return all;
}

/* What a llama has whole on each device: vectors, but those for positions, which layers have, too. */
static uint64_t vectors(const char *model)
{
    struct vr_err err = { 0 };
    VR_AUTO(vr_model) m = vr_model_open(fixture_path(model), &err);
    uint64_t bytes = 0;
    for (uint32_t i = 0; m && i < m->n_tensors; i++)
        if (m->tensors[i].n_dims == 1 && !strstr(m->tensors[i].name, "rope"))
            bytes += (m->tensors[i].bytes + 127) / 128 * 128;
    return bytes;
}

static void test_slices_are_the_whole(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 15; n += n < 4 ? 1 : 11) {
        struct vr_trial t = spread_on(n, NULL);
        struct vr_proof spread = probe("llama-3.1-8b", &t);
        t.load.split_mode = VR_SPLIT_LAYER;
        struct vr_proof layers = probe("llama-3.1-8b", &t);
        struct vr_use a = sum(&spread), b = sum(&layers);
        assert_int_equal(a.context_bytes, b.context_bytes);
        uint64_t least = b.model_bytes + (n - 1) * vectors("llama-3.1-8b"); /* rows of slices have more padding */
        if (a.model_bytes < least || a.model_bytes > least + VR_MIB)
            fail_msg("%zu devices: %llu bytes in slices, %llu in layers", n, (unsigned long long)a.model_bytes,
                     (unsigned long long)b.model_bytes);
        for (size_t i = 1; i < n; i++)
            assert_int_equal(spread.devices[i].compute_bytes, spread.devices[0].compute_bytes);
        assert_int_equal(spread.host.model_bytes, layers.host.model_bytes);
        assert_int_equal(spread.n_copies, 1);
        vr_proof_done(&spread);
        vr_proof_done(&layers);
    }
}

static void test_shares(void **state)
{
    (void)state;
    struct vr_trial t = spread_on(2, (const float[]){ 3, 1 });
    struct vr_proof p = probe("llama-3.3-70b", &t);
    assert_int_equal(p.devices[0].context_bytes, 3 * p.devices[1].context_bytes); /* six of eight KV heads */
    assert_true(p.devices[0].model_bytes > 2.98 * (double)p.devices[1].model_bytes);
    assert_true(p.devices[0].model_bytes < 3.02 * (double)p.devices[1].model_bytes);
    vr_proof_done(&p);
    t = spread_on(3, NULL);
    t.load.n_order = 2; /* of three devices, in another order */
    t.load.order[0] = 2;
    t.load.order[1] = 0;
    t.load.has_split = true;
    t.load.split[0] = 1;
    t.load.split[1] = 3;
    p = probe("llama-3.3-70b", &t);
    assert_int_equal(p.devices[1].model_bytes + p.devices[1].context_bytes + p.devices[1].compute_bytes, 0);
    assert_int_equal(p.devices[0].context_bytes, 3 * p.devices[2].context_bytes);
    vr_proof_done(&p);
}

static uint64_t products(const struct vr_proof *p, enum vr_phase phase, int device)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->works.n_rows; i++) {
        const struct vr_work *w = &p->works.rows[i];
        bool ours = w->phase == phase && (device < 0 || w->device == device);
        if (ours && strncmp(w->name, "MUL_MAT", 7) == 0) bytes += w->weight_bytes;
    }
    return bytes;
}

/* Every matrix is read once, in parts, by devices that wait for each other twice in a layer. */
static void test_work(void **state)
{
    (void)state;
    struct vr_trial t = spread_on(2, NULL);
    struct vr_proof p = probe("llama-3.3-70b", &t);
    t.load.split_mode = VR_SPLIT_LAYER;
    struct vr_proof layers = probe("llama-3.3-70b", &t);
    assert_int_equal(products(&p, VR_DECODE, -1), products(&layers, VR_DECODE, -1));
    assert_int_equal(products(&p, VR_DECODE, 0), products(&p, VR_DECODE, 1));
    uint32_t n[VR_N_PHASES] = { 0 };
    uint64_t most[VR_N_PHASES] = { 0 };
    for (uint32_t i = 0; i < p.works.n_reductions; i++) {
        const struct vr_reduction *r = &p.works.reductions[i];
        assert_int_equal(r->n_devices, 2);
        n[r->phase] += r->n;
        if (r->bytes > most[r->phase]) most[r->phase] = r->bytes;
    }
    assert_int_equal(n[VR_DECODE], 160);
    assert_int_equal(n[VR_PREFILL], 160);
    assert_int_equal(most[VR_DECODE], 8192 * 4);
    assert_int_equal(most[VR_PREFILL], 512 * 8192 * 4);
    uint16_t stage = 0;
    for (uint32_t i = 0; i < p.works.n_rows; i++) {
        const struct vr_work *w = &p.works.rows[i];
        if (w->phase != VR_PREFILL || w->device >= p.n_devices) continue;
        assert_true(w->stage >= stage);
        stage = w->stage;
        if (strstr(w->weight, "blk.7.attn_output")) assert_int_equal(w->stage, 14);
        if (strstr(w->weight, "blk.7.ffn_down")) assert_int_equal(w->stage, 15);
    }
    assert_int_equal(stage, 160);
    assert_int_equal(layers.works.n_reductions, 0);
    vr_proof_done(&p);
    vr_proof_done(&layers);
}

/* A copy for each step of adding up, of the largest that is added; and what the backend's own kernel has for two cards
 * that are not too old. Experts are added up late, but the copies are as large as before. */
static void test_reduce_bytes(void **state)
{
    (void)state;
    static struct vr_vgpu_spec old[2];
    struct vr_trial t = spread_on(2, NULL);
    struct vr_proof p = probe("llama-3.3-70b", &t);
    assert_int_equal(p.reduce_bytes[0], (16 + 32) * VR_MIB);
    vr_proof_done(&p);
    memcpy(old, t.load.devices, sizeof old);
    old[0].cc = old[1].cc = 610;
    t.load.devices = old;
    p = probe("llama-3.3-70b", &t);
    assert_int_equal(p.reduce_bytes[1], 16 * VR_MIB);
    vr_proof_done(&p);
    t = spread_on(4, NULL);
    t.want_work = false;
    p = probe("qwen3-30b-a3b", &t);
    assert_int_equal(p.reduce_bytes[3], 2 * 8 * 512 * 2048 * 4);
    assert_int_equal(p.works.n_rows + p.works.n_reductions, 0);
    vr_proof_done(&p);
}

static void refused(const char *model, struct vr_trial *t, const char *words)
{
    struct vr_proof p = { 0 };
    struct vr_err err = { 0 };
    assert_false(vr_probe(prober(model), t, &p, &err));
    if (err.code != VR_ESPLIT || !strstr(err.msg, words)) fail_msg("%s: %d, %s", model, err.code, err.msg);
}

static void test_refused(void **state)
{
    (void)state;
    struct vr_trial t = spread_on(2, NULL);
    refused("kimi-k2.5", &t, "not implemented for architecture");
    refused("falcon-mamba-7b", &t, "not implemented for architecture");
    refused("nemotron-super-49b", &t, "signal 8"); /* layers without attention: it divides by their heads */
    t.load.flash_auto = false;
    t.load.context.flash_attn = false;
    refused("llama-3.1-8b", &t, "requires flash_attn");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slices_are_the_whole), cmocka_unit_test(test_shares),  cmocka_unit_test(test_work),
        cmocka_unit_test(test_reduce_bytes),         cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
