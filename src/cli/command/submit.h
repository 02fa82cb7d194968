/* Rows of measured speeds that can be shared: one JSON object per line, in the format of tests/fixtures/published
 * (docs/accuracy.md has the fields). A row says what cards, model and settings it is of, what was predicted and what
 * was measured, with which versions; and nothing about whose they are: no host name, user, path, serial number or
 * address. */
#ifndef VR_CLI_SUBMIT_H
#define VR_CLI_SUBMIT_H

#include "fit/fit.h"

/* A speed that was predicted, and measured. */
struct vr_compared {
    enum vr_phase phase;
    uint32_t depth;  /* tokens in the context then */
    uint32_t tokens; /* that were generated or read */
    double predicted, measured;
};

const char *vr_compared_name(const struct vr_compared *c); /* "token generation" */

/* What was measured. Nothing is owned. */
struct vr_submission {
    const struct vr_model *model;
    const struct vr_machine *machine;
    const struct vr_outcome *outcome; /* its trial may have the engine's names of devices */
    const struct vr_compared *rows;
    size_t n;
    bool calibrated; /* predicted from measurements of this machine */
};
/* Appends its rows to the file. */
bool vr_submit(const struct vr_submission *s, const char *path, struct vr_err *err) VR_MUST_CHECK;

/* Prints the rows of such a file, predicted against measured; as JSON with `json`. */
bool vr_submit_compare(const char *path, bool json, struct vr_buf *out, struct vr_err *err) VR_MUST_CHECK;

#endif
