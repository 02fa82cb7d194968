/* By a hair: models that exceed the cards by a little. Random mixes of cards (gpus.def) whose budgets together are 0 to
 * 15 % smaller than a fixture's weights and cache in a random context, each planned and proven as a user would; and
 * random problems of the solver's tests, with the same shortage. A line for each: time per token, bytes on the host,
 * gap to the bound, CPU time. The last lines sum up. hair MODELS-DIR [N [FIRST [LEAST-% MOST-%]]] With HAIR_PROBLEMS=1
 * the random problems alone. Two builds are compared line by line: same number, same mix. */
#include <math.h>
#include <sys/resource.h>

#include "test.h"

#include "engine_fixtures.h"
#include "fit/fit.h"
#include "hw/spec.h"
#include "plan/prefer.h"
#include "plan/solve.h"
#include "plan_random.h"

#define N_MIXES    500
#define ONE_IN     10 /* mixes: one random problem in so many */
#define MAX_CARDS  12
#define MAX_SEEN   4096
#define LEAST_MEAN 100 /* bytes of a random problem's pieces */

static const char *const cards[] = {
    "RTX 2060 6GB", "RTX 2080 Ti",      "RTX 3060 12GB", "RTX 3070", "RTX 3080 10GB", "RTX 3090",
    "RTX 3090 Ti",  "RTX 4060 Ti 16GB", "RTX 4070",      "RTX 4080", "RTX 4090",      "RTX 5060 Ti 16GB",
    "RTX 5070",     "RTX 5080",         "RTX 5090",      "P40",      "Tesla T4",      "V100 PCIe 16GB",
    "RTX A4000",    "RTX A6000",        "A40",           "L4",       "RTX PRO 6000",
};
static const uint32_t contexts[] = { 4096, 8192, 16384, 32768, 65536 };

static void die(const struct vr_err *err)
{
    fprintf(stderr, "hair: %s\n", err->msg);
    exit(1);
}

struct seen {
    double gap[MAX_SEEN], cpu[MAX_SEEN];
    size_t n, n_near, n_nofit;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double cpu_ms(void)
{
    struct rusage self, child;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &child);
    return (double)(self.ru_utime.tv_sec + self.ru_stime.tv_sec + child.ru_utime.tv_sec + child.ru_stime.tv_sec) * 1e3 +
           (double)(self.ru_utime.tv_usec + self.ru_stime.tv_usec + child.ru_utime.tv_usec + child.ru_stime.tv_usec) /
               1e3;
}

static void add(struct seen *all, double gap, double cpu)
{
    if (all->n == MAX_SEEN) return;
    all->gap[all->n] = gap;
    all->cpu[all->n++] = cpu;
    all->n_near += gap <= 5;
}

static void sum_up(const char *what, struct seen *all)
{
    if (!all->n) return;
    qsort(all->gap, all->n, sizeof *all->gap, by_value);
    qsort(all->cpu, all->n, sizeof *all->cpu, by_value);
    printf("  %s: %zu, gap at most 5 %% in %.1f %% of them, median %.2f %%, nine of ten within %.2f %%, worst %.1f %%; "
           "CPU median %.0f ms, nine of ten within %.0f, most %.0f; %zu fit nowhere\n",
           what, all->n, 100 * (double)all->n_near / (double)all->n, all->gap[all->n / 2], all->gap[all->n * 9 / 10],
           all->gap[all->n - 1], all->cpu[all->n / 2], all->cpu[all->n * 9 / 10], all->cpu[all->n - 1], all->n_nofit);
}

/* --- fixtures --- */

struct rig {
    struct vr_machine machine;
    struct vr_budgets budgets;
    struct vr_speeds speeds;
    char text[512];
};

static void set_host(struct vr_host *h, struct dice *d)
{
    h->ram_total_bytes = h->ram_free_bytes = UINT64_C(1) << 40;
    h->bandwidth_gbs = toss(d, 40, 120);
    h->cores = h->threads = 16;
}

static uint64_t budgets_of(const struct vr_budgets *b)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < b->n; i++) sum += b->items[i].budget_bytes;
    return sum;
}

/* Cards until they hold `bytes`; then all of them get less free memory, so that their budgets are that. False when that
 * takes too many cards. */
