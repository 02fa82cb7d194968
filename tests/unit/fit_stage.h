/* What the tests of fit/ share: a machine, and what is asked for a model on it. */
#ifndef FIT_STAGE_H
#define FIT_STAGE_H

#include "engine_fixtures.h"
#include "fit/fit.h"
#include "hw/profile.h"
#include "hw/spec.h"

struct stage {
    struct vr_model *model; /* where the stage owns it */
    struct vr_machine machine;
    struct vr_budgets budgets;
    struct vr_speeds speeds;
    struct vr_fit_ask ask;
};

/* For the stage's machine; 1,024 MiB of each device stay free. */
static inline void stage_ask(struct stage *s, const struct vr_model *m, const char *order, uint32_t n_ctx)
{
    struct vr_err err = { 0 };
    struct vr_select select = { .device_order = order, .reserve_mib = "1024" };
    if (!vr_budgets_select(&s->machine, &select, &s->budgets, &err)) fail_msg("%s", err.msg);
    vr_speeds_guess(&s->machine, &s->speeds);
    s->ask = (struct vr_fit_ask){ .model = m,
                                  .machine = &s->machine,
                                  .budgets = &s->budgets,
                                  .speeds = &s->speeds,
                                  .context = VR_CONTEXT_DEFAULT,
                                  .flash_auto = true,
                                  .fill = 0.5 };
    s->ask.context.n_ctx = n_ctx;
}

static inline void stage_rig(struct stage *s, const char *rig)
{
    char path[128];
    struct vr_err err = { 0 };
    snprintf(path, sizeof path, "tests/fixtures/rigs/%s.json", rig);
    if (!vr_profile_load(path, &s->machine, &err)) fail_msg("%s", err.msg);
}

/* A list as for --gpus, with a host of 8 cores. */
static inline void stage_cards(struct stage *s, const char *cards, uint64_t ram_free_bytes)
{
    struct vr_err err = { 0 };
    memset(&s->machine, 0, sizeof s->machine);
    if (!vr_spec_parse(cards, &s->machine, &err)) fail_msg("%s", err.msg);
    s->machine.host =
        (struct vr_host){ .cores = 8, .ram_free_bytes = ram_free_bytes, .ram_total_bytes = UINT64_C(64) << 30 };
    vr_machine_number(&s->machine);
}

static inline void stage_model(struct stage *s, const char *fixture)
{
    struct vr_err err = { 0 };
    s->model = vr_model_open(fixture_path(fixture), &err);
    if (!s->model) fail_msg("%s", err.msg);
}

#endif
