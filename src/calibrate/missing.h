/* What was measured before, what is missing, and where a new figure goes. */
#ifndef VR_CALIBRATE_MISSING_H
#define VR_CALIBRATE_MISSING_H

#include "calibrate/calibrate.h"

/* True when nothing is left to measure for these types. */
bool vr_calibrated(const struct vr_calibrate *c, const struct vr_machine *m, const struct vr_budgets *b);
/* Figures of a version that measured no operations by themselves mean other things: they are forgotten. */
void vr_calibrate_forget_old(struct vr_machine *m, const struct vr_budgets *b);

/* The part that the host's figures belong to: beside devices, and with all of them left unused, it is measured apart.
 */
struct vr_measured *vr_calibrate_host(struct vr_machine *m, const struct vr_budgets *b);
/* A card of the same make before item i of the budgets that was measured: its index there; -1: none. */
int vr_calibrate_twin(const struct vr_machine *m, const struct vr_budgets *b, size_t i);
/* How many steps there will be, about. */
unsigned vr_calibrate_steps(const struct vr_calibrate *c, const struct vr_machine *m, const struct vr_budgets *b);

/* The row of a type, which may be new; NULL: there is no room. */
struct vr_measured_type *vr_measured_type_row(struct vr_measured *m, const char *name);
bool vr_measured_has_type(const struct vr_measured *m, const char *name);
/* In place of the row of the same operation on the same type of cache, or as a new one. */
void vr_measured_keep_op(struct vr_measured *m, const struct vr_measured_op *op);
/* Any operation over a cache of that type; "": any without one. */
bool vr_measured_has_op(const struct vr_measured *m, const char *type);
/* The same pair of devices, which may be new; a < b. NULL: there is no room. */
struct vr_link *vr_measured_link(struct vr_machine *m, uint16_t a, uint16_t b);

#endif