static bool draw_rig(struct rig *r, struct dice *d, uint64_t bytes)
{
    struct vr_err err = { 0 };
    size_t n_names = roll_between(d, 1, 3), names[3], at = 0;
    for (size_t i = 0; i < n_names; i++) names[i] = roll(d, VR_COUNT(cards));
    for (size_t n = 1; n <= MAX_CARDS; n++) {
        const char *name = cards[names[n <= n_names ? n - 1 : roll(d, n_names)]];
        at += (size_t)snprintf(r->text + at, sizeof r->text - at, "%s%s", at ? ", " : "", name);
        if (!vr_spec_parse(r->text, &r->machine, &err)) die(&err);
        if (!vr_budgets_select(&r->machine, &(struct vr_select){ .reserve_mib = "1024" }, &r->budgets, &err)) die(&err);
        uint64_t have = budgets_of(&r->budgets);
        if (have < bytes) continue;
        double share = (double)bytes / (double)have;
        for (size_t i = 0; i < r->budgets.n; i++) {
            struct vr_budget *b = &r->budgets.items[i];
            b->budget_bytes = (uint64_t)((double)b->budget_bytes * share) >> 20 << 20;
            r->machine.devices[b->device].free_bytes = b->budget_bytes + b->reserve_bytes;
        }
        set_host(&r->machine.host, d);
        vr_speeds_guess(&r->machine, &r->speeds);
        return true;
    }
    return false;
}

static uint64_t bytes_of(const struct vr_fit_ask *ask)
{
    struct vr_err err = { 0 };
    VR_AUTO_FOOTPRINT f = { 0 };
    if (!vr_footprint_compute(ask->model, &ask->context, &f, &err)) die(&err);
    uint64_t sum = f.output_gpu_bytes + f.kv_gpu_bytes + f.state_gpu_bytes;
    for (uint32_t i = 0; i < f.n_layers; i++) sum += f.layers[i].weights_gpu_bytes;
    return sum;
}

static void plan_fixture(uint64_t seed, double share, struct seen *all)
{
    static struct rig r;
    static struct vr_model *models[VR_COUNT(fixture_names)];
    struct dice d = { seed * 104729 + 17 };
    struct vr_err err = { 0 };
    size_t i = roll(&d, VR_COUNT(fixture_names));
    if (!models[i]) models[i] = vr_model_open(fixture_path(fixture_names[i]), &err);
    if (!models[i]) die(&err);
    struct vr_fit_ask ask = { .model = models[i],
                              .machine = &r.machine,
                              .budgets = &r.budgets,
                              .speeds = &r.speeds,
                              .context = VR_CONTEXT_DEFAULT,
                              .flash_auto = true,
                              .fill = 0.5 };
    ask.context.n_ctx = contexts[roll(&d, VR_COUNT(contexts))];
    uint64_t bytes = bytes_of(&ask);
    while (!draw_rig(&r, &d, (uint64_t)((double)bytes / (1 + share)))) {}
    VR_AUTO_OUTCOME o = { 0 };
    double t0 = cpu_ms();
    bool ok = vr_fit_plan(&ask, &(struct vr_goal){ 0 }, &o, &err);
    double cpu = cpu_ms() - t0;
    if (!ok) {
        all->n_nofit++;
        printf("  %3lu %-19s %6u %5.1f %% does not fit: %s | %s\n", seed, fixture_names[i], ask.context.n_ctx,
               100 * share, err.msg, r.text);
        return;
    }
    double ms = o.verdict.price.step_ms[VR_DECODE], gap = o.optimal ? 0 : 100 * (ms / o.lower_bound - 1);
    add(all, gap, cpu);
    double weights = (double)o.verdict.host.model_bytes / 1048576,
           use = (double)vr_use_bytes(&o.verdict.host) / 1048576;
    printf(
        "  %3lu %-19s %6u %5.1f %% %8.2f ms, prompts %7.1f tok/s, host %9.1f MiB of weights %9.1f in all %2u layers, "
        "gap %5.2f %%, cpu %4.0f ms %u runs | %s\n",
        seed, fixture_names[i], ask.context.n_ctx, 100 * share, ms, 1e3 / o.verdict.cost[VR_OPTIMIZE_PREFILL], weights,
        use, o.verdict.host_layers, gap, cpu, o.dry_runs, r.text);
}

/* --- random problems --- */

/* Problems of the tests may be made of a few bytes, where copies are all that counts: not those. */
static uint64_t mean_bytes(const struct vr_problem *p)
{
    uint64_t sum = 0, n = 0;
    for (uint32_t s = 0; s < p->n_stations; s++) {
        const struct vr_station_class *c = &p->classes[p->stations[s]];
        sum += c->core.gpu_bytes;
        for (uint32_t u = 0; u < c->n_units; u++) sum += c->units[u].piece.gpu_bytes;
        n += 1 + c->n_units;
    }
    return sum / n;
}

