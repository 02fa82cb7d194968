/* Drafts and mmprojs: placed where all together is fastest, counted to the byte, never over a budget. */
#include "test.h"

#include "fit_stage.h"
#include "gguf_maker.h"
#include "scratch.h"

enum { GUESSES = 3 };

static struct vr_model *open_model(const char *path)
{
    struct vr_err err = { 0 };
    struct vr_model *m = vr_model_open(path, &err);
    if (!m) fail_msg("%s", err.msg);
    return m;
}

/* The header of an mmproj for Gemma 3: a tower of `layers`, `embd` wide, for a model that is `width` wide. */
static struct vr_model *make_mmproj(const char *path, uint64_t width, uint32_t layers, uint64_t embd, uint64_t ff)
{
    MK_AUTO g = { 0 };
    mk_str(&g, "general.architecture", "clip");
    mk_str(&g, "general.name", "vision");
    mk_bool(&g, "clip.has_vision_encoder", true);
    mk_str(&g, "clip.projector_type", "gemma3");
    mk_bool(&g, "clip.use_gelu", true);
    mk_u32(&g, "clip.vision.image_size", 896);
    mk_u32(&g, "clip.vision.patch_size", 14);
    mk_u32(&g, "clip.vision.embedding_length", (uint32_t)embd);
    mk_u32(&g, "clip.vision.feed_forward_length", (uint32_t)ff);
    mk_u32(&g, "clip.vision.block_count", layers);
    mk_u32(&g, "clip.vision.projection_dim", (uint32_t)width);
    mk_u32(&g, "clip.vision.attention.head_count", 16);
    mk_f32(&g, "clip.vision.attention.layer_norm_epsilon", 1e-6f);
    static const char *const keys[] = { "clip.vision.image_mean", "clip.vision.image_std" };
    for (size_t k = 0; k < 2; k++) {
        static const float half[3] = { 0.5f, 0.5f, 0.5f };
        mk_key(&g, keys[k], VR_V_ARRAY);
        mk_32(&g.meta, VR_V_F32);
        mk_64(&g.meta, 3);
        mk_raw(&g.meta, half, sizeof half);
    }
    mk_tensor_at(&g, "v.patch_embd.weight", VR_TYPE_F16, (const uint64_t[4]){ 14, 14, 3, embd }, g.data);
    g.data += (14 * 14 * 3 * embd * 2 + 31) / 32 * 32;
    mk_tensor(&g, "v.patch_embd.bias", VR_TYPE_F32, embd, 0, 0);
    mk_tensor(&g, "v.position_embd.weight", VR_TYPE_F32, embd, 4096, 0);
    for (uint32_t il = 0; il < layers; il++) {
        const struct {
            const char *name;
            uint64_t a, b;
        } rows[] = { { "attn_q", embd, embd },   { "attn_k", embd, embd }, { "attn_v", embd, embd },
                     { "attn_out", embd, embd }, { "ffn_up", embd, ff },   { "ffn_down", ff, embd },
                     { "ln1", embd, 0 },         { "ln2", embd, 0 } };
        for (size_t i = 0; i < VR_COUNT(rows); i++) {
            char name[64];
            snprintf(name, sizeof name, "v.blk.%u.%s.weight", il, rows[i].name);
            mk_tensor(&g, name, rows[i].b ? VR_TYPE_F16 : VR_TYPE_F32, rows[i].a, rows[i].b, 0);
            snprintf(name, sizeof name, "v.blk.%u.%s.bias", il, rows[i].name);
            mk_tensor(&g, name, VR_TYPE_F32, rows[i].b ? rows[i].b : rows[i].a, 0, 0);
        }
    }
    mk_tensor(&g, "v.post_ln.weight", VR_TYPE_F32, embd, 0, 0);
    mk_tensor(&g, "v.post_ln.bias", VR_TYPE_F32, embd, 0, 0);
    mk_tensor(&g, "mm.soft_emb_norm.weight", VR_TYPE_F32, embd, 0, 0);
    mk_tensor(&g, "mm.input_projection.weight", VR_TYPE_F16, width, embd, 0);
    mk_write(&g, path);
    return open_model(path);
}

static void set_stage(struct stage *s, const struct vr_model *m, const char *rig, uint32_t n_ctx)
{
    stage_rig(s, rig);
    stage_ask(s, m, NULL, n_ctx);
}

static uint64_t sum(const struct vr_use *u) { return u->model_bytes + u->context_bytes + u->compute_bytes; }

static double total_ms(const struct vr_outcome *o)
{
    double ms = o->verdict.price.step_ms[VR_DECODE];
    for (size_t i = 0; i < o->n_companions; i++)
        ms += o->companions[i].ms * (o->companions[i].kind == VR_DRAFT ? GUESSES : 1.0 / 512);
    return ms;
}

