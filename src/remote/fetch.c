#include "remote/fetch.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "remote/partial.h"
#include "remote/sum.h"

#define MAX_CONNECTIONS 16
#define BUFFER          ((size_t)32 * 1024) /* libcurl hands over 16 KiB; larger writes cost the kernel more */
#define SAMPLES         26                  /* of the rate: the last five seconds or so */
#define ROOM_LEFT       (256 * VR_MIB)      /* that a download leaves free */

struct file {
    struct vr_wanted *wanted;
    struct vr_partial partial;
    struct vr_sum *sum; /* NULL: none is known */
    uint8_t *busy;      /* for each chunk: a slot is at it */
    uint32_t n_busy;
    bool there; /* from the beginning */
};

/* One connection's work: the rest of a chunk. */
struct slot {
    struct fetching *all;
    struct vr_fetch_request request;
    struct file *file; /* NULL: it is idle */
    uint32_t chunk;
    size_t n; /* bytes in the buffer */
    char buffer[BUFFER];
};

struct fetching {
    struct vr_net *net;
    struct file *files;
    size_t n_files;
    struct slot *slots;
    size_t n_slots;
    bool failed;
    struct vr_err err;
    void (*tell)(void *ctx, const struct vr_progress *p);
    void *ctx;
    struct {
        uint64_t ms, bytes;
    } samples[SAMPLES];
    size_t n_samples;
};

/* --- chunks --- */

static void fail(struct fetching *f, const struct vr_err *why)
{
    if (!f->failed) f->err = *why;
    f->failed = true;
    vr_net_stop(f->net);
}

static bool flush(struct slot *s, struct vr_err *err)
{
    struct file *f = s->file;
    size_t n = s->n;
    s->n = 0;
    if (n && !vr_partial_add(&f->partial, s->chunk, s->buffer, n, err)) return false;
    if (f->sum) vr_sum_allow(f->sum, vr_partial_front(&f->partial));
    return true;
}

static void fill_slots(struct fetching *f);

static bool take(struct vr_fetch_request *r, const void *data, size_t n, struct vr_err *err)
{
    struct slot *s = r->ctx;
    bool first = r->got == 0;
    for (const char *from = data; n;) {
        size_t part = n < BUFFER - s->n ? n : BUFFER - s->n;
        memcpy(s->buffer + s->n, from, part);
        s->n += part, from += part, n -= part;
        if (s->n == BUFFER && !flush(s, err)) return false;
    }
    if (first) fill_slots(s->all); /* the way to the file is known now */
    return true;
}

static void done(struct vr_fetch_request *r)
{
    struct slot *s = r->ctx;
    struct file *f = s->file;
    bool flushed = flush(s, &r->err); /* also of what failed: it goes on there */
    f->busy[s->chunk] = false;
    f->n_busy--;
    s->file = NULL;
    if (!r->ok || !flushed)
        fail(s->all, &r->err);
    else
        fill_slots(s->all);
}

/* The next chunk that nobody is at. The first request to a file goes alone: it finds the way for the others. */
static bool next_chunk(struct fetching *f, struct file **file, uint32_t *chunk)
{
    for (size_t k = 0; k < f->n_files; k++) {
        struct file *x = &f->files[k];
        if (x->there || (x->n_busy && !x->wanted->source.answered)) continue;
        for (uint32_t i = x->partial.front; i < x->partial.n_chunks; i++)
            if (!x->busy[i] && x->partial.done[i] < vr_partial_size(&x->partial, i)) return *file = x, *chunk = i, true;
    }
    return false;
}

static void fill_slots(struct fetching *f)
{
    for (size_t i = 0; i < f->n_slots && !f->failed; i++) {
        struct slot *s = &f->slots[i];
        struct file *x;
        if (s->file || !next_chunk(f, &x, &s->chunk)) continue;
        uint64_t at = (uint64_t)s->chunk * x->partial.chunk;
        s->file = x;
        x->busy[s->chunk] = true;
        x->n_busy++;
        s->request = (struct vr_fetch_request){ .source = &x->wanted->source,
                                                .begin = at + x->partial.done[s->chunk],
                                                .end = at + vr_partial_size(&x->partial, s->chunk),
                                                .take = take,
                                                .done = done,
                                                .ctx = s };
        vr_net_add(f->net, &s->request);
    }
}

/* --- telling --- */

