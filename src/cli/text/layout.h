/* A placement as a picture needs it: what of each layer is where, how fast the places are, and how they are linked. */
#ifndef VR_CLI_LAYOUT_H
#define VR_CLI_LAYOUT_H

#include <jansson.h>

#include "fit/fit.h"

/* Adds to the devices and the host of a plan (vr_json_outcome): "layers" [{"layer","bytes","type"}], "output_bytes",
 * "other_bytes", "total_bytes", "bandwidth_gbs", "link", "link_gbs"; and "links" between the devices of the plan. */
void vr_json_layout(const struct vr_fit_ask *a, const struct vr_outcome *o, json_t *plan);

#endif
