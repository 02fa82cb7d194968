/* Which model a request is about. What is not there was answered: 404, with the names that were probably meant. */
#ifndef VR_SERVER_API_WHICH_MODEL_H
#define VR_SERVER_API_WHICH_MODEL_H

struct vr_conn;
struct vr_incoming;
struct vr_served;

/* By the name in its body; "": the default, which unknown names mean as well with --any-model. */
struct vr_served *vr_which_model(struct vr_conn *c, const char *name);
/* The one of that name, and no other. */
struct vr_served *vr_which_named(struct vr_conn *c, const char *name);
/* By "?model=NAME"; without one the default if it is up, else the first that is. */
struct vr_served *vr_which_queried(struct vr_conn *c, const struct vr_incoming *r);

#endif
