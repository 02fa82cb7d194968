/* Frames of an engine that has gone mad, and of a front that has: read as a whole and byte by byte they are the same,
 * no payload reaches past its frame, and what decodes encodes to the very bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool truth)
{
    if (!truth) abort();
}

static void must_be_within(const struct vr_frame *f, const void *at, size_t n)
{
    const uint8_t *p = at;
    must(p >= f->data && n <= f->n && p + n <= f->data + f->n);
}

/* Every decoder is asked, also those that the frame is not for: at most one takes it. */
static void decode(const struct vr_frame *f)
{
    struct vr_wire_begin begin;
    struct vr_wire_delta delta;
    struct vr_wire_end end;
    struct vr_wire_result result;
    struct vr_wire_error error;
    struct vr_wire_pulse pulse;
    uint32_t ms;
    VR_AUTO_BUF again = { 0 };
    int n_taken = 0;
    if (vr_wire_get_begin(f, &begin)) n_taken++, vr_wire_add_begin(&again, f->id, &begin);
    if (vr_wire_get_delta(f, &delta)) {
        must(delta.what < VR_N_DELTAS);
        must_be_within(f, delta.text, delta.n);
        n_taken++, vr_wire_add_delta(&again, f->id, delta.choice, delta.what, delta.text, delta.n);
    }
    if (vr_wire_get_end(f, &end)) n_taken++, must(end.reason < VR_N_ENDS && strcmp(vr_end_name(end.reason), "?") != 0);
    if (vr_wire_get_result(f, &result)) n_taken++, must_be_within(f, result.floats, (size_t)result.n_dims * 4);
    if (vr_wire_get_error(f, &error)) n_taken++, must_be_within(f, error.json, error.n);
    if (vr_wire_get_pulse(f, &pulse)) n_taken++, vr_wire_add_pulse(&again, &pulse);
    if (vr_wire_get_stop(f, &ms)) {
        n_taken++;
        if (f->id == 0) vr_wire_add_stop(&again, ms);
    }
    must(n_taken <= 1);
    if (again.n) must(again.n == VR_WIRE_HEAD + f->n && memcmp(again.data + VR_WIRE_HEAD, f->data, f->n) == 0);
}

static void read_all(const uint8_t *data, size_t n, enum vr_wire_side side)
{
    struct vr_frame f, g;
    for (size_t at = 0, have; at < n; at += have) {
        long len = vr_wire_parse(data + at, n - at, side, &f);
        must(len >= -1 && len <= (long)(n - at));
        if (len <= 0) {
            struct vr_frame other;
            if (len == 0 && n - at >= VR_WIRE_HEAD) must(vr_wire_head(data + at, side, &other));
            return;
        }
        have = (size_t)len;
        must(have == VR_WIRE_HEAD + f.n && f.data == data + at + VR_WIRE_HEAD &&
             strcmp(vr_wire_name(f.kind), "?") != 0);
        size_t step = have / 64 + 1; /* not all there, in at most 64 ways: it waits for the rest */
        for (size_t part = 0; part < have; part += step) must(vr_wire_parse(data + at, part, side, &g) == 0);
        decode(&f);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    VR_AUTO_FREE uint8_t *copy = malloc(n ? n : 1); /* with nothing behind it */
    must(copy);
    if (n) memcpy(copy, data, n);
    read_all(copy, n, VR_FROM_FRONT);
    read_all(copy, n, VR_FROM_ENGINE);
    return 0;
}
