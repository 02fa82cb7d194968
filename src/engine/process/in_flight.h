/* The requests that are alive, for the two threads that care: the one that hears of a cancellation, and the one that
 * computes and should stop at once when nobody wants the result. */
#ifndef VR_ENGINE_PROCESS_IN_FLIGHT_H
#define VR_ENGINE_PROCESS_IN_FLIGHT_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/process/request.h"

struct vr_in_flight {
    pthread_mutex_t lock;
    struct vr_request **all; /* sorted by nothing: there are hundreds */
    size_t n, cap;
    unsigned wanted;   /* requests in the batch that is being computed and are not cancelled */
    atomic_bool abort; /* nobody wants it */
};

void vr_in_flight_init(struct vr_in_flight *l);
void vr_in_flight_done(struct vr_in_flight *l);

/* False: its id is in use, or memory is out. */
bool vr_in_flight_add(struct vr_in_flight *l, struct vr_request *r) VR_MUST_CHECK;
/* Forgets it; it is the caller's to free. */
void vr_in_flight_remove(struct vr_in_flight *l, struct vr_request *r);
/* True when it was alive. */
bool vr_in_flight_cancel(struct vr_in_flight *l, uint32_t id);
void vr_in_flight_cancel_all(struct vr_in_flight *l);

/* A batch with these requests (some may stand in it twice) is computed between begin and end. */
void vr_in_flight_begin(struct vr_in_flight *l, struct vr_request *const *batch, size_t n);
void vr_in_flight_end(struct vr_in_flight *l, struct vr_request *const *batch, size_t n);

#endif
