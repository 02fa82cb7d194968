/* A plan for programs: docs/api.md describes it. */
#ifndef VR_CLI_PLAN_JSON_H
#define VR_CLI_PLAN_JSON_H

#include <jansson.h>

#include "fit/fit.h"

/* The caller owns it. */
json_t *vr_json_outcome(const struct vr_fit_ask *a, const struct vr_outcome *o);

#endif
