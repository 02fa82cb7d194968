/* Split mode tensor as the planner's choice: what one dry run shows foretells others, slices are cut as the engine cuts
 * them, plans are never slower for having the choice and never over a budget, and what the engine refuses stays in
 * layers. */
#include "test.h"

#include <math.h>
#include <regex.h>

#include "base/text.h"
#include "fit_stage.h"
#include "plan/tensor.h"

/* `cards` is a list as for --gpus, with a host of 64 GiB. */
static void set_stage(struct stage *s, const char *model, const char *cards, uint32_t n_ctx)
{
    stage_cards(s, cards, UINT64_C(64) << 30);
    stage_model(s, model);
    stage_ask(s, s->model, NULL, n_ctx);
}

static void done(struct stage *s) { vr_model_free(s->model); }

static size_t pick(unsigned *seed, size_t n) { return (size_t)rand_r(seed) % n; }

/* One dry run of a split; `stages`, when not NULL, are what it shows. */
static struct vr_verdict dry_run(const struct stage *s, const struct vr_spread *x, struct vr_stages *stages)
{
    struct vr_err err = { 0 };
    struct vr_vgpu_spec specs[VR_MAX_VGPUS];
    struct vr_load_params t = vr_fit_params(&s->ask);
    if (!vr_judge_devices(&s->machine, &s->budgets, specs, &err)) fail_msg("%s", err.msg);
    t.devices = specs;
    t.split_mode = VR_SPLIT_TENSOR;
    t.has_split = true;
    for (size_t i = 0; i < x->n; i++) {
        t.order[t.n_order++] = x->who[i];
        t.split[i] = (float)x->share[i];
    }
    struct vr_prober p;
    struct vr_verdict v;
    if (!vr_prober_open(s->model, &p, &err)) fail_msg("%s", err.msg);
    struct vr_judge_setup setup = { .prober = &p,
                                    .model = s->model,
                                    .machine = &s->machine,
                                    .budgets = &s->budgets,
                                    .speeds = &s->speeds,
                                    .fill = 0.5,
                                    .stages = stages };
    if (!vr_judge(&setup, &t, &v, &err)) fail_msg("%s", err.msg);
    vr_prober_close(&p);
    return v;
}

static struct vr_spread_ask question(const struct stage *s, const struct vr_stages *stages, enum vr_phase phase)
{
    struct vr_spread_ask a = { .stages = stages, .speeds = &s->speeds, .n = s->budgets.n, .slice_bytes = 1 };
    a.weight[phase] = 1;
    for (size_t i = 0; i < a.n; i++) a.devices[i].device = s->budgets.items[i].device;
    return a;
}

/* What the split would take beside what the stages tell, which is the same for all. */
static double foretell(const struct stage *s, const struct vr_stages *stages, enum vr_phase phase,
                       const struct vr_spread *x)
{
    struct vr_err err = { 0 };
    struct vr_spread_ask a = question(s, stages, phase);
    struct vr_spread now = *x;
    if (!vr_spread_price(&a, &now, &err)) fail_msg("%s", err.msg);
    return now.cost;
}

static struct vr_spread random_split(unsigned *seed, size_t n_devices)
{
    struct vr_spread x = { 0 };
    for (size_t i = 0; i < n_devices; i++) {
        if (x.n + n_devices - i > 2 && pick(seed, 3) == 0) continue;
        x.who[x.n] = (uint8_t)i;
        x.share[x.n++] = 1 + (uint32_t)pick(seed, 8);
    }
    return x;
}

/* The price of a split, foretold from the stages that another one showed. */
static void test_one_dry_run_foretells_others(void **state)
{
    (void)state;
    static const char *const models[] = { "llama-3.1-8b", "gemma-3-27b", "qwen3-30b-a3b", "gpt-oss-120b" };
    unsigned seed = 3;
    double most[VR_N_PHASES] = { 0 };
    for (size_t m = 0; m < VR_COUNT(models); m += EACH) {
        struct stage s;
        set_stage(&s, models[m], "RTX 3090:200000,RTX 3060 12GB:200000,RTX 4090:200000", 8192);
        struct vr_stages stages = { 0 }, again = { 0 };
        struct vr_spread first = { .who = { 0, 2 }, .share = { 1, 1 }, .n = 2 };
        struct vr_verdict v = dry_run(&s, &first, &stages);
        for (unsigned i = 0; i < 3; i++) {
            struct vr_spread x = random_split(&seed, 3);
            struct vr_verdict w = dry_run(&s, &x, &again);
            for (enum vr_phase p = 0; p < VR_N_PHASES; p++) {
                double told = foretell(&s, &stages, p, &x) + v.price.step_ms[p] - foretell(&s, &stages, p, &first);
                double off = fabs(told / w.price.step_ms[p] - 1);
                most[p] = fmax(most[p], off);
                if (off > 0.03)
                    fail_msg("%s, %zu devices, %s: %.2f ms told, %.2f are", models[m], x.n, p ? "prompt" : "token",
                             told, w.price.step_ms[p]);
            }
        }
        vr_stages_done(&stages);
        vr_stages_done(&again);
        done(&s);
    }
    print_message("off by at most %.2f %% per token, %.2f %% per micro-batch\n", 100 * most[0], 100 * most[1]);
}

