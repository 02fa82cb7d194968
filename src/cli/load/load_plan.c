/* Where the planner meets the server: a plan becomes the engine's settings and its environment. Without devices to
 * place layers on, everything is the host's.
 *
 * With --gpus or --machine the devices are not this computer's: the model then runs on virtual ones, computed by the
 * CPU under the memory limits of the cards named. It is slow and exact, and shows what a plan does before the cards are
 * bought. */
#include "cli/load/load_plan.h"

#include <string.h>
#include <unistd.h>

#include "base/confine.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/load/newcomer.h"
#include "cli/input/cache_dir.h"
#include "cli/input/nodes.h"
#include "cli/load/placement.h"
#include "cli/text/plan_json.h"
#include "cli/text/plan_text.h"
#include "cli/input/shipped.h"
#include "cli/text/show.h"
#include "engine/llama/gpu_code.h"
#include "engine/params/load_message.h"

#define MAX_TEMPLATE (256 << 10)

/* How virtual cards behave, for trying what happens when memory runs out: an array of JSON, an entry per plan made (the
 * last one stays), {"CUDA0": {...}} or {"*": {...}} with
 *   "free": N        MiB that it reports as free when the plan is made
 *   "less": N        MiB of that which cannot be had
 *   "run": N         MiB that its first computation takes
 *   "like_cuda": B   fails as CUDA does: with a line in the log, and by dying when it computes */
#define VIRTUAL "VRAM_LLM_VIRTUAL"

static json_t *behaviour(const char *id, unsigned n_fails)
{
    const char *text = getenv(VIRTUAL);
    json_t *list = text ? json_loads(text, 0, NULL) : NULL;
    size_t n = json_array_size(list);
    json_t *cards = json_array_get(list, n_fails < n ? n_fails : n ? n - 1 : 0), *card = json_object_get(cards, id);
    card = json_incref(card ? card : json_object_get(cards, "*"));
    json_decref(list);
    return card;
}

static double mib_of(const json_t *card, const char *name) { return json_number_value(json_object_get(card, name)); }

static void apply_virtual(struct vr_machine *m, unsigned n_fails)
{
    for (size_t i = 0; i < m->n_devices; i++) {
        json_t *card = behaviour(m->devices[i].id, n_fails);
        if (json_object_get(card, "free")) m->devices[i].free_bytes = (uint64_t)(mib_of(card, "free") * (double)VR_MIB);
        json_decref(card);
    }
}

/* --- devices --- */

/* Real devices that the linked engine cannot run on are left alone. What another program can, it must know itself. */
static bool is_usable(const struct vr_options *o, const struct vr_device *d, struct vr_err *why)
{
    bool cuda = strcmp(d->backend, "CUDA") == 0;
    return vr_input_is_virtual(o) || d->node[0] || (cuda && o->engine_program) || vr_gpu_usable(d, why);
}

static void keep_usable(const struct vr_options *o, struct vr_input *in)
{
    size_t n = 0;
    for (size_t i = 0; i < in->budgets.n; i++)
        if (is_usable(o, &in->machine.devices[in->budgets.items[i].device], &(struct vr_err){ 0 }))
            in->budgets.items[n++] = in->budgets.items[i];
    in->budgets.n = n;
}

static void warn_of_unusable(const struct vr_options *o, const struct vr_input *in)
{
    for (size_t i = 0; i < in->budgets.n; i++) {
        const struct vr_device *d = &in->machine.devices[in->budgets.items[i].device];
        struct vr_err why = { 0 };
        if (!is_usable(o, d, &why)) vr_log(VR_WARN, "%s (%s) is not used: %s", d->id, d->name, why.msg);
    }
}

bool vr_load_input(const struct vr_options *o, const struct vr_learned *learned, struct vr_input *in,
                   struct vr_err *err)
{
    if (!vr_input_rest(o, in, err)) return false;
    keep_usable(o, in);
    vr_input_learned(in, learned);
    return true;
}

/* The devices that the engine sees, machine devices in its order: those of the plan, and those that only overrides
 * name. */
struct seen {
    uint16_t devices[VR_MAX_DEVICES];
    size_t n;
    bool nodes; /* those of other machines are there: it sees them by itself */
};

