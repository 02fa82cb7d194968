#include "client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 120000 }; /* for what a busy machine takes; only something broken takes longer */

static void die(const char *what)
{
    fprintf(stderr, "client: %s\n", what);
    abort();
}

static void format(struct vr_buf *b, const char *fmt, va_list ap)
{
    vr_buf_addv(b, fmt, ap);
    for (size_t i = 0; i < b->n; i++)
        if (b->data[i] == '\'') b->data[i] = '"';
}

void client_send(struct client *c, enum vr_wire_kind kind, uint32_t id, const void *data, size_t n)
{
    VR_AUTO_BUF b = { 0 };
    vr_wire_add(&b, kind, id, data, n);
    for (size_t at = 0; at < b.n;) {
        ssize_t k = send(c->fd, b.data + at, b.n - at, MSG_NOSIGNAL);
        if (k <= 0) return;
        at += (size_t)k;
    }
}

/* --- frames --- */

static struct answer *find(struct client *c, uint32_t id)
{
    for (size_t i = 0; i < c->n_answers; i++)
        if (c->answers[i]->id == id) return c->answers[i];
    return NULL;
}

static void finish(struct client *c, struct answer *a)
{
    a->over = true;
    for (size_t i = 0; i < c->n_answers; i++)
        if (c->answers[i] == a) c->answers[i--] = c->answers[--c->n_answers];
}

static void take_delta(struct answer *a, const struct vr_frame *f)
{
    struct vr_wire_delta d;
    if (!vr_wire_get_delta(f, &d) || d.choice >= MAX_CHOICES) die("a DELTA is malformed");
    struct vr_buf *to[] = { a->text, a->reasoning, a->tools, a->probs };
    struct vr_buf *b = &to[d.what][d.choice];
    if (d.what >= VR_DELTA_TOOL && b->n) vr_buf_addc(b, ',', 1);
    vr_buf_add(b, d.text, d.n);
    a->n_deltas++;
}

static void take_result(struct answer *a, const struct vr_frame *f)
{
    struct vr_wire_result r;
    if (!vr_wire_get_result(f, &r) || r.index != a->n_vectors) die("a RESULT is malformed");
    a->n_dims = r.n_dims;
    a->vectors = realloc(a->vectors, (size_t)(a->n_vectors + 1) * r.n_dims * sizeof(float));
    memcpy(a->vectors + (size_t)a->n_vectors++ * r.n_dims, r.floats, r.n_dims * sizeof(float));
}

static void take_answer(struct client *c, const struct vr_frame *f)
{
    struct answer *a = find(c, f->id);
    struct vr_wire_end end;
    struct vr_wire_error error;
    if (!a) {
        if (f->kind != VR_WIRE_ERROR) die("a frame for a request that is over");
        return;
    }
    switch (f->kind) {
    case VR_WIRE_BEGIN:
        if (!vr_wire_get_begin(f, &a->begin) || a->begun) die("a BEGIN is malformed");
        a->begun = true;
        break;
    case VR_WIRE_DELTA: take_delta(a, f); break;
    case VR_WIRE_RESULT: take_result(a, f); break;
    case VR_WIRE_END:
        if (!vr_wire_get_end(f, &end) || end.choice >= MAX_CHOICES) die("an END is malformed");
        a->end[end.choice] = end;
        if (++a->n_ends == a->want) finish(c, a);
        break;
    default:
        if (!vr_wire_get_error(f, &error)) die("an ERROR is malformed");
        a->status = error.status;
        a->error = json_loadb(error.json, error.n, 0, NULL);
        finish(c, a);
    }
}

static void take(struct client *c, const struct vr_frame *f)
{
    json_t **slot = f->kind == VR_WIRE_READY    ? &c->ready
                    : f->kind == VR_WIRE_FAILED ? &c->failed
                    : f->kind == VR_WIRE_STATUS ? &c->status
                                                : NULL;
    if (f->kind == VR_WIRE_NOTE)
        c->n_notes++;
    else if (f->kind == VR_WIRE_PROGRESS)
        c->n_progress++;
    else if (f->kind == VR_WIRE_PULSE) {
        if (!vr_wire_get_pulse(f, &c->pulse)) die("a PULSE is malformed");
        c->n_pulses++;
    } else if (!slot)
        take_answer(c, f);
    if (!slot) return;
    json_decref(*slot);
    *slot = json_loadb((const char *)f->data, f->n, 0, NULL);
    if (!*slot) die("a message is not JSON");
}

