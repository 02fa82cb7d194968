/* Where the planner meets the server: a plan becomes the engine's settings and its environment. Without devices to
 * place layers on, everything is the host's.
 *
 * With --gpus or --machine the devices are not this computer's: the model then runs on virtual ones, computed by the
 * CPU under the memory limits of the cards named. It is slow and exact, and shows what a plan does before the cards are
 * bought. */
#include "cli/load.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/placement.h"
#include "engine/engine.h"

#define MAX_TEMPLATE (256 << 10)

/* Real devices that the linked engine cannot run on are left alone. */
static void keep_usable(struct vr_input *in, bool virtual)
{
    size_t n = 0;
    for (size_t i = 0; i < in->budgets.n; i++) {
        const struct vr_device *d = &in->machine.devices[in->budgets.items[i].device];
        bool usable = virtual || (strcmp(d->backend, "CUDA") == 0 && vr_engine_has("cuda"));
        if (usable)
            in->budgets.items[n++] = in->budgets.items[i];
        else
            vr_log(VR_WARN, "%s (%s) is not used: this engine has no backend for it", d->id, d->name);
    }
    in->budgets.n = n;
}

/* The engine's name of a device of the budgets: CUDA counts the visible ones. */
static void engine_name(const struct vr_input *in, size_t i, bool virtual, char *out, size_t n)
{
    if (virtual)
        snprintf(out, n, "%s", in->machine.devices[in->budgets.items[i].device].id);
    else
        snprintf(out, n, "CUDA%u", (unsigned)i);
}

/* What failed before makes budgets smaller. */
static void apply_learned(struct vr_input *in, const struct vr_learned *learned, bool virtual)
{
    for (size_t i = 0; i < in->budgets.n; i++) {
        char name[32];
        engine_name(in, i, virtual, name, sizeof name);
        uint64_t less = vr_learned_less(learned, name), most = vr_learned_most(learned, name),
                 *budget = &in->budgets.items[i].budget_bytes;
        if (most) /* learned in this run, from the plan that failed */
            *budget = *budget < most ? *budget : most;
        else
            *budget = *budget > less ? *budget - less : 0;
    }
}

/* Only the devices that may be used are visible to the engine, by UUID and in our order. */
static void set_visible(const struct vr_input *in, struct vr_buf *env)
{
    vr_buf_adds(env, "CUDA_VISIBLE_DEVICES=");
    for (size_t i = 0; i < in->budgets.n; i++)
        vr_buf_addf(env, "%s%s", i ? "," : "", in->machine.devices[in->budgets.items[i].device].uuid);
    vr_buf_addc(env, '\0', 1);
}

/* For trying what happens when memory runs out: virtual cards have so many MiB less than they report. */
static double hidden_mib(void)
{
    const char *text = getenv("VRAM_LLM_VIRTUAL_LESS_MIB");
    double mib;
    return text && vr_parse_double(text, &mib) && mib > 0 ? mib : 0;
}

