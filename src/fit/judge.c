#include "fit/judge.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "gguf/type.h"
#include "plan/split.h"

uint64_t vr_use_bytes(const struct vr_use *u) { return u->model_bytes + u->context_bytes + u->compute_bytes; }

uint64_t vr_judged_bytes(const struct vr_judged *j) { return vr_use_bytes(&j->use) + j->beside_bytes; }

static enum vr_borrowed borrowed_kind(const struct vr_device *d)
{
    return !d->node[0] ? VR_BORROWED_NOT : strcmp(d->backend, "CPU") == 0 ? VR_BORROWED_CPU : VR_BORROWED_GPU;
}

bool vr_judge_devices(const struct vr_machine *m, const struct vr_budgets *b, struct vr_vgpu_spec *out,
                      struct vr_err *err)
{
    if (b->n > VR_MAX_VGPUS)
        return vr_fail(err, VR_EUSAGE, "%zu devices: the engine supports at most %d; choose some with --devices", b->n,
                       VR_MAX_VGPUS);
    for (size_t i = 0; i < b->n; i++) {
        const struct vr_device *d = &m->devices[b->items[i].device];
        out[i] = (struct vr_vgpu_spec){ .total_bytes = d->total_bytes,
                                        .free_bytes = d->free_bytes,
                                        .borrowed = borrowed_kind(d),
                                        .cc = d->cc_major ? d->cc_major * 100 + d->cc_minor * 10 : VR_ASSUMED_CC };
        snprintf(out[i].name, sizeof out[i].name, "%s", d->id);
        snprintf(out[i].about, sizeof out[i].about, "%s", d->name);
    }
    return true;
}

/* Split mode tensor: a part of every layer on each device. */
static void share_layers(const struct vr_load_params *t, uint32_t on_gpu, uint32_t n_stations, struct vr_verdict *v)
{
    double sum = 0;
    for (size_t i = 0; i < v->n_devices; i++) sum += t->has_split ? (double)t->split[i] : 1;
    for (size_t i = 0; i < v->n_devices; i++) {
        struct vr_judged *j = &v->devices[i];
        j->first_layer = n_stations - on_gpu;
        j->output = on_gpu > 0;
        j->n_layers = on_gpu - j->output;
        j->share = sum > 0 ? (t->has_split ? (double)t->split[i] : 1) / sum : 1 / (double)v->n_devices;
    }
}

/* Which layers are where: the engine's own rule. Layers below the first on a device stay on the host. */
static void find_layers(const struct vr_judge_setup *s, const struct vr_load_params *t, struct vr_verdict *v)
{
    uint32_t n_stations = s->model->n_layers + 1; /* the output is the last */
    uint32_t on_gpu =
        t->n_gpu_layers < 0 || (uint32_t)t->n_gpu_layers > n_stations ? n_stations : (uint32_t)t->n_gpu_layers;
    if (v->n_devices == 0) on_gpu = 0;
    uint32_t at = n_stations - on_gpu;
    v->host_layers = at < s->model->n_layers ? at : s->model->n_layers;
    if (t->split_mode == VR_SPLIT_TENSOR) {
        share_layers(t, on_gpu, n_stations, v);
        return;
    }
    double shares[VR_MAX_VGPUS];
    uint32_t counts[VR_MAX_VGPUS] = { 0 };
    for (size_t i = 0; i < v->n_devices; i++)
        shares[i] = t->has_split ? (double)t->split[i] : (double)v->devices[i].free_bytes;
    if (t->split_mode == VR_SPLIT_NONE) memset(shares + 1, 0, sizeof shares - sizeof shares[0]);
    if (v->n_devices) vr_split_counts(shares, v->n_devices, on_gpu, counts);
    for (size_t i = 0; i < v->n_devices; i++) {
        v->devices[i].first_layer = at;
        at += counts[i];
        v->devices[i].output = counts[i] && at == n_stations;
        v->devices[i].n_layers = counts[i] - v->devices[i].output;
    }
}

/* Layers without KV heads (Nemotron has them) get KV tensors of no size. Where all of a place's are such, a real load
 * fails ("failed to allocate buffer for kv cache"), and the dry run does not see it. Without flash attention V is
 * padded to the widest layer, and nothing is empty. */
