#include "server/api/manage.h"

#include "server/front.h"

bool vr_manage_allowed(const struct vr_front *f) { return f->config->manage || !vr_auth_is_shared(f->auth); }

bool vr_manage_admit(struct vr_conn *c)
{
    if (vr_manage_allowed(c->front)) return true;
    vr_reply_error(c, 403, NULL, "management_off",
                   "several clients share this server, so none of them may load, unload or pin models, or set LoRA "
                   "adapters for everyone; start it with --manage to let every client do so");
    return false;
}
