/* A model's header without its vocabulary: all that a dry run of the engine wants to know, a hundredth of the size. */
#ifndef VR_GGUF_STRIP_H
#define VR_GGUF_STRIP_H

#include "base/err.h"
#include "gguf/model.h"

/* A new file in memory (memfd, close-on-exec) with one GGUF header for all parts of the model, followed by a hole as
 * large as the tensors. The caller closes it. -1 on failure. */
int vr_model_strip(const struct vr_model *m, struct vr_err *err) VR_MUST_CHECK;

#endif
