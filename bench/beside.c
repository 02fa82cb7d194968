/* Random sets of models and cards, with real plans (planner, dry runs, exact bytes), against brute force.
 *
 * Who leaves: four models come one after the other; for each, every set of residents that may leave is planned for with
 * nothing but those gone, and the set that was chosen must be the cheapest of those that leave the newcomer within a
 * tenth of its best speed. Together: two or three models are planned jointly, and in every order on every set of
 * devices. After each step no card holds more than it has.
 *
 * The models are hollow: whole headers of few layers, so that a plan takes a hundredth of a second.
 *   beside BUILD [SETS [FIRST]]     the same sets each time; exit status 1 if one is wrong */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <jansson.h>

#include "base/child.h"
#include "cli/load/load_plan.h"
#include "cli/load/newcomer.h"
#include "cli/load/placement.h"
#include "cli/text/plan_text.h"
#include "cli/command/plan_together.h"
#include "fit/together.h"

#define N_SETS     1000
#define MOST_PLANS 4096 /* that a set remembers */
#define N_COMING   4
#define SAME       1e-6
#define N_MODELS   VR_COUNT(shapes)
#define TELL_EVERY 50
#define MAX_WRONG  10 /* that are told one by one */

static const char *const shapes[][12] = {
    { "--layers", "6", "--embd", "2048", "--ff", "8192", "--heads", "16", "--kv", "8" },
    { "--layers", "8", "--embd", "4096", "--ff", "14336", "--heads", "32", "--kv", "8" },
    { "--layers", "18", "--embd", "4096", "--ff", "14336", "--heads", "32", "--kv", "8" },
    { "--layers", "30", "--embd", "4096", "--ff", "14336", "--heads", "32", "--kv", "8" },
    { "--layers", "8", "--embd", "2048", "--ff", "4096", "--heads", "16", "--kv", "4", "--experts", "32" },
};
static const char *const cards[] = { "RTX 3060 12GB", "RTX 3090", "RTX 4060 Ti 16GB", "RTX 2080 Ti", "RTX 3070" };
static const uint64_t rams[] = { 2048, 8192, 65536 }; /* MiB */

static char dir[512];
static struct vr_models models[N_MODELS];
static char paths[N_MODELS][sizeof dir + 32];
static struct vr_learned learned;
static uint64_t seed;
static unsigned wrong;

static uint64_t roll(uint64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % n;
}

static void die(const struct vr_err *err)
{
    fprintf(stderr, "beside: %s\n", err->msg);
    exit(2);
}

/* --- a rig --- */

struct rig {
    unsigned number;
    char gpus[160];
    uint64_t ram_mib;
    const char *split_mode;        /* "auto": split mode tensor is tried as well, which takes several times as long */
    struct vr_options o[N_MODELS]; /* one for each model */
    struct vr_input *in;           /* nobody is there */
    struct vr_room capacity, process;
    uint32_t devices;
};

static void complain(const struct rig *r, const char *what, double got, double want)
{
    if (++wrong <= MAX_WRONG)
        printf("  WRONG set %u (%s, %d MiB of RAM): %s: %.6g, by brute force %.6g\n", r->number, r->gpus,
               (int)r->ram_mib, what, got, want);
}

static void parse(const struct rig *r, struct vr_options *o, const char *model)
{
    const char *argv[] = { "--gpus",        r->gpus,        "--n-ctx=4096", "--n-ubatch=512", "--host-weights=mapped",
                           "--cache-ram=0", "--split-mode", r->split_mode,  "--model",        model };
    struct vr_err err = { 0 };
    if (!vr_options_parse(vr_command_find("serve"), (int)VR_COUNT(argv), (char **)(uintptr_t)argv, o, &err)) die(&err);
    o->ram_mib = r->ram_mib;
    o->offload_min_batch = VR_OFFLOAD_MIN;
}

static void make_rig(struct rig *r, unsigned number)
{
    struct vr_err err = { 0 };
    seed = number;
    *r = (struct rig){ .number = number,
                       .ram_mib = rams[roll(VR_COUNT(rams))],
                       .split_mode = roll(4) ? "layer" : "auto" };
    for (size_t i = 0, n = roll(6) ? 1 + roll(2) : 3; i < n; i++)
        snprintf(r->gpus + strlen(r->gpus), sizeof r->gpus - strlen(r->gpus), "%s%s", i ? ", " : "",
                 cards[roll(VR_COUNT(cards))]);
    for (size_t i = 0; i < N_MODELS; i++) parse(r, &r->o[i], paths[i]);
    if (!(r->in = vr_input_read(&r->o[0], &err))) die(&err);
    for (size_t i = 0; i < r->in->budgets.n; i++) {
        const struct vr_budget *b = &r->in->budgets.items[i];
        uint64_t process = vr_process_bytes(&r->in->machine.devices[b->device], b->reserve_bytes);
        r->devices |= UINT32_C(1) << b->device;
        r->process.devices[b->device] = process;
        r->capacity.devices[b->device] = b->budget_bytes + process;
    }
    r->capacity.host = r->in->machine.host.ram_free_bytes;
}

