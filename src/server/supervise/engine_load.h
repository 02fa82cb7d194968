/* What an engine is started with, and its form as JSON: plans are made by another process (task.h), and this is its
 * answer:
 *   {"load":{LOAD},"plan":{...}|null,"env":["NAME=VALUE"],
 *    "devices":[{"key","id","name"|null,"free_bytes","reserve_bytes","model_bytes","context_bytes","compute_bytes"}],
 *    "split":{"id","model","engine"}|null,"evict":["ID",...]}; "evict" may be missing: nobody has to leave; so may
 * "reserve_bytes": none */
#ifndef VR_SERVER_SUPERVISE_ENGINE_LOAD_H
#define VR_SERVER_SUPERVISE_ENGINE_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "hw/learned.h"

#define VR_MAX_LOAD_DEVICES 32

/* A device that may be used. */
struct vr_load_device {
    char key[96];           /* what it is called for good: its UUID, else its PCI address, else its id */
    char id[24];            /* what plans call it: CUDA1 */
    char name[32];          /* what this engine calls it; "": the plan does not use it */
    uint64_t free_bytes;    /* as it was reported when the plan was made, and what those have there who leave for it */
    uint64_t reserve_bytes; /* of that, what the plan leaves free */
    uint64_t model_bytes, context_bytes, compute_bytes; /* of the plan */
};

struct vr_load {
    struct vr_buf load_json; /* the payload of LOAD (engine/wire/wire.h) */
    struct vr_buf plan_json; /* what GET /api/plan answers; empty: there is no plan */
    struct vr_buf env;       /* NAME=VALUE strings, each with its NUL, for the engine's environment alone */
    struct vr_load_device devices[VR_MAX_LOAD_DEVICES];
    size_t n_devices;
    struct vr_split split; /* in split mode tensor: whose; else its id is "" */
    struct vr_buf evict;   /* ids of models that have to leave first (server/fleet), each with its NUL */
    struct vr_buf
        in_the_way; /* where there is no plan: JSON, as cli/load/newcomer.h says; else empty, and never written */
};

void vr_load_done(struct vr_load *l);
bool vr_load_write(const struct vr_load *l, struct vr_buf *out, struct vr_err *err) VR_MUST_CHECK;
/* `out` is zeroed or done. */
bool vr_load_read(const char *text, size_t n, struct vr_load *out, struct vr_err *err) VR_MUST_CHECK;

uint64_t vr_load_bytes(const struct vr_load_device *d); /* of the plan, all together */
/* What the plan has in host memory, cached prompts included; reads plan_json. */
uint64_t vr_load_host_bytes(const struct vr_load *l);
/* How many of the plan's devices are of other machines: "attic/CUDA0". */
size_t vr_load_borrowed(const struct vr_load *l);
/* Do both have bytes on the same device? Those that have none on any share the host. */
bool vr_load_shares(const struct vr_load *a, const struct vr_load *b);
/* Does the plan use all devices that it could? */
bool vr_load_uses_all(const struct vr_load *l);
/* The device that the engine calls so, or NULL. */
const struct vr_load_device *vr_load_find(const struct vr_load *l, const char *name);

#endif
