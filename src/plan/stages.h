/* Split mode tensor: the stages of a model between two additions over all devices, and what of them is sliced.
 *
 * One dry run of a split over any devices shows it: what all of them do together is the whole, which can then be priced
 * for other devices and other shares (tensor.h). Before there is one, the stages are guessed from the graph of a
 * placement by layers. */
#ifndef VR_PLAN_STAGES_H
#define VR_PLAN_STAGES_H

#include "plan/observed.h"

/* What slices are cut by: groups of heads that share a KV head, blocks of the FFN, single rows. */
enum vr_cut { VR_CUT_HEADS, VR_CUT_FFN, VR_CUT_ROWS, VR_N_CUTS };

struct vr_stage { /* equal ones share one of these */
    uint8_t phase;
    uint32_t n;
    uint32_t first_row, n_rows;
    double grains[VR_N_CUTS]; /* of the whole: pieces that are not cut (the last one may be smaller); 0: any share */
    double bytes;             /* of each: the tensors and caches that its slices are of */
};

struct vr_stages {
    struct vr_work *rows; /* sliced ones are of all devices together; `device` is the cut (enum vr_cut) */
    struct vr_stage *list;
    struct vr_reduction *reductions; /* whatever their number of devices says: of all that take part */
    uint32_t n_rows, n, n_reductions;
    struct vr_fill fill;
    struct {
        double n, bytes;
    } told[VR_N_PHASES]; /* copies that each device is sent before a step */
};
void vr_stages_done(struct vr_stages *s);

/* From the rows of a dry run in split mode tensor; those of device `host` are left out. `out` must be zeroed or done.
 */
bool vr_stages_take(struct vr_stages *out, const struct vr_model *m, const struct vr_work *rows, uint32_t n_rows,
                    size_t host, const struct vr_reduction *reductions, uint32_t n_reductions,
                    const struct vr_fill *fill, struct vr_err *err) VR_MUST_CHECK;

struct vr_stages_guess {
    const struct vr_model *model;
    const struct vr_observed *observed; /* of a placement by layers */
    uint32_t tokens[VR_N_PHASES];       /* of a step, of a micro-batch */
    uint32_t hosted_from;               /* the host does what a token needs of experts in this layer and behind it */
    bool least; /* no split can do with less: all work is sliced, at any share, in one stage, and each layer is added
                   up once; else two stages a layer */
};
bool vr_stages_guess(const struct vr_stages_guess *g, struct vr_stages *out, struct vr_err *err) VR_MUST_CHECK;

#endif
