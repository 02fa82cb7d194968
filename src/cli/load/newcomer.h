/* A model that is to be loaded beside others: who has to leave (fit/residents.h), by real plans. */
#ifndef VR_CLI_NEWCOMER_H
#define VR_CLI_NEWCOMER_H

#include <jansson.h>

#include "cli/input/input.h"
#include "cli/input/model_files.h"
#include "fit/residents.h"

struct vr_residents {
    struct vr_resident items[VR_MAX_RESIDENTS];
    uint64_t host_now[VR_MAX_RESIDENTS]; /* of its host memory: what is not free any more */
    bool loading[VR_MAX_RESIDENTS];
    struct vr_room before[VR_MAX_RESIDENTS]; /* where it is being loaded: what was free before */
    size_t n;
};

/* From what load-plan gets on its standard input (server/supervise/replan.h): the member "residents" of an object, or
 * none,
 *   [{"model":ID,"pinned":bool,"busy":bool,"cost_s":S,"last_used_s":S,"devices":{KEY:bytes},"host":bytes,
 *     "host_now":bytes,"before":{KEY:bytes}}]
 * KEY is a device's key (vr_device_key()) or its id. "host" is what it may take of host memory in all, and "host_now"
 * (0 if it is missing) what it has taken already, so that the host's free memory lacks it. "before" is there while it
 * is being loaded: what its devices had free, of which they lack more and more. */
bool vr_residents_parse(const char *text, size_t n, const struct vr_machine *m, struct vr_residents *out,
                        struct vr_err *err) VR_MUST_CHECK;

/* Who leaves for the model of `o`. in->machine is the machine as it is now, and in the end as it is when they have
 * left. VR_ENOFIT: there is no room, and `out` says who is in the way. */
bool vr_newcomer_settle(const struct vr_options *o, const struct vr_models *models, const struct vr_learned *learned,
                        const struct vr_residents *residents, struct vr_input *in, struct vr_departure *out,
                        struct vr_err *err) VR_MUST_CHECK;

/* That as data, a kind of fit/obstacles.def each, with its figures:
 *   [{"kind":"busy"|"loading"|"pinned","model":ID,"bytes":N} … or {"kind":"too_large"}]
 * With `d` zeroed `all` may be NULL: nobody is there, and the machine is too small. */
json_t *vr_newcomer_obstacles(const struct vr_residents *all, const struct vr_departure *d);

#endif
