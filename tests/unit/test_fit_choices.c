/* Choices beside the placement: what they cost token generation, what they bring prompts, that estimates agree with dry
 * runs, that what is fixed stays fixed, and that no batch needs more than was planned for. */
#include "test.h"

#include <math.h>

#include "base/text.h"
#include "fit/choices.h"
#include "fit_stage.h"

static const char *const rigs[] = {
    "10x3090-x8-x4",        "2x3090-2x3060", "3060-12g-64g-ram", "3090-2060", "8gpu-5090-4090-a40-a6000",
    "laptop-4080m-2x3090ti"
};
static const struct vr_open everything = { .n_ubatch = true, .host_weights = true, .offload_min = true };

static void on_rig(struct stage *s, const char *model, const char *rig, uint32_t n_ctx)
{
    stage_rig(s, rig);
    stage_model(s, model);
    stage_ask(s, s->model, NULL, n_ctx);
}

static void on_cards(struct stage *s, const char *model, const char *cards, uint32_t n_ctx)
{
    stage_cards(s, cards, UINT64_C(60) << 30);
    stage_model(s, model);
    stage_ask(s, s->model, NULL, n_ctx);
}

static const struct vr_reason *reason(const struct vr_outcome *o, enum vr_reason_kind kind)
{
    for (size_t i = 0; i < o->n_reasons; i++)
        if (o->reasons[i].kind == kind) return &o->reasons[i];
    return NULL;
}

/* Who asks for fast prompts gets none that are slower than those who do not, whatever micro-batch each is given. */
static void test_goal_for_prompts(void **state)
{
    (void)state;
    static const char *const models[] = { "qwen3-30b-a3b", "llama-3.1-8b", "gpt-oss-120b", "gemma-3-27b" };
    static const char *const on[] = { "2x3090-2x3060", "3090-2060", "RTX 4090,RTX 3090", "2x RTX 5060 Ti 16GB",
                                      "RTX 3090" };
    for (size_t i = 0; i < VR_COUNT(models) * VR_COUNT(on); i += EACH / 3 + 1) {
        struct stage s;
        double cost[VR_N_GOALS] = { 0 };
        struct vr_err err = { 0 };
        (strstr(on[i % VR_COUNT(on)], "RTX") ? on_cards : on_rig)(&s, models[i / VR_COUNT(on)], on[i % VR_COUNT(on)],
                                                                  8192);
        for (enum vr_optimize g = 0; g < VR_N_GOALS; g++) {
            VR_AUTO_OUTCOME o = { 0 };
            if (!vr_fit_choose(&s.ask, &(struct vr_goal){ .optimize = g }, &everything, &o, &err)) break;
            cost[g] = o.verdict.cost[VR_OPTIMIZE_PREFILL];
        }
        vr_model_free(s.model);
        if (cost[VR_OPTIMIZE_PREFILL] > cost[VR_OPTIMIZE_DECODE] * 1.0001)
            fail_msg("%s on %s: %g ms per token of prompt, %g with --optimize decode", models[i / VR_COUNT(on)],
                     on[i % VR_COUNT(on)], cost[VR_OPTIMIZE_PREFILL], cost[VR_OPTIMIZE_DECODE]);
    }
}

/* Every fixture on every rig: within 1 % of the fastest, no more devices, and prompts no slower where the devices are
 * the same. Whatever differs from the first plan has its reason. */
