/* Rows of cli/models/model_rows.h as a table for people, and below it why those that do not fit do not. */
#ifndef VR_CLI_MODEL_TABLE_H
#define VR_CLI_MODEL_TABLE_H

#include <jansson.h>

#include "base/buf.h"
#include "cli/options.h"

/* `source`: with a column that says who keeps them. */
void vr_model_table(struct vr_buf *out, const json_t *rows, bool source);
/* For which machine that is, as the options name it: "Predicted for this machine as it is now", and no full stop. */
void vr_model_table_machine(struct vr_buf *out, const struct vr_options *o);

#endif
