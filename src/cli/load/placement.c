/* What the options fix: the question for fit/, the user's own placement, and what --allow may change. */
#include "cli/load/placement.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "cli/input/speculation.h"
#include "engine/llama/library.h"
#include "fit/outcome.h"

#define FILL 0.5 /* of the context, when speeds are told */

struct vr_fit_ask vr_placement_ask(const struct vr_options *o, const struct vr_input *in, const struct vr_models *m,
                                   const struct vr_speeds *speeds)
{
    return (struct vr_fit_ask){ .model = m->main,
                                .companions = { m->companions[VR_DRAFT], m->companions[VR_MMPROJ] },
                                .loras = m->loras,
                                .n_loras = m->n_loras,
                                .lora_bytes = m->lora_bytes,
                                .machine = &in->machine,
                                .budgets = &in->budgets,
                                .speeds = speeds,
                                .context = in->context,
                                .flash_auto = strcmp(o->flash_attn, "auto") == 0,
                                .embeddings = o->embeddings,
                                .spec = vr_spec_asked(o),
                                .n_draft = (uint32_t)o->n_draft,
                                .offload_min = (uint32_t)o->offload_min_batch,
                                .threads = (uint32_t)o->threads,
                                .fill = FILL,
                                .n_prompt = (uint32_t)o->n_prompt };
}

void vr_placement_learned(struct vr_fit_ask *ask, const struct vr_learned *learned, struct vr_split *out)
{
    uint64_t h = vr_model_hash(ask->model);
    char key[96];
    for (size_t i = 0; i < ask->machine->n_devices; i++) {
        vr_device_key(&ask->machine->devices[i], key, sizeof key);
        h = vr_hash(key, strlen(key), h);
    }
    *out = (struct vr_split){ 0 };
    vr_text_fit(out->model, sizeof out->model, ask->model->name);
    vr_text_fit(out->engine, sizeof out->engine, vr_engine_version());
    h = vr_hash(out->engine, strlen(out->engine), h);
    snprintf(out->id, sizeof out->id, "%016" PRIx64, h);
    ask->tensor_off = learned->split_off;
    ask->tensor_died = learned->split_off || vr_learned_split(learned, out);
}

enum vr_optimize vr_placement_optimize(const struct vr_options *o)
{
    return strcmp(o->optimize, "prefill") == 0    ? VR_OPTIMIZE_PREFILL
           : strcmp(o->optimize, "balanced") == 0 ? VR_OPTIMIZE_BALANCED
                                                  : VR_OPTIMIZE_DECODE;
}

struct vr_open vr_placement_open(const struct vr_options *o)
{
    return (struct vr_open){ .n_ubatch = o->n_ubatch == 0,
                             .most_ubatch = (uint32_t)o->n_batch,
                             .host_weights = strcmp(o->host_weights, "auto") == 0 && !o->no_mmap,
                             .offload_min = o->offload_min_batch == 0 };
}

/* --- what the user fixed --- */

struct goal { /* with what it points to */
    struct vr_goal goal;
    struct vr_fixed_override overrides[64];
    size_t n;
    char text[4096]; /* patterns point into it */
};

static bool parse_split(const char *list, double out[VR_MAX_DEVICES], size_t *n, struct vr_err *err)
{
    *n = 0;
    for (const char *at = list;; at++) {
        char word[40];
        size_t k = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", k < sizeof word ? (int)k : 0, at);
        if (*n == VR_MAX_DEVICES || !vr_parse_double(word, &out[*n]) || out[*n] < 0)
            return vr_fail(err, VR_EUSAGE,
                           "--tensor-split: '%s' is not a list of shares like 0.35,0.45,0.20 or of layer counts", list);
        (*n)++;
        at += k;
        if (!*at) return true;
    }
}

bool vr_placement_splits(const struct vr_options *o, enum vr_splits *out, struct vr_err *err)
{
    if (strcmp(o->split_mode, "row") == 0)
        return vr_fail(err, VR_EUSAGE,
                       "--split-mode row: the engine no longer supports it on CUDA devices; use tensor, which puts a "
                       "part of every layer on each device, or layer, which works everywhere");
    if (strcmp(o->split_mode, "tensor") == 0 && o->nodes)
        return vr_fail(
            err, VR_EUSAGE,
            "--split-mode tensor does not work across machines; leave out one of --nodes and --split-mode tensor");
    *out = strcmp(o->split_mode, "auto") == 0     ? VR_SPLITS_ALL
           : strcmp(o->split_mode, "tensor") == 0 ? VR_SPLITS_TENSOR
                                                  : VR_SPLITS_LAYER;
    return true;
}

