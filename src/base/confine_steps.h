/* The steps of vr_confine(), one file each; nobody else includes this. */
#ifndef VR_BASE_CONFINE_STEPS_H
#define VR_BASE_CONFINE_STEPS_H

#include "base/confine.h"

/* Sets the state of a part that did not work by errno. Returns false. */
bool vr_confine_failed(struct vr_confined *out, enum vr_confine_part part, const char *what);

/* Landlock in two steps: rules while every path can still be opened, a descriptor or -1; then the user may change. */
int vr_confine_files_open(const struct vr_confine *c, struct vr_confined *out);
void vr_confine_files_enforce(int rules, struct vr_confined *out);

struct vr_user_ids {
    bool changes; /* from root to uid */
    uid_t uid;
    gid_t gid;
};
/* Who the process is to be, and whether it can be. */
void vr_confine_user_find(const struct vr_confine *c, struct vr_user_ids *who, struct vr_confined *out);
void vr_confine_user_become(const struct vr_confine *c, struct vr_user_ids *who, struct vr_confined *out);
/* Without any way back, in all threads. */
void vr_confine_user_settle(void);

/* `who` may set all of its user ids to its own, and to nothing else. */
void vr_confine_calls(const struct vr_confine *c, const struct vr_user_ids *who, struct vr_confined *out);

#endif