static void test_all_rigs(void **state)
{
    (void)state;
    unsigned planned = 0, wider = 0, pinned = 0, threshold = 0;
    for (size_t i = 0; i < VR_COUNT(fixture_names) * VR_COUNT(rigs); i++) {
        const char *model = fixture_names[i / VR_COUNT(rigs)], *rig = rigs[i % VR_COUNT(rigs)];
        struct stage s;
        VR_AUTO_OUTCOME first = { 0 }, o = { 0 };
        struct vr_err err = { 0 };
        if (strcmp(model, "kimi-k2.5") == 0 && strncmp(rig, "8gpu", 4) != 0) continue; /* it takes seconds */
        if (i % EACH) continue;
        on_rig(&s, model, rig, 4096);
        bool fits = vr_fit_plan(&s.ask, &(struct vr_goal){ 0 }, &first, &err);
        if (fits != vr_fit_choose(&s.ask, &(struct vr_goal){ 0 }, &everything, &o, &err)) fail_msg("%s", err.msg);
        vr_model_free(s.model);
        if (!fits) continue;
        double was = first.verdict.price.step_ms[VR_DECODE], is = o.verdict.price.step_ms[VR_DECODE];
        double prompt = o.verdict.price.prefill_tok_s / first.verdict.price.prefill_tok_s;
        planned++;
        wider += o.trial.context.n_ubatch > 512;
        pinned += !o.trial.mmap;
        threshold += o.trial.offload_min != VR_OFFLOAD_MIN;
        print_message("%s on %s: micro-batch %u, %s, offload from %u; generation %+.1f %%, prompts x %.2f\n", model,
                      rig, o.trial.context.n_ubatch, o.trial.mmap ? "mapped" : "pinned", o.trial.offload_min,
                      100 * (is / was - 1), prompt);
        if (!o.verdict.fits || is > was * 1.0101) fail_msg("%s on %s: %.3f ms instead of %.3f", model, rig, is, was);
        assert_true(o.verdict.n_devices <= first.verdict.n_devices);
        if (o.verdict.n_devices == first.verdict.n_devices && prompt < 0.999)
            fail_msg("%s on %s: prompts became slower, %.3f", model, rig, prompt);
        assert_int_equal(o.trial.context.n_ubatch > 512, reason(&o, VR_REASON_MICRO_BATCH) != NULL);
        assert_int_equal(!o.trial.mmap, reason(&o, VR_REASON_PINNED) != NULL);
        assert_int_equal(o.trial.offload_min != VR_OFFLOAD_MIN,
                         reason(&o, VR_REASON_OFFLOAD_FROM) || reason(&o, VR_REASON_HOST_PROMPTS));
        assert_true(o.trial.context.n_batch >= o.trial.context.n_ubatch);
    }
    print_message("%u planned: %u with wider micro-batches, %u pinned, %u with another threshold\n", planned, wider,
                  pinned, threshold);
    assert_true(planned > 40 / EACH);
    if (EACH == 1) assert_true(wider > 5 && pinned > 5 && threshold > 3);
}

/* Where several devices are used anyway, nobody gets much faster prompts for nothing by asking for another goal. */
static void test_prompts_for_nothing(void **state)
{
    (void)state;
    static const char *const cards[] = { "2x RTX 5060 Ti 16GB", "3x RTX 3090", "RTX 4090, RTX 3090",
                                         "RTX 5090, 2x RTX 3090", "4x RTX 3060 12GB" };
    static const char *const models[] = { "qwen3-30b-a3b", "gpt-oss-120b", "devstral-small-24b", "llama-3.3-70b" };
    unsigned compared = 0;
    for (size_t i = 0; i < VR_COUNT(cards) * VR_COUNT(models); i += EACH) {
        const char *model = models[i % VR_COUNT(models)], *set = cards[i / VR_COUNT(models)];
        struct stage s;
        VR_AUTO_OUTCOME o = { 0 };
        struct vr_err err = { 0 };
        on_cards(&s, model, set, 8192);
        if (!vr_fit_choose(&s.ask, &(struct vr_goal){ 0 }, &everything, &o, &err)) fail_msg("%s", err.msg);
        for (enum vr_optimize goal = VR_OPTIMIZE_PREFILL; goal <= VR_OPTIMIZE_BALANCED; goal++) {
            VR_AUTO_OUTCOME other = { 0 };
            struct vr_err why = { 0 };
            if (!vr_fit_choose(&s.ask, &(struct vr_goal){ .optimize = goal }, &everything, &other, &why))
                fail_msg("%s", why.msg);
            const struct vr_price *ours = &o.verdict.price, *theirs = &other.verdict.price;
            compared++;
            if (other.verdict.n_devices > o.verdict.n_devices || theirs->step_ms[VR_DECODE] > ours->step_ms[VR_DECODE])
                continue;
            if (theirs->prefill_tok_s > ours->prefill_tok_s * 1.1)
                fail_msg("%s on %s: %.0f tokens/s of prompt, and %.0f for nothing", model, set, ours->prefill_tok_s,
                         theirs->prefill_tok_s);
        }
        vr_model_free(s.model);
    }
    assert_true(compared >= 4);
}