static json_t *json_placement(const struct vr_input *in, const struct vr_outcome *o, bool virtual)
{
    const struct vr_trial *t = &o->trial;
    json_t *devices = json_array(), *split = json_array(), *overrides = json_array(), *vgpus = json_array();
    char name[32];
    size_t n = t->n_order ? t->n_order : t->n_devices; /* a placement as given names no order: all, in their own */
    for (size_t i = 0; i < n; i++) {
        size_t d = t->n_order ? t->order[i] : i;
        engine_name(in, d, virtual, name, sizeof name);
        json_array_append_new(devices, json_string(name));
        /* without shares the dry run split by free memory; the engine would by what its contexts have left of it */
        double share = t->has_split ? (double)t->split[i] : (double)t->devices[d].free_bytes / (double)VR_MIB;
        json_array_append_new(split, json_real(share));
    }
    for (size_t i = 0; i < t->n_overrides; i++) {
        const struct vr_override *v = &t->overrides[i];
        if (v->device == VR_ON_CPU)
            snprintf(name, sizeof name, "CPU");
        else
            engine_name(in, (size_t)v->device, virtual, name, sizeof name);
        json_array_append_new(overrides, json_pack("{s:s, s:s}", "pattern", v->pattern, "device", name));
    }
    for (size_t i = 0; virtual && i < in->budgets.n; i++) {
        const struct vr_device *d = &in->machine.devices[in->budgets.items[i].device];
        json_array_append_new(vgpus,
                              json_pack("{s:s, s:s, s:f, s:f, s:i}", "name", d->id, "about", d->name, "mib",
                                        (double)d->total_bytes / (double)VR_MIB, "cap_mib",
                                        (double)d->free_bytes / (double)VR_MIB - hidden_mib(), "cc", o->specs[i].cc));
    }
    static const char *const modes[] = {
        [VR_SPLIT_LAYER] = "layer", [VR_SPLIT_NONE] = "none", [VR_SPLIT_TENSOR] = "tensor"
    };
    json_t *tree = json_pack("{s:o, s:o, s:o, s:i, s:b, s:I, s:s}", "devices", devices, "tensor_split", split,
                             "overrides", overrides, "n_gpu_layers", t->n_gpu_layers, "pipeline", t->pipeline, "n_ctx",
                             (json_int_t)t->context.n_ctx, "split_mode", modes[t->split_mode]);
    if (virtual && tree)
        json_object_set_new(tree, "vgpus", vgpus);
    else
        json_decref(vgpus);
    return tree;
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
static void set_companion_devices(const struct vr_input *in, const struct vr_outcome *o, bool virtual, json_t *load)
{
    for (size_t k = 0; k < o->n_companions; k++)
        for (size_t i = 0; i < in->budgets.n; i++) {
            char key[32], name[32];
            if (in->budgets.items[i].device != o->companions[k].device) continue;
            snprintf(key, sizeof key, "%s_device", vr_companion_name(o->companions[k].kind));
            engine_name(in, i, virtual, name, sizeof name);
            json_object_set_new(load, key, json_string(name));
        }
}

/* A file as another process finds it. */
static void set_path(json_t *load, const char *key, const char *path)
{
    VR_AUTO_FREE char *whole = path ? realpath(path, NULL) : NULL;
    if (path) json_object_set_new(load, key, json_string(whole ? whole : path));
}

/* Plans for the devices there are, and adds the placement to the settings. */
static bool add_plan(const struct vr_options *o, const struct vr_models *m, const struct vr_learned *learned,
                     json_t *load, struct vr_load *out, struct vr_err *err)
{
    struct vr_input in;
    bool virtual = o->gpus || o->machine;
    if (!vr_input_read(o, &in, err)) return false;
    keep_usable(&in, virtual);
    if (in.budgets.n == 0) return true;
    apply_learned(&in, learned, virtual);
    struct vr_speeds speeds;
    vr_speeds_guess(&in.machine, &speeds);
    struct vr_fit_ask ask = vr_placement_ask(o, &in, m, &speeds);
    /* rows of logits, as src/engine/load.c asks for them */
    ask.n_outputs = o->embeddings && o->n_seq < 64 ? 64 : (uint32_t)o->n_seq;
    uint64_t streams = o->n_seq < VR_DRAFT_STREAMS ? o->n_seq : VR_DRAFT_STREAMS;
    uint32_t rows = (uint32_t)(o->n_seq + streams * VR_DRAFT_TOKENS);
    if (o->draft && ask.n_outputs < rows) ask.n_outputs = rows;
    VR_AUTO_OUTCOME outcome = { 0 };
    if (!vr_placement_find(o, &ask, &outcome, err) || !vr_outcome_check(&ask, &outcome, err)) return false;
    if (!virtual) set_visible(&in, &out->env);
    json_object_update_new(load, json_placement(&in, &outcome, virtual));
    json_object_set_new(load, "n_outputs", json_integer(ask.n_outputs));
    set_companion_devices(&in, &outcome, virtual, load);
    json_t *plan = json_object();
    json_object_set_new(plan, "model", vr_json_model(m->main));
    json_object_set_new(plan, "goal", vr_json_goal(&outcome.trial.context, o->optimize));
    json_object_update_new(plan, vr_json_outcome(&ask, &outcome));
    return print(plan, &out->plan_json, err);
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
    if (load && o->draft) json_object_set_new(load, "n_draft", json_integer(VR_DRAFT_TOKENS));
    if (load && !add_plan(o, models, learned, load, out, err)) return json_decref(load), false;
    return print(load, &out->load_json, err);
}
