/* Where the planner meets the server: a plan becomes the engine's settings and its environment. Without devices to
 * place layers on, everything is the host's.
 *
 * With --gpus or --machine the devices are not this computer's: the model then runs on virtual ones, computed by the
 * CPU under the memory limits of the cards named. It is slow and exact, and shows what a plan does before the cards are
 * bought. */
#include "cli/load_plan.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/placement.h"
#include "cli/shipped.h"
#include "engine/llama/library.h"

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
static void keep_usable(const struct vr_options *o, struct vr_input *in)
{
    size_t n = 0;
    for (size_t i = 0; i < in->budgets.n; i++) {
        const struct vr_device *d = &in->machine.devices[in->budgets.items[i].device];
        bool cuda = strcmp(d->backend, "CUDA") == 0;
        if (vr_input_is_virtual(o) || (cuda && o->engine_program) || vr_engine_runs(d->backend))
            in->budgets.items[n++] = in->budgets.items[i];
        else
            vr_log(VR_WARN, "%s (%s) is not used: this engine has no backend for it; vram-llm doctor says more", d->id,
                   d->name);
    }
    in->budgets.n = n;
}

/* The devices that the engine sees, machine devices in its order: those of the plan, and those that only overrides
 * name. */
struct seen {
    uint16_t devices[VR_MAX_DEVICES];
    size_t n;
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

/* The engine's name of a device: CUDA counts those that it sees. Virtual ones are called as we call them, and Vulkan's
 * we call as it does. */
static void engine_name(const struct vr_input *in, struct seen *s, uint16_t device, bool virtual, char *out, size_t n)
{
    const struct vr_device *d = &in->machine.devices[device];
    bool counted = strcmp(d->backend, "CUDA") == 0;
    size_t at = virtual || counted ? see(s, device) : 0;
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
        if (strcmp(m->devices[i].backend, "CUDA") == 0) see(s, (uint16_t)i);
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
        *x = (struct vr_load_device){ .free_bytes = d->free_bytes };
        vr_device_key(d, x->key, sizeof x->key);
        for (size_t k = 0; k < v->n_devices; k++) {
            if (v->devices[k].device != device) continue;
            engine_name(in, s, device, virtual, x->name, sizeof x->name);
            x->model_bytes = v->devices[k].use.model_bytes;
            x->context_bytes = v->devices[k].use.context_bytes;
            x->compute_bytes = v->devices[k].use.compute_bytes;
        }
        uint64_t guests = vr_outcome_companion_bytes(o, device); /* made when the model and its context are there */
        if (guests) engine_name(in, s, device, virtual, x->name, sizeof x->name);
        x->compute_bytes += guests;
    }
}

/* --- the plan as settings --- */

static json_t *json_vgpus(const struct vr_input *in, const struct seen *s, const struct vr_outcome *o, unsigned n_fails)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->n; i++) {
        const struct vr_device *d = &in->machine.devices[s->devices[i]];
        int cc = 0;
        for (size_t k = 0; k < VR_COUNT(o->specs); k++)
            if (strcmp(o->specs[k].name, d->id) == 0) cc = o->specs[k].cc;
        json_t *card = behaviour(d->id, n_fails);
        double cap = (double)d->free_bytes / (double)VR_MIB - mib_of(card, "less");
        json_array_append_new(list, json_pack("{s:s, s:s, s:f, s:f, s:f, s:b, s:i}", "name", d->id, "about", d->name,
                                              "mib", (double)d->total_bytes / (double)VR_MIB, "cap_mib",
                                              cap > 0 ? cap : 0.0, "run_mib", mib_of(card, "run"), "like_cuda",
                                              json_is_true(json_object_get(card, "like_cuda")), "cc", cc));
        json_decref(card);
    }
    return list;
}

