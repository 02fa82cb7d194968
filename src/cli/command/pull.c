/* `pull`: downloads a model to where other programs look for it, and prints its path. */
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/models/remote_model.h"
#include "cli/text/show.h"

bool vr_cmd_pull(const struct vr_options *o, struct vr_buf *out, struct vr_err *err)
{
    VR_AUTO_ELSEWHERE e = { 0 };
    struct vr_found found = { 0 };
    if (!o->model || !vr_remote_is(o->model))
        return vr_fail(err, VR_EUSAGE, "nothing to download was given: vram-llm pull hf:OWNER/NAME:QUANT, or a URL");
    if (o->mmproj && strcmp(o->mmproj, "none") != 0)
        return vr_fail(err, VR_EUSAGE,
                       "--mmproj: download it by its own name, hf:OWNER/NAME:FILE; 'none' leaves out the "
                       "one that lies beside the model");
    if (!vr_elsewhere_open(&e, o->model, o->allow_http, err) || !vr_elsewhere_ask(&e, err)) return false;
    bool file = strcasestr(e.remote.word, "mmproj") != NULL;
    if (!vr_elsewhere_pick(&e, file, &found, err)) return false;
    if (o->mmproj) found.mmproj = NULL;
    if (!vr_elsewhere_heads(&e, &found, err)) return false; /* before anything large: is it a model at all? */
    if (!vr_remote_download(&e, &found, (unsigned)o->connections, err)) return false;
    if (o->json)
        return vr_json_print(json_pack("{s:o, s:o, s:s?}", "path", vr_json_text(found.path), "mmproj",
                                       vr_json_text(found.mmproj), "name", found.name),
                             out, err);
    vr_buf_addf(out, "%s\n", found.path);
    if (found.mmproj) vr_buf_addf(out, "%s\n", found.mmproj);
    return true;
}
