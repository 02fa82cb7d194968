#include "server/supervise/replan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/text.h"
#include "server/front.h"
#include "server/supervise/recovery.h"
#include "server/supervise/task.h"

#define PLAN_MS 300000 /* dry runs of the largest models take seconds */

static void log_limits(const struct vr_front *f, const struct vr_load *next)
{
    for (size_t i = 0; i < next->n_devices; i++) {
        const struct vr_load_device *d = &next->devices[i];
        const struct vr_learned_row *r = vr_learned_find(f->config->learned, d->key);
        struct vr_num a, b, c;
        if (!r || !r->fails) continue;
        vr_log_fields(VR_WARN, (const struct vr_field[]){ { "device", d->key }, { 0 } },
                      "planned again: %s there; of the %s that it reports as free, at most %s can be allocated",
                      vr_fmt_bytes(&a, vr_load_bytes(d)), vr_fmt_bytes(&b, d->free_bytes),
                      vr_fmt_bytes(&c, r->most_bytes));
    }
}

void vr_replan_keep(struct vr_front *f)
{
    struct vr_err no = { 0 };
    const struct vr_server_config *c = f->config;
    vr_reserve_release(&f->reserve);
    if (c->learned_path && !vr_learned_save(c->learned_path, c->learned, &no)) vr_log(VR_WARN, "%s", no.msg);
    vr_reserve_fill(&f->reserve);
}

/* What the planning process is told. */
static bool write_input(const struct vr_served *m, bool patient, struct vr_buf *out, struct vr_err *err)
{
    VR_AUTO_BUF text = { 0 };
    struct vr_learned learned = *m->front->config->learned;
    learned.split_off = m->engine.split_off; /* it is this model that died of it */
    if (!vr_learned_print(&learned, true, &text, err)) return false;
    json_t *tree = json_loadb(vr_buf_str(&text), text.n, 0, NULL);
    if (tree) json_object_set_new(tree, "residents", vr_fleet_residents(m, patient));
    VR_AUTO_FREE char *dumped = tree ? json_dumps(tree, JSON_COMPACT) : NULL;
    json_decref(tree);
    if (dumped) vr_buf_adds(out, dumped);
    return (dumped && !out->failed) || vr_fail_nomem(err, "planning");
}

/* In `tasks`, which are of the fleet or of those who only want to know. */
static struct vr_task *ask(const struct vr_served *m, struct vr_tasks *tasks, bool patient, const void *whose,
                           vr_task_done *done, void *ctx, struct vr_err *err)
{
    VR_AUTO_BUF input = { 0 };
    struct vr_task *task = NULL;
    vr_reserve_release(&m->front->reserve);
    if (write_input(m, patient, &input, err))
        task = vr_task_start(tasks,
                             &(struct vr_task_ask){ .argv = m->config->replan_argv,
                                                    .input = input.data,
                                                    .n_input = input.n,
                                                    .timeout_ms = PLAN_MS,
                                                    .whose = whose,
                                                    .nice = whose ? VR_ASIDE_NICE : 0,
                                                    .done = done,
                                                    .ctx = ctx },
                             err);
    vr_reserve_fill(&m->front->reserve);
    return task;
}

struct vr_task *vr_replan_ask(const struct vr_served *m, bool patient, const void *whose, vr_task_done *done, void *ctx,
                              struct vr_err *err)
{
    return ask(m, m->front->tasks, patient, whose, done, ctx, err);
}

bool vr_replan_read(const struct vr_child_end *end, const struct vr_err *why, struct vr_load *out, struct vr_err *err)
{
    if (!end) return vr_fail(err, why->code, "%s", why->msg);
    return end->exit_status == 0 ? vr_load_read(vr_buf_str(&end->out), end->out.n, out, err)
                                 : vr_task_failure(end, PLAN_MS, "planning", err);
}

static bool kind_of(const json_t *v, enum vr_obstacle *out)
{
    return vr_obstacle_parse(json_string_value(json_object_get(v, "kind")), out);
}

json_t *vr_replan_in_the_way(const struct vr_child_end *end)
{
    json_t *tree = end ? json_loadb(vr_buf_str(&end->out), end->out.n, 0, NULL) : NULL;
    json_t *list = json_object_get(json_object_get(tree, "error"), "in_the_way");
    enum vr_obstacle kind;
    bool ok = json_is_array(list);
    for (size_t i = 0; ok && i < json_array_size(list); i++) ok = kind_of(json_array_get(list, i), &kind);
    if (ok) json_incref(list);
    json_decref(tree);
    return ok ? list : NULL;
}

bool vr_in_the_way_has(const json_t *list, enum vr_obstacle kind)
{
    enum vr_obstacle one;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (kind_of(json_array_get(list, i), &one) && one == kind) return true;
    return false;
}

/* What the planning process warned of, as JSON lines: it has no log of its own. */
static void tell_warnings(const struct vr_buf *lines)
{
    for (const char *at = lines->data, *end = at + lines->n, *stop; at < end; at = stop + 1) {
        stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) return;
        json_t *line = json_loadb(at, (size_t)(stop - at), 0, NULL);
        const char *level = json_string_value(json_object_get(line, "level")),
                   *msg = json_string_value(json_object_get(line, "msg"));
        if (level && msg && strcmp(level, "warn") == 0) vr_log(VR_WARN, "%s", msg);
        json_decref(line);
    }
}

static void on_planned(void *ctx, const struct vr_child_end *end, const struct vr_err *why)
{
    struct vr_worker *e = ctx;
    struct vr_front *f = e->front;
    struct vr_load next = { 0 };
    struct vr_err err = { 0 };
    e->planning = NULL;
    if (end && end->err.n) tell_warnings(&end->err);
    if (!vr_replan_read(end, why, &next, &err)) return vr_worker_not_planned(e, &err, vr_replan_in_the_way(end));
    vr_recovery_planned(f->config->learned, &next, (int64_t)time(NULL));
    log_limits(f, &next);
    if (f->config->learned->n_fails) vr_replan_keep(f);
    vr_worker_planned(e, &next);
}

void vr_replan(struct vr_worker *e)
{
    struct vr_err err = { 0 };
    e->model->stay.told_at = e->front->fleet.n_freed;
    e->model->stay.told_planned = e->front->fleet.n_planned;
    e->planning = ask(e->model, e->front->fleet.tasks, false, NULL, on_planned, e, &err);
    if (!e->planning) vr_worker_not_planned(e, &err, NULL);
}