static json_t *json_placement(const struct vr_input *in, const struct vr_outcome *o, struct seen *s, bool virtual)
{
    const struct vr_trial *t = &o->trial;
    json_t *devices = json_array(), *split = json_array(), *overrides = json_array();
    char name[32];
    for (size_t i = 0; i < o->verdict.n_devices; i++) {
        const struct vr_judged *j = &o->verdict.devices[i];
        engine_name(in, s, j->device, virtual, name, sizeof name);
        json_array_append_new(devices, json_string(name));
        /* without shares the dry run split by free memory; the engine would by what its contexts have left of it */
        double share = t->has_split ? (double)t->split[i] : (double)j->free_bytes / (double)VR_MIB;
        json_array_append_new(split, json_real(share));
    }
    for (size_t i = 0; i < t->n_overrides; i++) {
        const struct vr_override *v = &t->overrides[i];
        if (v->device == VR_ON_CPU)
            snprintf(name, sizeof name, "CPU");
        else
            engine_name(in, s, device_by_id(&in->machine, o->specs[v->device].name), virtual, name, sizeof name);
        json_array_append_new(overrides, json_pack("{s:s, s:s}", "pattern", v->pattern, "device", name));
    }
    static const char *const modes[] = {
        [VR_SPLIT_LAYER] = "layer", [VR_SPLIT_NONE] = "none", [VR_SPLIT_TENSOR] = "tensor"
    };
    return json_pack("{s:o, s:o, s:o, s:i, s:b, s:I, s:s}", "devices", devices, "tensor_split", split, "overrides",
                     overrides, "n_gpu_layers", t->n_gpu_layers, "pipeline", t->pipeline, "n_ctx",
                     (json_int_t)t->context.n_ctx, "split_mode", modes[t->split_mode]);
}

/* Appends the tree as text and frees it. */
static bool print(json_t *tree, struct vr_buf *out, struct vr_err *err)
{
    VR_AUTO_FREE char *text = tree ? json_dumps(tree, JSON_COMPACT) : NULL;
    json_decref(tree);
    if (text) vr_buf_adds(out, text);
    return (text && !out->failed) || vr_fail_nomem(err, "writing the engine's settings");
}

static json_t *json_settings(const struct vr_options *o)
{
    VR_AUTO_FREE char *path = realpath(o->model, NULL);
    return json_pack("{s:s, s:[], s:i, s:I, s:I, s:I, s:I, s:s, s:s, s:s, s:I, s:b, s:b, s:b}", "model",
                     path ? path : o->model, "devices", "n_gpu_layers", 0, "n_ctx", (json_int_t)o->n_ctx, "n_seq",
                     (json_int_t)o->n_seq, "n_batch", (json_int_t)o->n_batch, "n_ubatch", (json_int_t)o->n_ubatch,
                     "type_k", o->cache_type_k, "type_v", o->cache_type_v, "flash_attn", o->flash_attn, "threads",
                     (json_int_t)o->threads, "mmap", !o->no_mmap, "mlock", o->mlock, "embeddings", o->embeddings);
}

/* Where the draft and the mmproj go; without this they are on the CPU. */
static void set_companion_devices(const struct vr_input *in, const struct vr_outcome *o, struct seen *s, bool virtual,
                                  json_t *load)
{
    for (size_t k = 0; k < o->n_companions; k++) {
        const struct vr_companion *c = &o->companions[k];
        char key[32], name[32];
        if (c->device < 0) continue;
        snprintf(key, sizeof key, "%s_device", vr_companion_name(c->kind));
        engine_name(in, s, (uint16_t)c->device, virtual, name, sizeof name);
        json_object_set_new(load, key, json_string(name));
    }
}

/* A file as another process finds it. */
static void set_path(json_t *load, const char *key, const char *path)
{
    VR_AUTO_FREE char *whole = path ? realpath(path, NULL) : NULL;
    if (path) json_object_set_new(load, key, json_string(whole ? whole : path));
}

/* What GET /api/plan answers. */
static bool print_plan(const struct vr_options *o, const struct vr_fit_ask *ask, const struct vr_outcome *outcome,
                       struct vr_load *out, struct vr_err *err)
{
    json_t *plan = json_object();
    json_object_set_new(plan, "model", vr_json_model(ask->model));
    json_object_set_new(plan, "goal", vr_json_goal(&outcome->trial.context, o->optimize));
    json_object_update_new(plan, vr_json_outcome(ask, outcome));
    return print(plan, &out->plan_json, err);
}

/* Without a device the settings say all on the host already, and the plan is there to be looked at: a model that is
 * larger than the memory can still be mapped. What the user asked for in vain is refused. */
static bool add_host_plan(const struct vr_options *o, struct vr_fit_ask *ask, struct vr_load *out, struct vr_err *err)
{
    VR_AUTO_OUTCOME outcome = { 0 };
    struct vr_err no = { 0 };
    if (vr_placement_find(o, ask, &outcome, &no)) return print_plan(o, ask, &outcome, out, err);
    if (no.code == VR_EUSAGE) return vr_fail(err, VR_EUSAGE, "%s", no.msg);
    vr_log(VR_WARN, "there is no plan: %s", no.msg);
    return true;
}