/* KV heads of each device, layer by layer, with the engine's rotation. */
static void test_heads_are_cut_as_the_engine_does(void **state)
{
    (void)state;
    unsigned seed = 8;
    struct stage s;
    set_stage(&s, "llama-3.3-70b", "5x RTX 3090:200000", 4096);
    for (unsigned i = 0; i < 6; i += EACH) {
        struct vr_spread x = random_split(&seed, 5);
        struct vr_verdict v = dry_run(&s, &x, NULL);
        double heads[VR_MAX_PLACED] = { 0 }, slice[VR_MAX_PLACED];
        uint64_t all = 0;
        for (uint32_t l = 0; l < s.model->n_layers; l++) {
            vr_spread_cut(8, x.share, x.n, l % x.n, slice);
            for (size_t d = 0; d < x.n; d++) heads[d] += slice[d] / s.model->n_layers;
        }
        for (size_t d = 0; d < x.n; d++) all += v.devices[d].use.context_bytes;
        for (size_t d = 0; d < x.n; d++)
            if (fabs(heads[d] * (double)all - (double)v.devices[d].use.context_bytes) > 4096)
                fail_msg("case %u, device %zu: %.3f of the heads foretold", i, d, heads[d]);
    }
    done(&s);
}

static const struct vr_reason *reason_of(const struct vr_outcome *o, enum vr_reason_kind kind)
{
    for (size_t i = 0; i < o->n_reasons; i++)
        if (o->reasons[i].kind == kind) return &o->reasons[i];
    return NULL;
}

static bool plan(const struct stage *s, enum vr_splits splits, enum vr_optimize goal, struct vr_outcome *out,
                 struct vr_err *err)
{
    return vr_fit_plan(&s->ask, &(struct vr_goal){ .optimize = goal, .splits = splits }, out, err);
}

/* Random cards, contexts and goals: with every split to choose from, a plan costs no more, and fits. */
static void test_never_slower_never_over(void **state)
{
    (void)state;
    static const char *const models[] = { "llama-3.1-8b", "devstral-small-24b", "gemma-3-27b", "qwen3-30b-a3b",
                                          "llama-3.3-70b" };
    static const char *const cards[] = { "RTX 3090", "RTX 4090", "RTX 3060 12GB", "RTX 5060 Ti 16GB", "RTX 5090" };
    static const uint32_t contexts[] = { 2048, 8192, 32768 };
    const char *many = getenv("VR_RANDOM_PLANS"), *other = getenv("VR_RANDOM_SEED");
    unsigned seed = other ? (unsigned)atoi(other) : 21,
             n = many        ? (unsigned)atoi(many)
                 : EACH == 1 ? 12
                             : 2,
             spread = 0, planned = 0;
    for (unsigned i = 0; i < n; i++) {
        char list[256] = "";
        for (size_t k = 0, kinds = 1 + pick(&seed, 2); k < kinds; k++)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%zux %s", k ? "," : "", 1 + pick(&seed, 3),
                     cards[pick(&seed, VR_COUNT(cards))]);
        struct stage s;
        set_stage(&s, models[pick(&seed, VR_COUNT(models))], list, contexts[pick(&seed, VR_COUNT(contexts))]);
        enum vr_optimize goal = (enum vr_optimize)pick(&seed, VR_N_GOALS);
        for (size_t d = 0; d < s.budgets.n; d++) /* others are at work on some cards */
            s.budgets.items[d].budget_bytes -= s.budgets.items[d].budget_bytes / 100 * pick(&seed, 40);
        VR_AUTO_OUTCOME layers = { 0 }, all = { 0 };
        struct vr_err err = { 0 };
        bool fits = plan(&s, VR_SPLITS_LAYER, goal, &layers, &err);
        if (plan(&s, VR_SPLITS_ALL, goal, &all, &err) != fits) fail_msg("case %u, %s: %s", i, list, err.msg);
        if (fits) {
            planned++;
            spread += all.trial.split_mode == VR_SPLIT_TENSOR;
            assert_true(all.verdict.fits && all.lower_bound <= all.verdict.cost[goal] * (1 + 1e-9));
            if (all.verdict.cost[goal] > layers.verdict.cost[goal] * (1 + 1e-9))
                fail_msg("case %u: %s on %s: slower than layers", i, s.model->name, list);
            bool split = reason_of(&all, VR_REASON_SPLIT_TENSOR);
            assert_true(split == (all.trial.split_mode == VR_SPLIT_TENSOR));
        }
        done(&s);
    }
    print_message("%u of %u were planned, %u in split mode tensor\n", planned, n, spread);
    assert_true(planned > n / 2 && spread > 0);
}