static size_t see(struct seen *s, uint16_t device)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->devices[i] == device) return i;
    s->devices[s->n] = device;
    return s->n++;
}

static uint16_t device_by_id(const struct vr_machine *m, const char *id)
{
    uint16_t i = 0;
    while (i + 1u < m->n_devices && strcmp(m->devices[i].id, id) != 0) i++;
    return i;
}

/* The engine's name of a device: CUDA counts those that it sees. Virtual ones are called as we call them, and so are
 * those of other machines; Vulkan's we call as it does. */
static void engine_name(const struct vr_input *in, struct seen *s, uint16_t device, bool virtual, char *out, size_t n)
{
    const struct vr_device *d = &in->machine.devices[device];
    bool lent = d->node[0] && s->nodes, counted = strcmp(d->backend, "CUDA") == 0 && !d->node[0];
    size_t at = !lent && (virtual || counted) ? see(s, device) : 0;
    if (virtual || !counted)
        snprintf(out, n, "%s", d->id);
    else
        snprintf(out, n, "CUDA%zu", at);
}

/* Cards that are shown more than once (GGML_CUDA_DEVICES) are counted in turn by the engine: with all of them in their
 * order its numbers are ours. */
static void see_copies(const struct vr_machine *m, struct seen *s)
{
    bool copies = false;
    for (size_t i = 1; i < m->n_devices; i++) copies |= vr_device_same_card(&m->devices[i], &m->devices[0]);
    for (size_t i = 0; copies && i < m->n_devices; i++)
        if (strcmp(m->devices[i].backend, "CUDA") == 0 && !m->devices[i].node[0]) see(s, (uint16_t)i);
}

/* Nothing else is visible to the engine: a CUDA context costs half a GiB on every device that it sees. By UUID, or by
 * numbers in PCI order where a driver tells none. */
static void set_visible(const struct vr_input *in, const struct seen *s, struct vr_buf *env)
{
    bool by_uuid = true;
    for (size_t i = 0; i < s->n; i++) by_uuid &= in->machine.devices[s->devices[i]].uuid[0] != '\0';
    vr_buf_adds(env, "CUDA_DEVICE_ORDER=PCI_BUS_ID");
    vr_buf_addc(env, '\0', 1);
    vr_buf_adds(env, "CUDA_VISIBLE_DEVICES=");
    for (size_t i = 0; i < s->n; i++) {
        const struct vr_device *d = &in->machine.devices[s->devices[i]];
        bool again = false;
        for (size_t k = 0; k < i; k++) again |= vr_device_same_card(d, &in->machine.devices[s->devices[k]]);
        if (again) continue;
        vr_buf_addf(env, "%s%s", i ? "," : "", by_uuid ? d->uuid : d->id + strcspn(d->id, "0123456789"));
    }
    vr_buf_addc(env, '\0', 1);
}

/* What the front must know about the devices: all that may be used, with what the plan takes of them. */
static void list_devices(const struct vr_input *in, const struct vr_budgets *usable, const struct vr_outcome *o,
                         struct seen *s, bool virtual, struct vr_load *out)
{
    const struct vr_verdict *v = &o->verdict;
    for (size_t i = 0; i < usable->n && out->n_devices < VR_COUNT(out->devices); i++) {
        uint16_t device = usable->items[i].device;
        const struct vr_device *d = &in->machine.devices[device];
        struct vr_load_device *x = &out->devices[out->n_devices++];
        *x = (struct vr_load_device){ .free_bytes = d->free_bytes, .reserve_bytes = usable->items[i].reserve_bytes };
        vr_device_key(d, x->key, sizeof x->key);
        snprintf(x->id, sizeof x->id, "%s", d->id);
        for (size_t k = 0; k < v->n_devices; k++) {
            if (v->devices[k].device != device) continue;
            engine_name(in, s, device, virtual, x->name, sizeof x->name);
            x->model_bytes = v->devices[k].use.model_bytes;
            x->context_bytes = v->devices[k].use.context_bytes;
            x->compute_bytes = v->devices[k].use.compute_bytes;
        }
        uint64_t companions = vr_outcome_companion_bytes(o, device); /* made after the model and its context */
        if (companions) engine_name(in, s, device, virtual, x->name, sizeof x->name);
        x->compute_bytes += companions;
    }
}

