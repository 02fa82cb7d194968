#include "plan/observed.h"

#include <stdlib.h>
#include <string.h>

void vr_observed_done(struct vr_observed *o)
{
    free(o->rows);
    free(o->next);
    free(o->tensors);
    free(o->rests);
    *o = (struct vr_observed){ 0 };
}

/* Where the chain of a row begins; NULL: it belongs to no piece. */
static uint32_t *head_of(const struct vr_observed *o, const struct vr_model *m, const struct vr_work *w)
{
    const struct vr_tensor *t = w->weight[0] ? vr_model_tensor(m, w->weight) : NULL;
    if (t) return &o->tensors[t - m->tensors];
    if (w->station == VR_STATION_INPUT) return NULL;
    return &o->rests[w->station < o->n_stations ? w->station : o->n_stations - 1];
}

bool vr_observed_take(struct vr_observed *out, const struct vr_model *m, uint32_t n_layers, const struct vr_work *rows,
                      uint32_t n_rows, size_t host, const struct vr_fill *fill, struct vr_err *err)
{
    *out = (struct vr_observed){ .n_rows = n_rows, .n_stations = n_layers + 1, .fill = *fill };
    out->rows = malloc((n_rows + 1u) * sizeof *out->rows);
    out->next = malloc((n_rows + 1u) * sizeof *out->next);
    out->tensors = malloc((m->n_tensors + 1u) * sizeof *out->tensors);
    out->rests = malloc(out->n_stations * sizeof *out->rests);
    if (!out->rows || !out->next || !out->tensors || !out->rests) {
        vr_observed_done(out);
        return vr_fail_nomem(err, "reading a dry run's graph");
    }
    memcpy(out->rows, rows, n_rows * sizeof *rows);
    memset(out->tensors, 0xff, m->n_tensors * sizeof *out->tensors);
    memset(out->rests, 0xff, out->n_stations * sizeof *out->rests);
    for (uint32_t i = n_rows; i-- > 0;) { /* backwards: chains are then in the order of the graph */
        const struct vr_work *w = &rows[i];
        uint32_t *head = head_of(out, m, w);
        out->next[i] = head ? *head : VR_NO_ROW;
        if (head) *head = i;
        if (w->device == host)
            out->host_bytes[w->phase] +=
                (double)w->weight_bytes + (double)w->cache_bytes * vr_work_share(w, fill, false);
    }
    return true;
}

uint32_t vr_observed_tensor(const struct vr_observed *o, const struct vr_model *m, const struct vr_tensor *t)
{
    return o->tensors[t - m->tensors];
}

uint32_t vr_observed_rest(const struct vr_observed *o, uint32_t station)
{
    return o->rests[station < o->n_stations ? station : o->n_stations - 1];
}
