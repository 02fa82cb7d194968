/* Adding up over devices, through the engine's own device of devices: so it is NCCL, the CUDA backend's kernel or
 * copies, whichever serving will use.
 *
 * A graph has stages. Each does work that is the same on all devices, and ends with a tensor of which every device has
 * a part, so that the engine adds it up before the next stage. The same graph with a whole tensor in its place adds
 * nothing up: what it takes less is the price of the reductions, with all that comes with them; the engine takes the
 * graph apart there, and starts each part by itself. The work is there because the host then runs ahead of the devices,
 * as it does in a model. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-impl.h>

#include "base/rank.h"
#include "engine/measure/measure_stage.h"
#include "engine/vgpu/vgpu_spec.h"

#define WORK_NODES  16    /* of a stage: 30 to 40 us on a fast card */
#define WORK_VALUES 65536 /* of each */
#define ROUNDS      64    /* at most */
#define LEAST       6
#define MOST_MS     200.0
#define LEAST_US    0.01 /* 0 would mean that it was not measured */

static const int stages[VR_REDUCE_SIZES] = { 17, 17, 9, 4 };

#define PARTS "parts" /* what a tensor is called of which every device has a part; any other is whole on each */

static struct ggml_backend_meta_split_state state_of(const struct ggml_tensor *t, void *ctx)
{
    (void)ctx;
    bool parts = strcmp(t->name, PARTS) == 0;
    return (struct ggml_backend_meta_split_state){
        .axis = parts ? GGML_BACKEND_SPLIT_AXIS_PARTIAL : GGML_BACKEND_SPLIT_AXIS_MIRRORED, .nr = { 1 }, .n_segments = 1
    };
}

struct bench {
    ggml_backend_t all;
    struct ggml_context *fixed, *rest;
    ggml_backend_buffer_t buffer;
    ggml_gallocr_t room;
    struct ggml_cgraph *graph;
};

static void bench_done(struct bench *b)
{
    if (b->room) ggml_gallocr_free(b->room);
    if (b->buffer) ggml_backend_buffer_free(b->buffer);
    ggml_free(b->fixed);
    ggml_free(b->rest);
}

/* Every sum is divided by the number of devices, so that values stay what they are. */
static bool bench_make(struct bench *b, size_t n, size_t size, bool parts)
{
    struct ggml_init_params p = { (size_t)1 << 20, NULL, true };
    b->fixed = ggml_init(p);
    b->rest = ggml_init(p);
    if (!b->fixed || !b->rest) return false;
    struct ggml_tensor *sum = ggml_new_tensor_1d(b->fixed, GGML_TYPE_F32, (int64_t)(vr_reduce_bytes[size] / 4)),
                       *work = ggml_new_tensor_1d(b->fixed, GGML_TYPE_F32, WORK_VALUES);
    ggml_set_name(sum, parts ? PARTS : "whole");
    b->buffer = ggml_backend_alloc_ctx_tensors(b->fixed, b->all);
    if (!b->buffer) return false;
    ggml_backend_buffer_clear(b->buffer, 0);
    b->graph = ggml_new_graph_custom(b->rest, 1024, false);
    for (int i = 0; i < stages[size]; i++) {
        for (int k = 0; k < WORK_NODES; k++) ggml_build_forward_expand(b->graph, work = ggml_scale(b->rest, work, 1));
        ggml_build_forward_expand(b->graph, sum = ggml_scale(b->rest, sum, parts ? 1 / (float)n : 1));
    }
    b->graph->uid = ggml_graph_next_uid(); /* the engine takes it apart once, as it does for a model's tokens */
    b->room = ggml_gallocr_new(ggml_backend_get_default_buffer_type(b->all));
    return b->room && ggml_gallocr_alloc_graph(b->room, b->graph);
}

/* Microseconds of one run; negative when it does not compute. */
static double bench_time(struct bench *b)
{
    double took[ROUNDS], sum = 0;
    size_t n = 0;
    while (n < ROUNDS && (n < LEAST || sum < MOST_MS * 1e3)) {
        double t0 = vr_now_fine_us();
        if (ggml_backend_graph_compute(b->all, b->graph) != GGML_STATUS_SUCCESS) return -1;
        took[n] = vr_now_fine_us() - t0;
        sum += took[n++];
    }
    return vr_rank(took, n, 0.25);
}

static bool time_graph(ggml_backend_t all, size_t n, size_t size, bool parts, double *us, struct vr_err *err)
{
    VR_CLEANUP(bench_done) struct bench b = { .all = all };
    if (!bench_make(&b, n, size, parts))
        return vr_fail(err, VR_ENOMEM, "not enough memory to measure reductions over %zu devices", n);
    *us = bench_time(&b);
    return *us > 0 || vr_fail(err, VR_EENGINE, "the engine cannot add up over %zu devices", n);
}

struct ask {
    const struct vr_measure_where *w;
    size_t n;
};

/* All devices as one. */
static ggml_backend_t open_all(const struct ask *a, struct vr_err *err)
{
    ggml_backend_dev_t devices[VR_MAX_VGPUS];
    char name[32];
    if (a->n < 2 || a->n > VR_MAX_VGPUS) return VR_FAIL_NULL(err, VR_EINTERNAL, "reductions over %zu devices", a->n);
    if (!vr_measure_backends(a->w, err)) return NULL;
    for (size_t i = 0; i < a->n; i++) {
        snprintf(name, sizeof name, "CUDA%zu", i);
        devices[i] = ggml_backend_dev_by_name(name);
        if (!devices[i]) return VR_FAIL_NULL(err, VR_EDEVICE, "the engine does not find device %s", name);
    }
    ggml_backend_dev_t all = ggml_backend_meta_device(devices, a->n, state_of, NULL);
    ggml_backend_t b = all ? ggml_backend_dev_init(all, NULL) : NULL;
    return b ? b : VR_FAIL_NULL(err, VR_EDEVICE, "the engine cannot use %zu devices as one", a->n);
}

static bool reduce_child(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    const struct ask *a = ctx;
    struct vr_measured_reduction r = { 0 };
    ggml_backend_t all = open_all(a, err);
    if (!all) return false;
    for (size_t i = 0; i < VR_REDUCE_SIZES; i++) {
        double with, without;
        if (!time_graph(all, a->n, i, true, &with, err) || !time_graph(all, a->n, i, false, &without, err))
            return false;
        r.us[i] = fmax((with - without) / (stages[i] - 1), LEAST_US); /* none follows the last stage */
        if (i) r.us[i] = fmax(r.us[i], r.us[i - 1]);                  /* more is never faster */
    }
    vr_buf_add(result, &r, sizeof r);
    return true;
}

bool vr_measure_reduce(const struct vr_measure_where *w, size_t n, struct vr_measured_reduction *out,
                       struct vr_err *err)
{
    struct vr_measured_reduction r;
    const struct ask a = { w, n };
    if (!vr_measure_ask_on(reduce_child, &a, w, &r, sizeof r, err)) return false;
    memcpy(out->us, r.us, sizeof out->us);
    return true;
}
