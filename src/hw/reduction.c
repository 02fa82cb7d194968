#include "hw/reduction.h"

#include <math.h>

#include "hw/machine.h"

const double vr_reduce_bytes[VR_REDUCE_SIZES] = { 10240, 1 << 20, 4 << 20, 32 << 20 };

const char *vr_reduce_way_name(enum vr_reduce_way way)
{
    static const char *const names[VR_N_REDUCE_WAYS] = {
        [VR_REDUCE_PAIR] = "the CUDA backend's kernel for two cards",
        [VR_REDUCE_NCCL] = "NCCL",
        [VR_REDUCE_BUTTERFLY] = "a butterfly of copies and additions",
    };
    return names[way];
}

double vr_reduction_us(const struct vr_measured_reduction *r, double bytes)
{
    size_t i = 1;
    while (i + 1 < VR_REDUCE_SIZES && bytes > vr_reduce_bytes[i]) i++;
    double part = (bytes - vr_reduce_bytes[i - 1]) / (vr_reduce_bytes[i] - vr_reduce_bytes[i - 1]);
    return fmax(r->us[i - 1] + fmax(part, 0) * (r->us[i] - r->us[i - 1]), r->us[0]);
}

const struct vr_measured_reduction *vr_machine_reduction(const struct vr_machine *m, uint64_t devices)
{
    for (size_t i = 0; i < m->n_reductions; i++)
        if (m->reductions[i].devices == devices && m->reductions[i].way == m->reduce_way) return &m->reductions[i];
    return NULL;
}

void vr_machine_keep_reduction(struct vr_machine *m, const struct vr_measured_reduction *r)
{
    size_t i = 0;
    while (i < m->n_reductions && m->reductions[i].devices != r->devices) i++;
    if (i == VR_MAX_REDUCTIONS) return;
    if (i == m->n_reductions) m->n_reductions++;
    m->reductions[i] = *r;
}
