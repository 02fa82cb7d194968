/* Rooms are machines: this one, with more free memory the more models leave. The first plan is made as loading makes
 * it, with all of its choices; the others have its settings, because they only have to tell whether there is room. */
#include "cli/load/newcomer.h"

#include <math.h>
#include <string.h>

#include <jansson.h>

#include "base/text.h"
#include "cli/load/load_plan.h"
#include "cli/load/placement.h"
#include "cli/text/plan_text.h"
#include "fit/screen.h"

#define SURELY   1.05 /* slower than that by a quick plan: not worth a long one */
#define CTX_KEPT 0.9  /* of the largest context: where it is left to us, so much of it may not be given up */

/* --- who is there --- */

static bool read_bytes(const json_t *v, uint64_t *out)
{
    *out = (uint64_t)json_integer_value(v);
    return !v || (json_is_integer(v) && json_integer_value(v) >= 0);
}

static bool read_devices(const json_t *list, const struct vr_machine *m, struct vr_room *out)
{
    const char *name;
    json_t *v;
    uint64_t bytes;
    json_object_foreach((json_t *)(uintptr_t)list, name, v)
    {
        if (!read_bytes(v, &bytes)) return false;
        for (size_t i = 0; i < m->n_devices; i++) {
            char key[96];
            vr_device_key(&m->devices[i], key, sizeof key);
            if (strcmp(name, key) == 0 || strcmp(name, m->devices[i].id) == 0) {
                out->devices[i] += bytes;
                break;
            }
        } /* a device that is gone has nothing to give */
    }
    return true;
}

static bool read_resident(const json_t *v, const struct vr_machine *m, size_t i, struct vr_residents *out)
{
    struct vr_resident *r = &out->items[i];
    const char *id = json_string_value(json_object_get(v, "model"));
    if (!id || !*id || strlen(id) >= sizeof r->id) return false;
    strcpy(r->id, id);
    r->pinned = json_is_true(json_object_get(v, "pinned"));
    r->busy = json_is_true(json_object_get(v, "busy"));
    r->reload_s = json_number_value(json_object_get(v, "cost_s"));
    r->last_used_s = json_number_value(json_object_get(v, "last_used_s"));
    out->loading[i] = json_is_object(json_object_get(v, "before"));
    return read_devices(json_object_get(v, "devices"), m, &r->room) &&
           read_bytes(json_object_get(v, "host"), &r->room.host) &&
           read_devices(json_object_get(v, "before"), m, &out->before[i]) &&
           read_bytes(json_object_get(v, "host_now"), &out->host_now[i]);
}

bool vr_residents_parse(const char *text, size_t n, const struct vr_machine *m, struct vr_residents *out,
                        struct vr_err *err)
{
    json_t *tree = json_loadb(text, n, 0, NULL), *list = json_object_get(tree, "residents");
    bool ok = json_array_size(list) <= VR_MAX_RESIDENTS;
    *out = (struct vr_residents){ 0 };
    for (; ok && out->n < json_array_size(list); out->n++)
        ok = read_resident(json_array_get(list, out->n), m, out->n, out);
    json_decref(tree);
    return ok || vr_fail(err, VR_EUSAGE, "the models that are loaded cannot be read from standard input");
}

/* --- rooms --- */

struct newcomer {
    const struct vr_options *o;
    const struct vr_models *models;
    const struct vr_learned *learned;
    struct vr_resident all[VR_MAX_RESIDENTS]; /* with what their processes take; of that: */
    struct vr_room held[VR_MAX_RESIDENTS];    /* what the machine's free memory lacks already, */
    struct vr_room later[VR_MAX_RESIDENTS];   /* … and the rest, which it does not lack yet */
    const bool *loading;
    size_t n;
    struct vr_input *now;  /* the machine as it is */
    struct vr_input *then; /* … and when some have left */
    bool planned;          /* a first time: what follows is of that plan */
    struct vr_options settled;
    struct vr_room best;
    struct vr_screen *screen; /* NULL: there are no quick plans */
    struct vr_speeds *speeds; /* of it */
    struct vr_room full;      /* what could be used if everybody left */
    struct vr_err why;        /* the last plan failed */
};