/* Budgets so that the pieces exceed what compute buffers leave of them. */
static void shorten(struct vr_problem *p, double share)
{
    uint64_t need = 0, have = 0;
    for (uint32_t s = 0; s < p->n_stations; s++) {
        const struct vr_station_class *c = &p->classes[p->stations[s]];
        need += c->core.gpu_bytes;
        for (uint32_t u = 0; u < c->n_units; u++) need += c->units[u].piece.gpu_bytes;
    }
    for (uint32_t k = 0; k < p->n_kinds; k++) have += p->kinds[k].budget_bytes * p->kinds[k].n;
    double by = (double)need / (1 + share) / (double)have;
    for (uint32_t k = 0; k < p->n_kinds; k++) {
        struct vr_kind *kind = &p->kinds[k];
        uint64_t room = (uint64_t)((double)kind->budget_bytes * by);
        uint64_t most = kind->budget_bytes / 32 + 1;
        for (unsigned s = 0; s < VR_N_SITUATIONS; s++) kind->compute_bytes[s] %= most;
        for (unsigned s = 0; s < VR_N_SITUATIONS; s++)
            for (unsigned part = 0; part < s; part++)
                if ((part & s) == part && kind->compute_bytes[part] > kind->compute_bytes[s])
                    kind->compute_bytes[s] = kind->compute_bytes[part];
        kind->budget_bytes = room + kind->compute_bytes[VR_SIT_MIDDLE];
    }
    p->host_budget_bytes = UINT64_C(1) << 50;
    p->ordered = false;
    memset(p->allow, 0, p->n_stations * sizeof *p->allow);
}

/* The second look of fit/planned.c, without a dry run. */
static bool look_again(struct vr_problem *p, struct vr_solution *x, struct vr_arena *arena, struct vr_err *err)
{
    struct vr_solution now;
    if (!x->account.on_host || x->account.n_order == 0) return true;
    vr_problem_free_units(p);
    if (!vr_solve(p, 0, &x->placement, VR_WORK_DEFAULT / 10, arena, &now, err)) return false;
    if (!vr_prefer(p, &x->placement, arena, &now.placement) ||
        !vr_problem_account(p, &now.placement, 0, &now.account, err))
        return false;
    x->lower_bound = now.lower_bound;
    if (now.account.cost < x->account.cost &&
        now.account.weight_bytes[VR_ON_HOST] <= x->account.weight_bytes[VR_ON_HOST])
        *x = now;
    return true;
}

static void plan_problem(uint64_t seed, double share, struct seen *all)
{
    static const struct random_size size = { 8, 4, 24, 80, 6, 3, 240 };
    static struct random_problem r;
    struct vr_err err = { 0 };
    struct vr_solution x;
    VR_AUTO_ARENA arena = { 0 };
    uint64_t drawn = seed;
    do random_problem(drawn++, &size, &r);
    while (mean_bytes(&r.p) < LEAST_MEAN);
    shorten(&r.p, share);
    double t0 = cpu_ms();
    bool ok = vr_solve(&r.p, 0, NULL, VR_WORK_DEFAULT, &arena, &x, &err) && look_again(&r.p, &x, &arena, &err);
    double cpu = cpu_ms() - t0;
    if (!ok) {
        all->n_nofit++;
        printf("  %3lu %-19s %6u %5.1f %% does not fit: %s\n", seed, "random", r.p.n_stations, 100 * share, err.msg);
        return;
    }
    double gap = 100 * (x.account.cost / x.lower_bound - 1);
    add(all, gap, cpu);
    double host = (double)x.account.weight_bytes[VR_ON_HOST];
    printf("  %3lu %-19s %6u %5.1f %% %8.2f ms, host %9.1f   B of weights %9.1f in all %2u layers, gap %5.2f %%, cpu "
           "%4.0f "
           "ms, %u devices\n",
           seed, "random", r.p.n_stations, 100 * share, x.account.cost, host, host, x.account.n_stations[VR_ON_HOST],
           gap, cpu, r.p.n_devices);
}

int main(int argc, char **argv)
{
    if (argc < 2) return fprintf(stderr, "usage: hair MODELS-DIR [N [FIRST [LEAST-%% MOST-%%]]]\n"), 2;
    setenv("VR_MODELS", argv[1], 1);
    uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : N_MIXES, first = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    double least = argc > 5 ? atof(argv[4]) : 0, most = argc > 5 ? atof(argv[5]) : 15;
    static struct seen fixtures, problems;
    for (uint64_t seed = first; seed < first + n; seed++) {
        struct dice d = { seed * 31337 + 5 };
        double share = toss(&d, least, most) / 100;
        if (seed % ONE_IN == ONE_IN - 1)
            plan_problem(seed, share, &problems);
        else if (!getenv("HAIR_PROBLEMS"))
            plan_fixture(seed, share, &fixtures);
        fflush(stdout);
    }
    sum_up("fixtures on random cards", &fixtures);
    sum_up("random problems", &problems);
    size_t all = fixtures.n + problems.n;
    if (all)
        printf("  within 5 %% of the bound: %.1f %% of all\n",
               100 * (double)(fixtures.n_near + problems.n_near) / (double)all);
    return 0;
}
