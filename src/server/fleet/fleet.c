#include "server/fleet/fleet.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <event2/event.h>

#include "base/log.h"
#include "fit/residents.h"
#include "server/front.h"
#include "server/supervise/free_memory.h"
#include "server/supervise/host_use.h"

#define MAX_PLANS     2 /* for a newcomer, while one that was given up is not gone yet */
#define MAX_WAITING   32
#define AGAIN_MS      5000 /* until a plan that others were in the way of is made again: memory may be freed elsewhere */
#define LAST_BYTES_MS 300  /* for clients to take what was written, when we stop */

/* --- who is where --- */

static bool is_coming(const struct vr_served *m)
{
    enum vr_worker_state s = m->engine.state;
    return s == VR_WORKER_PLANNING || s == VR_WORKER_ROOM || s == VR_WORKER_LOADING || s == VR_WORKER_SHORT;
}

bool vr_fleet_is_coming(const struct vr_served *m) { return m->engine.state != VR_WORKER_READY || m->stay.leaves; }

const char *vr_fleet_state(const struct vr_served *m)
{
    switch (m->engine.state) {
    case VR_WORKER_DOWN: return m->stay.wanted_ms ? "queued" : "unloaded";
    case VR_WORKER_PLANNING: return "planning";
    case VR_WORKER_ROOM: return "making_room";
    case VR_WORKER_READY: return m->stay.leaves ? "unloading" : "ready";
    case VR_WORKER_WAITING: return m->engine.came_up ? "restarting" : "failed";
    default: return vr_worker_state_name(m->engine.state);
    }
}

static bool had_its_time(const struct vr_served *m, uint64_t now)
{
    return now >= m->engine.ready_ms + vr_stay_term_ms(m->engine.load_s);
}

/* It has a plan, and not all of its bytes yet. */
static bool is_moving_in(const struct vr_served *m)
{
    return m->engine.state == VR_WORKER_ROOM || m->engine.state == VR_WORKER_LOADING;
}

/* --- what the planning process is told --- */

static uint64_t free_bytes(const struct vr_load_device *d) { return d->free_bytes; }
static uint64_t nothing(const struct vr_load_device *d)
{
    (void)d;
    return 0;
}

static json_t *devices_of(const struct vr_worker *e, uint64_t (*bytes)(const struct vr_load_device *))
{
    json_t *all = json_object();
    for (size_t i = 0; i < e->load->n_devices; i++) {
        const struct vr_load_device *d = &e->load->devices[i];
        if (*d->name) json_object_set_new(all, d->key, json_integer((json_int_t)bytes(d)));
    }
    return all;
}

static double seconds_since(uint64_t then, uint64_t now) { return now > then ? (double)(now - then) / 1e3 : 0; }

json_t *vr_fleet_residents(const struct vr_served *newcomer, bool patient)
{
    const struct vr_front *f = newcomer->front;
    uint64_t now = vr_now_ms();
    json_t *list = json_array();
    for (size_t i = 0; i < f->n_models; i++) {
        const struct vr_served *m = &f->models[i];
        const struct vr_worker *e = &m->engine;
        bool moves_in = is_moving_in(m);
        if (m == newcomer || !e->load || (!e->pid && !moves_in)) continue;
        bool busy = moves_in || (m->n_calls > 0 && !(newcomer->stay.insists && had_its_time(m, now)));
        uint64_t used = m->stay.used_ms > e->ready_ms ? m->stay.used_ms : e->ready_ms;
        json_t *one = json_pack("{s:s,s:b,s:b,s:f,s:f,s:o,s:I,s:I}", "model", m->config->id, "pinned", m->stay.pinned,
                                "busy", busy && !patient, "cost_s", e->load_s, "last_used_s", seconds_since(used, now),
                                "devices", devices_of(e, vr_load_bytes), "host", (json_int_t)e->host_bytes, "host_now",
                                (json_int_t)vr_host_use_bytes(e->pid));
        if (moves_in) json_object_set_new(one, "before", devices_of(e, e->pid ? free_bytes : nothing));
        json_array_append_new(list, one);
    }
    return list;
}

/* Busy models that are in its way, by its last plan, and still busy: true with when the first of them has had its time,
 * `*over` if that is now; and models that are still being loaded. */
static bool busy_in_the_way(struct vr_served *m, uint64_t now, uint64_t *until, bool *over)
{
    bool any = false;
    json_t *v;
    size_t i;
    json_array_foreach(m->engine.in_the_way, i, v)
    {
        const char *id = json_string_value(json_object_get(v, "model"));
        struct vr_served *r = id ? vr_served_find(m->front, id) : NULL;
        if (r && r != m && is_moving_in(r)) {
            m->stay.behind = r;
            any = true;
        }
        if (!r || r == m || r->engine.state != VR_WORKER_READY || r->stay.pinned || !r->n_calls) continue;
        uint64_t end = r->engine.ready_ms + vr_stay_term_ms(r->engine.load_s);
        any = true;
        *over |= end <= now;
        if (end < *until) *until = end;
    }
    return any;
}

