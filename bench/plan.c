/* Our plan beside llama.cpp's fit, for every fixture on every rig that can hold it: both judged by the same dry run and
 * the same prices. Bandwidth alone is told too (no launches, no hops), which is what other planners count. plan
 * MODELS-DIR RIGS-DIR [MODEL [RIG]] */
#include <glob.h>
#include <math.h>

#include "test.h"

#include "engine_fixtures.h"
#include "fit/fit.h"
#include "hw/profile.h"

struct sums {
    double log_ratio, log_time;
    size_t n, n_time;
    double worst, worst_time;
};

static void add(struct sums *s, double ratio)
{
    s->log_ratio += log(ratio);
    s->n++;
    if (s->worst == 0 || ratio < s->worst) s->worst = ratio;
}

static uint64_t host_bytes(const struct vr_outcome *o) { return o->verdict.host.model_bytes; }

/* llama.cpp sees CUDA's devices fastest first; the profiles are in the order of the slots. */
static void fastest_first(struct vr_machine *m)
{
    for (size_t i = 1; i < m->n_devices; i++)
        for (size_t k = i; k && m->devices[k].bandwidth_gbs > m->devices[k - 1].bandwidth_gbs; k--) {
            struct vr_device d = m->devices[k];
            m->devices[k] = m->devices[k - 1];
            m->devices[k - 1] = d;
        }
    m->n_links = 0; /* no rig tells of any */
    vr_machine_number(m);
}

static bool compare(const struct vr_model *m, const char *name, const char *rig, struct sums *all, struct sums *unequal)
{
    static struct vr_machine machine;
    struct vr_err err = { 0 };
    struct vr_budgets budgets;
    static struct vr_speeds speeds;
    if (!vr_profile_load(rig, &machine, &err)) return fprintf(stderr, "%s\n", err.msg), false;
    fastest_first(&machine);
    if (!vr_budgets_select(&machine, &(struct vr_select){ .reserve_mib = "1024" }, &budgets, &err))
        return fprintf(stderr, "%s\n", err.msg), false;
    if (getenv("BANDWIDTH"))
        vr_speeds_bandwidth(&machine, &speeds);
    else
        vr_speeds_guess(&machine, &speeds);
    struct vr_fit_ask ask = { .model = m,
                              .machine = &machine,
                              .budgets = &budgets,
                              .speeds = &speeds,
                              .context = VR_CONTEXT_DEFAULT,
                              .flash_auto = true,
                              .fill = 0.5 };
    ask.context.n_ctx = 8192;
    struct vr_wish wish = { 0 };
    VR_AUTO_OUTCOME ours = { 0 }, theirs = { 0 };
    const char *slash = strrchr(rig, '/');
    bool fits = vr_fit_plan(&ask, &wish, &ours, &err);
    if (!fits) {
        printf("  %-20s %-30s %s\n", name, slash + 1, err.msg);
        return true;
    }
    if (!vr_fit_llama(&ask, &theirs, &err)) return fprintf(stderr, "%s\n", err.msg), false;
    double a = ours.verdict.price.step_ms[VR_DECODE], b = theirs.verdict.price.step_ms[VR_DECODE];
    bool differ = false;
    for (size_t i = 1; i < machine.n_devices; i++)
        differ |= machine.devices[i].bandwidth_gbs != machine.devices[0].bandwidth_gbs;
    printf("  %-20s %-30s %7.2f ms %6.1f GB host %7.0f ms %u runs | fit %7.2f ms %6.1f GB host %7.0f ms %2u runs%s | "
           "%5.2fx %s%.1f%%\n",
           name, slash + 1, a, (double)host_bytes(&ours) / 1e9, ours.ms, ours.dry_runs, b,
           (double)host_bytes(&theirs) / 1e9, theirs.ms, theirs.dry_runs, theirs.verdict.fits ? "" : " OVER", b / a,
           ours.optimal ? "optimal " : "gap ", 100 * (ours.planned_ms / ours.lower_bound_ms - 1));
    fflush(stdout);
    add(all, b / a);
    if (differ) add(unequal, b / a);
    if (theirs.dry_runs > 1) all->log_time += log(theirs.ms / ours.ms), all->n_time++;
    if (all->worst_time == 0 || theirs.ms / ours.ms < all->worst_time) all->worst_time = theirs.ms / ours.ms;
    return true;
}

int main(int argc, char **argv)
{
    if (argc < 3) return fprintf(stderr, "usage: plan MODELS-DIR RIGS-DIR [MODEL [RIG]]\n"), 2;
    setenv("VR_MODELS", argv[1], 1);
    char pattern[512];
    snprintf(pattern, sizeof pattern, "%s/%s.json", argv[2], argc > 4 ? argv[4] : "*");
    glob_t rigs;
    if (glob(pattern, 0, NULL, &rigs) != 0) return 1;
    struct sums all = { 0 }, unequal = { 0 };
    for (size_t i = 0; i < VR_COUNT(fixture_names); i++) {
        if (argc > 3 && strcmp(argv[3], "all") != 0 && strcmp(argv[3], fixture_names[i]) != 0) continue;
        struct vr_err err = { 0 };
        VR_AUTO(vr_model) m = vr_model_open(fixture_path(fixture_names[i]), &err);
        if (!m) return fprintf(stderr, "%s\n", err.msg), 1;
        for (size_t r = 0; r < rigs.gl_pathc; r++)
            if (!compare(m, fixture_names[i], rigs.gl_pathv[r], &all, &unequal)) return 1;
    }
    globfree(&rigs);
    if (all.n)
        printf("  all: %.2fx geometric mean, worst %.2fx; time: worst %.1fx, mean where fit runs often %.1fx\n",
               exp(all.log_ratio / (double)all.n), all.worst, all.worst_time,
               all.n_time ? exp(all.log_time / (double)all.n_time) : 0);
    if (unequal.n)
        printf("  rigs of unequal cards: %.2fx geometric mean\n", exp(unequal.log_ratio / (double)unequal.n));
    return 0;
}
