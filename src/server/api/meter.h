/* How busy the devices are, told by a process of its own (cli/load/meter_process.c) that runs while somebody wants to
 * know: a driver may take seconds to answer, and the front must not wait. */
#ifndef VR_SERVER_API_METER_H
#define VR_SERVER_API_METER_H

#include <stdbool.h>

struct event_base;
struct vr_meter;

struct vr_meter *vr_meter_new(struct event_base *base);
void vr_meter_free(struct vr_meter *m);
/* Called once a second: starts it (again, after a pause, when it died) or ends it. */
void vr_meter_want(struct vr_meter *m, bool wanted);
/* {"devices":[{"id","name","total_bytes","free_bytes","load_percent","temperature_c","power_w"}],
 *  "host":{"ram_total_bytes","ram_free_bytes","cpu_percent"}}, or "null" before the first reading. */
const char *vr_meter_json(const struct vr_meter *m);

#endif
