/* `plan`: without a model, the devices with what may be used of each. */
#include "cli/commands.h"
#include "cli/show.h"
#include "hw/profile.h"

bool vr_cmd_plan(const struct vr_options *o, struct vr_buf *out, struct vr_err *err)
{
    struct vr_input in;
    if (!vr_input_read(o, &in, err)) return false;
    if (o->save_machine && !vr_profile_save(o->save_machine, &in.machine, err)) return false;
    if (o->json) return vr_json_print(json_pack("{s:o}", "machine", vr_json_machine(&in)), out, err);
    vr_show_machine(out, &in);
    return true;
}
