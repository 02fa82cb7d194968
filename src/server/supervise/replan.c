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

static void no_plan(struct vr_front *f, struct vr_err *err)
{
    struct vr_worker *e = &f->engine;
    if (!e->was_ready) return vr_front_fail(f, err);
    snprintf(e->trouble, sizeof e->trouble, "%.500s", err->msg);
    vr_worker_restart_later(f); /* with the plan there is: others may give memory back */
}

/* The planner's last line is its sentence. */
static bool failed_plan(const struct vr_child_end *end, struct vr_err *err)
{
    static const char name[] = "vram-llm: ";
    char text[1024];
    size_t n = end->err.n, from = n > sizeof text - 1 ? n - (sizeof text - 1) : 0;
    snprintf(text, sizeof text, "%s", vr_buf_str(&end->err) + from);
    for (n = strlen(text); n && text[n - 1] == '\n';) text[--n] = '\0';
    const char *line = strrchr(text, '\n');
    line = line ? line + 1 : text;
    if (strncmp(line, name, sizeof name - 1) == 0) line += sizeof name - 1;
    enum vr_code code = end->exit_status == vr_code_exit(VR_ENOFIT) ? VR_ENOFIT : VR_EENGINE;
    return vr_fail(err, code, "%.900s",
                   end->timed_out ? "planning again took too long"
                   : *line        ? line
                                  : "planning again failed");
}

static void log_limits(const struct vr_front *f)
{
    for (size_t i = 0; i < f->engine.load.n_devices; i++) {
        const struct vr_load_device *d = &f->engine.load.devices[i];
        const struct vr_learned_row *r = vr_learned_find(f->config->learned, d->key);
        struct vr_num a, b, c;
        if (!r || !r->fails) continue;
        vr_log_fields(VR_WARN, (const struct vr_field[]){ { "device", d->key }, { 0 } },
                      "planned again: %s there, where %s are reported free and at most %s seem to be had",
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
    struct vr_worker *e = &f->engine;
    struct vr_load next = { 0 };
    struct vr_err err = { 0 };
    e->planning = NULL;
    if (f->stopping) return;
    if (!end) err = *why;
    bool ok = end && (end->exit_status == 0 || failed_plan(end, &err)) &&
              vr_load_read(vr_buf_str(&end->out), end->out.n, &next, &err);
    if (!ok) return no_plan(f, &err);
    vr_load_done(&e->load);
    e->load = next;
    e->replanned = true;
    e->n_plans++;
    vr_recovery_planned(f->config->learned, &e->load, (int64_t)time(NULL));
    log_limits(f);
    vr_replan_keep(f);
    vr_worker_restart(f, 0);
}

void vr_replan(struct vr_front *f)
{
    struct vr_worker *e = &f->engine;
    VR_AUTO_BUF learned = { 0 };
    struct vr_err err = { 0 };
    e->must_plan = false;
    e->state = VR_WORKER_RESTARTING;
    e->restart_at_ms = vr_now_ms();
    if (vr_learned_print(f->config->learned, true, &learned, &err))
        e->planning = vr_task_start(e->tasks,
                                    &(struct vr_task_ask){ .argv = f->config->replan_argv,
                                                           .input = learned.data,
                                                           .n_input = learned.n,
                                                           .timeout_ms = PLAN_MS,
                                                           .done = on_planned,
                                                           .ctx = f },
                                    &err);
    if (!e->planning) no_plan(f, &err);
}