/* Nothing that was fixed is chosen: not by itself, and not because something else is left open. */
static void test_fixed(void **state)
{
    (void)state;
    static const struct vr_open rows[] = { { 0 },
                                           { .n_ubatch = true },
                                           { .n_ubatch = true, .most_ubatch = 1024 },
                                           { .host_weights = true },
                                           { .offload_min = true } };
    struct stage s;
    on_rig(&s, "qwen3-30b-a3b", "3060-12g-64g-ram", 4096);
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        VR_AUTO_OUTCOME o = { 0 };
        struct vr_err err = { 0 };
        if (!vr_fit_choose(&s.ask, &(struct vr_goal){ 0 }, &rows[i], &o, &err)) fail_msg("%s", err.msg);
        uint32_t most = !rows[i].n_ubatch ? 512 : rows[i].most_ubatch ? rows[i].most_ubatch : 2048;
        assert_in_range(o.trial.context.n_ubatch, rows[i].n_ubatch ? 1024 : 512, most);
        assert_int_equal(o.trial.mmap, !rows[i].host_weights);
        assert_int_equal(o.trial.offload_min != VR_OFFLOAD_MIN, rows[i].offload_min);
    }
    /* the engine's own, because the user says so */
    VR_AUTO_OUTCOME o = { 0 };
    struct vr_err err = { 0 };
    s.ask.offload_min = 100;
    s.ask.context.n_batch = s.ask.context.n_ubatch = 256;
    if (!vr_fit_choose(&s.ask, &(struct vr_goal){ 0 }, &rows[0], &o, &err)) fail_msg("%s", err.msg);
    assert_int_equal(o.trial.offload_min, 100);
    assert_int_equal(o.trial.context.n_ubatch, 256);
    vr_model_free(s.model);
}

/* Pinned memory must leave the host something. */
static void test_pinned_needs_room(void **state)
{
    (void)state;
    struct stage s;
    VR_AUTO_OUTCOME o = { 0 };
    struct vr_err err = { 0 };
    on_rig(&s, "qwen3-30b-a3b", "3060-12g-64g-ram", 4096);
    s.machine.host.ram_free_bytes = UINT64_C(7900) << 20;
    const struct vr_open not_batches = { .host_weights = true, .offload_min = true }; /* wide ones gain less by it */
    if (!vr_fit_choose(&s.ask, &(struct vr_goal){ 0 }, &not_batches, &o, &err)) fail_msg("%s", err.msg);
    assert_true(o.trial.mmap);
    assert_non_null(reason(&o, VR_REASON_NOT_PINNED));
    assert_null(reason(&o, VR_REASON_NO_MMAP_FASTER));
    vr_model_free(s.model);
}

/* A placement with these settings, by a dry run. */
static void judge(const struct stage *s, const char *overrides, int layers, uint32_t n_ubatch, bool pinned,
                  uint32_t offload_min, struct vr_outcome *out)
{
    struct vr_err err = { 0 };
    struct vr_fit_ask ask = s->ask;
    struct vr_speeds speeds = s->speeds;
    if (pinned) vr_speeds_pin(&speeds);
    ask.speeds = &speeds;
    ask.context.n_batch = ask.context.n_ubatch = n_ubatch;
    ask.offload_min = offload_min;
    if (!vr_fit_given(&ask, &(struct vr_given){ .n_gpu_layers = layers, .overrides = overrides }, out, &err))
        fail_msg("%s", err.msg);
}

static const struct {
    const char *model, *overrides;
    int layers;
} placements[] = { { "qwen3-30b-a3b", "ffn_(up|down|gate)_exps=CPU", -1 }, { "llama-3.1-8b", NULL, 13 } };