/* What the engine cannot do in this mode stays in layers, unless it must be split. */
static void test_refused(void **state)
{
    (void)state;
    struct stage s;
    set_stage(&s, "falcon-mamba-7b", "2x RTX 3060 12GB", 4096);
    VR_AUTO_OUTCOME o = { 0 }, no = { 0 };
    struct vr_err err = { 0 };
    if (!plan(&s, VR_SPLITS_ALL, VR_OPTIMIZE_DECODE, &o, &err)) fail_msg("%s", err.msg);
    assert_true(o.trial.split_mode == VR_SPLIT_LAYER && reason_of(&o, VR_REASON_TENSOR_REFUSED));
    assert_false(plan(&s, VR_SPLITS_TENSOR, VR_OPTIMIZE_DECODE, &no, &err));
    assert_int_equal(err.code, VR_ESPLIT);
    done(&s);
}

/* Two equal cards get equal parts, which is proven; a slower third one no more than it is worth. */
static void test_shares(void **state)
{
    (void)state;
    struct stage s;
    set_stage(&s, "devstral-small-24b", "2x RTX 3090", 8192);
    VR_AUTO_OUTCOME two = { 0 }, mixed = { 0 };
    struct vr_err err = { 0 };
    if (!plan(&s, VR_SPLITS_ALL, VR_OPTIMIZE_DECODE, &two, &err)) fail_msg("%s", err.msg);
    assert_true(two.trial.split_mode == VR_SPLIT_TENSOR && two.optimal && two.verdict.n_devices == 2);
    assert_true(two.trial.split[0] == two.trial.split[1]);
    const struct vr_reason *r = reason_of(&two, VR_REASON_SPLIT_TENSOR);
    assert_true(r->devices == 3 && r->figures[VR_FIGURE_TOK_S] > 1.2 * r->figures[VR_FIGURE_OTHER_TOK_S]);
    done(&s);
    set_stage(&s, "devstral-small-24b", "RTX 4090,RTX 3090", 8192);
    if (!plan(&s, VR_SPLITS_TENSOR, VR_OPTIMIZE_DECODE, &mixed, &err)) fail_msg("%s", err.msg);
    double share = mixed.verdict.devices[0].share; /* by speed: 1,008 and 936 GB/s */
    assert_true(mixed.verdict.n_devices == 2 && share > 0.5 && share < 0.54);
    done(&s);
}

