#include "base/err.h"

#include <stdarg.h>
#include <string.h>

static const struct {
    int exit_status, http_status;
    const char *kind;
} codes[] = {
    [VR_OK] = { 0, 200, "ok" },
#define ERROR(code, exit_status, http_status, kind, meaning) [code] = { exit_status, http_status, kind },
#include "base/errors.def"
#undef ERROR
};

bool vr_fail(struct vr_err *err, enum vr_code code, const char *fmt, ...)
{
    if (!err) return false;
    char msg[sizeof err->msg]; /* the old message may be one of the arguments */
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    memcpy(err->msg, msg, strlen(msg) + 1);
    err->code = code;
    return false;
}

bool vr_fail_nomem(struct vr_err *err, const char *what)
{
    return vr_fail(err, VR_ENOMEM, "out of memory while %s", what);
}

bool vr_fail_more(struct vr_err *err, const char *fmt, ...)
{
    if (!err) return false;
    size_t n = strlen(err->msg);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->msg + n, sizeof err->msg - n, fmt, ap);
    va_end(ap);
    return false;
}

int vr_code_exit(enum vr_code code) { return codes[code].exit_status; }
int vr_code_http(enum vr_code code) { return codes[code].http_status; }
const char *vr_code_kind(enum vr_code code) { return codes[code].kind; }

bool vr_code_parse(const char *kind, enum vr_code *out)
{
    for (size_t i = VR_OK + 1; kind && i < VR_COUNT(codes); i++)
        if (strcmp(kind, codes[i].kind) == 0) return *out = (enum vr_code)i, true;
    return false;
}