/* What is told from the graph of 512 tokens is what dry runs of the other settings say. */
static void test_ways(void **state)
{
    (void)state;
    for (size_t p = 0; p < VR_COUNT(placements); p++) {
        struct stage s;
        on_rig(&s, placements[p].model, "3060-12g-64g-ram", 8192);
        VR_AUTO_OUTCOME first = { 0 };
        judge(&s, placements[p].overrides, placements[p].layers, 512, false, 0, &first);
        const struct vr_ways *w = &first.verdict.ways;
        assert_int_equal(w->n_ubatch, 512);
        assert_true(w->pays[VR_PINNED] && w->pays[VR_PINNED] <= w->pays[VR_MAPPED]);
        for (unsigned k = 0; k < 12; k++) {
            bool pinned = k / VR_N_WIDER == 1, host = k / VR_N_WIDER == 2;
            unsigned wider = k % VR_N_WIDER;
            VR_AUTO_OUTCOME o = { 0 };
            judge(&s, placements[p].overrides, placements[p].layers, 512u << wider, pinned, host ? 1 << 20 : 0, &o);
            double told = host ? w->host_tok_s[wider] : w->sent_tok_s[pinned][wider];
            double is = o.verdict.price.prefill_tok_s;
            print_message("%s, %u, %s: %.1f tok/s told, %.1f by a dry run\n", placements[p].model, 512u << wider,
                          host     ? "host"
                          : pinned ? "pinned"
                                   : "mapped",
                          told, is);
            if (fabs(told / is - 1) > 0.15) fail_msg("%.1f tok/s told, %.1f by a dry run", told, is);
        }
        vr_model_free(s.model);
    }
}

/* Sending pays from the batch on that is told: half of it is faster on the host, twice as many are not. */
static void test_threshold(void **state)
{
    (void)state;
    for (size_t p = 0; p < VR_COUNT(placements); p++)
        for (unsigned pinned = 0; pinned < 2; pinned++) {
            struct stage s;
            on_rig(&s, placements[p].model, "3060-12g-64g-ram", 8192);
            VR_AUTO_OUTCOME first = { 0 };
            judge(&s, placements[p].overrides, placements[p].layers, 512, false, 0, &first);
            uint32_t pays = first.verdict.ways.pays[pinned];
            print_message("%s, %s: from %u tokens on\n", placements[p].model, pinned ? "pinned" : "mapped", pays);
            for (unsigned twice = 0; twice < 2; twice++) {
                VR_AUTO_OUTCOME sent = { 0 }, host = { 0 };
                uint32_t tokens = twice ? pays * 2 : pays / 4;
                if (tokens < 2) continue;
                judge(&s, placements[p].overrides, placements[p].layers, tokens, pinned, 2, &sent);
                judge(&s, placements[p].overrides, placements[p].layers, tokens, pinned, 1 << 20, &host);
                bool faster = sent.verdict.price.prefill_tok_s > host.verdict.price.prefill_tok_s;
                if (faster != twice)
                    fail_msg("%u tokens: %.1f tok/s sent, %.1f on the host", tokens, sent.verdict.price.prefill_tok_s,
                             host.verdict.price.prefill_tok_s);
            }
            vr_model_free(s.model);
        }
}

