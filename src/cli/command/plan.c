/* `plan`: the placement of a model; without one, the devices with what may be used of each. */
#include <time.h>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/load/placement.h"
#include "cli/text/plan_json.h"
#include "cli/text/plan_text.h"
#include "cli/models/repository.h"
#include "cli/text/show.h"
#include "cli/text/svg.h"
#include "cli/command/plan_together.h"
#include "hw/profile.h"
#include "remote/hub.h"

static bool plan_model(const struct vr_options *o, const struct vr_input *in, const struct vr_learned *learned,
                       struct vr_buf *out, struct vr_err *err)
{
    VR_AUTO_MODELS models;
    if (!vr_models_open(o, &models, err)) return false;
    const struct vr_model *m = models.main;
    VR_AUTO_FREE struct vr_speeds *speeds = vr_input_speeds(o, in, err);
    if (!speeds) return false;
    struct vr_fit_ask ask = vr_placement_ask(o, in, &models, speeds);
    struct vr_split split;
    vr_placement_learned(&ask, learned, &split);
    VR_AUTO_FOOTPRINT f = { 0 };
    const struct vr_context context = vr_context_settled(&in->context, vr_model_makes_embeddings(m));
    if (!vr_footprint_compute(m, &context, &f, err)) return false; /* refuses what the engine would, in a sentence */
    VR_AUTO_OUTCOME outcome = { 0 };
    if (!vr_placement_find(o, &ask, &outcome, err)) return false;
    if (o->svg) {
        VR_AUTO_BUF picture = { 0 };
        if (!vr_svg_outcome(&picture, &ask, &outcome, err)) return false;
        if (!vr_file_write(o->svg, picture.data, picture.n, err)) return false;
    }
    if (o->json) {
        json_t *plan = json_object();
        json_object_set_new(plan, "model", vr_json_model(m));
        json_object_set_new(plan, "goal", vr_json_goal(&outcome.trial, &ask, o->optimize));
        json_object_update_new(plan, vr_json_outcome(&ask, &outcome));
        if (!vr_json_print(plan, out, err)) return false;
    } else {
        vr_show_outcome(out, &ask, &outcome);
    }
    return vr_outcome_check(&ask, &outcome, err);
}

static void apply_learned(struct vr_input *in, struct vr_learned *l)
{
    char path[512];
    struct vr_err no; /* doctor tells about a file that cannot be read */
    if (vr_learned_path(path, sizeof path) && vr_learned_load(path, (int64_t)time(NULL), l, &no))
        vr_input_learned(in, l);
}

bool vr_cmd_plan(const struct vr_options *o, struct vr_buf *out, struct vr_err *err)
{
    VR_AUTO(vr_input) in = vr_input_read(o, err);
    if (!in) return false;
    struct vr_learned learned = { 0 };
    if (!vr_input_is_virtual(o)) apply_learned(in, &learned); /* as serve would plan */
    if (o->save_machine && !vr_profile_save(o->save_machine, &in->machine, err)) return false;
    if (o->together) return vr_plan_together(o, in, &learned, out, err);
    if (o->n_more || o->preset)
        return vr_fail(err, VR_EUSAGE, "'plan' takes one model; --together plans several for one machine at once");
    if (o->model && vr_remote_is(o->model)) return vr_plan_repository(o, o->model, in, out, err);
    if (o->model) return plan_model(o, in, &learned, out, err);
    if (o->json) return vr_json_print(json_pack("{s:o}", "machine", vr_json_machine(in)), out, err);
    vr_show_machine(out, in);
    return true;
}
