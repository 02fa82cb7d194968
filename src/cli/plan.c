/* `plan`: the placement of a model; without one, the devices with what may be used of each. */
#include <string.h>

#include "cli/commands.h"
#include "cli/placement.h"
#include "hw/profile.h"

#define FILL 0.5 /* of the context, when speeds are told */

static bool plan_model(const struct vr_options *o, const struct vr_input *in, struct vr_buf *out, struct vr_err *err)
{
    VR_AUTO(vr_model) m = vr_model_open(o->model, err);
    if (!m) return false;
    VR_AUTO_FOOTPRINT f = { 0 };
    if (!vr_footprint_compute(m, &in->context, &f, err))
        return false; /* refuses what the engine would, in a sentence */
    struct vr_speeds speeds;
    vr_speeds_guess(&in->machine, &speeds);
    struct vr_fit_ask ask = { .model = m,
                              .machine = &in->machine,
                              .budgets = &in->budgets,
                              .speeds = &speeds,
                              .context = in->context,
                              .flash_auto = strcmp(o->flash_attn, "auto") == 0,
                              .fill = FILL };
    VR_AUTO_OUTCOME outcome = { 0 };
    if (!vr_placement_find(o, &ask, &outcome, err)) return false;
    if (o->json) {
        json_t *plan = vr_json_outcome(&ask, &outcome);
        json_object_set_new(plan, "model", vr_json_model(m));
        json_object_set_new(plan, "goal", vr_json_goal(in));
        if (!vr_json_print(plan, out, err)) return false;
    } else {
        vr_show_outcome(out, &ask, &outcome);
    }
    return vr_outcome_check(&ask, &outcome, err);
}

bool vr_cmd_plan(const struct vr_options *o, struct vr_buf *out, struct vr_err *err)
{
    struct vr_input in;
    if (!vr_input_read(o, &in, err)) return false;
    if (o->save_machine && !vr_profile_save(o->save_machine, &in.machine, err)) return false;
    if (o->model) return plan_model(o, &in, out, err);
    if (o->json) return vr_json_print(json_pack("{s:o}", "machine", vr_json_machine(&in)), out, err);
    vr_show_machine(out, &in);
    return true;
}