/* Experts that find no room stay on the host, as few as can be: of the last layers, or those that the user says. */
static void test_experts_on_the_host(void **state)
{
    (void)state;
    struct stage s;
    set_stage(&s, "qwen3-30b-a3b", "2x RTX 3060 12GB", 4096);
    for (size_t i = 0; i < s.budgets.n; i++) s.budgets.items[i].budget_bytes = UINT64_C(8500) << 20;
    VR_AUTO_OUTCOME o = { 0 }, fixed = { 0 };
    struct vr_err err = { 0 };
    if (!plan(&s, VR_SPLITS_TENSOR, VR_OPTIMIZE_DECODE, &o, &err)) fail_msg("%s", err.msg);
    assert_true(o.trial.split_mode == VR_SPLIT_TENSOR && o.verdict.fits && o.verdict.host_layers == 0);
    assert_int_equal(o.trial.n_overrides, 1);
    assert_int_equal(o.trial.overrides[0].device, VR_ON_CPU);
    regex_t re;
    assert_int_equal(regcomp(&re, o.trial.overrides[0].pattern, REG_EXTENDED | REG_NOSUB), 0);
    assert_int_equal(regexec(&re, "blk.47.ffn_up_exps.weight", 0, NULL, 0), 0);
    assert_int_not_equal(regexec(&re, "blk.0.ffn_up_exps.weight", 0, NULL, 0), 0);
    regfree(&re);
    uint64_t layer = s.model->layers[47].role_bytes[VR_ROLE_EXPERT], room = 0;
    for (size_t i = 0; i < o.verdict.n_devices; i++)
        room += s.budgets.items[i].budget_bytes - vr_judged_bytes(&o.verdict.devices[i]);
    assert_true(room < 2 * layer); /* not one more could be on the devices, but for whole pieces */
    assert_true(o.lower_bound <= o.verdict.cost[VR_OPTIMIZE_DECODE] &&
                o.lower_bound > 0.9 * o.verdict.cost[VR_OPTIMIZE_DECODE]);

    const struct vr_fixed_override given = { o.trial.overrides[0].pattern, -1 };
    struct vr_goal w = { .splits = VR_SPLITS_TENSOR, .fixed = { .overrides = &given, .n_overrides = 1 } };
    if (!vr_fit_plan(&s.ask, &w, &fixed, &err)) fail_msg("%s", err.msg);
    assert_int_equal(fixed.verdict.host.model_bytes, o.verdict.host.model_bytes);
    done(&s);
}

/* Where experts stay on the host, it is foretold without a dry run that a split is too slow, and no split is faster
 * than foretold. */
static void test_slow_splits_are_foretold(void **state)
{
    (void)state;
    static const char *const cards[] = { "4x RTX 3090", "2x RTX 5060 Ti 16GB" };
    for (size_t i = 0; i < VR_COUNT(cards); i += EACH) {
        struct stage s;
        set_stage(&s, "qwen3-235b-a22b", cards[i], 8192);
        s.machine.host.ram_free_bytes = UINT64_C(256) << 30;
        VR_AUTO_OUTCOME layers = { 0 }, all = { 0 }, split = { 0 };
        struct vr_err err = { 0 };
        if (!plan(&s, VR_SPLITS_LAYER, VR_OPTIMIZE_DECODE, &layers, &err) ||
            !plan(&s, VR_SPLITS_ALL, VR_OPTIMIZE_DECODE, &all, &err) ||
            !plan(&s, VR_SPLITS_TENSOR, VR_OPTIMIZE_DECODE, &split, &err))
            fail_msg("%s", err.msg);
        assert_true(all.trial.split_mode == VR_SPLIT_LAYER && reason_of(&all, VR_REASON_TENSOR_GAINS_LITTLE));
        assert_int_equal(all.dry_runs, layers.dry_runs);
        double cost = split.verdict.cost[VR_OPTIMIZE_DECODE];
        assert_true(all.split_bound < cost && all.split_bound > 0.9 * cost);
        done(&s);
    }
}

/* What each device has whole is known before a dry run, so that the first split that is tried fits: routers are large
 * (Qwen3-235B: 191 MiB on each), and biases that are added last (gpt-oss). */
static void test_the_first_split_fits(void **state)
{
    (void)state;
    static const char *const models[] = { "gpt-oss-120b", "qwen3-235b-a22b" };
    for (size_t i = 0; i < VR_COUNT(models); i++) {
        struct stage s;
        set_stage(&s, models[i], "4x RTX 5060 Ti 16GB", 4096);
        s.machine.host.ram_free_bytes = UINT64_C(256) << 30;
        s.machine.host.bandwidth_gbs = 200;
        vr_speeds_guess(&s.machine, &s.speeds);
        VR_AUTO_OUTCOME layers = { 0 }, all = { 0 };
        struct vr_err err = { 0 };
        if (!plan(&s, VR_SPLITS_LAYER, VR_OPTIMIZE_DECODE, &layers, &err) ||
            !plan(&s, VR_SPLITS_ALL, VR_OPTIMIZE_DECODE, &all, &err))
            fail_msg("%s", err.msg);
        assert_int_equal(all.dry_runs, layers.dry_runs + 1);
        assert_true(reason_of(&all, VR_REASON_SPLIT_TENSOR) || reason_of(&all, VR_REASON_SPLIT_GAINS_LITTLE));
        done(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_dry_run_foretells_others),
        cmocka_unit_test(test_heads_are_cut_as_the_engine_does),
        cmocka_unit_test(test_never_slower_never_over),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_experts_on_the_host),
        cmocka_unit_test(test_slow_splits_are_foretold),
        cmocka_unit_test(test_the_first_split_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
