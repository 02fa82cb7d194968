/* Who may change what others use: load, unload and pin models, say how long they stay, set the scales of LoRA adapters
 * for all.
 *
 * One user of a server may do all of that. Where several share it (http/auth.h), one who pins a model locks the others
 * out of theirs, so nobody may, unless the operator says --manage. Models are still loaded by requests for them. */
#ifndef VR_SERVER_API_MANAGE_H
#define VR_SERVER_API_MANAGE_H

#include <stdbool.h>

#include "base/own.h"

struct vr_conn;
struct vr_front;

bool vr_manage_allowed(const struct vr_front *f);
/* False: it was answered with 403. */
bool vr_manage_admit(struct vr_conn *c) VR_MUST_CHECK;

#endif