static bool cache_is_empty(const struct vr_model *m, uint32_t first, uint32_t n, bool flash)
{
    bool any = false;
    for (uint32_t i = first; i < first + n; i++) {
        const struct vr_layer *l = &m->layers[i];
        if (l->n_head_kv || l->role_bytes[VR_ROLE_RECURRENT]) return false;
        any = true;
    }
    return any && flash;
}

static void find_empty_caches(const struct vr_judge_setup *s, struct vr_verdict *v)
{
    for (size_t i = 0; i < v->n_devices; i++) {
        struct vr_judged *j = &v->devices[i];
        j->no_cache = cache_is_empty(s->model, j->first_layer, j->n_layers, v->flash);
        if (j->no_cache) v->fits = false;
    }
    v->host_no_cache = cache_is_empty(s->model, 0, v->host_layers, v->flash);
    if (v->host_no_cache) v->fits = false;
}

static uint64_t beyond(uint64_t need, uint64_t have) { return need > have ? need - have : 0; }

#define FEW_TOKENS 8 /* that the engine's own kernels take for matrices of floats */

/* Matrices of floats times many tokens are left to a library of the vendor's, which takes memory of its own. */
static bool needs_blas(const struct vr_works *w, bool flash, size_t device)
{
    for (uint32_t i = 0; i < w->n_rows; i++) {
        const struct vr_work *r = &w->rows[i];
        bool product = !r->quantized && strncmp(r->name, "MUL_MAT", 7) == 0 && r->type != VR_TYPE_NONE;
        if (r->device != device || !product) continue;
        uint64_t bytes = r->weight_bytes ? r->weight_bytes : flash ? 0 : r->cache_bytes; /* not small rotations */
        uint64_t tokens = bytes ? r->flops / 2 * vr_type_row_bytes(r->type, 1) / bytes : 0;
        if (tokens > FEW_TOKENS) return true;
    }
    return false;
}

#define SPLIT_BYTES  (VR_MIB / 8) /* kernels are recorded split by split: 120 to 175 KiB each on an H200 */
#define RECORDINGS   3   /* cut at its reductions, a graph of another shape is recorded beside those of before */
#define PINNED_SHARE 512 /* eight bytes for a page of 4 KiB */

/* What a device holds beside its buffers: what kernels take for a while, recorded kernels, and the addresses of the
 * host's memory that it may read by itself: of weights when they are not in a mapped file. */
static uint64_t beside_buffers(const struct vr_judge_setup *s, const struct vr_proof *p, size_t device)
{
    uint64_t pinned = p->host.context_bytes + p->host.compute_bytes + (s->speeds->pinned ? p->host.model_bytes : 0);
    uint64_t recorded =
        (uint64_t)p->works.device_splits[device] * SPLIT_BYTES * (p->works.n_reductions ? RECORDINGS : 1);
    return p->works.pool_bytes[device] + recorded + pinned / PINNED_SHARE;
}

/* So much of that has room in a reserve: half of the margin, or a quarter of a large one where nobody measured. */
static uint64_t room_in_reserve(const struct vr_device *d, const struct vr_budget *b)
{
    uint64_t margin = VR_RESERVE_MARGIN_MIB * VR_MIB / 2, share = b->reserve_bytes / 4;
    return d->measured.runtime_bytes || share < margin ? margin : share;
}

