/* A queue of requests. Nothing is owned. */
#ifndef VR_ENGINE_PROCESS_REQUEST_QUEUE_H
#define VR_ENGINE_PROCESS_REQUEST_QUEUE_H

#include "engine/process/request.h"

struct vr_request_queue {
    struct vr_request *head, **tail;
};

void vr_request_queue_init(struct vr_request_queue *q);
/* At its end. */
void vr_request_push(struct vr_request_queue *q, struct vr_request *r);
/* Behind those that came before it. */
void vr_request_insert(struct vr_request_queue *q, struct vr_request *r);
/* The first one; NULL: none. */
struct vr_request *vr_request_pop(struct vr_request_queue *q);

#endif
