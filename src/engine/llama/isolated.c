#include "engine/llama/isolated.h"

#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "base/file.h"

#define MAGIC 0x6d656173u /* "meas" */

struct head {
    uint32_t magic;
    bool ok;
    struct vr_err err; /* when not ok */
};

struct job {
    bool (*fn)(void *ctx, struct vr_err *err);
    void *ctx;
    const void *result;
    size_t n;
};

/* The engine may print: its output goes to standard error, ours to what standard output was. */
static int child_main(void *ctx)
{
    struct job *j = ctx;
    struct head h = { .magic = MAGIC };
    int out = dup(1);
    if (out < 0 || dup2(2, 1) < 0) return 1;
    setenv("GGML_NO_BACKTRACE", "1", 1);
    h.ok = j->fn(j->ctx, &h.err);
    bool sent = vr_fd_write(out, &h, sizeof h) && vr_fd_write(out, j->result, j->n);
    _exit(sent ? 0 : 1); /* nothing is freed: drivers' exit handlers have nothing to add */
}

bool vr_isolated_run(bool (*fn)(void *ctx, struct vr_err *err), void *ctx, const void *result, size_t n, int timeout_ms,
                     void *out, struct vr_err *err)
{
    struct job job = { fn, ctx, result, n };
    struct vr_child c = { .main = child_main, .ctx = &job, .timeout_ms = timeout_ms };
    VR_AUTO_CHILD_END end = { 0 };
    if (!vr_child_run(&c, &end, err)) return false;
    struct head h;
    char how[128];
    bool whole = end.exit_status == 0 && end.out.n == sizeof h + n;
    if (whole) memcpy(&h, end.out.data, sizeof h);
    if (!whole || h.magic != MAGIC) {
        const char *last = vr_buf_str(&end.err);
        size_t len = strlen(last);
        while (len && last[len - 1] == '\n') len--;
        size_t from = len;
        while (from && last[from - 1] != '\n') from--;
        return vr_fail(err, VR_EENGINE, "measuring failed (%s)%s%.*s", vr_child_how(&c, &end, how, sizeof how),
                       len > from ? "; last message: " : "", (int)(len - from), last + from);
    }
    if (!h.ok) return vr_fail(err, h.err.code, "%s", h.err.msg);
    memcpy(out, end.out.data + sizeof h, n);
    return true;
}