/* The machine without them, with its budgets. */
static bool leave(struct newcomer *x, const struct vr_options *o, uint64_t leaving, struct vr_err *err)
{
    *x->then = *x->now;
    for (size_t i = 0; i < x->n; i++)
        if (leaving >> i & 1) vr_room_give(&x->then->machine, &x->held[i]);
    for (size_t i = 0; i < x->n; i++)
        if (!(leaving >> i & 1)) vr_room_take(&x->then->machine, &x->later[i]);
    return vr_load_input(o, x->learned, x->then, err);
}

/* The first plan: later ones have its settings and no choice but the placement. */
static void remember(struct newcomer *x, const struct vr_fit_ask *ask, const struct vr_outcome *o)
{
    const struct vr_context *c = &o->trial.context;
    uint32_t step = vr_context_step(&ask->context), n_ctx = o->verdict.n_ctx;
    x->planned = true;
    x->best = vr_room_of(o);
    x->settled = *x->o;
    x->settled.allow = NULL;
    x->settled.n_ctx = x->o->n_ctx ? ask->context.n_ctx : (uint32_t)(n_ctx * CTX_KEPT) / step * step;
    x->settled.cache_type_k = vr_type(ask->context.type_k)->name;
    x->settled.cache_type_v = vr_type(ask->context.type_v)->name;
    x->settled.n_ubatch = c->n_ubatch;
    x->settled.n_batch = c->n_batch;
    x->settled.host_weights = o->trial.mmap ? "mapped" : "pinned";
    x->settled.no_mmap = false;
    x->settled.offload_min_batch = o->trial.offload_min;
}

/* What a token costs by what the plan was made for; a drafted one counts as well. */
static double cost_of(const struct vr_outcome *o)
{
    double cost = o->verdict.cost[o->optimize];
    for (size_t i = 0; i < o->n_companions; i++)
        if (o->companions[i].kind == VR_DRAFT) cost += o->trial.n_draft * o->companions[i].ms;
    return cost;
}

/* Quick plans for other rooms, where whole layers are placed as the planner likes. */
static void open_screen(struct newcomer *x, const struct vr_fit_ask *ask, const struct vr_outcome *o)
{
    const struct vr_options *given = x->o;
    struct vr_err no;
    struct vr_fit_ask a = *ask;
    bool fixed = given->tensor_split || given->override_tensor || given->use_fit_params ||
                 strcmp(given->n_gpu_layers, "-1") != 0 || strcmp(given->split_mode, "none") == 0;
    if (fixed || o->trial.split_mode == VR_SPLIT_TENSOR || o->n_companions) return;
    if (!(x->speeds = malloc(sizeof *x->speeds))) return;
    *x->speeds = *ask->speeds;
    a.speeds = x->speeds;
    a.context.n_ctx = (uint32_t)x->settled.n_ctx;
    a.context.n_ubatch = o->trial.context.n_ubatch;
    a.context.n_batch = o->trial.context.n_batch;
    a.offload_min = o->trial.offload_min;
    x->screen = vr_screen_open(&a, &(struct vr_goal){ .optimize = o->optimize, .whole_layers = true }, &no);
}

/* By a quick plan of whole layers. */
static bool too_slow(void *ctx, uint64_t leaving)
{
    struct newcomer *x = ctx;
    struct vr_err no;
    if (!x->screen || !leave(x, &x->settled, leaving, &no)) return false;
    return vr_screen_cost(x->screen, &x->then->machine, &x->then->budgets) > (1 + VR_SLOWER) * SURELY;
}

static bool plan(void *ctx, uint64_t leaving, double *cost, struct vr_err *err)
{
    struct newcomer *x = ctx;
    const struct vr_options *o = x->planned ? &x->settled : x->o;
    if (!leave(x, o, leaving, err)) return false;
    VR_AUTO_FREE struct vr_speeds *speeds = vr_input_speeds(o, x->then, err);
    if (!speeds) return false;
    struct vr_fit_ask ask = vr_placement_ask(o, x->then, x->models, speeds);
    struct vr_split split;
    vr_placement_learned(&ask, x->learned, &split);
    VR_AUTO_OUTCOME outcome = { 0 };
    x->why = (struct vr_err){ 0 };
    *cost = INFINITY;
    if (!vr_placement_find(o, &ask, &outcome, &x->why) || !vr_outcome_check(&ask, &outcome, &x->why))
        return x->why.code == VR_ENOFIT || vr_fail(err, x->why.code, "%s", x->why.msg);
    *cost = cost_of(&outcome);
    if (x->planned) return true;
    remember(x, &ask, &outcome);
    open_screen(x, &ask, &outcome);
    return true;
}