static void weigh(const struct vr_judge_setup *s, const struct vr_load_params *t, const struct vr_proof *p,
                  struct vr_verdict *v)
{
    v->n_devices = t->n_order ? t->n_order : t->n_devices;
    v->fits = true;
    v->exact = true;
    for (size_t i = 0; i < v->n_devices; i++) {
        size_t k = t->n_order ? t->order[i] : i;
        const struct vr_budget *b = &s->budgets->items[k];
        const struct vr_device *d = &s->machine->devices[b->device];
        struct vr_judged *j = &v->devices[i];
        *j = (struct vr_judged){ .device = b->device,
                                 .use = p->devices[k],
                                 .free_bytes = d->free_bytes,
                                 .reserve_bytes = b->reserve_bytes,
                                 .share = 1,
                                 .reduce_bytes = p->reduce_bytes[k] };
        if (vr_use_bytes(&j->use) == 0) continue; /* not in use: nothing is asked of it */
        j->overhead_bytes =
            d->measured.runtime_bytes + (needs_blas(&p->works, p->flash, k) ? d->measured.blas_bytes : 0);
        uint64_t beside = beside_buffers(s, p, k);
        if (j->overhead_bytes) j->overhead_bytes += beside;
        j->beside_bytes = beyond(beside, room_in_reserve(d, b)) + j->reduce_bytes;
        j->beside_bytes += beyond(p->first_bytes[k], p->devices[k].compute_bytes);
        uint64_t need = vr_judged_bytes(j);
        j->short_bytes = beyond(need, j->free_bytes);
        j->over_bytes = beyond(need, b->budget_bytes);
        if (j->over_bytes) v->fits = false;
        bool cuda = strcmp(d->backend, "CUDA") == 0;
        if ((cuda && d->cc_major) || strcmp(d->backend, "CPU") == 0) continue;
        v->exact = false;
        v->inexact = cuda ? VR_INEXACT_CAPABILITY : VR_INEXACT_NOT_CUDA;
        v->inexact_device = b->device;
    }
    v->host = p->host;
    v->host_short_bytes = beyond(p->host.model_bytes + p->host.context_bytes + p->host.compute_bytes + p->output_bytes,
                                 s->machine->host.ram_free_bytes);
    if (v->host_short_bytes) v->fits = false;
}

static struct vr_pricing pricing_of(const struct vr_judge_setup *s, const struct vr_load_params *t,
                                    const struct vr_proof *p, uint16_t machine_device[VR_MAX_VGPUS])
{
    for (size_t i = 0; i < t->n_devices; i++) machine_device[i] = s->budgets->items[i].device;
    uint32_t n_seq = t->context.n_seq ? t->context.n_seq : 1;
    uint32_t n_ubatch = t->context.n_ubatch < t->context.n_batch ? t->context.n_ubatch : t->context.n_batch;
    return (struct vr_pricing){ .speeds = s->speeds,
                                .machine_device = machine_device,
                                .n_devices = t->n_devices,
                                .fill = { .share = s->fill,
                                          .n_ctx_seq = t->context.kv_unified ? p->n_ctx : p->n_ctx / n_seq,
                                          .n_ubatch = n_ubatch < p->n_ctx ? n_ubatch : p->n_ctx },
                                .n_seq = n_seq,
                                .n_prompt = s->n_prompt,
                                .pipeline = p->pipeline };
}

static bool clock_it(const struct vr_judge_setup *s, const struct vr_load_params *t, const struct vr_proof *p,
                     const struct vr_pricing *asked, struct vr_verdict *v, struct vr_err *err)
{
    struct vr_pricing pricing = *asked;
    VR_AUTO_FREE struct vr_speeds *pinned = malloc(sizeof *pinned);
    if (!pinned) return vr_fail_nomem(err, "pricing a plan");
    *pinned = *s->speeds;
    vr_speeds_pin(pinned);
    const struct vr_ways_ask ways = { .works = &p->works,
                                      .pricing = asked,
                                      .speeds = { s->speeds, pinned },
                                      .n_expert = s->model->n_expert,
                                      .n_expert_used = s->model->n_expert_used,
                                      .offloads = t->op_offload && t->split_mode != VR_SPLIT_TENSOR,
                                      .first = t->n_order ? t->order[0] : 0 };
    if (!vr_ways_find(&ways, &v->ways, err)) return false;
    vr_price(&p->works, &pricing, &v->price);
    for (enum vr_optimize goal = 0; goal < VR_N_GOALS; goal++) v->cost[goal] = vr_price_cost(&v->price, goal, &pricing);
    v->n_seq = pricing.n_seq;
    v->n_prompt = vr_prompt_tokens(pricing.n_prompt, pricing.fill.n_ubatch);
    pricing.fill.share = 0;
    vr_price(&p->works, &pricing, &v->empty);
    pricing.fill.share = 1;
    vr_price(&p->works, &pricing, &v->full);
    for (enum vr_phase phase = 0; phase < VR_N_PHASES; phase++) {
        for (size_t i = 0; i < v->n_devices; i++)
            v->devices[i].ms[phase] = v->price.ms[phase][t->n_order ? t->order[i] : i];
        v->host_ms[phase] = v->price.ms[phase][t->n_devices];
    }
    return true;
}