static void assert_within(const struct stage *s, const struct vr_outcome *o)
{
    uint64_t host = sum(&o->verdict.host);
    for (size_t b = 0; b < s->budgets.n; b++) {
        uint64_t used = vr_outcome_companion_bytes(o, s->budgets.items[b].device);
        for (size_t i = 0; i < o->verdict.n_devices; i++)
            if (o->verdict.devices[i].device == s->budgets.items[b].device) used += sum(&o->verdict.devices[i].use);
        if (used > s->budgets.items[b].budget_bytes)
            fail_msg("%s: %llu of %llu bytes", s->machine.devices[s->budgets.items[b].device].id,
                     (unsigned long long)used, (unsigned long long)s->budgets.items[b].budget_bytes);
    }
    for (size_t i = 0; i < o->n_companions; i++) host += sum(&o->companions[i].host);
    assert_true(host <= s->machine.host.ram_free_bytes);
}

/* Every device and the host, by hand: none is better than the one that was chosen. */
static void test_best_of_all(void **state)
{
    (void)state;
    static const struct {
        const char *model, *draft, *rig;
        uint32_t n_ctx;
    } rows[] = { { "llama-3.3-70b", "llama-3.1-8b", "2x3090-2x3060", 8192 },
                 { "llama-3.3-70b", "llama-3.1-8b", "laptop-4080m-2x3090ti", 4096 },
                 { "qwen3-30b-a3b", "qwen3-30b-a3b", "8gpu-5090-4090-a40-a6000", 4096 },
                 { "llama-3.1-8b", "llama-3.1-8b", "3090-2060", 4096 } };
    for (size_t r = 0; r < VR_COUNT(rows); r += EACH) {
        struct vr_err err = { 0 };
        VR_AUTO(vr_model) m = open_model(fixture_path(rows[r].model));
        VR_AUTO(vr_model) draft = open_model(fixture_path(rows[r].draft));
        struct stage s;
        set_stage(&s, m, rows[r].rig, rows[r].n_ctx);
        s.ask.companions[VR_DRAFT] = draft;
        struct vr_goal wish = { 0 };
        VR_AUTO_OUTCOME o = { 0 };
        if (!vr_fit_plan(&s.ask, &wish, &o, &err)) fail_msg("%s", err.msg);
        assert_int_equal(o.n_companions, 1);
        assert_within(&s, &o);
        for (size_t i = 0; i <= s.budgets.n; i++) {
            /* the draft alone on one device, and the model with what that leaves */
            bool host = i == s.budgets.n;
            struct stage alone = s;
            alone.ask.companions[VR_DRAFT] = NULL;
            alone.ask.budgets = &alone.budgets;
            alone.ask.machine = &alone.machine;
            alone.ask.speeds = &alone.speeds;
            struct stage one = alone;
            alone.ask.spec = VR_SPEC_DRAFT;
            one.ask.model = draft;
            one.ask.budgets = &one.budgets;
            one.budgets.n = host ? 0 : 1;
            if (!host) one.budgets.items[0] = s.budgets.items[i];
            VR_AUTO_OUTCOME d = { 0 };
            if (!vr_fit_given(&one.ask, &(struct vr_given){ .n_gpu_layers = -1 }, &d, &err)) fail_msg("%s", err.msg);
            uint64_t need = host ? 0 : sum(&d.verdict.devices[0].use);
            if (!host && need > alone.budgets.items[i].budget_bytes) continue;
            if (!host) alone.budgets.items[i].budget_bytes -= need;
            alone.machine.host.ram_free_bytes -= sum(&d.verdict.host);
            VR_AUTO_OUTCOME rest = { 0 };
            if (!vr_fit_plan(&alone.ask, &wish, &rest, &err)) continue;
            double ms = rest.verdict.price.step_ms[VR_DECODE] + GUESSES * d.verdict.price.step_ms[VR_DECODE];
            if (ms < total_ms(&o) * 0.999)
                fail_msg("%s: %.2f ms with the draft on device %zu, %.2f as placed on %d", rows[r].rig, ms, i,
                         total_ms(&o), o.companions[0].device);
            if (!host && s.budgets.items[i].device == o.companions[0].device)
                assert_memory_equal(&o.companions[0].use, &d.verdict.devices[0].use, sizeof d.verdict.devices[0].use);
        }
    }
}

