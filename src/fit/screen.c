#include "fit/screen.h"

#include <stdlib.h>

#include "fit/planner.h"

#define QUICK_WORK 2000 /* labels */

struct vr_screen {
    struct vr_planner planner;
    double cost; /* on the machine that it was opened with */
};

void vr_screen_free(struct vr_screen *s)
{
    if (s) vr_planner_close(&s->planner);
    free(s);
}

static bool make(struct vr_screen *s, struct vr_plan *out, struct vr_arena *arena)
{
    struct vr_err no;
    s->planner.ask.work_limit = QUICK_WORK;
    return vr_plan_make(&s->planner.ask, arena, out, &no);
}

struct vr_screen *vr_screen_open(const struct vr_fit_ask *a, const struct vr_goal *w, struct vr_err *err)
{
    VR_AUTO(vr_screen) s = calloc(1, sizeof *s);
    VR_AUTO_OUTCOME o = { 0 };
    VR_AUTO_ARENA arena = { 0 };
    struct vr_plan plan = { 0 };
    if (!s) return VR_FAIL_NULL(err, VR_ENOMEM, "out of memory while planning");
    if (!vr_planner_open(&s->planner, a, w, err) || !vr_planner_prove(&s->planner, a->context.n_ctx, &o, err))
        return NULL;
    s->planner.ask.optimize = w->optimize;
    if (!make(s, &plan, &arena)) return VR_FAIL_NULL(err, VR_ENOFIT, "no placement was found again");
    s->cost = plan.cost;
    return VR_TAKE(s);
}

double vr_screen_cost(struct vr_screen *s, const struct vr_machine *m, const struct vr_budgets *b)
{
    VR_AUTO_ARENA arena = { 0 };
    struct vr_plan plan = { 0 };
    s->planner.ask.machine = m;
    s->planner.ask.budgets = b;
    return make(s, &plan, &arena) ? plan.cost / s->cost : 0;
}