static void check_room(const struct rig *r, const struct vr_room *sum)
{
    for (size_t d = 0; d < VR_MAX_DEVICES; d++)
        if (sum->devices[d] > r->capacity.devices[d])
            complain(r, "over budget", (double)sum->devices[d], (double)r->capacity.devices[d]);
    if (sum->host > r->capacity.host) complain(r, "over host memory", (double)sum->host, (double)r->capacity.host);
}

/* A process takes its part of every device that it uses. */
static void add_process(const struct rig *r, struct vr_room *room)
{
    for (size_t d = 0; d < VR_MAX_DEVICES; d++)
        if (room->devices[d]) room->devices[d] += r->process.devices[d];
}

/* --- one model into what others leave --- */

struct made {
    size_t model;
    uint32_t devices;
    struct vr_room taken, takes;
    double cost;
};
static struct made *made;
static size_t n_made;
static unsigned long n_plans;

static void make(const struct rig *r, struct made *m)
{
    struct vr_err err = { 0 };
    VR_AUTO(vr_input) in = vr_input_new(&err);
    if (!in) die(&err);
    const struct vr_options *o = &r->o[m->model];
    in->machine = r->in->machine;
    vr_room_take(&in->machine, &m->taken);
    if (!vr_input_rest(o, in, &err)) die(&err);
    size_t n = 0;
    for (size_t i = 0; i < in->budgets.n; i++)
        if (m->devices >> in->budgets.items[i].device & 1) in->budgets.items[n++] = in->budgets.items[i];
    in->budgets.n = n;
    VR_AUTO_FREE struct vr_speeds *speeds = vr_input_speeds(o, in, &err);
    if (!speeds) die(&err);
    struct vr_fit_ask ask = vr_placement_ask(o, in, &models[m->model], speeds);
    VR_AUTO_OUTCOME outcome = { 0 };
    m->cost = INFINITY;
    n_plans++;
    if (vr_placement_find(o, &ask, &outcome, &err) && vr_outcome_check(&ask, &outcome, &err)) {
        m->cost = outcome.verdict.cost[VR_OPTIMIZE_DECODE];
        m->takes = vr_room_of(&outcome);
        add_process(r, &m->takes);
    } else if (err.code != VR_ENOFIT) {
        die(&err);
    }
}

static const struct made *plan(const struct rig *r, size_t model, uint32_t devices, const struct vr_room *taken)
{
    struct made m = { .model = model, .devices = devices, .taken = *taken };
    for (size_t i = 0; i < n_made; i++)
        if (made[i].model == model && made[i].devices == devices && memcmp(&made[i].taken, taken, sizeof *taken) == 0)
            return &made[i];
    if (n_made == MOST_PLANS) die(&(struct vr_err){ .msg = "a set has too many plans" });
    make(r, &m);
    made[n_made] = m;
    return &made[n_made++];
}

/* --- who leaves --- */

struct coming {
    unsigned came, left, refused, moved_in, slower;
};

struct house {
    struct vr_resident all[N_COMING];
    size_t n;
};

static json_t *json_resident(const struct rig *r, const struct vr_resident *x)
{
    json_t *devices = json_object();
    for (size_t d = 0; d < r->in->machine.n_devices; d++)
        if (x->room.devices[d])
            json_object_set_new(devices, r->in->machine.devices[d].id,
                                json_integer((json_int_t)(x->room.devices[d] - r->process.devices[d])));
    return json_pack("{s:s,s:b,s:b,s:f,s:f,s:o,s:I}", "model", x->id, "pinned", x->pinned, "busy", x->busy, "cost_s",
                     x->reload_s, "last_used_s", x->last_used_s, "devices", devices, "host", (json_int_t)x->room.host);
}