/* --- the plan as the engine is to load it --- */

/* The devices of a message, as the engine names them. */
struct named {
    struct vr_vgpu_spec devices[VR_MAX_VGPUS], vgpus[VR_MAX_VGPUS];
    size_t n;
};

static int index_of(const struct vr_input *in, struct seen *s, uint16_t device, bool virtual, struct named *to)
{
    char name[32];
    engine_name(in, s, device, virtual, name, sizeof name);
    for (size_t i = 0; i < to->n; i++)
        if (strcmp(to->devices[i].name, name) == 0) return (int)i;
    snprintf(to->devices[to->n].name, sizeof to->devices[0].name, "%.*s", (int)sizeof to->devices[0].name - 1, name);
    return (int)to->n++;
}

/* The outcome's trial, but for what the engine calls its devices. */
static bool rename_devices(const struct vr_input *in, struct vr_outcome *o, struct seen *s, bool virtual,
                           struct named *to, struct vr_err *err)
{
    struct vr_load_params *p = &o->trial;
    for (size_t i = 0; i < o->verdict.n_devices; i++) {
        const struct vr_judged *j = &o->verdict.devices[i];
        p->order[i] = (uint8_t)index_of(in, s, j->device, virtual, to);
        /* without shares the dry run split by free memory; the engine would by what its contexts have left of it */
        if (!p->has_split) p->split[i] = (float)((double)j->free_bytes / (double)VR_MIB);
    }
    p->n_order = o->verdict.n_devices;
    p->has_split = p->n_order > 0;
    struct vr_override *overrides = vr_arena_alloc(&o->arena, p->n_overrides + 1, sizeof *overrides);
    if (!overrides) return vr_fail_nomem(err, "writing the engine's settings");
    for (size_t i = 0; i < p->n_overrides; i++) {
        overrides[i] = p->overrides[i];
        if (overrides[i].device == VR_ON_CPU) continue;
        uint16_t device = device_by_id(&in->machine, o->specs[overrides[i].device].name);
        overrides[i].device = index_of(in, s, device, virtual, to);
    }
    p->overrides = overrides;
    p->devices = to->devices;
    p->n_devices = to->n;
    return true;
}

/* Virtual devices: all that the engine sees, under the limits of the cards named. */
static void add_vgpus(const struct vr_input *in, const struct seen *s, struct vr_outcome *o, unsigned n_fails,
                      struct named *to)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct vr_device *d = &in->machine.devices[s->devices[i]];
        json_t *card = behaviour(d->id, n_fails);
        double cap = (double)d->free_bytes - mib_of(card, "less") * (double)VR_MIB;
        struct vr_vgpu_spec *v = &to->vgpus[i];
        for (size_t k = 0; k < VR_COUNT(o->specs); k++)
            if (strcmp(o->specs[k].name, d->id) == 0) *v = o->specs[k];
        v->free_bytes = cap > 0 ? (uint64_t)cap : 0;
        v->run_bytes = (uint64_t)(mib_of(card, "run") * (double)VR_MIB);
        v->like_cuda = json_is_true(json_object_get(card, "like_cuda"));
        json_decref(card);
    }
    o->trial.vgpus = to->vgpus;
    o->trial.n_vgpus = s->n;
}

/* Where the draft and the mmproj go; without this they are on the CPU. */
static bool set_companion_devices(const struct vr_input *in, struct vr_outcome *o, struct seen *s, bool virtual,
                                  struct vr_err *err)
{
    for (size_t k = 0; k < o->n_companions; k++) {
        const struct vr_companion *c = &o->companions[k];
        const char **to = c->kind == VR_DRAFT ? &o->trial.draft_device : &o->trial.mmproj_device;
        char name[32];
        if (c->device < 0) continue;
        engine_name(in, s, (uint16_t)c->device, virtual, name, sizeof name);
        *to = vr_arena_strdup(&o->arena, name);
        if (!*to) return vr_fail_nomem(err, "writing the engine's settings");
    }
    return true;
}