/* A batch below the threshold runs another graph than the one that is reserved: on devices it needs no more. */
static void test_small_batches_fit(void **state)
{
    (void)state;
    static const char *const models[] = { "qwen3-30b-a3b", "gpt-oss-120b", "llama-3.3-70b", "gemma-3-27b" };
    unsigned compared = 0;
    for (size_t i = 0; i < VR_COUNT(models); i += EACH) {
        struct stage s;
        VR_AUTO_OUTCOME o = { 0 };
        struct vr_err err = { 0 };
        on_rig(&s, models[i], "3060-12g-64g-ram", 4096);
        s.machine.host.ram_free_bytes = UINT64_C(200) << 30;
        if (!vr_fit_choose(&s.ask, &(struct vr_goal){ 0 }, &everything, &o, &err)) fail_msg("%s", err.msg);
        uint32_t n_ubatch = o.trial.context.n_ubatch;
        for (uint32_t tokens = 2; tokens <= n_ubatch; tokens *= 2) {
            struct vr_trial t = { .load = o.trial, .timeout_ms = 20000 };
            struct vr_proof proof = { 0 };
            t.load.context.n_batch = t.load.context.n_ubatch = tokens - 1;
            t.load.n_outputs = 0;
            if (!vr_probe(prober(models[i]), &t, &proof, &err)) fail_msg("%s", err.msg);
            if (proof.devices[0].compute_bytes > o.verdict.devices[0].use.compute_bytes)
                fail_msg("%s: %u tokens take %lu bytes, %lu were planned", models[i], tokens - 1,
                         proof.devices[0].compute_bytes, o.verdict.devices[0].use.compute_bytes);
            vr_proof_done(&proof);
            compared++;
        }
        vr_model_free(s.model);
    }
    assert_true(compared > 30 / EACH);
}

/* Devices that token generation hardly gains from stay free, and the reason says by how much. */
static void test_fewest_devices(void **state)
{
    (void)state;
    unsigned fewer = 0;
    for (uint32_t n_ctx = 4096; n_ctx <= 24576; n_ctx += 2048) {
        struct stage s;
        VR_AUTO_OUTCOME first = { 0 }, o = { 0 };
        struct vr_err err = { 0 };
        on_cards(&s, "llama-3.3-70b", "RTX 3090, 2x Tesla P40", n_ctx);
        if (!vr_fit_plan(&s.ask, &(struct vr_goal){ 0 }, &first, &err) ||
            !vr_fit_choose(&s.ask, &(struct vr_goal){ 0 }, &everything, &o, &err))
            fail_msg("%s", err.msg);
        const struct vr_reason *r = reason(&o, VR_REASON_SPARED);
        print_message("%u tokens: %zu devices instead of %zu\n", n_ctx, o.verdict.n_devices, first.verdict.n_devices);
        assert_int_equal(o.verdict.n_devices < first.verdict.n_devices, r != NULL);
        if (r) assert_true(r->figures[VR_FIGURE_SLOWER_PERCENT] <= 1.01);
        fewer += r != NULL;
        vr_model_free(s.model);
    }
    assert_true(fewer > 0);
}

/* For the other goals: the cost of the goal, and nothing else, decides. */
static void test_goals(void **state)
{
    (void)state;
    for (enum vr_optimize goal = VR_OPTIMIZE_PREFILL; goal < VR_N_GOALS; goal++) {
        struct stage s;
        VR_AUTO_OUTCOME first = { 0 }, o = { 0 };
        struct vr_err err = { 0 };
        on_rig(&s, "qwen3-30b-a3b", "3060-12g-64g-ram", 4096);
        const struct vr_goal w = { .optimize = goal };
        if (!vr_fit_plan(&s.ask, &w, &first, &err) || !vr_fit_choose(&s.ask, &w, &everything, &o, &err))
            fail_msg("%s", err.msg);
        print_message("goal %d: %.3f of the cost\n", goal, o.verdict.cost[goal] / first.verdict.cost[goal]);
        assert_true(o.verdict.cost[goal] < 0.9 * first.verdict.cost[goal]);
        assert_int_equal(o.trial.context.n_ubatch, 2048);
        vr_model_free(s.model);
    }
}