bool vr_fleet_waits(struct vr_served *m, const struct vr_err *why)
{
    struct vr_front *f = m->front;
    uint64_t now = vr_now_ms(), until = now + AGAIN_MS;
    bool over = false;
    if (!f->config->on_demand || why->code != VR_ENOFIT) return false;
    m->stay.blocked = false;
    if (!busy_in_the_way(m, now, &until, &over)) /* it does not fit without them, unless somebody left meanwhile */
        return m->stay.told_at != f->fleet.n_freed;
    m->stay.insists |= over;
    m->stay.blocked = true;
    m->stay.blocked_at = m->stay.told_at;
    m->stay.blocked_ms = now;
    m->stay.blocked_until_ms = until;
    snprintf(m->engine.trouble, sizeof m->engine.trouble, "%s", why->msg);
    return true;
}

static json_t *loading_in_the_way(const struct vr_worker *e)
{
    uint64_t bytes = e->host_bytes;
    for (size_t i = 0; i < e->load->n_devices; i++)
        if (*e->load->devices[i].name) bytes += vr_load_bytes(&e->load->devices[i]);
    return json_pack("[{s:s,s:s,s:I}]", "kind", vr_obstacle_name(VR_OBSTACLE_LOADING), "model", e->model->config->id,
                     "bytes", (json_int_t)bytes);
}

bool vr_fleet_defers(struct vr_served *m, json_t **in_the_way)
{
    struct vr_front *f = m->front;
    struct vr_worker *e = &m->engine;
    if (!f->config->on_demand) return false;
    for (size_t i = 0; i < f->n_models; i++) {
        struct vr_served *r = &f->models[i];
        if (r == m || !is_moving_in(r) || !vr_load_shares(e->load, r->engine.load)) continue;
        m->stay.behind = r;
        snprintf(e->trouble, sizeof e->trouble, "'%.300s' is being loaded on the same device", r->config->id);
        *in_the_way = loading_in_the_way(&r->engine);
        return true;
    }
    if (m->stay.told_planned != f->fleet.n_planned) return true;
    f->fleet.n_planned++;
    return false;
}

/* --- a step --- */

static bool is_wanted(const struct vr_served *m) { return m->n_calls || m->stay.asked || m->stay.pinned; }

/* Puts it in line, or takes it out of it. */
static void note_wanted(struct vr_served *m, uint64_t now)
{
    struct vr_stay *s = &m->stay;
    enum vr_worker_state state = m->engine.state;
    if (state == VR_WORKER_READY || state == VR_WORKER_WAITING) s->asked = false;
    bool wanted = is_wanted(m);
    if (!wanted && (is_coming(m) || s->blocked || s->behind)) vr_worker_forgive(&m->engine);
    if (!wanted && is_coming(m)) {
        vr_log(VR_INFO, "no request is waiting for %s any more; it is not loaded", m->config->id);
        vr_worker_unload(&m->engine);
    }
    if (!wanted || state == VR_WORKER_READY) {
        s->wanted_ms = 0;
        s->insists = s->blocked = false;
        s->behind = NULL;
    } else if (!s->wanted_ms) {
        s->wanted_ms = now;
    }
}

/* One that was idle for too long leaves. One that leaves does so when it has nothing more to do; one whose newcomer
 * does not come stays. */
static void note_leaving(struct vr_served *m, uint64_t now)
{
    struct vr_stay *s = &m->stay;
    if (m->front->config->on_demand && m->engine.state == VR_WORKER_READY && !m->n_calls && !s->leaves &&
        vr_stay_expired(s, m->engine.ready_ms, now))
        s->leaves = true;
    if (!s->leaves) return;
    bool needless = s->newcomer && s->newcomer->engine.state != VR_WORKER_ROOM;
    if (m->engine.state != VR_WORKER_READY || needless || s->pinned) {
        s->leaves = false;
        s->newcomer = NULL;
        vr_queue_kick(m);
    } else if (m->queue.running == 0) {
        vr_log(VR_INFO, "unloading %s%s%s", m->config->id, s->newcomer ? " to make room for " : "",
               s->newcomer ? s->newcomer->config->id : "");
        s->n_evictions += s->newcomer != NULL;
        s->ttl_ms = s->usual_ttl_ms;
        vr_worker_unload(&m->engine);
    }
}

/* Those that the plan names leave; when their processes are gone, and the driver says so, there is room. */
static void make_room(struct vr_served *m)
{
    const struct vr_buf *evict = &m->engine.load->evict;
    bool waits = false;
    for (size_t at = 0; at < evict->n; at += strlen(evict->data + at) + 1) {
        struct vr_served *v = vr_served_find(m->front, evict->data + at);
        if (!v || v == m || !v->engine.pid) continue;
        if (v->stay.pinned) return vr_worker_unload(&m->engine); /* since the plan was made: it is planned again */
        waits = true;
        if (v->stay.leaves || v->engine.state != VR_WORKER_READY) continue;
        v->stay.leaves = true;
        v->stay.newcomer = m;
        vr_fleet_changed(m->front);
    }
    if (!waits && !vr_free_memory_await(&m->engine)) vr_worker_has_room(&m->engine);
}