static void tick(void *ctx)
{
    struct fetching *f = ctx;
    struct vr_progress p = { .left_s = -1 };
    for (size_t i = 0; i < f->n_files; i++) {
        if (f->files[i].there) continue;
        p.total_bytes += f->files[i].partial.length;
        p.done_bytes += f->files[i].partial.done_bytes;
    }
    uint64_t now = vr_now_ms();
    f->samples[f->n_samples % SAMPLES].ms = now;
    f->samples[f->n_samples++ % SAMPLES].bytes = p.done_bytes;
    size_t oldest = f->n_samples > SAMPLES ? f->n_samples % SAMPLES : 0;
    uint64_t ms = now - f->samples[oldest].ms;
    if (ms) p.bytes_per_s = 1000.0 * (double)(p.done_bytes - f->samples[oldest].bytes) / (double)ms;
    if (p.bytes_per_s > 0) p.left_s = (double)(p.total_bytes - p.done_bytes) / p.bytes_per_s;
    p.verifying = p.done_bytes == p.total_bytes;
    if (f->tell) f->tell(f->ctx, &p);
}

/* --- before and after --- */

static bool open_file(struct file *x, struct vr_wanted *w, struct vr_err *err)
{
    struct stat st;
    *x = (struct file){ .wanted = w, .partial = { .fd = -1, .state_fd = -1 } };
    if (stat(w->path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == w->source.length)
        return x->there = true;
    if (!vr_partial_open(&x->partial, w->path, w->source.length, *w->sum ? w->sum : w->source.version, err))
        return false;
    x->busy = calloc(x->partial.n_chunks ? x->partial.n_chunks : 1, 1);
    if (!x->busy) return vr_fail_nomem(err, "beginning a download");
    if (!*w->sum) return true;
    x->sum = vr_sum_start(x->partial.fd, x->partial.length, strlen(w->sum), err);
    if (x->sum) vr_sum_allow(x->sum, vr_partial_front(&x->partial));
    return x->sum != NULL;
}

static bool room_on_disk(const struct fetching *f, struct vr_err *err)
{
    uint64_t need = 0;
    struct statvfs v;
    struct vr_num a, b;
    const struct file *any = NULL;
    for (size_t i = 0; i < f->n_files; i++) {
        if (f->files[i].there) continue;
        any = &f->files[i];
        need += any->partial.length - any->partial.done_bytes;
    }
    if (!any || !need || fstatvfs(any->partial.fd, &v) != 0) return true;
    uint64_t have = (uint64_t)v.f_bavail * v.f_frsize;
    if (have >= need + ROOM_LEFT) return true;
    return vr_fail(err, VR_EIO,
                   "%s: the disk has %s free, but %s are still to come: make room, or set HF_HUB_CACHE to a "
                   "folder on another disk",
                   any->wanted->path, vr_fmt_bytes(&a, have), vr_fmt_bytes(&b, need));
}

static bool verify(struct file *x, struct vr_err *err)
{
    char sum[65] = "";
    if (x->sum && !vr_sum_wait(x->sum, sum, err)) return false;
    if (!x->sum || strcmp(sum, x->wanted->sum) == 0) return vr_partial_keep(&x->partial, x->wanted->path, err);
    vr_partial_remove(&x->partial);
    return vr_fail(
        err, VR_EFORMAT,
        "%s: its checksum is %.12s…, but it should be %.12s…: the download was damaged and has been removed; "
        "run it again",
        x->wanted->source.name, sum, x->wanted->sum);
}

static void close_all(struct fetching *f)
{
    for (size_t i = 0; i < f->n_slots; i++) /* what came before another one failed is of use the next time */
        if (f->slots[i].file && !flush(&f->slots[i], NULL)) break;
    for (size_t i = 0; i < f->n_files; i++) {
        vr_sum_free(f->files[i].sum);
        vr_partial_close(&f->files[i].partial);
        free(f->files[i].busy);
    }
    free(f->files);
    free(f->slots);
}

bool vr_fetch(struct vr_net *net, struct vr_wanted *files, size_t n, unsigned n_connections,
              void (*tell)(void *ctx, const struct vr_progress *p), void *ctx, struct vr_err *err)
{
    VR_CLEANUP(close_all)
    struct fetching f = { .net = net,
                          .files = calloc(n ? n : 1, sizeof *f.files),
                          .n_slots = n_connections > MAX_CONNECTIONS ? MAX_CONNECTIONS : n_connections,
                          .tell = tell,
                          .ctx = ctx };
    f.slots = calloc(f.n_slots, sizeof *f.slots);
    if (!f.files || !f.slots) {
        f.n_slots = 0;
        return vr_fail_nomem(err, "beginning a download");
    }
    for (size_t i = 0; i < f.n_slots; i++) f.slots[i].all = &f;
    for (; f.n_files < n; f.n_files++)
        if (!open_file(&f.files[f.n_files], &files[f.n_files], err)) return f.n_files++, false;
    if (!room_on_disk(&f, err)) return false;
    fill_slots(&f);
    vr_net_run(net, tick, &f);
    if (f.failed) return vr_fail(err, f.err.code, "%s", f.err.msg);
    for (size_t i = 0; i < n; i++)
        if (!f.files[i].there && !verify(&f.files[i], err)) return false;
    return true;
}
