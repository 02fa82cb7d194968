/* What an engine is started with, and its form as JSON: plans are made by another process (task.h), and this is its
 * answer:
 *   {"load":{LOAD},"plan":{...}|null,"env":["NAME=VALUE"],
 *    "devices":[{"key","name"|null,"free_bytes","model_bytes","context_bytes","compute_bytes"}]} */
#ifndef VR_SERVER_SUPERVISE_ENGINE_LOAD_H
#define VR_SERVER_SUPERVISE_ENGINE_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define VR_MAX_LOAD_DEVICES 32

/* A device that may be used. */
struct vr_load_device {
    char key[96];        /* what it is called for good: its UUID, else its PCI address, else its id */
    char name[32];       /* what this engine calls it; "": the plan does not use it */
    uint64_t free_bytes; /* as it was reported when the plan was made */
    uint64_t model_bytes, context_bytes, compute_bytes; /* of the plan */
};

struct vr_load {
    struct vr_buf load_json; /* the payload of LOAD (engine/wire/wire.h) */
    struct vr_buf plan_json; /* what GET /api/plan answers; empty: there is no plan */
    struct vr_buf env;       /* NAME=VALUE strings, each with its NUL, for the engine's environment alone */
    struct vr_load_device devices[VR_MAX_LOAD_DEVICES];
    size_t n_devices;
};

void vr_load_done(struct vr_load *l);
bool vr_load_write(const struct vr_load *l, struct vr_buf *out, struct vr_err *err) VR_MUST_CHECK;
/* `out` is zeroed or done. */
bool vr_load_read(const char *text, size_t n, struct vr_load *out, struct vr_err *err) VR_MUST_CHECK;

uint64_t vr_load_bytes(const struct vr_load_device *d); /* of the plan, all together */
/* The device that the engine calls so, or NULL. */
const struct vr_load_device *vr_load_find(const struct vr_load *l, const char *name);

#endif
