/* Why there is no model, or no longer: what a FAILED frame says, written by the engine and read by the front. */
#ifndef VR_ENGINE_WIRE_FAILURE_H
#define VR_ENGINE_WIRE_FAILURE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "hw/load_stage.h"

#define VR_MAX_FAILURE_DEVICES 32

/* Bytes are 0 where they are unknown. */
struct vr_failure {
    enum vr_load_stage stage;
    bool out_of_memory;
    bool aborted;    /* an assertion of the engine's: it ended in the middle of its work */
    char device[32]; /* as the engine calls it; "" unknown */
    uint64_t asked_bytes, free_bytes, missing_bytes;
    struct {
        char name[32];
        uint64_t free_bytes;
    } left[VR_MAX_FAILURE_DEVICES]; /* what devices had free after the failure; none: they could not be asked */
    size_t n_left;
    char message[1024];
};

/* `log` is a JSON array: the engine's last lines. */
void vr_failure_write(const struct vr_failure *f, const char *log, struct vr_buf *out);
/* False: not what vr_failure_write() makes. */
bool vr_failure_read(const void *json, size_t n, struct vr_failure *out) VR_MUST_CHECK;

#endif
