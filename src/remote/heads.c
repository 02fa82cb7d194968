#include "remote/heads.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "gguf/cursor.h"
#include "gguf/part.h"

/* The first range holds a header without a vocabulary, as all parts but the first have; with one they are 2 to 16 MiB.
 */
#define FIRST ((uint64_t)2 << 20)
#define MORE  4 /* times as much */

struct fetching;

struct one {
    struct fetching *all;
    struct vr_remote_head *head;
    struct vr_fetch_request request;
    char *draft; /* beside the path, until it is complete */
    int fd;
};

struct fetching {
    struct vr_net *net;
    struct vr_err err;
    bool failed;
};

bool vr_remote_head_is_there(const char *path, uint64_t length)
{
    VR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    char magic[4];
    return fd >= 0 && fstat(fd, &st) == 0 && (uint64_t)st.st_size == length && pread(fd, magic, 4, 0) == 4 &&
           memcmp(magic, "GGUF", 4) == 0;
}

bool vr_remote_head_hold(const char *path, uint64_t length, struct vr_err *err)
{
    struct stat st;
    if (stat(path, &st) == 0 && (uint64_t)st.st_size == length) return true;
    if (!vr_file_make_parents(path, err)) return false;
    VR_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    return (fd >= 0 && ftruncate(fd, (off_t)length) == 0) || vr_fail(err, VR_EIO, "%s: %s", path, strerror(errno));
}

static bool take(struct vr_fetch_request *r, const void *data, size_t n, struct vr_err *err)
{
    struct one *o = r->ctx;
    return vr_fd_pwrite(o->fd, data, n, r->begin + r->got) || vr_fail(err, VR_EIO, "%s: %s", o->draft, strerror(errno));
}

static void fail(struct one *o, const struct vr_err *why)
{
    struct fetching *f = o->all;
    if (!f->failed) f->err = *why;
    f->failed = true;
    vr_net_stop(f->net);
}

/* The reader's sentence is about a draft; people know the model by another name. */
static void fail_format(struct one *o, const struct vr_err *why)
{
    struct vr_err told = *why;
    size_t n = strlen(o->draft);
    if (strncmp(why->msg, o->draft, n) == 0) vr_fail(&told, why->code, "%s%s", o->head->source.name, why->msg + n);
    fail(o, &told);
}

static void done(struct vr_fetch_request *r)
{
    struct one *o = r->ctx;
    struct vr_source *s = &o->head->source;
    struct vr_err why = { 0 };
    if (!r->ok) return fail(o, &r->err);
    uint64_t have = r->begin + r->got, wants = 0;
    if (ftruncate(o->fd, (off_t)s->length) != 0) {
        vr_fail(&why, VR_EIO, "%s: %s", o->draft, strerror(errno));
        return fail(o, &why);
    }
    if (!vr_part_wants(o->draft, have ? have : 1, &wants, &why)) return fail_format(o, &why);
    if (wants) {
        r->begin = have;
        r->end = wants > have * MORE ? wants : have * MORE;
        if (r->end > VR_CURSOR_LIMIT) r->end = VR_CURSOR_LIMIT > wants ? VR_CURSOR_LIMIT : wants;
        return vr_net_add(o->all->net, r);
    }
    if (rename(o->draft, o->head->path) == 0) return;
    vr_fail(&why, VR_EIO, "%s: %s", o->head->path, strerror(errno));
    fail(o, &why);
}

static bool begin(struct one *o, struct fetching *f, struct vr_remote_head *h, struct vr_err *err)
{
    *o = (struct one){ .all = f, .head = h, .fd = -1 };
    if (!vr_file_make_parents(h->path, err)) return false;
    if (asprintf(&o->draft, "%s.XXXXXX", h->path) < 0) return o->draft = NULL, vr_fail_nomem(err, "fetching a header");
    o->fd = mkostemp(o->draft, O_CLOEXEC);
    if (o->fd < 0) return vr_fail(err, VR_EIO, "%s: %s", o->draft, strerror(errno));
    o->request = (struct vr_fetch_request){ .source = &h->source, .end = FIRST, .take = take, .done = done, .ctx = o };
    vr_net_add(f->net, &o->request);
    return true;
}

static void end(struct one *o)
{
    if (o->fd >= 0) close(o->fd);
    if (o->fd >= 0) unlink(o->draft); /* gone already if all went well */
    free(o->draft);
}

bool vr_heads_fetch(struct vr_net *net, struct vr_remote_head *heads, size_t n, struct vr_err *err)
{
    struct fetching f = { .net = net };
    VR_AUTO_FREE struct one *ones = calloc(n ? n : 1, sizeof *ones);
    if (!ones) return vr_fail_nomem(err, "fetching headers");
    size_t n_begun = 0;
    while (n_begun < n && !f.failed && begin(&ones[n_begun], &f, &heads[n_begun], &f.err)) n_begun++;
    if (n_begun < n) f.failed = true;
    if (f.failed)
        vr_net_stop(net);
    else
        vr_net_run(net, NULL, NULL);
    for (size_t i = 0; i < n && i <= n_begun; i++) end(&ones[i]);
    return !f.failed || vr_fail(err, f.err.code, "%s", f.err.msg);
}