bool client_read(struct client *c, int ms)
{
    for (;;) {
        struct vr_frame f;
        long n = vr_wire_parse((const uint8_t *)vr_buf_str(&c->in), c->in.n, VR_FROM_ENGINE, &f);
        if (n < 0) die("a frame is malformed");
        if (n > 0) {
            take(c, &f);
            memmove(c->in.data, c->in.data + n, c->in.n - (size_t)n);
            c->in.n -= (size_t)n;
            return true;
        }
        struct pollfd p = { c->fd, POLLIN, 0 };
        if (poll(&p, 1, ms) <= 0) return false;
        char block[65536];
        ssize_t got = recv(c->fd, block, sizeof block, 0);
        if (got <= 0) return c->gone = true, false;
        vr_buf_add(&c->in, block, (size_t)got);
    }
}

/* --- the process --- */

void client_start(struct client *c, const char *fmt, ...)
{
    *c = (struct client){ .next_id = 1 };
    const char *program = getenv("ENGINE_MAIN");
    int fds[2];
    if (!program) die("ENGINE_MAIN must name the engine's program");
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) die("no socket pair");
    c->pid = fork();
    if (c->pid == 0) {
        char number[16];
        close(fds[0]);
        snprintf(number, sizeof number, "%d", fds[1]);
        execl(program, program, number, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    c->fd = fds[0];
    VR_AUTO_BUF load = { 0 };
    va_list ap;
    va_start(ap, fmt);
    format(&load, fmt, ap);
    va_end(ap);
    client_send(c, VR_WIRE_LOAD, 0, load.data, load.n);
    while (!c->ready && !c->failed && client_read(c, PATIENCE_MS)) continue;
}

int client_stop(struct client *c, uint32_t ms)
{
    VR_AUTO_BUF b = { 0 };
    vr_wire_add_stop(&b, ms);
    if (send(c->fd, b.data, b.n, MSG_NOSIGNAL) < 0) c->gone = true;
    while (!c->gone && client_read(c, PATIENCE_MS)) continue;
    int status = 0;
    close(c->fd);
    if (!c->gone) kill(c->pid, SIGKILL);
    waitpid(c->pid, &status, 0);
    json_decref(c->ready);
    json_decref(c->failed);
    json_decref(c->status);
    vr_buf_done(&c->in);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* --- requests --- */

/* What the front would refuse is refused by it; the rest is what the front would send. */
static bool check(struct answer *a, json_t *body, enum vr_request_kind kind)
{
    struct vr_refusal why = { 0 };
    json_object_del(body, "kind");
    if (vr_request_check(body, kind, &why) && vr_request_strip(body, kind, &why)) return true;
    a->status = (uint16_t)why.status;
    a->error =
        json_pack("{s:s, s:s, s:s, s:b}", "message", why.message, "param", why.param, "code", why.code, "by_front", 1);
    a->over = true;
    return false;
}

void client_ask_raw(struct client *c, struct answer *a, unsigned want, const char *json, size_t n)
{
    *a = (struct answer){ .id = c->next_id++, .want = want };
    json_t *body = json_loadb(json, n, JSON_REJECT_DUPLICATES, NULL);
    enum vr_request_kind kind;
    VR_AUTO_FREE char *checked = NULL;
    if (vr_request_kind_parse(json_string_value(json_object_get(body, "kind")), &kind) && check(a, body, kind)) {
        checked = json_dumps(body, JSON_COMPACT);
        json = checked;
        n = strlen(checked);
    }
    json_decref(body);
    if (a->over) return;
    if (c->n_answers == sizeof c->answers / sizeof c->answers[0]) die("too many requests at once");
    c->answers[c->n_answers++] = a;
    client_send(c, VR_WIRE_REQUEST, a->id, json, n);
}

void client_ask(struct client *c, struct answer *a, unsigned want, const char *fmt, ...)
{
    VR_AUTO_BUF b = { 0 };
    va_list ap;
    va_start(ap, fmt);
    format(&b, fmt, ap);
    va_end(ap);
    client_ask_raw(c, a, want, b.data, b.n);
}

void client_wait(struct client *c, struct answer *a)
{
    while (!a->over)
        if (!client_read(c, PATIENCE_MS)) die(c->gone ? "the engine hung up" : "no answer");
}

void answer_done(struct answer *a)
{
    for (int i = 0; i < MAX_CHOICES; i++) {
        vr_buf_done(&a->text[i]);
        vr_buf_done(&a->reasoning[i]);
        vr_buf_done(&a->tools[i]);
        vr_buf_done(&a->probs[i]);
    }
    json_decref(a->error);
    free(a->vectors);
}
