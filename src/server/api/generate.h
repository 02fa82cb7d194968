/* A request to the model, in any dialect: read here, small bodies at once and large ones by a thread (reader.h), then
 * queued (queue.h) and answered by the engine (calls.c). */
#ifndef VR_SERVER_API_GENERATE_H
#define VR_SERVER_API_GENERATE_H

#include "server/api/dialect.h"

struct vr_conn;
struct vr_incoming;

void vr_generate(struct vr_conn *c, const struct vr_incoming *r, const struct vr_dialect *d);
/* The same, by a thread whatever its size: where a small body stands for much that was stored. */
void vr_generate_aside(struct vr_conn *c, const struct vr_dialect *d);

#endif
