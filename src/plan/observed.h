/* What a dry run's graph showed of a model: the work for each tensor and for the rest of each station.
 *
 * It does not depend on where the pieces were in that dry run, so it prices them wherever they could be. */
#ifndef VR_PLAN_OBSERVED_H
#define VR_PLAN_OBSERVED_H

#include "base/err.h"
#include "gguf/model.h"
#include "plan/work.h"

#define VR_NO_ROW UINT32_MAX

struct vr_observed {
    struct vr_work *rows;
    uint32_t *next;    /* the next row of the same tensor, or of the rest of the same station; VR_NO_ROW: none */
    uint32_t *tensors; /* the first row of each tensor of the model */
    uint32_t *rests;   /* the first row of each station; the output is the last */
    uint32_t n_rows, n_stations;
    struct vr_fill fill;
    double host_bytes[VR_N_PHASES]; /* that the host read of weights and caches */
    double open_bytes[VR_N_PHASES]; /* that a device in use is told beside activations: masks, positions, states */
};

/* Copies the rows; those of device `host` were executed there. `out` must be zeroed or done. */
bool vr_observed_take(struct vr_observed *out, const struct vr_model *m, uint32_t n_layers, const struct vr_work *rows,
                      uint32_t n_rows, size_t host, const struct vr_fill *fill, struct vr_err *err) VR_MUST_CHECK;
void vr_observed_done(struct vr_observed *o);

/* The first row; the others follow by `next`. */
uint32_t vr_observed_tensor(const struct vr_observed *o, const struct vr_model *m, const struct vr_tensor *t);
uint32_t vr_observed_rest(const struct vr_observed *o, uint32_t station);

#endif
