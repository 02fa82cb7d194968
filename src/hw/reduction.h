/* Adding up over devices: what split mode tensor does twice in every layer, where each device has a part of each sum.
 *
 * Three ways, of which the engine takes the first that it can: NCCL, where its CUDA library was built with it and every
 * device is a card of its own; a kernel of the CUDA backend for exactly two cards of compute capability 7.0 and newer;
 * else a butterfly of copies and additions, log2(devices) steps of them. */
#ifndef VR_HW_REDUCTION_H
#define VR_HW_REDUCTION_H

#include <stddef.h>
#include <stdint.h>

/* VR_REDUCE_PAIR comes first: what the prebuilt library has is what is assumed of a machine that nobody looked at. */
enum vr_reduce_way { VR_REDUCE_PAIR, VR_REDUCE_NCCL, VR_REDUCE_BUTTERFLY, VR_N_REDUCE_WAYS };
const char *vr_reduce_way_name(enum vr_reduce_way way); /* "NCCL", "the CUDA backend's kernel for two cards", … */

/* The sizes that are measured: a token's activations, and those of prompts. */
#define VR_REDUCE_SIZES 4
extern const double vr_reduce_bytes[VR_REDUCE_SIZES];

#define VR_MAX_REDUCTIONS 64

/* What `bench` measured for some devices. */
struct vr_measured_reduction {
    uint64_t devices;           /* of the machine, a bit each; at least two */
    double us[VR_REDUCE_SIZES]; /* for each of the sizes; none is 0 */
    enum vr_reduce_way way;     /* the machine's then; with another one they are of no use */
};

/* Microseconds for a tensor of that many bytes: as measured for its size, and between sizes on a line. */
double vr_reduction_us(const struct vr_measured_reduction *r, double bytes);

struct vr_machine;
/* What was measured for exactly these devices, the way that they add up now; NULL: nothing was. */
const struct vr_measured_reduction *vr_machine_reduction(const struct vr_machine *m, uint64_t devices);
/* Puts it in place of an older one for the same devices. What finds no room is left out. */
void vr_machine_keep_reduction(struct vr_machine *m, const struct vr_measured_reduction *r);

#endif