static bool is_used(const void *ctx, const char *id)
{
    const struct vr_load_params *p = ctx;
    bool used =
        (p->draft_device && !strcmp(p->draft_device, id)) || (p->mmproj_device && !strcmp(p->mmproj_device, id));
    for (size_t i = 0; i < p->n_devices; i++) used |= strcmp(p->devices[i].name, id) == 0;
    return used;
}

/* The machines that the engine is to borrow from. */
static bool set_nodes(const struct vr_input *in, struct vr_outcome *o, struct vr_err *err)
{
    struct vr_load_node *nodes = vr_arena_alloc(&o->arena, VR_MAX_NODES, sizeof *nodes);
    if (!nodes) return vr_fail_nomem(err, "writing the engine's settings");
    o->trial.nodes = nodes;
    return vr_nodes_used(&in->machine, is_used, &o->trial, nodes, &o->trial.n_nodes, err);
}

/* Appends the tree as text and frees it. */
static bool print(json_t *tree, struct vr_buf *out, struct vr_err *err)
{
    VR_AUTO_FREE char *text = tree ? json_dumps(tree, JSON_COMPACT) : NULL;
    json_decref(tree);
    if (text) vr_buf_adds(out, text);
    return (text && !out->failed) || vr_fail_nomem(err, "writing a plan");
}

/* What GET /api/plan answers. */
static bool print_plan(const struct vr_options *o, const struct vr_fit_ask *ask, const struct vr_outcome *outcome,
                       struct vr_load *out, struct vr_err *err)
{
    json_t *plan = json_object();
    json_object_set_new(plan, "model", vr_json_model(ask->model));
    json_object_set_new(plan, "goal", vr_json_goal(&outcome->trial, ask, o->optimize));
    json_object_update_new(plan, vr_json_outcome(ask, outcome));
    return print(plan, &out->plan_json, err);
}

/* A file as another process finds it; "" for none. Its own name stays, also when it is a link: the parts of a split
 * model are found by their names. */
static const char *whole_path(struct vr_arena *arena, const char *path)
{
    const char *name = path ? vr_file_name(path) : "";
    VR_AUTO_FREE char *dir = path && name > path ? strndup(path, (size_t)(name - path)) : strdup(".");
    VR_AUTO_FREE char *whole = path && dir ? realpath(dir, NULL) : NULL;
    return whole ? vr_arena_printf(arena, "%s/%s", strcmp(whole, "/") ? whole : "", name)
                 : vr_arena_strdup(arena, path ? path : "");
}

/* Where cached prompts are kept over a restart. */
static bool add_cache_file(const struct vr_options *o, struct vr_outcome *outcome, struct vr_err *err)
{
    struct vr_load_params *p = &outcome->trial;
    if (!o->cache_dir) return true;
    p->cache_disk_mib = (uint32_t)o->cache_disk;
    if (!p->cache_mib)
        vr_log(VR_WARN,
               "--cache-dir: no prompts are kept, because none are cached: --cache-ram leaves no host memory for them");
    p->cache_file = vr_cache_dir_file(o->cache_dir, p->model, &outcome->arena, err);
    return p->cache_file != NULL;
}

/* What no plan depends on: files, and how they are read. */
static bool write_load(const struct vr_options *o, const char *template, struct vr_outcome *outcome,
                       struct vr_load *out, struct vr_err *err)
{
    struct vr_load_params *p = &outcome->trial;
    p->model = whole_path(&outcome->arena, o->model);
    p->draft = whole_path(&outcome->arena, vr_spec_row(p->spec)->file ? o->draft : NULL);
    p->mmproj = whole_path(&outcome->arena, o->mmproj);
    struct vr_lora *loras = vr_arena_alloc(&outcome->arena, p->n_loras + 1, sizeof *loras);
    for (size_t i = 0; loras && i < p->n_loras; i++) {
        loras[i] = (struct vr_lora){ whole_path(&outcome->arena, p->loras[i].path), p->loras[i].scale };
        if (!loras[i].path) loras = NULL;
    }
    p->loras = loras;
    p->chat_template = vr_arena_strdup(&outcome->arena, template);
    p->mlock = o->mlock;
    p->node_seconds = (uint32_t)o->node_seconds;
    p->keep_billing_header = o->keep_billing_header;
    if (!p->model || !p->draft || !p->mmproj || !loras || !p->chat_template)
        return vr_fail_nomem(err, "writing the engine's settings");
    if (!add_cache_file(o, outcome, err)) return false;
    struct vr_err no = { 0 };
    if (vr_load_params_write(p, &out->load_json, &no)) return true;
    return *template && no.code == VR_EUSAGE ? vr_fail(err, VR_EUSAGE, "%s is not UTF-8", o->chat_template)
                                             : vr_fail(err, no.code, "%s", no.msg);
}

