/* Errors: a code and one sentence.
 *
 * A function that can fail returns bool or a pointer and takes `struct vr_err *err` last. On success it leaves err
 * alone; on failure it fills it once. err may be NULL when the caller does not care why. The code is one row of
 * errors.def, which also gives the exit status and the HTTP status. */
#ifndef VR_BASE_ERR_H
#define VR_BASE_ERR_H

#include <stdbool.h>

#include "base/own.h"

enum vr_code {
    VR_OK = 0,
#define ERROR(code, exit_status, http_status, kind, meaning) code,
#include "base/errors.def"
#undef ERROR
};

struct vr_err {
    enum vr_code code;
    char msg[1024];
};

/* Fills err and returns false, so that failing is one line: return vr_fail(err, VR_EFORMAT, "..."). */
bool vr_fail(struct vr_err *err, enum vr_code code, const char *fmt, ...) VR_PRINTF(3, 4);

/* The same for functions that return a pointer. */
#define VR_FAIL_NULL(...) (vr_fail(__VA_ARGS__), NULL)

/* Out of memory while doing `what`. Never allocates. */
bool vr_fail_nomem(struct vr_err *err, const char *what);

/* Appends to the sentence of an error that is already set. Returns false. */
bool vr_fail_more(struct vr_err *err, const char *fmt, ...) VR_PRINTF(2, 3);

int vr_code_exit(enum vr_code code);
int vr_code_http(enum vr_code code);
const char *vr_code_kind(enum vr_code code);
/* The code whose kind is so called; false: none is, or NULL. */
bool vr_code_parse(const char *kind, enum vr_code *out) VR_MUST_CHECK;

#endif
