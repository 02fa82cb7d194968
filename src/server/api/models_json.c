#include "server/api/models_json.h"

#include <string.h>

#include "base/json.h"
#include "server/front.h"
#include "server/supervise/host_use.h"

json_t *vr_models_json_devices(const struct vr_load *plan)
{
    json_t *list = json_array();
    for (size_t i = 0; plan && i < plan->n_devices; i++) {
        const struct vr_load_device *d = &plan->devices[i];
        if (!*d->name) continue;
        json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:I,s:I,s:I,s:I}", "id", d->id, "name", d->name, "key",
                                              d->key, "bytes", (json_int_t)vr_load_bytes(d), "model_bytes",
                                              (json_int_t)d->model_bytes, "context_bytes", (json_int_t)d->context_bytes,
                                              "compute_bytes", (json_int_t)d->compute_bytes));
    }
    return list;
}

static json_t *json_aliases(const char *const *aliases)
{
    json_t *list = json_array();
    for (; aliases && *aliases; aliases++) json_array_append_new(list, json_string(*aliases));
    return list;
}

static json_t *json_leaves(const struct vr_served *m)
{
    json_t *list = json_array();
    const struct vr_buf *evict = m->engine.state == VR_WORKER_ROOM ? &m->engine.load->evict : NULL;
    for (size_t at = 0; evict && at < evict->n; at += strlen(evict->data + at) + 1)
        json_array_append_new(list, json_string(evict->data + at));
    return list;
}

static json_t *seconds_or_null(bool known, double s) { return known ? json_real(s) : json_null(); }

static double seconds(uint64_t from_ms, uint64_t to_ms)
{
    return to_ms > from_ms ? (double)(to_ms - from_ms) / 1e3 : 0;
}

static void add_times(json_t *out, const struct vr_served *m)
{
    const struct vr_worker *e = &m->engine;
    const struct vr_stay *s = &m->stay;
    uint64_t now = vr_now_ms(), since = s->used_ms > e->ready_ms ? s->used_ms : e->ready_ms;
    bool up = e->state == VR_WORKER_READY, on_demand = m->front->config->on_demand;
    bool expires = on_demand && up && !s->pinned && s->ttl_ms >= 0 && m->n_calls == 0;
    json_object_set_new(out, "ttl_s",
                        seconds_or_null(on_demand && s->ttl_ms >= 0 && !s->pinned, (double)s->ttl_ms / 1e3));
    json_object_set_new(out, "last_used_s", seconds_or_null(s->used_ms, seconds(s->used_ms, now)));
    json_object_set_new(out, "unload_in_s", seconds_or_null(expires, seconds(now, since + (uint64_t)s->ttl_ms)));
    json_object_set_new(out, "load_s", seconds_or_null(e->n_ready, e->load_s));
    json_object_set_new(out, "plan_s", seconds_or_null(e->planned_ms, seconds(e->plan_from_ms, e->planned_ms)));
    json_object_set_new(out, "retry_in_s",
                        seconds_or_null(e->state == VR_WORKER_WAITING, seconds(now, e->restart_at_ms)));
}

json_t *vr_models_json(const struct vr_served *m)
{
    const struct vr_worker *e = &m->engine;
    bool has_place = e->load && (e->pid || e->state == VR_WORKER_ROOM);
    json_t *out = json_pack(
        "{s:s,s:o,s:o,s:I,s:s,s:i,s:s,s:b,s:b,s:I,s:I,s:i,s:i,s:o,s:o,s:o,s:I}", "id", m->config->id, "aliases",
        json_aliases(m->config->aliases), "path", vr_json_text(m->config->path), "bytes", (json_int_t)m->config->bytes,
        "state", vr_fleet_state(m), "percent", e->percent, "stage", e->stage, "default", m == m->front->models,
        "pinned", m->stay.pinned, "running", (json_int_t)(m->n_calls - m->queue.turns.n), "waiting",
        (json_int_t)m->queue.turns.n, "loads", (int)e->n_ready, "evictions", (int)m->stay.n_evictions, "trouble",
        vr_json_text(*e->trouble ? e->trouble : NULL), "leaves", json_leaves(m), "devices",
        vr_models_json_devices(has_place ? e->load : NULL), "host_bytes", (json_int_t)(has_place ? e->host_bytes : 0));
    if (!out) return NULL;
    json_object_set_new(out, "host_now_bytes", json_integer((json_int_t)vr_host_use_bytes(e->pid)));
    json_object_set_new(out, "in_the_way", e->in_the_way ? json_deep_copy(e->in_the_way) : json_array());
    add_times(out, m);
    return out;
}