static void write_residents(const struct rig *r, const struct house *h, struct vr_buf *out)
{
    json_t *list = json_array();
    for (size_t i = 0; i < h->n; i++) json_array_append_new(list, json_resident(r, &h->all[i]));
    json_t *tree = json_pack("{s:o}", "residents", list);
    VR_AUTO_FREE char *text = json_dumps(tree, JSON_COMPACT);
    json_decref(tree);
    vr_buf_adds(out, text);
}

static struct vr_room room_of_stayers(const struct house *h, uint64_t leaving)
{
    struct vr_room sum = { 0 };
    for (size_t i = 0; i < h->n; i++)
        if (!(leaving >> i & 1)) vr_room_add(&sum, &h->all[i].room);
    return sum;
}

static double cost_without(const struct rig *r, const struct house *h, size_t model, uint64_t leaving)
{
    struct vr_room taken = room_of_stayers(h, leaving);
    return plan(r, model, r->devices, &taken)->cost;
}

static double price_of(const struct house *h, uint64_t who)
{
    double sum = 0;
    for (; who; who &= who - 1) sum += vr_resident_cost(&h->all[__builtin_ctzll(who)]);
    return sum;
}

/* The least that leaving has to cost; INFINITY: it does not fit. */
static double least_price(const struct rig *r, const struct house *h, size_t model, double *limit)
{
    uint64_t movable = 0;
    for (size_t i = 0; i < h->n; i++)
        if (!h->all[i].pinned && !h->all[i].busy) movable |= UINT64_C(1) << i;
    double least = INFINITY;
    *limit = cost_without(r, h, model, movable) * (1 + VR_SLOWER);
    for (uint64_t who = movable;; who = (who - 1) & movable) {
        if (!isinf(*limit) && cost_without(r, h, model, who) <= *limit) least = fmin(least, price_of(h, who));
        if (!who) return least;
    }
}

static uint64_t find_leaving(const struct rig *r, const struct house *h, const struct vr_buf *evict)
{
    uint64_t who = 0;
    for (size_t at = 0; at < evict->n; at += strlen(evict->data + at) + 1)
        for (size_t i = 0; i < h->n; i++)
            if (strcmp(h->all[i].id, evict->data + at) == 0) who |= UINT64_C(1) << i;
    for (size_t i = 0; i < h->n; i++)
        if (who >> i & 1 && (h->all[i].pinned || h->all[i].busy)) complain(r, "had to leave", (double)i, NAN);
    return who;
}

static struct vr_room room_of_load(const struct rig *r, const struct vr_load *load)
{
    struct vr_room room = { .host = vr_load_host_bytes(load) };
    for (size_t i = 0; i < load->n_devices; i++)
        for (size_t d = 0; d < r->in->machine.n_devices; d++)
            if (strcmp(load->devices[i].id, r->in->machine.devices[d].id) == 0)
                room.devices[d] += vr_load_bytes(&load->devices[i]);
    add_process(r, &room);
    return room;
}

static void leave(struct house *h, uint64_t who)
{
    size_t n = 0;
    for (size_t i = 0; i < h->n; i++)
        if (!(who >> i & 1)) h->all[n++] = h->all[i];
    h->n = n;
}

static void move_in(struct house *h, const char *id, const struct vr_room *room)
{
    struct vr_resident *x = &h->all[h->n++];
    *x = (struct vr_resident){ .pinned = roll(8) == 0, .room = *room };
    snprintf(x->id, sizeof x->id, "%s", id);
}

/* A model comes. */
static void come(const struct rig *r, struct house *h, unsigned number, struct coming *c)
{
    size_t model = roll(N_MODELS);
    VR_AUTO_BUF text = { 0 };
    VR_CLEANUP(vr_load_done) struct vr_load load = { 0 };
    struct vr_err err = { 0 };
    char id[8];
    double limit;
    for (size_t i = 0; i < h->n; i++) {
        h->all[i].busy = roll(5) == 0;
        h->all[i].reload_s = 1 + (double)roll(2000) / 100;
        h->all[i].last_used_s = (double)roll(2000);
    }
    write_residents(r, h, &text);
    double least = least_price(r, h, model, &limit);
    c->came++;
    if (!vr_load_plan_beside(&r->o[model], &models[model], &learned, &text, &load, &err)) {
        if (err.code != VR_ENOFIT) die(&err);
        c->refused++;
        if (!isinf(least)) complain(r, "refused", INFINITY, least);
        return;
    }
    uint64_t who = find_leaving(r, h, &load.evict);
    double price = price_of(h, who), cost = cost_without(r, h, model, who);
    if (fabs(price - least) > SAME) complain(r, "who leaves costs", price, least);
    if (cost > limit * (1 + SAME)) complain(r, "time per token", cost, limit);
    c->left += (unsigned)__builtin_popcountll(who);
    c->moved_in += who == 0;
    struct vr_room room = room_of_load(r, &load);
    leave(h, who);
    snprintf(id, sizeof id, "%u", number);
    move_in(h, id, &room);
    room = room_of_stayers(h, 0);
    check_room(r, &room);
}

