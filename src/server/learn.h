/* What this machine taught us: how many bytes less than it reports each device can really give to an engine.
 *
 * Kept as JSON under $XDG_STATE_HOME/vram-llm, so that the next start plans right at once:
 * {"devices":{"GPU-uuid or CUDA0":{"less_bytes":123}}}. */
#ifndef VR_SERVER_LEARN_H
#define VR_SERVER_LEARN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define VR_MAX_LEARNED 32

struct vr_learned {
    struct {
        char device[96];
        uint64_t less_bytes;
        uint64_t most_bytes; /* of this run only: no plan may use more there; 0: no limit */
    } rows[VR_MAX_LEARNED];
    size_t n;
};

/* Adds to a device's row; false when the table is full. */
bool vr_learned_add(struct vr_learned *l, const char *device, uint64_t less_bytes) VR_MUST_CHECK;
/* Sets the limit of a device that has a row. */
void vr_learned_limit(struct vr_learned *l, const char *device, uint64_t most_bytes);
uint64_t vr_learned_most(const struct vr_learned *l, const char *device);
uint64_t vr_learned_less(const struct vr_learned *l, const char *device);

/* $XDG_STATE_HOME/vram-llm/learned.json, or below ~/.local/state. False when neither is known. */
bool vr_learned_path(char *out, size_t n) VR_MUST_CHECK;
/* A file that is not there is an empty table. */
bool vr_learned_read(const char *path, struct vr_learned *out, struct vr_err *err) VR_MUST_CHECK;
bool vr_learned_write(const char *path, const struct vr_learned *l, struct vr_err *err) VR_MUST_CHECK;

#endif
