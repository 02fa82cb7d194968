#include "engine/process/request_queue.h"

void vr_request_queue_init(struct vr_request_queue *q) { *q = (struct vr_request_queue){ NULL, &q->head }; }

void vr_request_push(struct vr_request_queue *q, struct vr_request *r)
{
    r->next = NULL;
    *q->tail = r;
    q->tail = &r->next;
}

void vr_request_insert(struct vr_request_queue *q, struct vr_request *r)
{
    struct vr_request **at = &q->head;
    while (*at && (*at)->arrived_ms <= r->arrived_ms) at = &(*at)->next;
    r->next = *at;
    *at = r;
    if (!r->next) q->tail = &r->next;
}

struct vr_request *vr_request_pop(struct vr_request_queue *q)
{
    struct vr_request *r = q->head;
    if (r && !(q->head = r->next)) q->tail = &q->head;
    return r;
}