/* --- all together --- */

struct joint {
    unsigned sets, models, resident, not_exact;
    double worst; /* of the sums, against brute force */
};

static bool holds(const struct rig *r, const struct vr_room *taken, const struct vr_room *takes)
{
    for (size_t d = 0; d < VR_MAX_DEVICES; d++)
        if (takes->devices[d] && taken->devices[d] + takes->devices[d] > r->capacity.devices[d]) return false;
    return taken->host + takes->host <= r->capacity.host;
}

/* The least sum of times over all orders and sets of devices, each as a multiple of what it is alone. Each model goes
 * where it would go alone, if that is left, or into what is. */
static double brute(const struct rig *r, const size_t *who, uint32_t waiting, const struct vr_room *taken)
{
    const struct vr_room none = { 0 };
    double best = waiting ? INFINITY : 0;
    for (uint32_t rest = waiting; rest; rest &= rest - 1) {
        size_t at = (size_t)__builtin_ctz(rest);
        double alone = plan(r, who[at], r->devices, &none)->cost;
        for (uint32_t devices = r->devices; devices; devices = (devices - 1) & r->devices) {
            const struct made *ways[] = { plan(r, who[at], devices, &none), plan(r, who[at], devices, taken) };
            for (size_t k = 0; k < VR_COUNT(ways); k++) {
                struct made way = *ways[k];
                struct vr_room sum = *taken;
                if (isinf(way.cost) || !holds(r, taken, &way.takes) ||
                    (k && way.cost == ways[0]->cost && memcmp(&way.takes, &ways[0]->takes, sizeof way.takes) == 0))
                    continue;
                vr_room_add(&sum, &way.takes);
                best = fmin(best, way.cost / alone + brute(r, who, waiting & ~(UINT32_C(1) << at), &sum));
            }
        }
    }
    return best;
}

/* The more important ones first, as many as can be. */
static uint32_t brute_residents(const struct rig *r, const size_t *who, size_t n, double *sum)
{
    const struct vr_room none = { 0 };
    uint32_t all = 0;
    for (size_t i = 0; i < n; i++)
        if (!isinf(brute(r, who, all | UINT32_C(1) << i, &none))) all |= UINT32_C(1) << i;
    *sum = brute(r, who, all, &none);
    return all;
}

/* What `plan --together --json` says: who is resident, the sum, and what they take. */
static uint32_t read_joint(const struct rig *r, const json_t *tree, size_t n, double *sum, struct vr_room *room)
{
    uint32_t all = 0;
    *sum = 0;
    *room = (struct vr_room){ 0 };
    for (size_t i = 0; i < n; i++) {
        const json_t *m = json_array_get(json_object_get(tree, "together"), i),
                     *devices = json_object_get(m, "devices");
        if (!json_is_true(json_object_get(m, "resident"))) continue;
        all |= UINT32_C(1) << i;
        *sum += json_number_value(json_object_get(m, "alone_tok_s")) /
                json_number_value(json_object_get(m, "decode_tok_s"));
        struct vr_room one = { .host = (uint64_t)json_integer_value(json_object_get(m, "host_bytes")) };
        for (size_t k = 0; k < json_array_size(devices); k++) {
            const char *id = json_string_value(json_object_get(json_array_get(devices, k), "id"));
            for (size_t d = 0; d < r->in->machine.n_devices; d++)
                if (id && strcmp(r->in->machine.devices[d].id, id) == 0)
                    one.devices[d] = (uint64_t)json_integer_value(json_object_get(json_array_get(devices, k), "bytes"));
        }
        add_process(r, &one);
        vr_room_add(room, &one);
    }
    return all;
}