/* What a device is told beside activations, as far as a placement shows it that moves nothing else. */
static void find_opening(const struct vr_judge_setup *s, const struct vr_load_params *t, const struct vr_proof *p,
                         const struct vr_pricing *pricing, const struct vr_verdict *v)
{
    double n = (double)v->n_devices, tokens[VR_N_PHASES] = { pricing->n_seq, pricing->fill.n_ubatch };
    if (v->n_devices < 2 || v->host_layers || t->n_overrides) return;
    for (enum vr_phase phase = 0; phase < VR_N_PHASES; phase++) {
        double bytes = -4.0 * s->model->n_embd * tokens[phase] * n;
        for (uint32_t i = 0; i < p->works.n_transfers; i++) {
            const struct vr_transfer *x = &p->works.transfers[i];
            if (x->phase == phase && x->to < t->n_devices) bytes += (double)x->bytes;
        }
        s->observed->open_bytes[phase] = bytes > 0 ? bytes / n : 0;
    }
}

/* The graph of the first dry run, and of any what it shows of opening a device. */
static bool observe(const struct vr_judge_setup *s, const struct vr_load_params *t, const struct vr_proof *p,
                    const struct vr_pricing *pricing, const struct vr_verdict *v, struct vr_err *err)
{
    bool counted = t->n_devices || s->budgets->n == 0; /* without a device nobody tells its kernels */
    if (!s->observed->rows && counted &&
        !vr_observed_take(s->observed, s->model, s->n_layers, p->works.rows, p->works.n_rows, t->n_devices,
                          &pricing->fill, err))
        return false;
    find_opening(s, t, p, pricing, v);
    return true;
}

/* What a split showed of the model, for other devices and shares. */
static bool observe_stages(const struct vr_judge_setup *s, const struct vr_load_params *t, const struct vr_proof *p,
                           const struct vr_pricing *pricing, struct vr_err *err)
{
    const struct vr_works *w = &p->works;
    vr_stages_done(s->stages);
    if (!vr_stages_take(s->stages, s->model, w->rows, w->n_rows, t->n_devices, w->reductions, w->n_reductions,
                        &pricing->fill, err))
        return false;
    size_t n = vr_load_params_n_order(t);
    for (uint32_t i = 0; i < w->n_transfers; i++) {
        const struct vr_transfer *x = &w->transfers[i];
        if (x->from != t->n_devices || x->to >= t->n_devices || x->weights) continue;
        s->stages->told[x->phase].n += (double)x->n / (double)n;
        s->stages->told[x->phase].bytes += (double)x->bytes / (double)n;
    }
    return true;
}

bool vr_judge(const struct vr_judge_setup *s, const struct vr_load_params *t, struct vr_verdict *out,
              struct vr_err *err)
{
    struct vr_trial trial = vr_trial_default();
    trial.load = *t;
    trial.want_work = true;
    struct vr_proof proof = { 0 };
    if (!vr_probe(s->prober, &trial, &proof, err)) return false;
    *out = (struct vr_verdict){ .pipeline = proof.pipeline, .flash = proof.flash, .n_ctx = proof.n_ctx };
    weigh(s, t, &proof, out);
    find_layers(s, t, out);
    find_empty_caches(s, out);
    uint16_t machine_device[VR_MAX_VGPUS];
    struct vr_pricing pricing = pricing_of(s, t, &proof, machine_device);
    bool whole = t->split_mode != VR_SPLIT_TENSOR; /* rows of slices say nothing about layers */
    bool ok = clock_it(s, t, &proof, &pricing, out, err) &&
              (!s->observed || !whole || observe(s, t, &proof, &pricing, out, err)) &&
              (!s->stages || whole || observe_stages(s, t, &proof, &pricing, err));
    vr_proof_done(&proof);
    return ok;
}
