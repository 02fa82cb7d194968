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

void vr_replan_keep(const struct vr_front *f)
{
    struct vr_err no = { 0 };
    const struct vr_server_config *c = f->config;
    if (c->learned_path && !vr_learned_save(c->learned_path, c->learned, &no)) vr_log(VR_WARN, "%s", no.msg);
}

static void on_planned(void *ctx, const struct vr_child_end *end, const struct vr_err *why)
{
    struct vr_front *f = ctx;
    struct vr_load next = { 0 };
    struct vr_err err = { 0 };
    f->engine.planning = NULL;
    if (!end) err = *why;
    bool ok = end && (end->exit_status == 0 ? vr_load_read(vr_buf_str(&end->out), end->out.n, &next, &err)
                                            : vr_task_failure(end, PLAN_MS, "planning again", &err));
    if (!ok) return vr_worker_not_planned(f, &err);
    vr_recovery_planned(f->config->learned, &next, (int64_t)time(NULL));
    log_limits(f, &next);
    vr_replan_keep(f);
    vr_worker_planned(f, &next);
}

void vr_replan(struct vr_front *f)
{
    struct vr_worker *e = &f->engine;
    VR_AUTO_BUF learned = { 0 };
    struct vr_err err = { 0 };
    if (vr_learned_print(f->config->learned, true, &learned, &err))
        e->planning = vr_task_start(e->tasks,
                                    &(struct vr_task_ask){ .argv = f->config->replan_argv,
                                                           .input = learned.data,
                                                           .n_input = learned.n,
                                                           .timeout_ms = PLAN_MS,
                                                           .done = on_planned,
                                                           .ctx = f },
                                    &err);
    if (!e->planning) vr_worker_not_planned(f, &err);
}
