/* What /metrics tells, in the text format of Prometheus. */
#ifndef VR_SERVER_API_METRICS_H
#define VR_SERVER_API_METRICS_H

#include <stdint.h>

#include "base/buf.h"
#include "server/http/routes.h"

struct vr_front;

#define VR_N_BUCKETS 14

struct vr_histogram {
    uint64_t buckets[VR_N_BUCKETS + 1];
    uint64_t n;
    double sum;
};

struct vr_metrics {
    uint64_t by_status[VR_N_FAMILIES][600]; /* route family x HTTP status */
    uint64_t prompt_tokens, cached_tokens, text_tokens, drafted_tokens, accepted_tokens, cancelled, stalled,
        refused_connections, displaced, closed_idle;
    uint64_t engine_starts, engine_crashes, engine_failures;
    struct vr_histogram first_token_s, request_s, queue_s;
};

void vr_histogram_add(struct vr_histogram *h, double seconds);
void vr_metrics_print(struct vr_front *f, struct vr_buf *out);

#endif
