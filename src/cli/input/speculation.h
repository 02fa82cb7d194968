/* --spec: which kind of speculative decoding is asked for, and whether the model can. */
#ifndef VR_CLI_SPECULATION_H
#define VR_CLI_SPECULATION_H

#include "cli/input/model_files.h"
#include "cli/options.h"

/* What is asked for by name. Off, too, where it is left to us and where a draft model is given, which says it. */
enum vr_spec vr_spec_asked(const struct vr_options *o);
/* Whether the files go with it; refuses by name what a kind cannot do with the model. */
bool vr_spec_check(const struct vr_options *o, const struct vr_models *m, struct vr_err *err) VR_MUST_CHECK;
/* It is left to us, and the model has an MTP head that could be used. */
bool vr_spec_may_use_head(const struct vr_options *o, const struct vr_fit_ask *ask);

#endif
