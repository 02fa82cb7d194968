/* --model may name a model that lies on this computer (catalog/) or elsewhere (remote/) instead of a file. */
#ifndef VR_CLI_MODEL_NAME_H
#define VR_CLI_MODEL_NAME_H

#include "cli/options.h"

/* A name becomes the path of its file, with the vision projector beside it as --mmproj and the name as --alias, unless
 * they are given. --mmproj none: without one. What is a file stays as it is. What is elsewhere is fetched, its header
 * or all of it, as the command needs it; a whole repository stays for the command. The texts are kept until the program
 * ends. */
bool vr_model_name_resolve(struct vr_options *o, enum vr_needs needs, struct vr_err *err) VR_MUST_CHECK;

#endif