/* While it is so, no other is planned: it is decided on, it leaves, or it takes all devices that there are. */
static bool holds_up_others(const struct vr_served *m)
{
    const struct vr_worker *e = &m->engine;
    if (e->state == VR_WORKER_LOADING) return vr_load_uses_all(e->load);
    return is_coming(m) || (e->pid && e->state != VR_WORKER_READY);
}

static void load_next(struct vr_front *f, uint64_t now)
{
    struct vr_served *next = NULL;
    for (size_t i = 0; i < f->n_models; i++) {
        struct vr_served *m = &f->models[i];
        struct vr_stay *s = &m->stay;
        if (holds_up_others(m)) return;
        if (s->behind && is_moving_in(s->behind)) continue;
        if (m->engine.state == VR_WORKER_DOWN && (s->behind || vr_stay_due(s, f->fleet.n_freed, now)) &&
            (!next || s->wanted_ms < next->stay.wanted_ms))
            next = m;
    }
    if (!next) return;
    next->stay.blocked = false;
    next->stay.behind = NULL;
    vr_worker_load(&next->engine);
}

static void end_when_gone(struct vr_front *f)
{
    for (size_t i = 0; i < f->n_models; i++)
        if (f->models[i].engine.state != VR_WORKER_GONE) return;
    event_base_loopexit(f->base, f->conns.n ? &(struct timeval){ 0, LAST_BYTES_MS * 1000 } : NULL);
}

static void on_step(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_front *f = ctx;
    uint64_t now = vr_now_ms();
    if (f->stopping) return end_when_gone(f);
    if (f->config->on_demand)
        for (size_t i = 0; i < f->n_models; i++) note_wanted(&f->models[i], now);
    for (size_t i = 0; i < f->n_models; i++) note_leaving(&f->models[i], now);
    for (size_t i = 0; i < f->n_models; i++)
        if (f->models[i].engine.state == VR_WORKER_ROOM) make_room(&f->models[i]);
    if (f->config->on_demand) load_next(f, now);
}

void vr_fleet_changed(struct vr_front *f)
{
    if (f->fleet.step) event_active(f->fleet.step, EV_TIMEOUT, 0);
}

void vr_fleet_freed(struct vr_front *f)
{
    f->fleet.n_freed++;
    vr_fleet_changed(f);
}

/* --- what users ask for --- */

void vr_fleet_ask(struct vr_served *m)
{
    m->stay.asked = true;
    vr_fleet_changed(m->front);
}

void vr_fleet_dismiss(struct vr_served *m)
{
    m->stay.asked = false;
    m->stay.leaves = m->engine.state == VR_WORKER_READY;
    m->stay.newcomer = NULL;
    vr_fleet_changed(m->front);
}

void vr_fleet_pin(struct vr_served *m, bool pinned)
{
    m->stay.pinned = pinned;
    vr_fleet_freed(m->front);
}

void vr_fleet_keep(struct vr_served *m, int64_t ttl_ms)
{
    m->stay.ttl_ms = ttl_ms;
    vr_fleet_changed(m->front);
}

/* --- once a second, and when a child has ended --- */

static void on_tick(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_front *f = ctx;
    uint64_t now = vr_now_ms();
    for (size_t i = 0; i < f->n_models; i++) vr_worker_tick(&f->models[i].engine, now);
    if (f->stopping && now > f->stop_at_ms) {
        if (f->calls.n) vr_log(VR_WARN, "%u answers were not finished in time", f->calls.n);
        vr_calls_fail_all(f, 503, "stopped", "the request was ended because the server is stopping");
    }
    if (f->config->on_demand) vr_fleet_changed(f);
}

static void on_child(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct vr_front *f = ctx;
    for (size_t i = 0; i < f->n_models; i++) vr_worker_reap(&f->models[i].engine);
}

/* --- lifecycle --- */

bool vr_fleet_open(struct vr_front *f, struct vr_err *err)
{
    struct vr_fleet *a = &f->fleet;
    a->step = event_new(f->base, -1, 0, on_step, f);
    a->child = evsignal_new(f->base, SIGCHLD, on_child, f);
    a->tick = event_new(f->base, -1, EV_PERSIST, on_tick, f);
    a->tasks = vr_tasks_new(f->base, MAX_PLANS, MAX_WAITING);
    if (!a->step || !a->child || !a->tick || !a->tasks || event_add(a->child, NULL) != 0 ||
        event_add(a->tick, &(struct timeval){ 1, 0 }) != 0)
        return vr_fail_nomem(err, "starting the engine");
    if (!f->config->on_demand) return vr_worker_start(&f->models[0].engine, err);
    vr_fleet_changed(f);
    return true;
}

void vr_fleet_close(struct vr_front *f)
{
    struct vr_fleet *a = &f->fleet;
    vr_tasks_free(a->tasks);
    if (a->step) event_free(a->step);
    if (a->child) event_free(a->child);
    if (a->tick) event_free(a->tick);
    *a = (struct vr_fleet){ 0 };
}

void vr_fleet_stop(struct vr_front *f, uint32_t ms)
{
    for (size_t i = 0; i < f->n_models; i++) vr_worker_stop(&f->models[i].engine, ms);
}