/* Plans for the devices there are, and adds the placement to the settings. */
static bool add_plan(const struct vr_options *o, const struct vr_models *m, const struct vr_learned *learned,
                     json_t *load, struct vr_load *out, struct vr_err *err)
{
    VR_AUTO(vr_input) in = vr_input_new(err);
    struct seen seen = { 0 };
    bool virtual = vr_input_is_virtual(o);
    if (!in || !vr_input_machine(o, &in->machine, err)) return false;
    if (virtual) apply_virtual(&in->machine, learned->n_fails);
    if (!vr_input_rest(o, in, err)) return false;
    keep_usable(o, in);
    const struct vr_budgets usable = in->budgets;
    vr_input_learned(in, learned);
    VR_AUTO_FREE struct vr_speeds *speeds = vr_input_speeds(o, in, err);
    if (!speeds) return false;
    struct vr_fit_ask ask = vr_placement_ask(o, in, m, speeds);
    /* rows of logits, as src/engine/process/loader.c asks for them */
    ask.n_outputs = o->embeddings && o->n_seq < 64 ? 64 : (uint32_t)o->n_seq;
    uint64_t streams = o->n_seq < VR_DRAFT_STREAMS ? o->n_seq : VR_DRAFT_STREAMS;
    uint32_t rows = (uint32_t)(o->n_seq + streams * VR_DRAFT_TOKENS);
    if (o->draft && ask.n_outputs < rows) ask.n_outputs = rows;
    json_object_set_new(load, "n_outputs", json_integer(ask.n_outputs));
    if (usable.n == 0) return add_host_plan(o, &ask, out, err);
    VR_AUTO_OUTCOME outcome = { 0 };
    if (!vr_placement_find(o, &ask, &outcome, err) || !vr_outcome_check(&ask, &outcome, err)) return false;
    if (!virtual) see_copies(&in->machine, &seen);
    json_object_update_new(load, json_placement(in, &outcome, &seen, virtual));
    set_companion_devices(in, &outcome, &seen, virtual, load);
    list_devices(in, &usable, &outcome, &seen, virtual, out);
    if (!virtual)
        set_visible(in, &seen, &out->env);
    else if (seen.n)
        json_object_set_new(load, "vgpus", json_vgpus(in, &seen, &outcome, learned->n_fails));
    return print_plan(o, &ask, &outcome, out, err);
}

bool vr_load_plan(const struct vr_options *o, const struct vr_models *models, const struct vr_learned *learned,
                  struct vr_load *out, struct vr_err *err)
{
    VR_AUTO_BUF template = { 0 };
    if (o->chat_template && !vr_file_read(o->chat_template, MAX_TEMPLATE, &template, err)) return false;
    json_t *load = json_settings(o);
    if (load && template.n && json_object_set_new(load, "chat_template", json_string(vr_buf_str(&template))) != 0)
        return json_decref(load), vr_fail(err, VR_EUSAGE, "%s is not UTF-8", o->chat_template);
    if (load) set_path(load, "draft", o->draft);
    if (load) set_path(load, "mmproj", o->mmproj);
    if (load && o->draft) json_object_set_new(load, "n_draft", json_integer(VR_DRAFT_TOKENS));
    if (load && !add_plan(o, models, learned, load, out, err)) return json_decref(load), false;
    return print(load, &out->load_json, err);
}

static bool read_stdin(struct vr_buf *out, struct vr_err *err)
{
    char block[4096];
    ssize_t n;
    while ((n = read(STDIN_FILENO, block, sizeof block)) > 0) vr_buf_add(out, block, (size_t)n);
    return (n == 0 && !out->failed) || vr_fail(err, VR_EIO, "what was learned cannot be read from standard input");
}

bool vr_cmd_load_plan(const struct vr_options *given, struct vr_buf *out, struct vr_err *err)
{
    struct vr_options filled = *given;
    const struct vr_options *o = &filled;
    if (!o->model) filled.model = vr_shipped_model();
    VR_AUTO_BUF text = { 0 };
    struct vr_learned learned;
    VR_CLEANUP(vr_load_done) struct vr_load load = { 0 };
    if (!read_stdin(&text, err)) return false;
    if (!o->model || !vr_learned_parse(vr_buf_str(&text), text.n, &learned))
        return vr_fail(err, VR_EUSAGE, "load-plan is started by 'vram-llm serve'");
    VR_AUTO_MODELS models;
    return vr_models_open(o, &models, err) && vr_load_plan(o, &models, &learned, &load, err) &&
           vr_load_write(&load, out, err);
}
