/* Why a plan is as it is, as data: a kind, the devices it is about, and its figures. Nothing here is prose; the
 * sentence is made where something is shown (cli/text/reason_text.h). */
#ifndef VR_FIT_REASONS_H
#define VR_FIT_REASONS_H

#include "hw/select.h"

enum vr_about { VR_ABOUT_LEFT_OUT, VR_ABOUT_PLACEMENT, VR_ABOUT_SHORTAGE };

enum vr_figure_unit {
    VR_UNIT_INDEX, /* a number as it is */
    VR_UNIT_COUNT,
    VR_UNIT_LAYERS,
    VR_UNIT_BYTES,     /* on a device: told in MiB, as in the tables */
    VR_UNIT_BIG_BYTES, /* told in the unit that reads best */
    VR_UNIT_REAL0,     /* worth no decimals, one, or two */
    VR_UNIT_REAL1,
    VR_UNIT_REAL2,
    VR_UNIT_TYPE, /* of a tensor, gguf/type.h */
    VR_UNIT_FLAG,
};

enum vr_figure {
#define FIGURE(name, json, unit) VR_FIGURE_##name,
#include "fit/figures.def"
#undef FIGURE
    VR_N_FIGURES
};

enum vr_reason_kind {
#define REASON(about, kind, json, figures) VR_REASON_##kind,
#include "fit/reasons.def"
#undef REASON
    VR_N_REASON_KINDS
};

#define VR_REASON_HOST (UINT64_C(1) << 63) /* among the devices */

struct vr_reason {
    enum vr_reason_kind kind;
    uint64_t devices;             /* of the machine, one bit each, and VR_REASON_HOST */
    double figures[VR_N_FIGURES]; /* those of its kind; whole numbers are exact to 2^53 */
};

struct vr_reason_row {
    const char *name; /* in JSON */
    enum vr_about about;
    uint64_t figures; /* one bit each */
};
const struct vr_reason_row *vr_reason_row(enum vr_reason_kind kind);

struct vr_figure_row {
    const char *name;
    enum vr_figure_unit unit;
};
const struct vr_figure_row *vr_figure_row(enum vr_figure figure);

/* A device that may not be used, as a reason. */
struct vr_reason vr_reason_excluded(const struct vr_excluded *e);

#endif
