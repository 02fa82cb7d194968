/* The largest context that fits: no more weights may move to the host for it than a usual context of 4,096 tokens
 * leaves there, or every context would "fit" at the speed of the host. */
#include "fit/stand.h"

#define USUAL    4096
#define CELL_PAD 256

struct limit {
    uint64_t host_bytes;
    uint32_t host_layers;
};

/* Does a context of `steps` steps fit within the limit? `out` is what was planned. */
static bool fits(struct vr_fit_ask *a, const struct vr_wish *w, uint32_t n_ctx, const struct limit *l,
                 struct vr_outcome *out, struct vr_err *err)
{
    a->context.n_ctx = n_ctx;
    *out = (struct vr_outcome){ 0 };
    if (!vr_fit_plan(a, w, out, err)) return false;
    return !l || (out->verdict.host.model_bytes <= l->host_bytes && out->verdict.host_layers <= l->host_layers);
}

bool vr_fit_largest(const struct vr_fit_ask *ask, const struct vr_wish *w, struct vr_outcome *out, struct vr_err *err)
{
    double t0 = vr_stand_now_ms();
    struct vr_fit_ask a = *ask;
    uint32_t step = CELL_PAD * (a.context.n_seq && !a.context.kv_unified ? a.context.n_seq : 1);
    uint32_t most = a.model->n_ctx_train / step, low = USUAL / step;
    if (low > most) low = most;
    if (low == 0) low = 1;
    if (!fits(&a, w, low * step, NULL, out, err)) return false;
    struct limit limit = { out->verdict.host.model_bytes, out->verdict.host_layers };
    uint32_t dry_runs = out->dry_runs;
    for (uint32_t high = most + 1; high - low > 1 && high > low;) { /* low fits, high does not */
        uint32_t middle = low + (high - low) / 2;
        struct vr_outcome now;
        struct vr_err why = { 0 };
        bool ok = fits(&a, w, middle * step, &limit, &now, &why);
        dry_runs += now.dry_runs;
        if (ok) {
            vr_stand_move(out, &now);
            low = middle;
        } else {
            vr_outcome_done(&now);
            if (why.code != VR_OK && why.code != VR_ENOFIT) {
                *err = why;
                return false;
            }
            high = middle;
        }
    }
    out->how =
        low == most ? "planned for all that the model was trained for" : "planned for the largest context that fits";
    out->dry_runs = dry_runs;
    out->ms = vr_stand_now_ms() - t0;
    return true;
}