/* What those who stay have. */
static struct vr_room taken(const struct newcomer *x, uint64_t leaving)
{
    struct vr_room sum = { 0 };
    for (size_t i = 0; i < x->n; i++)
        if (!(leaving >> i & 1)) vr_room_add(&sum, &x->all[i].room);
    return sum;
}

/* The first plan's placement still fits, byte by byte. */
static bool as_well(void *ctx, uint64_t leaving)
{
    const struct newcomer *x = ctx;
    struct vr_room r = taken(x, leaving);
    if (!x->planned || x->best.host + r.host > x->full.host) return false;
    for (size_t i = 0; i < VR_MAX_DEVICES; i++)
        if (x->best.devices[i] && x->best.devices[i] + r.devices[i] > x->full.devices[i]) return false;
    return true;
}

static uint64_t misses(void *ctx)
{
    const struct newcomer *x = ctx;
    struct vr_room r = taken(x, 0);
    uint64_t need = 0, have = 0;
    for (size_t i = 0; i < VR_MAX_DEVICES; i++) {
        need += x->best.devices[i];
        have += x->full.devices[i] > r.devices[i] ? x->full.devices[i] - r.devices[i] : 0;
    }
    return need > have ? need - have : 0;
}

/* --- what stands in the way --- */

/* One that is pinned as well does not leave when it is idle. */
static enum vr_obstacle stands(const struct vr_resident *r, bool loading)
{
    return r->pinned ? VR_OBSTACLE_PINNED : loading ? VR_OBSTACLE_LOADING : VR_OBSTACLE_BUSY;
}

json_t *vr_newcomer_obstacles(const struct vr_residents *all, const struct vr_departure *d)
{
    json_t *list = json_array();
    for (uint64_t who = d->end == VR_BLOCKED ? d->blocking : 0; who; who &= who - 1) {
        const struct vr_resident *r = &all->items[__builtin_ctzll(who)];
        uint64_t bytes = r->room.host;
        for (size_t i = 0; i < VR_MAX_DEVICES; i++) bytes += r->room.devices[i];
        enum vr_obstacle kind = stands(r, all->loading[r - all->items]);
        json_array_append_new(list, json_pack("{s:s,s:s,s:I}", "kind", vr_obstacle_name(kind), "model", r->id, "bytes",
                                              (json_int_t)bytes));
    }
    if (!json_array_size(list))
        json_array_append_new(list, json_pack("{s:s}", "kind", vr_obstacle_name(VR_OBSTACLE_TOO_LARGE)));
    return list;
}

/* "'a', 'b' are busy", for those of a kind. False: there are none. */
static bool add_names(struct newcomer *x, uint64_t who, enum vr_obstacle kind, const char *word, const char *before,
                      struct vr_err *err)
{
    unsigned n = 0;
    for (; who; who &= who - 1) {
        size_t i = (size_t)__builtin_ctzll(who);
        if (stands(&x->all[i], x->loading[i]) != kind) continue;
        if (++n <= 3) vr_fail_more(err, "%s'%.60s'", n == 1 ? before : ", ", x->all[i].id);
    }
    if (n > 3) vr_fail_more(err, " and %u more", n - 3);
    if (n) vr_fail_more(err, " %s %s", n == 1 ? "is" : "are", word);
    return n > 0;
}

static bool fail_blocked(struct newcomer *x, uint64_t blocking, struct vr_err *err)
{
    static const struct {
        enum vr_obstacle kind;
        const char *word;
    } kinds[] = { { VR_OBSTACLE_BUSY, "busy" },
                  { VR_OBSTACLE_LOADING, "being loaded" },
                  { VR_OBSTACLE_PINNED, "pinned" } };
    const char *before = "";
    vr_fail(err, VR_ENOFIT, "%s does not fit beside models that cannot be unloaded now: ", x->models->main->name);
    for (size_t i = 0; i < VR_COUNT(kinds); i++)
        if (add_names(x, blocking, kinds[i].kind, kinds[i].word, before, err)) before = ", ";
    return false;
}

/* --- all of it --- */

