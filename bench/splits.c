/* Plans by whole layers beside plans with every split mode, for every fixture on every rig and on equal cards: the cost
 * that the goal minimises, by the same dry run and the same prices, and processor time to the plan.
 *   splits MODELS-DIR RIGS-DIR [MODEL [RIG [GOAL [N-CTX]]]]
 * RIG is one of the files' names or a list for --gpus; "all" stands for all. */
#include <glob.h>
#include <math.h>
#include <sys/resource.h>

#include "test.h"

#include "engine_fixtures.h"
#include "fit/fit.h"
#include "hw/profile.h"
#include "hw/spec.h"

static const char *const equal[] = { "2x RTX 3090",      "3x RTX 3090",         "4x RTX 3090",
                                     "2x RTX 4090",      "4x RTX 4090",         "2x RTX 5090",
                                     "4x RTX 5090",      "2x RTX 5060 Ti 16GB", "4x RTX 5060 Ti 16GB",
                                     "2x RTX 3060 12GB", "4x RTX 3060 12GB" };
static const char *const goals[] = { "decode", "prefill", "balanced" };

static double cpu_ms(void)
{
    double ms = 0;
    for (int i = 0; i < 2; i++) {
        struct rusage u;
        getrusage(i ? RUSAGE_CHILDREN : RUSAGE_SELF, &u);
        ms += (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
              (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
    }
    return ms;
}

struct bench {
    const struct vr_model *model;
    struct vr_machine machine;
    struct vr_budgets budgets;
    struct vr_speeds speeds;
    enum vr_optimize goal;
    uint32_t n_ctx;
    double sum, dense_sum, worst, dense_worst, most_ms, most_gap;
    size_t n, n_dense, n_tensor, n_slower, n_over;
};

static bool set_rig(struct bench *b, const char *rig, bool file, struct vr_err *err)
{
    b->machine = (struct vr_machine){ 0 };
    if (file ? !vr_profile_load(rig, &b->machine, err) : !vr_spec_parse(rig, &b->machine, err)) return false;
    if (!file) b->machine.host = (struct vr_host){ .ram_free_bytes = UINT64_C(256) << 30, .cores = 16 };
    vr_machine_number(&b->machine);
    vr_speeds_guess(&b->machine, &b->speeds);
    return vr_budgets_select(&b->machine, &(struct vr_select){ .reserve_mib = "1024" }, &b->budgets, err);
}

static bool plan(const struct bench *b, enum vr_splits splits, struct vr_outcome *out, double *ms, struct vr_err *err)
{
    struct vr_fit_ask ask = { .model = b->model,
                              .machine = &b->machine,
                              .budgets = &b->budgets,
                              .speeds = &b->speeds,
                              .context = VR_CONTEXT_DEFAULT,
                              .flash_auto = true,
                              .fill = 0.5 };
    ask.context.n_ctx = b->n_ctx;
    double t0 = cpu_ms();
    bool ok = vr_fit_plan(&ask, &(struct vr_goal){ .optimize = b->goal, .splits = splits }, out, err);
    *ms = cpu_ms() - t0;
    return ok;
}

static void count(struct bench *b, const struct vr_outcome *all, double gain, double ms, double gap, bool dense)
{
    b->sum += log(gain);
    b->worst = b->n++ ? fmin(b->worst, gain) : gain;
    b->n_tensor += all->trial.split_mode == VR_SPLIT_TENSOR;
    b->n_slower += gain < 1 - 1e-9;
    b->n_over += !all->verdict.fits;
    b->most_ms = fmax(b->most_ms, ms);
    b->most_gap = fmax(b->most_gap, gap);
    if (!dense) return;
    b->dense_sum += log(gain);
    b->dense_worst = b->n_dense++ ? fmin(b->dense_worst, gain) : gain;
}

static bool compare(struct bench *b, const char *name, const char *rig, bool cards_equal)
{
    struct vr_err err = { 0 };
    VR_AUTO_OUTCOME layers = { 0 }, all = { 0 };
    double layers_ms, all_ms;
    if (!plan(b, VR_SPLITS_LAYER, &layers, &layers_ms, &err) || !plan(b, VR_SPLITS_ALL, &all, &all_ms, &err)) {
        if (err.code != VR_ENOFIT) return fprintf(stderr, "%s on %s: %s\n", name, rig, err.msg), false;
        return true;
    }
    const struct vr_verdict *a = &layers.verdict, *v = &all.verdict;
    double gain = a->cost[b->goal] / v->cost[b->goal], gap = 100 * (v->cost[b->goal] / all.lower_bound - 1);
    bool tensor = all.trial.split_mode == VR_SPLIT_TENSOR, held = a->host.model_bytes < b->model->tensor_bytes / 8;
    printf(
        "  %-19s %-25s %6.1f tok/s %6.0f pp (%4.0f ms) | %-6s x%zu %6.1f tok/s %6.0f pp (%4.0f ms, %u runs, gap %.1f%%)"
        " | %.2fx",
        name, rig, a->price.decode_tok_s, a->price.prefill_tok_s, layers_ms, tensor ? "tensor" : "layer", v->n_devices,
        v->price.decode_tok_s, v->price.prefill_tok_s, all_ms, all.dry_runs, gap, gain);
    for (size_t i = 0; i < all.trial.n_order && tensor; i++)
        printf("%s%.0f", i ? ":" : " ", (double)all.trial.split[i]);
    for (size_t i = 0; i < all.n_reasons; i++) {
        const char *kind = vr_reason_row(all.reasons[i].kind)->name;
        if (strncmp(kind, "tensor_", 7) == 0) printf(" %s", kind);
        if (strcmp(kind, "split_layer") == 0) printf(" (tensor %.1f)", all.reasons[i].figures[VR_FIGURE_OTHER_TOK_S]);
    }
    printf("\n");
    fflush(stdout);
    count(b, &all, gain, all_ms, gap, cards_equal && b->model->n_expert == 0 && held);
    return true;
}

static bool compare_all(struct bench *b, const char *name, const glob_t *rigs, const char *only)
{
    struct vr_err err = { 0 };
    VR_AUTO(vr_model) m = vr_model_open(fixture_path(name), &err);
    bool ok = m != NULL;
    b->model = m;
    bool typed = only && strchr(only, ' '), any = !only || strcmp(only, "all") == 0;
    for (size_t r = 0; ok && r < rigs->gl_pathc && !typed; r++) {
        char rig[128];
        const char *slash = strrchr(rigs->gl_pathv[r], '/');
        snprintf(rig, sizeof rig, "%s", slash ? slash + 1 : rigs->gl_pathv[r]);
        rig[strcspn(rig, ".")] = '\0';
        if (!any && strcmp(only, rig) != 0) continue;
        ok = set_rig(b, rigs->gl_pathv[r], true, &err) && compare(b, name, rig, false);
    }
    for (size_t i = 0; ok && i < VR_COUNT(equal) && any; i++)
        ok = set_rig(b, equal[i], false, &err) && compare(b, name, equal[i], true);
    if (ok && typed) ok = set_rig(b, only, false, &err) && compare(b, name, only, false);
    if (err.code != VR_OK) fprintf(stderr, "%s\n", err.msg);
    return ok;
}

int main(int argc, char **argv)
{
    if (argc < 3) return fprintf(stderr, "usage: splits MODELS-DIR RIGS-DIR [MODEL [RIG [GOAL [N-CTX]]]]\n"), 2;
    setenv("VR_MODELS", argv[1], 1);
    char pattern[512];
    snprintf(pattern, sizeof pattern, "%s/*.json", argv[2]);
    glob_t rigs;
    if (glob(pattern, 0, NULL, &rigs) != 0) return 1;
    static struct bench b;
    b.n_ctx = argc > 6 ? (uint32_t)atoi(argv[6]) : 8192;
    for (enum vr_optimize g = 0; argc > 5 && g < VR_N_GOALS; g++)
        if (strcmp(argv[5], goals[g]) == 0) b.goal = g;
    bool ok = true;
    for (size_t i = 0; ok && i < VR_COUNT(fixture_names); i++) {
        if (argc > 3 && strcmp(argv[3], "all") != 0 && strcmp(argv[3], fixture_names[i]) != 0) continue;
        ok = compare_all(&b, fixture_names[i], &rigs, argc > 4 ? argv[4] : NULL);
    }
    globfree(&rigs);
    printf("  %zu plans for %s, %zu in split mode tensor: %.2fx of layers' speed (geometric mean), at least %.3fx; "
           "slower: "
           "%zu; over a budget: %zu\n",
           b.n, goals[b.goal], b.n_tensor, exp(b.sum / (double)(b.n ? b.n : 1)), b.worst, b.n_slower, b.n_over);
    printf("  dense models on equal cards that hold them: %.2fx, at least %.2fx of %zu; at most %.1f %% from the "
           "bound; at "
           "most %.0f ms of processor time\n",
           exp(b.dense_sum / (double)(b.n_dense ? b.n_dense : 1)), b.dense_worst, b.n_dense, b.most_gap, b.most_ms);
    return !ok || b.n_slower || b.n_over;
}
