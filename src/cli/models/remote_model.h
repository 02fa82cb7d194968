/* --model, --draft and --mmproj that are elsewhere: hf:OWNER/NAME:QUANT, or a URL. */
#ifndef VR_CLI_REMOTE_MODEL_H
#define VR_CLI_REMOTE_MODEL_H

#include "cli/options.h"
#include "remote/elsewhere.h"

/* Puts paths in their place: of what lies here already, of headers, or of what was downloaded for it, as `needs` says.
 * With VR_NEEDS_HEADERS a repository without a quantization stays as it is. The texts are kept until the program ends.
 */
bool vr_remote_options(struct vr_options *o, enum vr_needs needs, struct vr_err *err) VR_MUST_CHECK;

/* Downloads what was picked, and tells how far it is: on a terminal in one line, else in the log. */
bool vr_remote_download(struct vr_elsewhere *e, struct vr_found *found, unsigned n_connections,
                        struct vr_err *err) VR_MUST_CHECK;

#endif
