/* Devices that take part do the same nodes of a stage, each with its slice; nodes that are not sliced, all of them do
 * whole. So the whole of a sliced row is the sum over devices, and of any other what one of them does. */
#include "plan/stages.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf/role.h"
#include "gguf/type.h"

#define FFN_ROWS 128 /* the engine keeps so many together, for its kernels */

void vr_stages_done(struct vr_stages *s)
{
    free(s->rows);
    free(s->list);
    free(s->reductions);
    *s = (struct vr_stages){ 0 };
}

/* --- what cannot be cut --- */

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

static uint64_t lcm(uint64_t a, uint64_t b) { return a && b ? a / gcd(a, b) * b : 0; }

static const struct vr_tensor *layer_tensor(const struct vr_model *m, uint32_t layer, const char *stem)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%" PRIu32 ".%s.weight", layer, stem);
    return vr_model_tensor(m, name);
}

static uint64_t block_of(const struct vr_tensor *t) { return vr_type(t->type) ? vr_type(t->type)->block : 1; }

/* Heads that share a KV head stay together, and blocks of quantized weights; the engine makes pieces larger while that
 * costs no device its part. */
static double head_grains(const struct vr_model *m, uint32_t layer)
{
    const struct vr_tensor *out = layer_tensor(m, layer, "attn_output");
    const struct vr_layer *l = &m->layers[layer];
    if (out && l->n_head_kv && l->n_head >= l->n_head_kv) {
        uint64_t group = out->ne[0] / l->n_head_kv, block = block_of(out);
        while (block < FFN_ROWS && block * 2 < group) block *= 2;
        uint64_t piece = lcm(group, block);
        return piece ? (double)out->ne[0] / (double)piece : 0;
    }
    out = layer_tensor(m, layer, "ssm_out");
    uint64_t state = vr_model_u64(m, ".ssm.state_size", layer, 0);
    uint64_t piece = out && state ? lcm(lcm(block_of(out), FFN_ROWS), state) : 0;
    return piece ? (double)out->ne[0] / (double)piece : 0;
}

static double ffn_grains(const struct vr_model *m, uint32_t layer)
{
    const struct vr_tensor *down = layer_tensor(m, layer, "ffn_down");
    if (!down) down = layer_tensor(m, layer, "ffn_down_exps");
    uint64_t piece = down ? lcm(block_of(down), FFN_ROWS) : 0;
    return piece ? (double)down->ne[0] / (double)piece : 0;
}

static enum vr_cut cut_of(const struct vr_work *w, enum vr_cut before)
{
    if (w->station == VR_STATION_OUTPUT) return VR_CUT_ROWS;
    if (!w->weight[0]) return before; /* belongs to the product that it follows */
    if (strstr(w->weight, "ffn_")) return VR_CUT_FFN;
    return strncmp(w->weight, "blk.", 4) == 0 ? VR_CUT_HEADS : VR_CUT_ROWS;
}

/* --- one stage --- */

/* What another row's kernel does along costs nothing, and is none of it. */
static bool same_work(const struct vr_work *a, const struct vr_work *b)
{
    return a->sliced == b->sliced && a->op == b->op && a->type == b->type && a->cells == b->cells &&
           !a->kernels == !b->kernels && strcmp(a->weight, b->weight) == 0;
}

static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

static void add_amounts(struct vr_work *to, const struct vr_work *w)
{
    to->weight_bytes += w->weight_bytes;
    to->cache_bytes += w->cache_bytes;
    to->act_bytes += w->act_bytes;
    to->flops += w->flops;
}

/* Rows of one device's stage are put together first; kernels then count once for each device. */
static uint32_t gather(struct vr_work *out, const struct vr_work *rows, uint32_t n)
{
    uint32_t n_out = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = 0;
        while (k < n_out && !same_work(&out[k], &rows[i])) k++;
        if (k == n_out) {
            out[n_out++] = rows[i];
            continue;
        }
        add_amounts(&out[k], &rows[i]);
        out[k].n += rows[i].n;
        out[k].kernels += rows[i].kernels;
        out[k].columns = larger(out[k].columns, rows[i].columns);
    }
    return n_out;
}

static uint32_t join(struct vr_work *all, uint32_t n_all, const struct vr_work *one, uint32_t n_one)
{
    for (uint32_t i = 0; i < n_one; i++) {
        uint32_t k = 0;
        while (k < n_all && !same_work(&all[k], &one[i])) k++;
        if (k == n_all) {
            all[n_all++] = one[i];
            continue;
        }
        if (one[i].sliced) add_amounts(&all[k], &one[i]);
        all[k].n = larger(all[k].n, one[i].n);
        all[k].kernels = larger(all[k].kernels, one[i].kernels);
        all[k].columns = larger(all[k].columns, one[i].columns);
    }
    return n_all;
}

static bool near(uint64_t a, uint64_t b) /* shares of experts are rounded slice by slice */
{
    return fabs((double)a - (double)b) <= 1e-5 * (double)a;
}

static bool same_stage(const struct vr_stages *s, const struct vr_stage *a, const struct vr_stage *b)
{
    if (a->phase != b->phase || a->n_rows != b->n_rows || memcmp(a->grains, b->grains, sizeof a->grains)) return false;
    for (uint32_t i = 0; i < a->n_rows; i++) {
        const struct vr_work *x = &s->rows[a->first_row + i], *y = &s->rows[b->first_row + i];
        if (x->sliced != y->sliced || x->op != y->op || x->type != y->type || x->cells != y->cells ||
            x->kernels != y->kernels || !near(x->weight_bytes, y->weight_bytes) ||
            !near(x->cache_bytes, y->cache_bytes) || !near(x->flops, y->flops))
            return false;
    }
    return true;
}

