#include "server/http/later.h"

#include <stddef.h>
#include <stdlib.h>

#include <event2/event.h>

#include "server/front.h"

#define MAX_HANDSHAKES 8 /* in one turn of the loop; ... */
#define MAX_PIPELINED  8 /* ... connections, each with a few requests */

struct vr_handshake {
    struct vr_turn turn;
    struct vr_conn *conn;
    struct event *bytes; /* the first are here */
};

/* A timer of no time comes with the next turn of the loop; event_active() would come with this one. */
static void wake(struct vr_later *all) { event_add(all->pump, &(struct timeval){ 0, 0 }); }

static void on_bytes(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_handshake *h = ctx;
    struct vr_later *all = &h->conn->front->conns.later;
    vr_turns_add(&all->handshakes, &h->conn->peer->handshakes, &h->turn, 1);
    wake(all);
}

static struct vr_turn *take(struct vr_turns *turns)
{
    struct vr_turn *turn = vr_turns_next(turns);
    if (turn) vr_turns_take(turns, turn);
    return turn;
}

static void on_pump(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_later *all = ctx;
    struct vr_turn *turn;
    for (int i = 0; i < MAX_HANDSHAKES && (turn = take(&all->handshakes)); i++)
        vr_conn_shake(((struct vr_handshake *)(void *)((char *)turn - offsetof(struct vr_handshake, turn)))->conn);
    for (int i = 0; i < MAX_PIPELINED && (turn = take(&all->pipelined)); i++)
        vr_conn_go_on((struct vr_conn *)(void *)((char *)turn - offsetof(struct vr_conn, later)));
    if (all->handshakes.n || all->pipelined.n) wake(all);
}

bool vr_later_open(struct vr_front *f, struct vr_err *err)
{
    struct vr_later *all = &f->conns.later;
    all->pump = evtimer_new(f->base, on_pump, all);
    return all->pump || vr_fail_nomem(err, "opening the server");
}

void vr_later_close(struct vr_front *f)
{
    if (f->conns.later.pump) event_free(f->conns.later.pump);
    f->conns.later.pump = NULL;
}

struct vr_handshake *vr_handshake_new(struct vr_conn *c)
{
    struct vr_handshake *h = calloc(1, sizeof *h);
    if (!h) return NULL;
    h->conn = c;
    h->bytes = event_new(c->front->base, c->fd, EV_READ, on_bytes, h);
    if (h->bytes && event_add(h->bytes, NULL) == 0) return h;
    vr_handshake_free(h);
    return NULL;
}

void vr_handshake_free(struct vr_handshake *h)
{
    if (!h) return;
    vr_turns_remove(&h->conn->front->conns.later.handshakes, &h->turn);
    if (h->bytes) event_free(h->bytes);
    free(h);
}

void vr_later_go_on(struct vr_conn *c)
{
    struct vr_later *all = &c->front->conns.later;
    if (c->later.line) return;
    vr_turns_add(&all->pipelined, &c->peer->pipelined, &c->later, 1);
    wake(all);
}

void vr_later_forget(struct vr_conn *c) { vr_turns_remove(&c->front->conns.later.pipelined, &c->later); }