static void plan_together(const struct rig *r, struct joint *j)
{
    size_t who[3], n = r->in->budgets.n > 2 ? 2 : 2 + roll(2);
    struct vr_options o = r->o[0];
    VR_AUTO_BUF text = { 0 };
    struct vr_err err = { 0 };
    struct vr_room room;
    double sum, want;
    for (size_t i = 0; i < n; i++) who[i] = roll(N_MODELS);
    o.model = paths[who[0]];
    o.json = true;
    for (size_t i = 1; i < n; i++) o.more[o.n_more++] = paths[who[i]];
    if (!vr_plan_together(&o, r->in, &learned, &text, &err)) die(&err);
    json_t *tree = json_loadb(text.data, text.n, 0, NULL);
    uint32_t got = read_joint(r, tree, n, &sum, &room), wanted = brute_residents(r, who, n, &want);
    check_room(r, &room);
    j->sets++;
    j->models += (unsigned)n;
    j->resident += (unsigned)__builtin_popcount(got);
    if (!json_is_true(json_object_get(tree, "exact"))) {
        j->not_exact++;
    } else if (got != wanted) {
        complain(r, "together", got, wanted);
    } else if (got) {
        if (sum > want * (1 + VR_SAME_SPEED) + SAME || sum < want - SAME) complain(r, "sum of times", sum, want);
        j->worst = fmax(j->worst, sum / want);
    }
    json_decref(tree);
}

/* --- all of it --- */

static void make_models(const char *build)
{
    struct vr_err err = { 0 };
    struct rig r = { .gpus = "RTX 3090", .ram_mib = rams[0], .split_mode = "layer" };
    char tool[512];
    snprintf(dir, sizeof dir, "%s/vram-llm-beside-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(dir)) die(&(struct vr_err){ .msg = "no directory for models" });
    snprintf(tool, sizeof tool, "%s/tests/tiny-model", build);
    for (size_t i = 0; i < N_MODELS; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/m%zu.gguf", dir, i);
        const char *argv[16] = { tool, paths[i], "--hollow" };
        for (size_t k = 0; k < 12 && shapes[i][k]; k++) argv[3 + k] = shapes[i][k];
        VR_AUTO_CHILD_END end = { 0 };
        const struct vr_child child = { .argv = argv, .timeout_ms = 60000 };
        vr_child_end_init(&end, &child);
        if (!vr_child_run(&child, &end, &err) || end.exit_status != 0)
            die(&(struct vr_err){ .msg = "tiny-model failed" });
        struct vr_options o;
        parse(&r, &o, paths[i]);
        if (!vr_models_open(&o, &models[i], &err)) die(&err);
    }
}

static void done(void)
{
    for (size_t i = 0; i < N_MODELS; i++) {
        vr_models_done(&models[i]);
        unlink(paths[i]);
    }
    rmdir(dir);
    free(made);
}

static double cpu_s(void)
{
    struct rusage self, child;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &child);
    return (double)(self.ru_utime.tv_sec + self.ru_stime.tv_sec + child.ru_utime.tv_sec + child.ru_stime.tv_sec) +
           (double)(self.ru_utime.tv_usec + self.ru_stime.tv_usec + child.ru_utime.tv_usec + child.ru_stime.tv_usec) /
               1e6;
}

int main(int argc, char **argv)
{
    unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : N_SETS, first = argc > 3 ? (unsigned)atoi(argv[3]) : 1;
    if (argc < 2) return fprintf(stderr, "beside BUILD [SETS [FIRST]]\n"), 2;
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    setvbuf(stdout, NULL, _IOLBF, 0);
    make_models(argv[1]);
    made = calloc(MOST_PLANS, sizeof *made);
    VR_AUTO_FREE struct rig *r = calloc(1, sizeof *r);
    if (!made || !r) return 2;
    struct coming c = { 0 };
    struct joint j = { 0 };
    for (unsigned k = 0; k < n; k++) {
        struct house h = { 0 };
        make_rig(r, first + k);
        n_made = 0;
        for (unsigned i = 0; i < N_COMING; i++) come(r, &h, i, &c);
        plan_together(r, &j);
        vr_input_free(r->in);
        if ((k + 1) % TELL_EVERY == 0)
            fprintf(stderr, "%u sets, %.0f s of processor time, %u wrong\n", k + 1, cpu_s(), wrong);
    }
    done();
    printf("%u sets: %u models came, %u of them beside all others, %u left for them, %u were refused\n", n, c.came,
           c.moved_in, c.left, c.refused);
    printf("%u sets together: %u of %u models loaded at once; at most %.2f %% slower than by brute force; %u not "
           "searched to the end\n",
           j.sets, j.resident, j.models, 100 * (j.worst - 1), j.not_exact);
    printf("%lu plans by brute force, %.2f s of processor time for each set; %u wrong\n", n_plans, cpu_s() / n, wrong);
    return wrong ? 1 : 0;
}
