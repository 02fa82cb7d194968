/* Pictures in requests: data: URLs of PNG and JPEG, looked at before anything decodes them. */
#ifndef VR_ENGINE_WIRE_PICTURE_H
#define VR_ENGINE_WIRE_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

struct vr_picture_file {
    const uint8_t *data; /* in the arena */
    size_t n;
    uint32_t width, height; /* as the file's header says; 0: a sound */
};

/* "data:image/png;base64,...", whose bytes are not looked at; *skip (may be NULL) is where they begin. Other addresses
 * are refused: nothing is fetched from anywhere. Pure. */
bool vr_picture_url(const char *url, size_t n, size_t *skip, struct vr_err *err) VR_MUST_CHECK;
/* Reads such an address. Pure. */
bool vr_picture_read(const char *url, size_t n, struct vr_arena *arena, struct vr_picture_file *out,
                     struct vr_err *err) VR_MUST_CHECK;
/* By its first bytes a file of sound: WAV, MP3 or FLAC, which is what the decoder knows. */
bool vr_sound_is(const uint8_t *data, size_t n);
/* A sound, as base64 without a head: WAV, MP3 or FLAC, by its first bytes. Pure. */
bool vr_sound_read(const char *base64, size_t n, struct vr_arena *arena, struct vr_picture_file *out,
                   struct vr_err *err) VR_MUST_CHECK;
/* Width and height from the header of a PNG or JPEG file; false for anything else, or for more pixels than are taken.
 */
bool vr_picture_size(const uint8_t *data, size_t n, uint32_t *width, uint32_t *height,
                     struct vr_err *err) VR_MUST_CHECK;

#endif
