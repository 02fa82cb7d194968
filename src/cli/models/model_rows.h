/* What each model of a catalog would do on a machine: read, planned, and remembered for the next time. */
#ifndef VR_CLI_MODEL_ROWS_H
#define VR_CLI_MODEL_ROWS_H

#include <jansson.h>

#include "catalog/catalog.h"
#include "cli/input/input.h"

/* An array with an object for each model, in their order; the caller's. NULL on failure.
 *   {"name","id","path","source","bytes","parts","missing_parts","mmproj"} and what became of it: {"error"}, or
 *   {"arch","quant","params","n_ctx_train","fits"} with {"reason"}, or with
 *   {"devices":["CUDA0"],"host_bytes","decode_tok_s","prefill_tok_s","largest_n_ctx"}; host_bytes are weights that
 *   stay on the host beside the token embeddings
 *
 * Models are planned side by side, each in a process of its own. Budgets are rounded down a little first: as long as
 * nothing else has changed, neither the question nor a file, the answers of the last time are taken. They are kept in
 * $XDG_CACHE_HOME/vram-llm/, in the file called `kept`. */
json_t *vr_model_rows(const struct vr_options *o, struct vr_input *in, const struct vr_catalog *c, const char *kept,
                      struct vr_err *err) VR_MUST_CHECK;

#endif
