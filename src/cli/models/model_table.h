/* Rows of cli/models/model_rows.h as a table for people, and below it why those that do not fit do not. */
#ifndef VR_CLI_MODEL_TABLE_H
#define VR_CLI_MODEL_TABLE_H

#include <jansson.h>

#include "base/buf.h"

/* `source`: with a column that says who keeps them. */
void vr_model_table(struct vr_buf *out, const json_t *rows, bool source);

#endif
