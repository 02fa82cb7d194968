#include "server/api/queue.h"

#include <math.h>
#include <stddef.h>

#include <event2/event.h>

#include "server/front.h"

#define FOR_OTHERS 8 /* choices, for clients that have nothing at the engine; some take long to prepare */

unsigned vr_queue_depth(unsigned n_seq) { return n_seq + (n_seq < 8 ? 1 : n_seq / 4); }

static const struct vr_client_line *line_of(const struct vr_line *line)
{
    return (const struct vr_client_line *)(const void *)((const char *)line - offsetof(struct vr_client_line, line));
}

#define MOST_USE 1e6

/* By what waits; of those who have as much waiting, by what they had. */
static double greed(const struct vr_client_line *c, double more, uint64_t now_ms)
{
    return ((double)c->line.waiting + more) * MOST_USE + fmin(vr_client_use(c->client, now_ms), MOST_USE);
}

struct vr_turn *vr_queue_displaced(const struct vr_turns *all, const struct vr_client_line *newcomer, size_t cost,
                                   uint64_t now_ms)
{
    const struct vr_client_line *most = NULL;
    double its = 0;
    for (const struct vr_line *l = all->first; l; l = l->next) {
        double g = greed(line_of(l), 0, now_ms);
        if (most && g <= its) continue;
        most = line_of(l);
        its = g;
    }
    if (!most || most == newcomer || greed(newcomer, (double)cost, now_ms) >= its) return NULL;
    return most->line.last;
}

static struct vr_call *call_of(struct vr_turn *turn)
{
    return (struct vr_call *)(void *)((char *)turn - offsetof(struct vr_call, turn));
}

static unsigned weight(const struct vr_call *c) { return c->n_running < c->n_most ? c->n_running : c->n_most; }

/* Who has nothing there yet need not wait for those who have. */
static bool has_room(const struct vr_served *m, const struct vr_client_line *line)
{
    unsigned depth = vr_queue_depth(m->engine.n_seq);
    return m->queue.running < depth + (line->n_running ? 0 : FOR_OTHERS);
}

/* Sends what may be sent. What the engine's socket does not take waits on; one that is to leave gets nothing more. */
static void on_pump(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_served *m = ctx;
    struct vr_queue *q = &m->queue;
    while (m->engine.state == VR_WORKER_READY && !m->stay.leaves) {
        struct vr_turn *turn = vr_turns_next(&q->turns);
        struct vr_call *call = turn ? call_of(turn) : NULL;
        if (!call || !has_room(m, call->line) || !vr_call_send(call)) break;
        vr_turns_take(&q->turns, turn);
        vr_client_used(call->line->client, call->n_choices, vr_now_ms());
        call->n_running = call->n_choices;
        call->n_most = (uint16_t)m->engine.n_seq;
        call->line->n_running += call->n_choices;
        q->running += weight(call);
    }
}

void vr_queue_kick(struct vr_served *m)
{
    if (m->queue.pump && m->queue.turns.n) event_active(m->queue.pump, EV_TIMEOUT, 0);
}

bool vr_queue_open(struct vr_served *m)
{
    m->queue.pump = event_new(m->front->base, -1, 0, on_pump, m);
    return m->queue.pump != NULL;
}

void vr_queue_close(struct vr_served *m)
{
    if (m->queue.pump) event_free(m->queue.pump);
    m->queue.pump = NULL;
}

static void displace(struct vr_front *f, struct vr_turn *turn)
{
    f->metrics.displaced++;
    vr_call_fail(f, call_of(turn), 429, "queue_full",
                 "the queue is full, and other clients have fewer requests waiting than yours; retry later");
}

bool vr_queue_drop_newest(struct vr_front *f, const struct vr_client *client)
{
    struct vr_line *most = NULL;
    for (struct vr_client_line *l = client->lines; l; l = l->next)
        if (l->line.last && (!most || l->line.waiting > most->waiting)) most = &l->line;
    if (most) displace(f, most->last);
    return most != NULL;
}

bool vr_queue_admit(struct vr_served *m, const struct vr_client_line *line, size_t n_choices)
{
    struct vr_front *f = m->front;
    uint64_t most = m->engine.n_seq + f->config->limits.max_queue;
    while (m->n_texts + n_choices > most || f->calls.n_unused == 0) {
        struct vr_turn *turn =
            n_choices > most ? NULL : vr_queue_displaced(&m->queue.turns, line, n_choices, vr_now_ms());
        bool first = line->line.waiting == 0 && line->n_running == 0;
        if (!turn) return first && n_choices <= most && f->calls.n_unused;
        displace(f, turn);
    }
    return true;
}

void vr_queue_add(struct vr_call *call)
{
    struct vr_served *m = call->model;
    bool at_once = m->queue.turns.n == 0;
    vr_turns_add(&m->queue.turns, &call->line->line, &call->turn, call->n_choices);
    if (at_once)
        on_pump(-1, 0, m);
    else
        vr_queue_kick(m);
}

void vr_queue_ended(struct vr_call *call, unsigned n_choices)
{
    struct vr_queue *q = &call->model->queue;
    unsigned n = n_choices < call->n_running ? n_choices : call->n_running;
    q->running -= weight(call);
    call->n_running = (uint16_t)(call->n_running - n);
    q->running += weight(call);
    call->line->n_running -= n;
    if (!n) return;
    vr_queue_kick(call->model);
    if (call->model->stay.leaves) vr_fleet_changed(call->model->front);
}

void vr_queue_leave(struct vr_call *call)
{
    vr_turns_remove(&call->model->queue.turns, &call->turn);
    vr_queue_ended(call, call->n_running);
}
