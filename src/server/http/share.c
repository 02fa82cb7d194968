#include "server/http/share.h"

#include "server/front.h"

/* The one that would be closed first anyway. */
static struct vr_conn *oldest_idle(struct vr_front *f, const struct vr_client *peer)
{
    struct vr_conn *oldest = NULL;
    for (struct vr_conn *c = f->conns.first; c; c = c->next) {
        bool idle = c->state == VR_CONN_HEAD || c->state == VR_CONN_LINGER;
        if (c->peer == peer && idle && (!oldest || c->deadline_ms <= oldest->deadline_ms)) oldest = c;
    }
    return oldest;
}

bool vr_share_place(struct vr_front *f, const struct vr_client *newcomer)
{
    const struct vr_client *most = vr_clients_most_conns(&f->clients);
    if (!most || most->n_conns <= newcomer->n_conns + 1) return false;
    struct vr_conn *idle = oldest_idle(f, most);
    if (idle) vr_conn_close_idle(idle);
    return idle != NULL;
}

/* Bytes per second of its window so far. */
static double rate(const struct vr_incoming *r, uint64_t now)
{
    return (double)(r->wire_bytes - r->window_bytes) / (double)(now - r->window_ms + 1);
}

static struct vr_conn *slowest_body(struct vr_front *f, const struct vr_client *client)
{
    uint64_t now = vr_now_ms();
    struct vr_conn *slowest = NULL;
    for (struct vr_conn *c = f->conns.first; c; c = c->next)
        if (c->client == client && c->state == VR_CONN_BODY && c->request->body.n &&
            (!slowest || rate(c->request, now) < rate(slowest->request, now)))
            slowest = c;
    return slowest;
}

bool vr_share_memory(struct vr_conn *c, uint64_t bytes)
{
    struct vr_front *f = c->front;
    while (f->clients.body_bytes + bytes > f->config->limits.max_memory_bytes) {
        struct vr_client *most = vr_clients_most_bytes(&f->clients);
        if (!most || most == c->client || most->body_bytes <= c->client->body_bytes + bytes) return false;
        struct vr_conn *slowest = slowest_body(f, most);
        if (!slowest) slowest = vr_read_newest(most);
        if (slowest)
            vr_conn_displace(slowest);
        else if (!vr_queue_drop_newest(f, most))
            return false; /* threads read what it holds: a moment */
    }
    return true;
}

bool vr_share_crawls(struct vr_incoming *r, const struct vr_limits *limits, uint64_t now)
{
    uint64_t window = limits->body_seconds * UINT64_C(1000);
    if (now > r->heard_ms + window) return true;
    if (now < r->window_ms + window) return false;
    bool slow = r->wire_bytes - r->window_bytes < (uint64_t)limits->body_seconds * limits->body_rate;
    r->window_ms = now;
    r->window_bytes = r->wire_bytes;
    return slow;
}