/* Both companions, less and less memory: it fits everywhere or is refused, and the refusal names what is too much. */
static void test_never_over(void **state)
{
    (void)state;
    VR_AUTO(vr_model) m = open_model(fixture_path("gemma-3-27b"));
    VR_AUTO(vr_model) vision = make_mmproj(scratch("vision.gguf"), 5376, 27, 1152, 4304);
    unsigned seed = 4;
    size_t fitted = 0, refused = 0;
    for (int round = 0; round < 14; round++) {
        struct vr_err err = { 0 };
        struct stage s;
        set_stage(&s, m, "laptop-4080m-2x3090ti", 2048u << (rand_r(&seed) % 4));
        for (size_t i = 0; i < s.budgets.n; i++)
            s.budgets.items[i].budget_bytes =
                s.budgets.items[i].budget_bytes * (uint64_t)(rand_r(&seed) % 100 + 1) / 100;
        if (rand_r(&seed) % 2) s.machine.host.ram_free_bytes = (uint64_t)(rand_r(&seed) % 24 + 1) << 30;
        s.ask.companions[VR_MMPROJ] = vision;
        if (rand_r(&seed) % 2) s.ask.companions[VR_DRAFT] = m; /* a large one: it has to yield */
        VR_AUTO_OUTCOME o = { 0 };
        if (vr_fit_plan(&s.ask, &(struct vr_goal){ 0 }, &o, &err)) {
            assert_within(&s, &o);
            assert_true(o.verdict.fits);
            fitted++;
        } else {
            if (err.code != VR_ENOFIT) fail_msg("%d %s", err.code, err.msg);
            refused++;
        }
    }
    assert_true(fitted > 2 && refused > 2);
}

/* Weights to the byte, and a graph that the engine itself has reserved. */
static void test_mmproj(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    VR_AUTO(vr_model) m = open_model(fixture_path("gemma-3-27b"));
    VR_AUTO(vr_model) vision = make_mmproj(scratch("vision.gguf"), 5376, 27, 1152, 4304);
    struct stage s;
    set_stage(&s, m, "3090-2060", 8192);
    s.ask.companions[VR_MMPROJ] = vision;
    VR_AUTO_OUTCOME o = { 0 };
    if (!vr_fit_plan(&s.ask, &(struct vr_goal){ 0 }, &o, &err)) fail_msg("%s", err.msg);
    assert_int_equal(o.companions[0].device, 0);
    uint64_t weights = 0;
    for (uint32_t i = 0; i < vision->n_tensors; i++) weights += vr_weight_gpu_bytes(&vision->tensors[i]);
    assert_int_equal(o.companions[0].use.model_bytes, weights);
    /* what the engine must hold at once at the very least: a picture of 64 x 64 patches before and after a layer's FFN
     */
    assert_true(o.companions[0].use.compute_bytes > UINT64_C(4) * 4096 * (4304 + 1152));
    assert_int_equal(o.reasons[o.n_reasons - 1].kind, VR_REASON_MMPROJ);
    assert_int_equal(o.reasons[o.n_reasons - 1].devices, 1);

    VR_AUTO(vr_model) other = make_mmproj(scratch("other.gguf"), 2560, 2, 1152, 4304);
    s.ask.companions[VR_MMPROJ] = other;
    VR_AUTO_OUTCOME none = { 0 };
    assert_false(vr_fit_plan(&s.ask, &(struct vr_goal){ 0 }, &none, &err));
    assert_non_null(strstr(err.msg, "have 2560 dimensions, those of Gemma 3 27b It Qat have 5376"));
}

static const struct vr_reason *find_reason(const struct vr_outcome *o, enum vr_reason_kind kind)
{
    for (size_t i = 0; i < o->n_reasons; i++)
        if (o->reasons[i].kind == kind) return &o->reasons[i];
    return NULL;
}

/* A card that holds an mmproj and no layers is not left out. */
static void test_companion_has_a_card(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    VR_AUTO(vr_model) m = open_model(fixture_path("gemma-3-27b"));
    VR_AUTO(vr_model) vision = make_mmproj(scratch("vision.gguf"), 5376, 27, 1152, 4304);
    struct stage s;
    set_stage(&s, m, "3090-2060", 8192);
    VR_AUTO_OUTCOME alone = { 0 }, o = { 0 };
    if (!vr_fit_plan(&s.ask, &(struct vr_goal){ 0 }, &alone, &err)) fail_msg("%s", err.msg);
    assert_non_null(find_reason(&alone, VR_REASON_NOT_NEEDED));
    assert_true(find_reason(&alone, VR_REASON_NOT_NEEDED)->figures[VR_FIGURE_COMPANION] == 0);
    s.budgets.items[0].budget_bytes = vr_use_bytes(&alone.verdict.devices[0].use) + (64 << 20); /* just the model */
    s.ask.companions[VR_MMPROJ] = vision;
    if (!vr_fit_plan(&s.ask, &(struct vr_goal){ 0 }, &o, &err)) fail_msg("%s", err.msg);
    assert_int_equal(o.companions[0].device, 1);
    const struct vr_reason *r = find_reason(&o, VR_REASON_NOT_NEEDED);
    assert_non_null(r);
    assert_int_equal(r->devices, 2);
    assert_true(r->figures[VR_FIGURE_COMPANION] == 1);
    assert_int_equal(find_reason(&o, VR_REASON_MMPROJ_NOT_FASTEST)->devices, 1);
}

