/* Our plan beside llama.cpp's fit, for every fixture on every rig that can hold it, both from the file as a user has it
 * (original.h): speed by the same dry run and the same prices, bytes left on the host, time to the answer. With
 * BANDWIDTH=1 speed is bytes over bandwidth alone (no launches, no hops), which is what other planners count.
 *   plan MODELS-DIR RIGS-DIR SCRATCH-DIR [MODEL [RIG [N-CTX]]] */
#include <glob.h>
#include <math.h>
#include <sys/resource.h>
#include <time.h>

#include "test.h"

#include "engine_fixtures.h"
#include "fit/fit.h"
#include "floor.h"
#include "hw/profile.h"
#include "original.h"

#define ROUNDS    3 /* of ours, and of a fit with one dry run; the one in the middle counts */
#define MAX_CASES 256

struct ratios {
    double x[MAX_CASES];
    size_t n;
};

static void add(struct ratios *r, double x)
{
    if (r->n < MAX_CASES) r->x[r->n++] = x;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, size_t n)
{
    qsort(x, n, sizeof *x, by_value);
    return n ? x[n / 2] : 0;
}

static double least(const struct ratios *r)
{
    double low = INFINITY;
    for (size_t i = 0; i < r->n; i++) low = fmin(low, r->x[i]);
    return low;
}

static double geomean(const struct ratios *r)
{
    double sum = 0;
    for (size_t i = 0; i < r->n; i++) sum += log(r->x[i]);
    return r->n ? exp(sum / (double)r->n) : 0;
}

struct clock {
    double wall, cpu; /* ms; cpu with that of the children that have ended */
};