/* With companions, and for the largest context, which stays what it is. */
static void test_together(void **state)
{
    (void)state;
    struct stage s, draft;
    VR_AUTO_OUTCOME o = { 0 }, largest = { 0 }, alone = { 0 };
    struct vr_err err = { 0 };
    on_rig(&s, "gemma-3-27b", "3060-12g-64g-ram", 4096);
    on_rig(&draft, "llama-3.1-8b", "3060-12g-64g-ram", 4096);
    s.ask.companions[VR_DRAFT] = draft.model;
    if (!vr_fit_choose(&s.ask, &(struct vr_goal){ 0 }, &everything, &o, &err)) fail_msg("%s", err.msg);
    assert_int_equal(o.n_companions, 1);
    assert_false(o.trial.mmap);
    s.ask.companions[VR_DRAFT] = NULL;
    s.ask.context.n_ctx = 0;
    if (!vr_fit_largest(&s.ask, &(struct vr_goal){ 0 }, &alone, &err) ||
        !vr_fit_choose(&s.ask, &(struct vr_goal){ 0 }, &everything, &largest, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(largest.verdict.n_ctx, alone.verdict.n_ctx);
    assert_int_equal(largest.trial.context.n_ctx, alone.verdict.n_ctx);
    assert_int_equal(largest.reasons[0].kind, alone.reasons[0].kind);
    vr_model_free(s.model);
    vr_model_free(draft.model);
}

/* A plan that cannot be as fast as it would have to be is not proven first: one card instead of two, for a model that
 * is mostly on the host. */
static void test_hopeless_plans_take_no_dry_run(void **state)
{
    (void)state;
    struct stage s;
    on_cards(&s, "gpt-oss-120b", "2x RTX 5060 Ti 16GB", 4096);
    s.machine.host.ram_free_bytes = UINT64_C(128) << 30;
    s.budgets.items[0].budget_bytes = s.budgets.items[1].budget_bytes;
    VR_AUTO(vr_lessons) lessons = vr_lessons_new();
    struct vr_goal goal = { .splits = VR_SPLITS_LAYER, .lessons = lessons };
    VR_AUTO_OUTCOME two = { 0 }, none = { 0 }, one = { 0 };
    struct vr_err err = { 0 };
    assert_non_null(lessons);
    if (!vr_fit_plan(&s.ask, &goal, &two, &err)) fail_msg("%s", err.msg);
    double best = two.verdict.cost[VR_OPTIMIZE_DECODE];
    s.budgets.items[1].budget_bytes = 0;
    goal.worth = best;
    assert_false(vr_fit_plan(&s.ask, &goal, &none, &err));
    assert_int_equal(err.code, VR_ENOFIT);
    assert_int_equal(none.dry_runs, 0);
    goal.worth = 2 * best;
    err = (struct vr_err){ 0 };
    if (!vr_fit_plan(&s.ask, &goal, &one, &err)) fail_msg("%s", err.msg);
    assert_true(one.dry_runs > 0 && one.verdict.fits && one.verdict.cost[VR_OPTIMIZE_DECODE] > best);
    vr_model_free(s.model);
}

/* A split with experts on the host is not planned anew for a wider micro-batch that would send one more layer's there:
 * a narrower one is tried as it is. */
static void test_splits_keep_their_experts(void **state)
{
    (void)state;
    struct stage s;
    on_cards(&s, "gpt-oss-120b", "4x RTX 5060 Ti 16GB", 4096);
    struct vr_goal goal = { .splits = VR_SPLITS_ALL };
    VR_AUTO_OUTCOME first = { 0 }, o = { 0 };
    struct vr_err err = { 0 };
    if (!vr_fit_plan(&s.ask, &goal, &first, &err)) fail_msg("%s", err.msg);
    if (!vr_fit_choose(&s.ask, &goal, &everything, &o, &err)) fail_msg("%s", err.msg);
    assert_true(o.trial.split_mode == VR_SPLIT_TENSOR && o.verdict.fits);
    assert_int_equal(o.trial.context.n_ubatch, 1024); /* 2,048 do not fit */
    assert_int_equal(o.dry_runs, first.dry_runs + 2);
    assert_int_equal(o.verdict.host.model_bytes, first.verdict.host.model_bytes);
    vr_model_free(s.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goal_for_prompts),
        cmocka_unit_test(test_all_rigs),
        cmocka_unit_test(test_prompts_for_nothing),
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_pinned_needs_room),
        cmocka_unit_test(test_ways),
        cmocka_unit_test(test_threshold),
        cmocka_unit_test(test_small_batches_fit),
        cmocka_unit_test(test_fewest_devices),
        cmocka_unit_test(test_goals),
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_hopeless_plans_take_no_dry_run),
        cmocka_unit_test(test_splits_keep_their_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