/* The rows from first_row on are a stage: a new kind of stage, or one more of a kind. */
static void end_stage(struct vr_stages *s, const struct vr_model *m, uint32_t first_row, uint32_t n_rows)
{
    struct vr_stage new = { .phase = s->rows[first_row].phase, .n = 1, .first_row = first_row, .n_rows = n_rows };
    enum vr_cut cut = VR_CUT_HEADS;
    for (uint32_t i = first_row; i < first_row + n_rows; i++) {
        struct vr_work *w = &s->rows[i];
        cut = cut_of(w, cut);
        w->device = (uint8_t)cut;
        if (!w->sliced) continue;
        const struct vr_tensor *t = w->weight[0] ? vr_model_tensor(m, w->weight) : NULL;
        new.bytes += t ? (double)t->bytes : w->type != VR_TYPE_NONE ? (double)w->cache_bytes : 0;
        if (w->station >= m->n_layers) continue;
        if (cut == VR_CUT_HEADS) new.grains[cut] = head_grains(m, w->station);
        if (cut == VR_CUT_FFN) new.grains[cut] = ffn_grains(m, w->station);
    }
    for (uint32_t i = 0; i < s->n; i++)
        if (same_stage(s, &s->list[i], &new)) {
            s->list[i].n++;
            return;
        }
    s->list[s->n++] = new;
    s->n_rows += n_rows;
}

bool vr_stages_take(struct vr_stages *out, const struct vr_model *m, const struct vr_work *rows, uint32_t n_rows,
                    size_t host, const struct vr_reduction *reductions, uint32_t n_reductions,
                    const struct vr_fill *fill, struct vr_err *err)
{
    *out = (struct vr_stages){ .fill = *fill, .n_reductions = n_reductions };
    out->rows = malloc((n_rows + 1u) * sizeof *out->rows);
    out->list = malloc((n_rows + 1u) * sizeof *out->list); /* no more stages than rows */
    out->reductions = malloc((n_reductions + 1u) * sizeof *out->reductions);
    struct vr_work *one = malloc((n_rows + 1u) * sizeof *one);
    if (!out->rows || !out->list || !out->reductions || !one) {
        free(one);
        vr_stages_done(out);
        return vr_fail_nomem(err, "reading a dry run's graph");
    }
    if (n_reductions) memcpy(out->reductions, reductions, n_reductions * sizeof *reductions);
    for (uint32_t i = 0; i < n_rows;) { /* stage by stage, in each device by device */
        uint32_t stage = i, n_all = 0;
        while (i < n_rows && rows[i].phase == rows[stage].phase && rows[i].stage == rows[stage].stage) {
            uint32_t first = i;
            while (i < n_rows && rows[i].phase == rows[first].phase && rows[i].stage == rows[first].stage &&
                   rows[i].device == rows[first].device)
                i++;
            if (rows[first].device == host) continue;
            n_all = join(out->rows + out->n_rows, n_all, one, gather(one, rows + first, i - first));
        }
        if (n_all) end_stage(out, m, out->n_rows, n_all);
    }
    free(one);
    return true;
}

/* --- without a dry run of a split --- */

static bool guess_sliced(const struct vr_work *w)
{
    if (w->cache_bytes) return true;
    if (!w->weight[0]) return strstr(w->name, "GLU") != NULL;
    enum vr_role role = vr_role_of(w->weight);
    return role == VR_ROLE_ATTENTION || role == VR_ROLE_FFN || role == VR_ROLE_EXPERT || role == VR_ROLE_RECURRENT ||
           role == VR_ROLE_OUTPUT; /* token embeddings that are the output, too, each device has whole */
}

static bool is_hosted(const struct vr_stages_guess *g, const struct vr_work *w)
{
    return w->phase == VR_DECODE && w->weight[0] && w->station >= g->hosted_from && w->station < g->model->n_layers &&
           vr_role_of(w->weight) == VR_ROLE_EXPERT;
}

bool vr_stages_guess(const struct vr_stages_guess *g, struct vr_stages *out, struct vr_err *err)
{
    const struct vr_model *m = g->model;
    const struct vr_observed *o = g->observed;
    VR_AUTO_FREE struct vr_work *rows = malloc((o->n_rows + 1u) * sizeof *rows);
    if (!rows) return vr_fail_nomem(err, "reading a dry run's graph");
    uint32_t n = 0, station = VR_STATION_INPUT;
    bool behind = false; /* attention */
    for (uint32_t i = 0; i < o->n_rows; i++) {
        const struct vr_work *w = &o->rows[i];
        if (w->station == VR_STATION_INPUT || is_hosted(g, w)) continue;
        if (w->station != station) behind = false;
        station = w->station;
        struct vr_work *r = &rows[n++];
        *r = *w;
        r->device = 0;
        r->sliced = g->least || guess_sliced(w);
        r->stage = g->least ? 0 : (uint16_t)(2 * (station < m->n_layers ? station : m->n_layers) + behind);
        if (strstr(w->weight, "attn_output.") || strstr(w->weight, "ssm_out.")) behind = true;
        if (!g->least) continue;
        r->station = VR_STATION_OUTPUT; /* at any share */
        r->weight[0] = '\0';            /* equal work is one row, whatever it is done with */
    }
    struct vr_reduction sums[VR_N_PHASES];
    for (enum vr_phase p = 0; p < VR_N_PHASES; p++)
        sums[p] = (struct vr_reduction){ .phase = (uint8_t)p,
                                         .n = (g->least ? 1 : 2) * (m->n_layers - m->n_layers_mtp),
                                         .bytes = (uint64_t)4 * m->n_embd * g->tokens[p] };
    return vr_stages_take(out, m, rows, n, 1, sums, VR_N_PHASES, &o->fill, err);
}