/* What of it the machine's free memory lacks: all, or as much as went away since it began to load. */
static struct vr_room held_by(const struct newcomer *x, const struct vr_residents *residents, size_t i)
{
    struct vr_room held = x->all[i].room;
    for (size_t d = 0; residents->loading[i] && d < x->now->machine.n_devices; d++) {
        uint64_t before = residents->before[i].devices[d], now = x->now->machine.devices[d].free_bytes,
                 gone = before > now ? before - now : 0;
        if (gone < held.devices[d]) held.devices[d] = gone;
    }
    return held;
}

/* What the residents take, with their processes. Devices that are this computer's lack it already, and its host what
 * they have allocated; what is described (--gpus, --machine) lacks nothing. */
static bool settle_in(struct newcomer *x, const struct vr_residents *residents, struct vr_err *err)
{
    if (!vr_input_rest(x->o, x->now, err)) return false;
    x->loading = residents->loading;
    for (x->n = 0; x->n < residents->n; x->n++) {
        struct vr_resident *r = &x->all[x->n];
        struct vr_room *held = &x->held[x->n], *later = &x->later[x->n];
        uint64_t host_now = x->o->machine ? 0 : residents->host_now[x->n];
        *r = residents->items[x->n];
        for (size_t d = 0; d < x->now->machine.n_devices; d++)
            if (r->room.devices[d])
                r->room.devices[d] +=
                    vr_process_bytes(&x->now->machine.devices[d], vr_budgets_reserve(&x->now->budgets, d));
        if (!vr_input_is_virtual(x->o)) *held = held_by(x, residents, x->n);
        held->host = host_now < r->room.host ? host_now : r->room.host;
        for (size_t d = 0; d < x->now->machine.n_devices; d++)
            later->devices[d] = r->room.devices[d] - held->devices[d];
        later->host = r->room.host - held->host;
    }
    if (!leave(x, x->o, UINT64_MAX, err)) return false;
    const struct vr_budgets *b = &x->then->budgets;
    x->full.host = x->then->machine.host.ram_free_bytes;
    for (size_t i = 0; i < b->n; i++) x->full.devices[b->items[i].device] = b->items[i].budget_bytes;
    return true;
}

/* Without a device a model that exceeds the memory is mapped all the same (cli/load/load_plan.c): then everybody leaves
 * who may. */
static bool may_exceed(struct newcomer *x, struct vr_departure *out)
{
    for (size_t i = 0; i < VR_MAX_DEVICES; i++)
        if (x->full.devices[i]) return false;
    for (size_t i = 0; i < x->n; i++)
        if (!x->all[i].pinned && !x->all[i].busy) out->leaving |= UINT64_C(1) << i;
    return true;
}

static bool settle(struct newcomer *x, struct vr_departure *out, struct vr_err *err)
{
    const struct vr_newcomer who = { .plan = plan,
                                     .as_well = as_well,
                                     .too_slow = too_slow,
                                     .unsure = strcmp(x->o->split_mode, "layer") != 0, /* may split tensors there */
                                     .misses = misses,
                                     .ctx = x };
    if (!vr_residents_settle(x->all, x->n, &who, out, err)) return false;
    switch (out->end) {
    case VR_TOO_LARGE:
        if (!may_exceed(x, out)) return vr_fail(err, VR_ENOFIT, "%s", x->why.msg);
        break;
    case VR_BLOCKED: return fail_blocked(x, out->blocking, err);
    case VR_MOVES_IN: break;
    }
    if (!leave(x, x->o, out->leaving, err)) return false;
    x->now->machine = x->then->machine;
    return true;
}

bool vr_newcomer_settle(const struct vr_options *o, const struct vr_models *models, const struct vr_learned *learned,
                        const struct vr_residents *residents, struct vr_input *in, struct vr_departure *out,
                        struct vr_err *err)
{
    VR_AUTO(vr_input) then = vr_input_new(err);
    VR_AUTO_FREE struct newcomer *x = calloc(1, sizeof *x);
    if (!then || !x) return vr_fail_nomem(err, "planning");
    *x = (struct newcomer){ .o = o, .models = models, .learned = learned, .now = in, .then = then };
    bool ok = settle_in(x, residents, err) && settle(x, out, err);
    vr_screen_free(x->screen);
    free(x->speeds);
    return ok;
}
