/* The numerics: from timings, and from what the same runs cost by the price of their graphs, to the figures of a
 * profile. Pure. */
#ifndef VR_CALIBRATE_FIGURES_H
#define VR_CALIBRATE_FIGURES_H

#include "engine/measure/measure.h"

/* --- kernels and steps --- */

/* A small model that ran wholly on a device, in milliseconds per step. */
struct vr_timed {
    double took;        /* as measured */
    double free_starts; /* by its price, when starting a kernel costs the host nothing, */
    double slow_starts; /* … and when it costs 1 ms, more than all else: what is then added is the kernels' number */
};
/* Milliseconds that a kernel more costs a token (started by the host or run, whichever takes longer), from a model of
 * few layers and one of many: two equations for two unknowns. */
double vr_figure_submit_ms(const struct vr_timed *few, const struct vr_timed *many);
/* The same for a prompt's kernels: what they cost beyond the price without. */
double vr_figure_prompt_submit_ms(const struct vr_timed *few, const struct vr_timed *many);
/* Microseconds that a run took beyond its price; 0: none. */
double vr_figure_beyond_us(double took_ms, double priced_ms);
/* Microseconds of each change between device and host: `free_ms` and `slow_ms` are the price of the run when a change
 * costs nothing and when it costs 1 ms. 0: the run has no changes. */
double vr_figure_switch_us(double took_ms, double free_ms, double slow_ms);

/* --- memory --- */

/* What a run took of the first device's memory beside all that is planned. */
uint64_t vr_figure_outside_bytes(const struct vr_measure_run *r);
/* The runtime's own memory, and what libraries for float matrices or for experts take beside it. */
void vr_figure_memory(uint64_t plain, uint64_t floats, uint64_t experts, struct vr_measured *m);

/* --- products, operations, links --- */

void vr_figure_product(const struct vr_measure_products *p, struct vr_measured_type *t);
/* The middle of what each of n products costs at any size counts for all; puts them into order. */
void vr_figure_products(double *us, double *prompt_us, size_t n, struct vr_measured *m);
/* What any kernel costs, and what a product does beside it. On a device a kernel that is not measured costs what a
 * product costs at any size; on the host a product is more. */
void vr_figure_kernels(bool device, struct vr_measured *m);
/* Attention over an f16 cache stands for attention where nothing else is known. */
void vr_figure_attention(const struct vr_measured_op *op, struct vr_measured *m);

/* The link of a device to the host; the same measured again: what goes through the host's memory is not equally fast
 * from minute to minute where others have a part of it. */
void vr_figure_link(const struct vr_measure_link *l, struct vr_measured *m);
void vr_figure_link_again(const struct vr_measure_link *l, struct vr_measured *m);
/* The link between two devices: the slower way counts. */
void vr_figure_pair(const struct vr_measure_link *l, struct vr_link *out);
/* All figures of a card of the same make but for its link, which stays. */
void vr_figure_twin(const struct vr_measured *twin, struct vr_measured *m);

#endif
