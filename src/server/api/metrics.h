/* What /metrics tells, in the text format of Prometheus. */
#ifndef VR_SERVER_API_METRICS_H
#define VR_SERVER_API_METRICS_H

#include <stdint.h>

#include "base/buf.h"

struct vr_front;

#define VR_N_BUCKETS 14

struct vr_histogram {
    uint64_t buckets[VR_N_BUCKETS + 1];
    uint64_t n;
    double sum;
};

struct vr_metrics {
    uint64_t by_status[6][600]; /* route family x HTTP status */
    uint64_t prompt_tokens, cached_tokens, text_tokens, drafted_tokens, accepted_tokens, cancelled, stalled,
        refused_connections;
    uint64_t engine_starts, engine_crashes, engine_failures;
    struct vr_histogram first_token_s, request_s;
    double text_tok_s; /* of one stream, over recent answers; 0: none yet */
};

void vr_histogram_add(struct vr_histogram *h, double seconds);
void vr_metrics_print(const struct vr_front *f, struct vr_buf *out);

#endif
