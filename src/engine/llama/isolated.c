/* The child answers on its standard output, in our own memory layout since it is our own fork: a head, and either the
 * result or the error. Whatever else is found there is no answer. */
#include "engine/llama/isolated.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "base/file.h"

#define MAGIC     0x69736f6cu /* "isol" */
#define MOST      ((size_t)16 << 20)
#define MAX_WORDS 384

struct head {
    uint32_t magic;
    bool ok;
    size_t n;          /* bytes of the result that follow, when ok */
    struct vr_err err; /* when not */
};

/* The engine may print: its output goes to standard error, ours to what standard output was. */
static int child_main(void *ctx)
{
    const struct vr_isolated *j = ctx;
    struct head h = { .magic = MAGIC };
    struct vr_buf result = { 0 };
    int out = dup(1);
    if (out < 0 || dup2(2, 1) < 0) return 1;
    setenv("GGML_NO_BACKTRACE", "1", 1); /* it would start a debugger */
    if (!j->trusted) vr_engine_confine(&j->needs, NULL);
    h.ok = j->fn(j->ctx, &result, &h.err);
    if (h.ok && result.failed) h.ok = vr_fail_nomem(&h.err, "collecting a result");
    h.n = h.ok ? result.n : 0;
    return vr_fd_write(out, &h, sizeof h) && (!h.n || vr_fd_write(out, result.data, h.n)) ? 0 : 1;
}

/* The last line of what it printed, without the name of the function that did: "; last message: …". */
static const char *last_words(const struct vr_buf *text, char *out, size_t n)
{
    const char *s = vr_buf_str(text);
    size_t end = text->n, name = 0;
    while (end && isspace((unsigned char)s[end - 1])) end--;
    size_t at = end;
    while (at && s[at - 1] != '\n') at--;
    if (at == end) return "";
    while (at + name < end && (isalnum((unsigned char)s[at + name]) || s[at + name] == '_')) name++;
    if (memchr(s + at, '_', name) && at + name + 2 < end && strncmp(s + at + name, ": ", 2) == 0) at += name + 2;
    snprintf(out, n, "; last message: %.*s", (int)(end - at), s + at);
    return out;
}

static bool read_head(const struct vr_child_end *end, struct head *h)
{
    if (end->exit_status != 0 || end->timed_out || end->too_much || end->out.n < sizeof *h) return false;
    memcpy(h, end->out.data, sizeof *h);
    return h->magic == MAGIC && end->out.n == sizeof *h + h->n;
}

bool vr_isolated_run(const struct vr_isolated *job, struct vr_buf *result, struct vr_err *err)
{
    struct vr_child c = { .main = child_main,
                          .ctx = (void *)(uintptr_t)job,
                          .timeout_ms = job->timeout_ms,
                          .max_output = (job->max_bytes ? job->max_bytes : MOST) + sizeof(struct head),
                          .pass_fds = { job->pass_fds[0], job->pass_fds[1] } };
    VR_AUTO_CHILD_END end = { 0 };
    struct vr_err why = { 0 };
    struct head h;
    char words[MAX_WORDS], how[128];
    const char *of = job->of ? job->of : "", *colon = job->of ? ": " : "";
    if (!vr_child_run(&c, &end, &why)) return vr_fail(err, why.code, "%s%s%s", of, colon, why.msg);
    if (job->ms) *job->ms = end.ms;
    if (!read_head(&end, &h))
        return vr_fail(err, VR_EENGINE, "%s%s%s failed (%s)%s", of, colon, job->what,
                       vr_child_how(&c, &end, how, sizeof how), last_words(&end.err, words, sizeof words));
    if (!h.ok)
        return vr_fail(err, h.err.code, "%s%s%s%s", of, colon, h.err.msg,
                       job->quiet ? last_words(&end.err, words, sizeof words) : "");
    vr_buf_add(result, end.out.data + sizeof h, h.n);
    return !result->failed || vr_fail_nomem(err, "reading what a child process found");
}

bool vr_isolated_block(const struct vr_isolated *job, void *out, size_t n, struct vr_err *err)
{
    VR_AUTO_BUF result = { 0 };
    size_t at = 0;
    if (!vr_isolated_run(job, &result, err)) return false;
    if (result.n == n && vr_isolated_next(&result, &at, out, n)) return true;
    return vr_fail(err, VR_EENGINE, "%s brought %zu bytes where %zu were expected", job->what, result.n, n);
}

bool vr_isolated_next(const struct vr_buf *result, size_t *at, void *out, size_t n)
{
    if (n > result->n - *at) return false;
    if (n) memcpy(out, result->data + *at, n);
    *at += n;
    return true;
}