/* Without a device all is on the host already, and the plan is there to be looked at: a model that is larger than the
 * memory can still be mapped. What the user asked for in vain is refused. */
static bool plan_host(const struct vr_options *o, struct vr_fit_ask *ask, struct vr_outcome *outcome,
                      struct vr_load *out, struct vr_err *err)
{
    struct vr_err no = { 0 };
    if (vr_placement_find(o, ask, outcome, &no)) return print_plan(o, ask, outcome, out, err);
    if (no.code == VR_EUSAGE) return vr_fail(err, VR_EUSAGE, "%s", no.msg);
    vr_log(VR_WARN, "there is no plan: %s", no.msg);
    outcome->trial = vr_fit_params(ask);
    return vr_placement_cache(o, ask->machine->host.ram_free_bytes / 4, &outcome->trial.cache_mib, err);
}

/* Plans for the devices there are. */
static bool plan_devices(const struct vr_options *o, const struct vr_input *in, const struct vr_budgets *usable,
                         struct vr_fit_ask *ask, const struct vr_learned *learned, struct vr_outcome *outcome,
                         struct vr_load *out, struct vr_err *err)
{
    struct seen seen = { .nodes = o->nodes };
    bool virtual = vr_input_is_virtual(o);
    if (!vr_placement_find(o, ask, outcome, err) || !vr_outcome_check(ask, outcome, err)) return false;
    if (!print_plan(o, ask, outcome, out, err)) return false; /* as the planner names the devices */
    struct named *named = vr_arena_alloc(&outcome->arena, 1, sizeof *named);
    if (!named) return vr_fail_nomem(err, "writing the engine's settings");
    if (!virtual) see_copies(&in->machine, &seen);
    if (!rename_devices(in, outcome, &seen, virtual, named, err) ||
        !set_companion_devices(in, outcome, &seen, virtual, err) || (seen.nodes && !set_nodes(in, outcome, err)))
        return false;
    list_devices(in, usable, outcome, &seen, virtual, out);
    if (virtual)
        add_vgpus(in, &seen, outcome, learned->n_fails, named);
    else
        set_visible(in, &seen, &out->env);
    return true;
}

bool vr_load_plan_on(struct vr_input *in, const struct vr_options *o, const struct vr_models *models,
                     const struct vr_learned *learned, struct vr_outcome *outcome, struct vr_load *out,
                     struct vr_err *err)
{
    VR_AUTO_BUF template = { 0 };
    if (o->chat_template && !vr_file_read(o->chat_template, MAX_TEMPLATE, &template, err)) return false;
    if (!vr_input_rest(o, in, err)) return false;
    warn_of_unusable(o, in);
    keep_usable(o, in);
    const struct vr_budgets usable = in->budgets;
    vr_input_learned(in, learned);
    VR_AUTO_FREE struct vr_speeds *speeds = vr_input_speeds(o, in, err);
    if (!speeds) return false;
    struct vr_fit_ask ask = vr_placement_ask(o, in, models, speeds);
    struct vr_split split;
    vr_placement_learned(&ask, learned, &split);
    bool ok = usable.n ? plan_devices(o, in, &usable, &ask, learned, outcome, out, err)
                       : plan_host(o, &ask, outcome, out, err);
    if (ok && outcome->trial.split_mode == VR_SPLIT_TENSOR) out->split = split;
    return ok && write_load(o, vr_buf_str(&template), outcome, out, err);
}

bool vr_load_plan(const struct vr_options *o, const struct vr_models *models, const struct vr_learned *learned,
                  struct vr_load *out, struct vr_err *err)
{
    return vr_load_plan_beside(o, models, learned, NULL, out, err);
}

