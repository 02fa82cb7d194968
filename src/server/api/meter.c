#include "server/api/meter.h"

#include <poll.h>
#include <string.h>

#include <event2/event.h>
#include <jansson.h>

#include "base/child.h"
#include "base/clock.h"
#include "server/supervise/task.h"

#define MAX_LINE 65536
#define PAUSE_MS 5000 /* between two starts */
#define LAST_MS  200  /* for it to die, when we end */

struct vr_meter {
    struct event_base *base;
    struct vr_child_live live;
    struct event *out, *end;
    bool running, dying; /* dying: killed, and not dead yet */
    uint64_t started_ms; /* 0: it may be at once */
    struct vr_buf in;    /* a line that is not complete yet */
    struct vr_buf last;  /* the last one that was */
};

static const char *const argv[] = { VR_SELF, "meter-process", NULL };
static const struct vr_child child = { .argv = argv, .timeout_ms = 1 };

struct vr_meter *vr_meter_new(struct event_base *base)
{
    struct vr_meter *m = calloc(1, sizeof *m);
    if (m) m->base = base;
    return m;
}

static void drop_event(struct event **e)
{
    if (*e) event_free(*e);
    *e = NULL;
}

/* Kills it. Its end is heard of later: a process that waits for a driver may not even die at once. */
static void stop(struct vr_meter *m)
{
    if (!m->running || m->dying) return;
    m->dying = true;
    drop_event(&m->out);
    vr_child_kill(&m->live);
    vr_buf_clear(&m->in);
    vr_buf_clear(&m->last);
}

/* It is dead: fetches it. */
static void bury(struct vr_meter *m)
{
    drop_event(&m->out);
    drop_event(&m->end);
    VR_AUTO_CHILD_END end = { 0 };
    struct vr_err ignored;
    vr_child_end_init(&end, &child);
    bool told = vr_child_finish(&m->live, &end, &ignored);
    (void)told; /* it never ends well */
    m->running = m->dying = false;
    vr_buf_clear(&m->in);
    vr_buf_clear(&m->last);
}

void vr_meter_free(struct vr_meter *m)
{
    if (!m) return;
    stop(m);
    struct pollfd end = { m->live.fds[VR_CHILD_END], POLLIN, 0 };
    if (m->running && poll(&end, 1, LAST_MS) > 0) bury(m); /* one that hangs is left to init: we end, too */
    drop_event(&m->end);
    vr_buf_done(&m->in);
    vr_buf_done(&m->last);
    free(m);
}

/* Takes whole lines; the last one that is JSON counts. */
static void read_lines(struct vr_meter *m)
{
    for (char *end; m->in.n && (end = memchr(m->in.data, '\n', m->in.n));) {
        size_t n = (size_t)(end - m->in.data);
        json_t *tree = json_loadb(m->in.data, n, 0, NULL);
        if (tree) {
            vr_buf_clear(&m->last);
            vr_buf_add(&m->last, m->in.data, n);
        }
        json_decref(tree);
        m->in.n -= n + 1;
        memmove(m->in.data, end + 1, m->in.n);
    }
}

static void on_out(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_meter *m = ctx;
    bool ok = vr_child_take(&m->live, VR_CHILD_OUT, &m->in);
    if (ok) read_lines(m);
    if (!ok || m->live.fds[VR_CHILD_OUT] < 0 || event_add(m->out, NULL) != 0) stop(m); /* on_end comes */
}

static void on_end(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    bury(ctx);
}

static void start(struct vr_meter *m)
{
    struct vr_err ignored; /* the page then shows no readings; the next try is in a few seconds */
    m->started_ms = vr_now_ms();
    if (!vr_child_start(&child, &m->live, &ignored)) return;
    m->running = true;
    m->in.max = MAX_LINE;
    vr_child_feed(&child, &m->live); /* nothing: closes its stdin */
    vr_closep(&m->live.fds[VR_CHILD_ERR]);
    m->live.fds[VR_CHILD_ERR] = -1; /* what a driver complains about is nobody's concern */
    m->out = event_new(m->base, m->live.fds[VR_CHILD_OUT], EV_READ, on_out, m);
    m->end = event_new(m->base, m->live.fds[VR_CHILD_END], EV_READ, on_end, m);
    if (m->out && m->end && event_add(m->out, NULL) == 0 && event_add(m->end, NULL) == 0) return;
    vr_child_kill(&m->live); /* no memory; a moment after its start nothing holds it */
    bury(m);
}

void vr_meter_want(struct vr_meter *m, bool wanted)
{
    if (!wanted) {
        stop(m);
        m->started_ms = 0; /* the pause is for one that dies by itself */
    } else if (!m->running && (!m->started_ms || vr_now_ms() - m->started_ms >= PAUSE_MS)) {
        start(m);
    }
}

const char *vr_meter_json(const struct vr_meter *m) { return m->last.n ? vr_buf_str(&m->last) : "null"; }