static void test_refusal_and_flags(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    VR_AUTO(vr_model) m = open_model(fixture_path("llama-3.3-70b"));
    VR_AUTO(vr_model) draft = open_model(fixture_path("llama-3.1-8b"));
    struct stage s;
    set_stage(&s, m, "2x3090-2x3060", 8192);
    s.ask.companions[VR_DRAFT] = draft;
    s.budgets.n = 2; /* the two 3090s hold the model and no draft, and the host nothing */
    s.machine.host.ram_free_bytes = UINT64_C(2) << 30;
    VR_AUTO_OUTCOME none = { 0 };
    assert_false(vr_fit_plan(&s.ask, &(struct vr_goal){ 0 }, &none, &err));
    assert_int_equal(err.code, VR_ENOFIT);
    assert_non_null(strstr(err.msg, "not together with its draft model (Meta Llama 3.1 8B Instruct), which needs"));

    set_stage(&s, m, "2x3090-2x3060", 8192);
    s.ask.companions[VR_DRAFT] = draft;
    VR_AUTO_OUTCOME given = { 0 };
    double split[] = { 40, 41, 0, 0 }; /* the 3060s are left to the draft */
    struct vr_given g = { .n_gpu_layers = -1, .split = split, .n_split = 4 };
    if (!vr_fit_given(&s.ask, &g, &given, &err)) fail_msg("%s", err.msg);
    assert_true(given.verdict.fits);
    assert_within(&s, &given);
    assert_in_range(given.companions[0].device, 2, 3);
    VR_AUTO_BUF server = { 0 }, ik = { 0 };
    vr_outcome_flags(&given, VR_LLAMA_SERVER, &server);
    vr_outcome_flags(&given, VR_IK_LLAMA, &ik);
    assert_non_null(strstr(vr_buf_str(&server), "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf' -devd CUDA2 -ngld 999"));
    assert_non_null(strstr(vr_buf_str(&ik), "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf' -ngld 999"));
}

static int place_of(const struct vr_outcome *o, uint32_t layer)
{
    for (size_t i = 0; i < o->verdict.n_devices; i++) {
        const struct vr_judged *j = &o->verdict.devices[i];
        if (layer >= j->first_layer && layer < j->first_layer + j->n_layers) return j->device;
    }
    return -1;
}

/* What a head shares with the model is where the head is, on whichever of equal cards; no such plan beats a free one.
 */
static void test_anchor(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    VR_AUTO(vr_model) m = open_model(fixture_path("llama-3.3-70b"));
    struct stage s;
    set_stage(&s, m, "2x3090-2x3060", 4096);
    struct vr_goal wish = { 0 };
    VR_AUTO_OUTCOME best = { 0 };
    if (!vr_fit_plan(&s.ask, &wish, &best, &err)) fail_msg("%s", err.msg);
    uint32_t last = m->n_layers - 1;
    for (size_t i = 0; i < s.budgets.n; i++) {
        VR_AUTO_OUTCOME o = { 0 };
        wish.fixed.anchor = (struct vr_anchor){ { last - 1, last }, 2, s.budgets.items[i].device };
        if (!vr_fit_plan(&s.ask, &wish, &o, &err)) fail_msg("%s", err.msg);
        assert_int_equal(place_of(&o, last - 1), s.budgets.items[i].device);
        assert_int_equal(place_of(&o, last), s.budgets.items[i].device);
        assert_true(o.verdict.cost[o.optimize] >= best.lower_bound * (1 - 1e-9));
        assert_within(&s, &o);
    }
    /* and nowhere where the user wants something else */
    VR_AUTO_OUTCOME none = { 0 };
    wish.fixed.has_gpu_layers = true, wish.fixed.n_gpu_layers = 1;
    assert_false(vr_fit_plan(&s.ask, &wish, &none, &err));
    assert_int_equal(err.code, VR_ENOFIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_best_of_all),
                                        cmocka_unit_test(test_never_over),
                                        cmocka_unit_test(test_mmproj),
                                        cmocka_unit_test(test_companion_has_a_card),
                                        cmocka_unit_test(test_refusal_and_flags),
                                        cmocka_unit_test(test_anchor) };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