/* Who has to leave, if anybody is there. */
static bool make_room(const struct vr_options *o, const struct vr_models *models, const struct vr_learned *learned,
                      const struct vr_buf *others, struct vr_input *in, struct vr_load *out, struct vr_err *err)
{
    VR_AUTO_FREE struct vr_residents *r = calloc(1, sizeof *r);
    struct vr_departure d;
    struct vr_err why = { 0 };
    if (!r) return vr_fail_nomem(err, "planning");
    if (!vr_residents_parse(vr_buf_str(others), others->n, &in->machine, r, err)) return false;
    if (!r->n) return true;
    if (!vr_newcomer_settle(o, models, learned, r, in, &d, &why)) {
        if (why.code == VR_ENOFIT && !print(vr_newcomer_obstacles(r, &d), &out->in_the_way, err)) return false;
        return vr_fail(err, why.code, "%s", why.msg);
    }
    for (uint64_t who = d.leaving; who; who &= who - 1) {
        const char *id = r->items[__builtin_ctzll(who)].id;
        vr_buf_add(&out->evict, id, strlen(id) + 1);
    }
    return !out->evict.failed || vr_fail_nomem(err, "planning");
}

bool vr_load_plan_beside(const struct vr_options *o, const struct vr_models *models, const struct vr_learned *learned,
                         const struct vr_buf *others, struct vr_load *out, struct vr_err *err)
{
    VR_AUTO(vr_input) in = vr_input_new(err);
    VR_AUTO_OUTCOME outcome = { 0 };
    if (!in || !vr_input_machine(o, &in->machine, err)) return false;
    if (vr_input_is_virtual(o)) apply_virtual(&in->machine, learned->n_fails);
    if (others && !make_room(o, models, learned, others, in, out, err)) return false;
    return vr_load_plan_on(in, o, models, learned, &outcome, out, err);
}

static bool read_stdin(struct vr_buf *out, struct vr_err *err)
{
    char block[4096];
    ssize_t n;
    while ((n = read(STDIN_FILENO, block, sizeof block)) > 0) vr_buf_add(out, block, (size_t)n);
    return (n == 0 && !out->failed) || vr_fail(err, VR_EIO, "what was learned cannot be read from standard input");
}

/* What went wrong, as main.c would print it, with what stands in the way. */
static bool print_obstacles(const struct vr_load *l, const struct vr_err *why, struct vr_buf *out)
{
    json_t *list = l->in_the_way.n ? json_loadb(l->in_the_way.data, l->in_the_way.n, 0, NULL)
                                   : vr_newcomer_obstacles(NULL, &(struct vr_departure){ 0 });
    struct vr_err no;
    return print(json_pack("{s:{s:s,s:s,s:o}}", "error", "kind", vr_code_kind(why->code), "message", why->msg,
                           "in_the_way", list),
                 out, &no);
}

bool vr_cmd_load_plan(const struct vr_options *given, struct vr_buf *out, struct vr_err *err)
{
    struct vr_options filled = *given;
    const struct vr_options *o = &filled;
    vr_log_init(STDERR_FILENO, VR_LOG_JSON, VR_WARN); /* for the server, which tells it again */
    vr_confine_lightly();
    if (!o->model) filled.model = vr_shipped_model();
    VR_AUTO_BUF text = { 0 };
    struct vr_learned learned;
    VR_CLEANUP(vr_load_done) struct vr_load load = { 0 };
    if (!read_stdin(&text, err)) return false;
    if (!o->model || !vr_learned_parse(vr_buf_str(&text), text.n, &learned))
        return vr_fail(err, VR_EUSAGE, "load-plan is started by 'vram-llm serve'");
    VR_AUTO_MODELS models;
    if (!vr_models_open(o, &models, err)) return false;
    struct vr_err why = { 0 };
    if (vr_load_plan_beside(o, &models, &learned, &text, &load, &why)) return vr_load_write(&load, out, err);
    if (why.code == VR_ENOFIT && !print_obstacles(&load, &why, out)) vr_buf_clear(out);
    return vr_fail(err, why.code, "%s", why.msg);
}
