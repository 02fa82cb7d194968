/* What the probe says a token costs, against the model's own sizes: every weight matrix is read once per token, of
 * experts those that are used, and the whole cache at a full context. */
#include "test.h"

#include "engine_fixtures.h"
#include "gguf/type.h"

static struct vr_proof look(const char *model, struct vr_trial t)
{
    struct vr_proof p = { 0 };
    struct vr_err err = { 0 };
    t.want_work = true;
    if (!vr_probe(prober(model), &t, &p, &err)) fail_msg("%s", err.msg);
    return p;
}

struct sums {
    uint64_t matrix_bytes, weight_bytes, cache_bytes, launches, nodes, flops;
};

static bool is_product(const struct vr_work *w)
{
    return strcmp(w->name, "MUL_MAT") == 0 || strcmp(w->name, "MUL_MAT_ID") == 0;
}

/* Of one device, or of all when device < 0. */
static struct sums sum(const struct vr_proof *p, enum vr_phase phase, int device)
{
    struct sums s = { 0 };
    for (uint32_t i = 0; i < p->works.n_rows; i++) {
        const struct vr_work *w = &p->works.rows[i];
        if (w->phase != phase || (device >= 0 && w->device != device)) continue;
        s.matrix_bytes += is_product(w) ? w->weight_bytes : 0;
        s.weight_bytes += w->weight_bytes;
        s.cache_bytes += w->cells ? w->cache_bytes : 0;
        s.launches += w->launches;
        s.nodes += w->n;
        s.flops += w->flops;
    }
    return s;
}

/* Matrices that are multiplied for a token: all but the embeddings (unless they are the output too), the convolution
 * and what predicts further tokens. */
static uint64_t bytes_per_token(const struct vr_model *m)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        const struct vr_tensor *t = &m->tensors[i];
        bool input = strcmp(t->name, "token_embd.weight") == 0;
        if (t->n_dims < 2 || (input && !m->tied) || strstr(t->name, "ssm_conv1d") || strstr(t->name, "ssm_a") ||
            !strstr(t->name, ".weight"))
            continue;
        bytes += t->role == VR_ROLE_EXPERT ? t->bytes / m->n_expert * m->n_expert_used : t->bytes;
    }
    return bytes;
}

static void test_weights_per_token(void **state)
{
    (void)state;
    for (size_t i = 0; i < VR_COUNT(fixture_names); i++) {
        struct vr_err err = { 0 };
        VR_AUTO(vr_model) m = vr_model_open(fixture_path(fixture_names[i]), &err);
        if (!m) fail_msg("%s", err.msg);
        struct vr_proof p = look(fixture_names[i], trial_on(4, 200000));
        struct sums all = sum(&p, VR_DECODE, -1);
        uint64_t want = bytes_per_token(m);
        print_message("%-20s %llu bytes of matrices per token, %llu launches for %llu nodes\n", fixture_names[i],
                      (unsigned long long)all.matrix_bytes, (unsigned long long)all.launches,
                      (unsigned long long)all.nodes);
        if (all.matrix_bytes > want + 1000 || all.matrix_bytes + 1000 < want) /* shares of experts are rounded */
            fail_msg("%s: %llu bytes, not %llu", fixture_names[i], (unsigned long long)all.matrix_bytes,
                     (unsigned long long)want);
        vr_proof_done(&p);
    }
}

/* ENGINE.md: the CUDA backend launches 614 kernels for a token of the 8B. */
static void test_launches_of_the_8b(void **state)
{
    (void)state;
    struct vr_proof p = look("llama-3.1-8b", trial_on(1, 24000));
    assert_int_equal(sum(&p, VR_DECODE, 0).launches, 614);
    assert_int_equal(sum(&p, VR_DECODE, 1).nodes, 1); /* the host looks the token up */
    assert_int_equal(p.works.n_splits[VR_DECODE], 2);
    vr_proof_done(&p);
}

/* All cells are read by a full context's decode, on the device that has them. */
static void test_cache_per_token(void **state)
{
    (void)state;
    struct vr_trial t = trial_on(2, 24000);
    t.load.context.n_ctx = 8192;
    struct vr_proof p = look("llama-3.1-8b", t);
    for (int i = 0; i < 2; i++) assert_int_equal(sum(&p, VR_DECODE, i).cache_bytes, p.devices[i].context_bytes);
    vr_proof_done(&p);
    t.load.context.type_k = t.load.context.type_v = vr_type_by_name("q8_0");
    t.load.context.n_seq = 4;
    p = look("gemma-3-27b", t); /* windows of its own */
    for (int i = 0; i < 2; i++) assert_int_equal(sum(&p, VR_DECODE, i).cache_bytes, p.devices[i].context_bytes);
    vr_proof_done(&p);
}

static const struct vr_transfer *transfer(const struct vr_proof *p, enum vr_phase phase, int from, int to, bool weights)
{
    for (uint32_t i = 0; i < p->works.n_transfers; i++) {
        const struct vr_transfer *t = &p->works.transfers[i];
        if (t->phase == phase && t->from == from && t->to == to && t->weights == weights) return t;
    }
    return NULL;
}