static bool parse_gpu_layers(const char *text, int *out, struct vr_err *err)
{
    uint64_t n;
    if (strcmp(text, "-1") == 0 || strcmp(text, "all") == 0) return *out = -1, true;
    if (!vr_parse_u64(text, 0, 100000, &n))
        return vr_fail(err, VR_EUSAGE, "--n-gpu-layers: '%s' is neither an integer nor -1 for all", text);
    *out = (int)n;
    return true;
}

/* The user's overrides for the planner: devices of the machine. */
static bool parse_overrides(const char *list, const struct vr_fit_ask *ask, struct goal *w, struct vr_err *err)
{
    snprintf(w->text, sizeof w->text, "%s", list);
    if (strlen(list) >= sizeof w->text)
        return vr_fail(err, VR_EUSAGE, "--override-tensor: longer than %zu bytes", sizeof w->text);
    for (char *save = NULL, *one = strtok_r(w->text, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
        const char *pattern, *id;
        if (!vr_override_split(one, &pattern, &id, err) || !vr_override_check(ask->model, pattern, err)) return false;
        int device = strcasecmp(id, "CPU") == 0 ? -1 : -2;
        for (size_t i = 0; i < ask->budgets->n && device == -2; i++)
            if (strcasecmp(ask->machine->devices[ask->budgets->items[i].device].id, id) == 0)
                device = ask->budgets->items[i].device;
        if (device == -2) return vr_fail(err, VR_EUSAGE, "--override-tensor: there is no device '%s' to use", id);
        if (w->n == VR_COUNT(w->overrides))
            return vr_fail(err, VR_EUSAGE, "--override-tensor: more than %zu patterns", w->n);
        w->overrides[w->n++] = (struct vr_fixed_override){ pattern, device };
    }
    w->goal.fixed.overrides = w->overrides;
    w->goal.fixed.n_overrides = w->n;
    return true;
}

static bool plan_it(const struct vr_options *o, const struct vr_fit_ask *ask, enum vr_splits splits, int n_gpu_layers,
                    struct vr_outcome *out, struct vr_err *err)
{
    struct goal w = { .goal.splits = splits };
    w.goal.optimize = vr_placement_optimize(o);
    w.goal.fixed.order = strcmp(o->device_order, "auto") != 0;
    w.goal.fixed.split_mode = splits != VR_SPLITS_ALL;
    w.goal.fixed.has_gpu_layers = n_gpu_layers >= 0;
    w.goal.fixed.n_gpu_layers = n_gpu_layers >= 0 ? (uint32_t)n_gpu_layers : 0;
    if (o->override_tensor && !parse_overrides(o->override_tensor, ask, &w, err)) return false;
    const struct vr_open open = vr_placement_open(o);
    return vr_fit_choose(ask, &w.goal, &open, out, err);
}

/* May `what` be changed to make it fit? */
static bool allowed(const char *list, const char *what)
{
    size_t n = strlen(what);
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, what, n) == 0 && (at[n] == ',' || !at[n])) return true;
    return false;
}

static bool check_allow(const char *list, struct vr_err *err)
{
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',') {
        size_t n = strcspn(at, ",");
        if (!(n == 3 && strncmp(at, "ctx", 3) == 0) && !(n == 2 && strncmp(at, "kv", 2) == 0) &&
            !(n == 3 && strncmp(at, "cpu", 3) == 0))
            return vr_fail(err, VR_EUSAGE, "--allow: '%.*s' is none of ctx, kv, cpu", (int)n, at);
    }
    return true;
}

/* --- less than was asked for --- */

static uint32_t smaller(uint32_t type, uint32_t than)
{
    const struct vr_type *a = vr_type(type), *b = vr_type(than);
    return (uint64_t)a->bytes * b->block < (uint64_t)b->bytes * a->block ? type : than;
}

/* Does the engine take such a cache? A quantized V needs flash attention, and heads that its blocks divide. */
static bool cache_works(const struct vr_fit_ask *ask, const struct vr_context *c)
{
    VR_AUTO_FOOTPRINT f = { 0 };
    struct vr_err no;
    return vr_footprint_compute(ask->model, c, &f, &no);
}

