/* What is sent over RPC is not waited for, so a transfer is timed with a fetch of a few bytes behind it, and what such
 * a fetch takes alone is subtracted. Tensors stay below the size from which on RPC sends a hash first. */
#include "engine/measure/measure_node.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rank.h"
#include "engine/llama/confinement.h"
#include "engine/measure/measure_stage.h"
#include "engine/rpc/borrow.h"

#define PIECE_BYTES    ((size_t)8 << 20)
#define FEW_BYTES      ((size_t)64)
#define TRIPS          65
#define TRANSFERS      3
#define SILENT_S       20
#define ENOUGH_US      3e6 /* of transfers one way: a slow link is known after one */
#define LEAST_US(us)   fmax(us, 1)
#define GBS(bytes, us) ((double)(bytes) / LEAST_US(us) / 1e3)

static double fetch_us(struct ggml_tensor *t, char *here, size_t n)
{
    double t0 = vr_now_fine_us();
    ggml_backend_tensor_get(t, here, 0, n);
    return vr_now_fine_us() - t0;
}

static double send_us(struct ggml_tensor *t, char *here)
{
    char few[FEW_BYTES];
    double t0 = vr_now_fine_us();
    ggml_backend_tensor_set(t, here, 0, PIECE_BYTES);
    ggml_backend_tensor_get(t, few, 0, sizeof few);
    return vr_now_fine_us() - t0;
}

static void time_way(struct ggml_tensor *t, char *here, struct vr_measure_way *out)
{
    double trips[TRIPS], to_us = INFINITY, from_us = INFINITY, spent_us = 0;
    fetch_us(t, here, FEW_BYTES);
    for (size_t i = 0; i < TRIPS; i++) trips[i] = fetch_us(t, here, FEW_BYTES);
    out->round_trip_us = LEAST_US(vr_rank(trips, TRIPS, 0.5));
    for (int i = 0; i < TRANSFERS && spent_us < ENOUGH_US; i++) {
        double to = send_us(t, here), from = fetch_us(t, here, PIECE_BYTES);
        to_us = fmin(to_us, to);
        from_us = fmin(from_us, from);
        spent_us += to;
    }
    out->to_gbs = GBS(PIECE_BYTES, to_us - out->round_trip_us);
    out->from_gbs = GBS(PIECE_BYTES, from_us - out->round_trip_us);
}

static bool node_child(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    const struct vr_load_node *node = ctx;
    static char here[PIECE_BYTES];
    char name[64];
    struct vr_measure_way out;
    if (!vr_borrow_nodes(node, 1, SILENT_S, err)) return false;
    vr_engine_confine(&(struct vr_engine_needs){ .files = { 0 } }, NULL); /* the tunnel has the key and the network */
    if (!vr_borrow_register(err)) return false;
    snprintf(name, sizeof name, "%s/%s", node->pair.name, node->devices[0]);
    ggml_backend_dev_t dev = ggml_backend_dev_by_name(name);
    struct ggml_tensor *t = dev ? vr_bytes_on(ggml_backend_dev_buffer_type(dev), PIECE_BYTES) : NULL;
    if (!t) return vr_fail(err, VR_EDEVICE, "%s has no memory left to measure the way to it", name);
    memset(here, 1, sizeof here);
    time_way(t, here, &out);
    vr_buf_add(result, &out, sizeof out);
    return true;
}

bool vr_measure_node(const struct vr_load_node *node, int timeout_ms, struct vr_measure_way *out, struct vr_err *err)
{
    return vr_measure_ask(node_child, node, NULL, timeout_ms, out, sizeof *out, err);
}
