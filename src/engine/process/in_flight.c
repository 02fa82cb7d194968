/* Everything under one lock, but for `abort`, which the engine asks for at every node of its graph. */
#include "engine/process/in_flight.h"

void vr_in_flight_init(struct vr_in_flight *l)
{
    *l = (struct vr_in_flight){ 0 };
    pthread_mutex_init(&l->lock, NULL);
}

void vr_in_flight_done(struct vr_in_flight *l)
{
    free(l->all);
    pthread_mutex_destroy(&l->lock);
}

static size_t find(const struct vr_in_flight *l, uint32_t id)
{
    size_t i = 0;
    while (i < l->n && l->all[i]->id != id) i++;
    return i;
}

bool vr_in_flight_add(struct vr_in_flight *l, struct vr_request *r)
{
    pthread_mutex_lock(&l->lock);
    bool ok = find(l, r->id) == l->n;
    if (ok && l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 64;
        struct vr_request **all = realloc(l->all, cap * sizeof(struct vr_request *));
        ok = all != NULL;
        if (ok) l->all = all, l->cap = cap;
    }
    if (ok) l->all[l->n++] = r;
    pthread_mutex_unlock(&l->lock);
    return ok;
}

void vr_in_flight_remove(struct vr_in_flight *l, struct vr_request *r)
{
    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < l->n; i++)
        if (l->all[i] == r) l->all[i--] = l->all[--l->n];
    pthread_mutex_unlock(&l->lock);
}

/* The lock is held. */
static void cancel(struct vr_in_flight *l, struct vr_request *r)
{
    if (atomic_exchange(&r->cancelled, true)) return;
    if (r->in_batch && --l->wanted == 0) atomic_store(&l->abort, true);
}

bool vr_in_flight_cancel(struct vr_in_flight *l, uint32_t id)
{
    pthread_mutex_lock(&l->lock);
    size_t i = find(l, id);
    bool found = i < l->n;
    if (found) cancel(l, l->all[i]);
    pthread_mutex_unlock(&l->lock);
    return found;
}

void vr_in_flight_cancel_all(struct vr_in_flight *l)
{
    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < l->n; i++) cancel(l, l->all[i]);
    pthread_mutex_unlock(&l->lock);
}

void vr_in_flight_begin(struct vr_in_flight *l, struct vr_request *const *batch, size_t n)
{
    pthread_mutex_lock(&l->lock);
    l->wanted = 0;
    for (size_t i = 0; i < n; i++) {
        if (batch[i]->in_batch || atomic_load(&batch[i]->cancelled)) continue;
        batch[i]->in_batch = true;
        l->wanted++;
    }
    atomic_store(&l->abort, l->wanted == 0);
    pthread_mutex_unlock(&l->lock);
}

void vr_in_flight_end(struct vr_in_flight *l, struct vr_request *const *batch, size_t n)
{
    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < n; i++) batch[i]->in_batch = false;
    atomic_store(&l->abort, false);
    pthread_mutex_unlock(&l->lock);
}