/* K and V of a type, as far as that is less than they have; V stays where it cannot be quantized. */
static bool lower_cache(struct vr_fit_ask *ask, uint32_t type)
{
    struct vr_context both = ask->context, only_k;
    both.type_k = smaller(type, both.type_k);
    only_k = both;
    both.type_v = smaller(type, both.type_v);
    const struct vr_context *to = cache_works(ask, &both) ? &both : cache_works(ask, &only_k) ? &only_k : &ask->context;
    if (to->type_k == ask->context.type_k && to->type_v == ask->context.type_v) return false;
    ask->context = *to;
    return true;
}

#define LEAST_CTX 512 /* tokens: less is of no use */

/* Half of the context, so that it is not rounded up to more. */
static bool halve_context(struct vr_fit_ask *ask)
{
    uint32_t step = vr_context_step(&ask->context), half = ask->context.n_ctx / 2 / step * step;
    if (half < LEAST_CTX) return false;
    ask->context.n_ctx = half;
    return true;
}

/* Asks for less, by the next smallest step that --allow permits. */
static bool relax(const struct vr_options *o, struct vr_fit_ask *ask)
{
    static const char *const caches[] = { "q8_0", "q4_0" };
    for (size_t i = 0; allowed(o->allow, "kv") && i < VR_COUNT(caches); i++)
        if (lower_cache(ask, vr_type_by_name(caches[i]))) return true;
    return allowed(o->allow, "ctx") && halve_context(ask);
}

/* What the plan has less of than was asked for. */
static void tell_relaxed(const struct vr_context *asked, const struct vr_context *is, struct vr_outcome *out)
{
    if (is->n_ctx != asked->n_ctx)
        vr_outcome_reason_first(
            out, &(struct vr_reason){
                     .kind = VR_REASON_CONTEXT_REDUCED,
                     .figures = { [VR_FIGURE_N_CTX] = is->n_ctx, [VR_FIGURE_ASKED_N_CTX] = asked->n_ctx } });
    if (is->type_k != asked->type_k || is->type_v != asked->type_v)
        vr_outcome_reason_first(out, &(struct vr_reason){ .kind = VR_REASON_CACHE_REDUCED,
                                                          .figures = { [VR_FIGURE_TYPE_K] = is->type_k,
                                                                       [VR_FIGURE_TYPE_V] = is->type_v,
                                                                       [VR_FIGURE_ASKED_TYPE_K] = asked->type_k,
                                                                       [VR_FIGURE_ASKED_TYPE_V] = asked->type_v } });
}

/* Where it was for us to choose, or no longer for the user. */
static void tell_tensor_died(const struct vr_options *o, const struct vr_fit_ask *ask, struct vr_outcome *out)
{
    bool open = ask->tensor_off || strcmp(o->split_mode, "auto") == 0;
    if (open && ask->tensor_died && out->trial.split_mode != VR_SPLIT_TENSOR && ask->budgets->n > 1)
        vr_outcome_reason_first(out, &(struct vr_reason){ .kind = VR_REASON_TENSOR_DIED });
}

static bool find(const struct vr_options *o, struct vr_fit_ask *ask, struct vr_outcome *out, struct vr_err *err)
{
    struct vr_given given = { .overrides = o->override_tensor,
                              .split_mode = strcmp(o->split_mode, "none") == 0     ? VR_SPLIT_NONE
                                            : strcmp(o->split_mode, "tensor") == 0 ? VR_SPLIT_TENSOR
                                                                                   : VR_SPLIT_LAYER };
    double split[VR_MAX_DEVICES];
    enum vr_splits splits;
    if (o->no_mmap && strcmp(o->host_weights, "mapped") == 0)
        return vr_fail(err, VR_EUSAGE, "--no-mmap and --host-weights mapped contradict each other");
    if (!vr_placement_splits(o, &splits, err) || !parse_gpu_layers(o->n_gpu_layers, &given.n_gpu_layers, err) ||
        !check_allow(o->allow, err))
        return false;
    if (o->use_fit_params) {
        if (o->tensor_split || o->override_tensor)
            return vr_fail(err, VR_EUSAGE,
                           "--use-fit-params lets llama.cpp choose: leave out --tensor-split and --override-tensor");
        return vr_fit_llama(ask, out, err);
    }
    if (ask->n_loras && splits == VR_SPLITS_TENSOR)
        return vr_fail(err, VR_EUSAGE, "--lora: adapters cannot be split over devices; leave out --split-mode tensor");
    if (ask->n_loras) splits = VR_SPLITS_LAYER;
    if (vr_spec_is_head_file(vr_fit_spec(ask))) splits = VR_SPLITS_LAYER;
    bool instead = given.split_mode == VR_SPLIT_TENSOR && ask->tensor_off; /* shares of layers are no numbers of them */
    if (instead || (splits == VR_SPLITS_ALL && ask->tensor_died)) splits = VR_SPLITS_LAYER;
    bool one = splits == VR_SPLITS_TENSOR && ask->budgets->n < 2; /* nothing to choose */
    if ((o->tensor_split && !instead) || given.split_mode == VR_SPLIT_NONE || one) {
        if (o->tensor_split && strcmp(o->tensor_split, "free") != 0) {
            if (!parse_split(o->tensor_split, split, &given.n_split, err)) return false;
            given.split = split;
        }
        return vr_fit_given(ask, &given, out, err);
    }
    const struct vr_context asked = ask->context;
    bool ok = plan_it(o, ask, splits, given.n_gpu_layers, out, err);
    while (!ok && err->code == VR_ENOFIT && relax(o, ask)) ok = plan_it(o, ask, splits, given.n_gpu_layers, out, err);
    if (ok) tell_relaxed(&asked, &ask->context, out);
    if (ok) tell_tensor_died(o, ask, out);
    return ok;
}