static double cpu_ms(int who)
{
    struct rusage u;
    getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

static struct clock now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (struct clock){ (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6,
                           cpu_ms(RUSAGE_SELF) + cpu_ms(RUSAGE_CHILDREN) };
}

/* llama.cpp sees CUDA's devices fastest first; the profiles are in the order of the stations. */
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

/* --- one model on one rig --- */

struct bench {
    const char *original; /* the file */
    const struct vr_model *model;
    struct vr_machine machine;
    struct vr_budgets budgets;
    struct vr_speeds speeds;
    struct vr_fit_ask ask;
    struct ratios speed, unequal, unequal_most, time, time_often;
    double worst_gap;
    size_t n_host_more, n_over;
};

static bool set_rig(struct bench *b, const char *rig, uint32_t n_ctx, struct vr_err *err)
{
    if (!vr_profile_load(rig, &b->machine, err)) return false;
    fastest_first(&b->machine);
    if (!vr_budgets_select(&b->machine, &(struct vr_select){ .reserve_mib = "1024" }, &b->budgets, err)) return false;
    if (getenv("BANDWIDTH"))
        vr_speeds_bandwidth(&b->machine, &b->speeds);
    else
        vr_speeds_guess(&b->machine, &b->speeds);
    b->ask = (struct vr_fit_ask){ .model = b->model,
                                  .machine = &b->machine,
                                  .budgets = &b->budgets,
                                  .speeds = &b->speeds,
                                  .context = VR_CONTEXT_DEFAULT,
                                  .flash_auto = true,
                                  .fill = 0.5 };
    b->ask.context.n_ctx = n_ctx;
    return true;
}

/* From the file to a proven plan. */
static bool plan_ours(const struct bench *b, struct vr_outcome *out, struct clock *took, struct vr_err *err)
{
    double wall[ROUNDS], cpu[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        struct clock t0 = now();
        VR_AUTO(vr_model) m = vr_model_open(b->original, err);
        struct vr_fit_ask ask = b->ask;
        ask.model = m;
        vr_outcome_done(out);
        *out = (struct vr_outcome){ 0 };
        if (!m || !vr_fit_plan(&ask, &(struct vr_goal){ 0 }, out, err)) return false;
        struct clock t1 = now();
        wall[i] = t1.wall - t0.wall;
        cpu[i] = t1.cpu - t0.cpu;
    }
    *took = (struct clock){ median(wall, ROUNDS), median(cpu, ROUNDS) };
    return true;
}

/* What common_fit_params takes for the file, and what its plan is worth. */
static bool plan_theirs(const struct bench *b, struct vr_outcome *out, struct clock *took, struct vr_err *err)
{
    if (!vr_fit_llama(&b->ask, out, err)) return false;
    struct vr_prober prober;
    if (!vr_prober_open(b->model, &prober, err)) return false;
    prober.path = b->original;
    uint64_t margins[VR_MAX_VGPUS];
    for (size_t i = 0; i < b->budgets.n; i++) margins[i] = b->budgets.items[i].reserve_bytes;
    struct vr_trial trial = { .load = out->trial, .timeout_ms = 300000 };
    trial.load.context = b->ask.context;
    double wall[ROUNDS], cpu[ROUNDS];
    int rounds = out->dry_runs > 1 ? 1 : ROUNDS;
    bool ok = true;
    for (int i = 0; i < rounds && ok; i++) {
        struct vr_fitted fitted = { 0 };
        struct clock t0 = now();
        ok = vr_probe_fit(&prober, &trial, margins, &fitted, err);
        struct clock t1 = now();
        if (ok && fitted.dry_runs != out->dry_runs)
            ok = vr_fail(err, VR_EINTERNAL, "fit makes %u dry runs with a vocabulary, %u without", fitted.dry_runs,
                         out->dry_runs);
        wall[i] = fitted.ms;
        cpu[i] = t1.cpu - t0.cpu;
        vr_fitted_done(&fitted);
    }
    *took = (struct clock){ median(wall, (size_t)rounds), median(cpu, (size_t)rounds) };
    vr_prober_close(&prober);
    return ok;
}

static bool cards_differ(const struct vr_machine *m)
{
    for (size_t i = 1; i < m->n_devices; i++)
        if (m->devices[i].bandwidth_gbs != m->devices[0].bandwidth_gbs) return true;
    return false;
}

static bool compare(struct bench *b, const char *name, const char *rig)
{
    struct vr_err err = { 0 };
    VR_AUTO_OUTCOME ours = { 0 }, theirs = { 0 };
    struct clock mine, peer;
    if (!plan_ours(b, &ours, &mine, &err)) {
        if (err.code != VR_ENOFIT) return fprintf(stderr, "%s\n", err.msg), false;
        printf("  %-19s %-25s does not fit\n", name, rig);
        return true;
    }
    double low = floor_ms(&b->ask, &err);
    if (low <= 0 || !plan_theirs(b, &theirs, &peer, &err)) return fprintf(stderr, "%s\n", err.msg), false;
    double a = ours.verdict.price.step_ms[VR_DECODE], f = theirs.verdict.price.step_ms[VR_DECODE];
    double gap = ours.optimal ? 0 : 100 * (ours.planned_ms / ours.lower_bound_ms - 1);
    uint64_t host = ours.verdict.host.model_bytes, host_theirs = theirs.verdict.host.model_bytes;
    printf("  %-19s %-25s %7.2f ms %6.1f GB host %5.0f ms (cpu %5.0f) %u runs gap %.1f%% | fit %7.2f ms %6.1f GB host "
           "%6.0f ms (cpu %6.0f) %2u runs%s | %5.2fx (at most %.2fx) in %.1fx less time\n",
           name, rig, a, (double)host / 1e9, mine.wall, mine.cpu, ours.dry_runs, gap, f, (double)host_theirs / 1e9,
           peer.wall, peer.cpu, theirs.dry_runs, theirs.verdict.fits ? "" : " OVER", f / a, f / low,
           peer.wall / mine.wall);
    fflush(stdout);
    add(&b->speed, f / a);
    if (cards_differ(&b->machine)) {
        add(&b->unequal, f / a);
        add(&b->unequal_most, f / low);
    }
    add(&b->time, peer.wall / mine.wall);
    if (theirs.dry_runs > 1) add(&b->time_often, peer.wall / mine.wall);
    b->worst_gap = fmax(b->worst_gap, gap);
    b->n_host_more += host > host_theirs;
    b->n_over += !ours.verdict.fits;
    return true;
}

static bool compare_all(struct bench *b, const char *scratch, const char *name, const glob_t *rigs, uint32_t n_ctx)
{
    struct vr_err err = { 0 };
    char original[512];
    snprintf(original, sizeof original, "%s/original.gguf", scratch);
    VR_AUTO(vr_model) fixture = vr_model_open(fixture_path(name), &err);
    if (!fixture) return fprintf(stderr, "%s\n", err.msg), false;
    original_write(fixture, original);
    VR_AUTO(vr_model) m = vr_model_open(original, &err);
    bool ok = m != NULL;
    b->original = original;
    b->model = m;
    for (size_t r = 0; ok && r < rigs->gl_pathc; r++) {
        char rig[128];
        const char *slash = strrchr(rigs->gl_pathv[r], '/');
        snprintf(rig, sizeof rig, "%s", slash ? slash + 1 : rigs->gl_pathv[r]);
        rig[strcspn(rig, ".")] = '\0';
        ok = set_rig(b, rigs->gl_pathv[r], n_ctx, &err) && compare(b, name, rig);
    }
    if (err.code != VR_OK) fprintf(stderr, "%s\n", err.msg);
    unlink(original);
    return ok;
}

static void conclude(struct bench *b)
{
    if (!b->speed.n) return;
    printf("  speed: never less than %.3fx of fit's, geometric mean %.2fx; at most %.1f %% from the solver's bound\n",
           least(&b->speed), geomean(&b->speed), b->worst_gap);
    printf("  on rigs of unequal cards %.3fx; no placement at all can reach more than %.3fx (floor.h)\n",
           geomean(&b->unequal), geomean(&b->unequal_most));
    printf("  plans over a budget: %zu; with more bytes on the host than fit's: %zu\n", b->n_over, b->n_host_more);
    printf(
        "  time to a proven plan: at least %.2fx less than fit's; where fit makes several dry runs, %.1fx (median)\n",
        least(&b->time), median(b->time_often.x, b->time_often.n));
}

int main(int argc, char **argv)
{
    if (argc < 4) return fprintf(stderr, "usage: plan MODELS-DIR RIGS-DIR SCRATCH-DIR [MODEL [RIG [N-CTX]]]\n"), 2;
    setenv("VR_MODELS", argv[1], 1);
    char pattern[512];
    snprintf(pattern, sizeof pattern, "%s/%s.json", argv[2], argc > 5 ? argv[5] : "*");
    glob_t rigs;
    if (glob(pattern, 0, NULL, &rigs) != 0) return 1;
    static struct bench b;
    bool ok = true;
    for (size_t i = 0; ok && i < VR_COUNT(fixture_names); i++) {
        if (argc > 4 && strcmp(argv[4], "all") != 0 && strcmp(argv[4], fixture_names[i]) != 0) continue;
        ok = compare_all(&b, argv[3], fixture_names[i], &rigs, argc > 6 ? (uint32_t)atoi(argv[6]) : 8192);
    }
    globfree(&rigs);
    conclude(&b);
    return !ok;
}