static void test_transfers(void **state)
{
    (void)state;
    struct vr_trial t = trial_on(3, 24000);
    t.load.pipeline = false;
    struct vr_proof p = look("llama-3.1-8b", t);
    const struct vr_transfer *x = transfer(&p, VR_DECODE, 0, 1, false);
    assert_non_null(x); /* one activation between neighbours */
    assert_int_equal(x->n, 1);
    assert_int_equal(x->bytes, 4096 * 4);
    x = transfer(&p, VR_PREFILL, 1, 2, false);
    assert_int_equal(x->bytes, 4096 * 4 * 512);
    assert_null(transfer(&p, VR_DECODE, 0, 2, false));
    x = transfer(&p, VR_DECODE, 2, 3, false); /* logits */
    assert_int_equal(x->bytes, 128256 * 4);
    assert_null(transfer(&p, VR_PREFILL, 3, 0, true)); /* no weights on the host */
    vr_proof_done(&p);
}

/* Experts on the host: decode computes there, a prompt sends the experts it uses to the first device. */
static void test_experts_on_the_host(void **state)
{
    (void)state;
    struct vr_trial t = trial_on(2, 24000);
    struct vr_override o = { "ffn_.*_exps", VR_ON_CPU };
    t.load.overrides = &o;
    t.load.n_overrides = 1;
    struct vr_err err = { 0 };
    VR_AUTO(vr_model) m = vr_model_open(fixture_path("qwen3-30b-a3b"), &err);
    if (!m) fail_msg("%s", err.msg);
    uint64_t experts = 0, last = 0;
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        if (m->tensors[i].role == VR_ROLE_EXPERT) experts += m->tensors[i].bytes;
        if (m->tensors[i].role == VR_ROLE_EXPERT && m->tensors[i].layer == 47) last += m->tensors[i].bytes;
    }
    struct vr_proof p = look("qwen3-30b-a3b", t);
    assert_int_equal(sum(&p, VR_DECODE, 2).matrix_bytes, experts / 128 * 8);
    assert_null(transfer(&p, VR_DECODE, 2, 0, true));
    const struct vr_transfer *x = transfer(&p, VR_PREFILL, 2, 0, true);
    assert_non_null(x);
    assert_true(x->bytes > (experts - last) / 100 * 99 && x->bytes <= experts); /* 512 tokens use nearly all */
    assert_int_equal(sum(&p, VR_PREFILL, 2).matrix_bytes, last / 128 * 8);      /* the last layer: one token is left */
    assert_true(p.works.device_splits[0] > 3 * 40 && p.works.device_splits[1] < 40); /* they go to the first device */
    assert_true(p.works.device_splits[0] + p.works.device_splits[1] < p.works.n_splits[VR_PREFILL]);
    vr_proof_done(&p);
    t.load.op_offload = false;
    p = look("qwen3-30b-a3b", t);
    assert_null(transfer(&p, VR_PREFILL, 2, 0, true));
    assert_true(sum(&p, VR_PREFILL, 2).matrix_bytes > (experts - last) / 100 * 99);
    vr_proof_done(&p);
}

/* The pool: 512 tokens of the widest activations, rounded to 8 bits in blocks of 36 bytes; without flash attention the
 * softmax of 4,096 cells, 512 tokens and 32 heads as f16, and the result of 128 for each. */
static void test_pool(void **state)
{
    (void)state;
    struct vr_trial t = trial_on(1, 24000);
    t.load.context.n_ctx = 4096, t.load.context.n_batch = t.load.context.n_ubatch = 512;
    struct vr_proof p = look("llama-3.1-8b", t);
    assert_int_equal(p.works.pool_bytes[0], 512 * 14336 / 32 * 36);
    vr_proof_done(&p);
    t.load.flash_auto = t.load.context.flash_attn = false;
    p = look("llama-3.1-8b", t);
    assert_int_equal(p.works.pool_bytes[0], (uint64_t)(4096 + 128) * 512 * 32 * 2);
    bool softmax = false, stored = false, norm = false;
    for (uint32_t i = 0; i < p.works.n_rows; i++) {
        const struct vr_work *w = &p.works.rows[i];
        softmax |= strcmp(w->name, "SOFT_MAX") == 0 && w->cells == 4096;
        stored |= strcmp(w->name, "SET_ROWS") == 0 && w->type == VR_TYPE_F16;
        norm |= strcmp(w->name, "RMS_NORM") == 0 && w->columns == 4096;
        if (strcmp(w->name, "MUL_MAT") == 0 && w->weight_bytes) assert_true(w->columns == 4096 || w->columns == 14336);
    }
    assert_true(softmax && stored && norm);
    vr_proof_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights_per_token),   cmocka_unit_test(test_launches_of_the_8b),
        cmocka_unit_test(test_cache_per_token),     cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_experts_on_the_host), cmocka_unit_test(test_pool),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