/* --- the prompt cache --- */

bool vr_placement_cache(const struct vr_options *o, uint64_t left_bytes, uint32_t *mib, struct vr_err *err)
{
    uint64_t left = left_bytes / VR_MIB, n;
    struct vr_num x, y;
    if (!o->cache_ram || strcmp(o->cache_ram, "auto") == 0) {
        *mib = left / 2 < VR_CACHE_MIB ? (uint32_t)(left / 2) : VR_CACHE_MIB;
        return true;
    }
    if (!vr_parse_u64(o->cache_ram, 0, 1u << 30, &n))
        return vr_fail(err, VR_EUSAGE, "--cache-ram must be auto or a number of MiB, not '%.40s'", o->cache_ram);
    if (n > left)
        return vr_fail(err, VR_ENOFIT, "--cache-ram asks for %s of host memory, and the plan leaves %s free",
                       vr_fmt_bytes(&x, n * VR_MIB), vr_fmt_bytes(&y, left_bytes));
    *mib = (uint32_t)n;
    return true;
}

/* With the model's MTP head, if that is expected to be faster. */
#define HEAD_PAYS 1.05

static bool find_with_head(const struct vr_options *o, struct vr_fit_ask *ask, struct vr_outcome *out,
                           struct vr_err *err)
{
    struct vr_fit_ask with = *ask;
    VR_AUTO_OUTCOME rival = { 0 };
    struct vr_err no = { 0 };
    if (!find(o, ask, out, err)) return false;
    with.spec = VR_SPEC_MTP;
    bool ok = out->verdict.fits && find(o, &with, &rival, &no) && rival.verdict.fits &&
              rival.verdict.n_ctx >= out->verdict.n_ctx && rival.trial.context.type_k == out->trial.context.type_k &&
              rival.trial.context.type_v == out->trial.context.type_v;
    if (ok) vr_outcome_price_guesses(&with, &rival);
    if (ok && rival.guesses.gain * rival.verdict.price.decode_tok_s > HEAD_PAYS * out->verdict.price.decode_tok_s) {
        rival.dry_runs += out->dry_runs;
        rival.ms += out->ms;
        vr_outcome_move(out, &rival);
        *ask = with;
        return true;
    }
    const struct vr_reason unused = { .kind = VR_REASON_MTP_UNUSED };
    out->dry_runs += rival.dry_runs;
    vr_outcome_reason(out, &unused);
    return true;
}

bool vr_placement_find(const struct vr_options *o, struct vr_fit_ask *ask, struct vr_outcome *out, struct vr_err *err)
{
    if (!(vr_spec_may_use_head(o, ask) ? find_with_head : find)(o, ask, out, err)) return false;
    vr_outcome_price_guesses(ask, out);
    vr_outcome_explain_guesses(out);
    uint64_t used = vr_use_bytes(&out->verdict.host), have = ask->machine->host.ram_free_bytes;
    for (size_t i = 0; i < out->n_companions; i++) used += vr_use_bytes(&out->companions[i].host);
    out->trial.cache_mib = 0;
    if (!out->verdict.fits || vr_model_makes_embeddings(ask->model)) return true;
    return vr_placement_cache(o, have > used ? have - used : 0, &out->trial.cache_mib, err);
}
