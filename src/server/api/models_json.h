/* A model that is served as GET /api/models tells of it; docs/api.md has its fields. */
#ifndef VR_SERVER_API_MODELS_JSON_H
#define VR_SERVER_API_MODELS_JSON_H

#include <jansson.h>

struct vr_load;
struct vr_served;

json_t *vr_models_json(const struct vr_served *m);
/* Where a plan puts it: [{"name","key","bytes","model_bytes","context_bytes","compute_bytes"}]. */
json_t *vr_models_json_devices(const struct vr_load *plan);

#endif
