/* Metadata entries are copied as they stand in the file, by their place; tensors are written anew, one behind the
 * other, because those of a split model lie in several files. Left out: the tokenizer's arrays and texts (a chat
 * template can be as long as all the rest), and what says that the model is split. Instead the tokenizer becomes the
 * engine's "no_vocab" and the number of tokens is told in one key. */
#include "gguf/strip.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"

#define ALIGN UINT64_C(32)

static void put_u32(struct vr_buf *b, uint32_t v) { vr_buf_add(b, &v, sizeof v); }
static void put_u64(struct vr_buf *b, uint64_t v) { vr_buf_add(b, &v, sizeof v); }
static void put_string(struct vr_buf *b, const char *s)
{
    put_u64(b, strlen(s));
    vr_buf_adds(b, s);
}

static bool begins(const char *s, const char *with) { return strncmp(s, with, strlen(with)) == 0; }

static bool is_vocab_size(const struct vr_model *m, const char *key)
{
    size_t n = strlen(m->arch);
    return strncmp(key, m->arch, n) == 0 && strcmp(key + n, ".vocab_size") == 0;
}

/* Numbers of the tokenizer stay: some architectures count token types there. */
static bool keeps(const struct vr_model *m, const struct vr_meta *e)
{
    if (begins(e->key, "split.") || strcmp(e->key, "general.alignment") == 0 || is_vocab_size(m, e->key)) return false;
    return !begins(e->key, "tokenizer.") || (e->type != VR_V_STRING && e->type != VR_V_ARRAY);
}

/* Appends bytes [e->begin, e->end) of the file. */
static bool put_entry(struct vr_buf *b, int fd, const char *path, const struct vr_meta *e, struct vr_err *err)
{
    char chunk[4096];
    for (uint64_t at = e->begin; at < e->end;) {
        size_t want = e->end - at < sizeof chunk ? (size_t)(e->end - at) : sizeof chunk;
        ssize_t n = pread(fd, chunk, want, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return vr_fail(err, VR_EIO, "%s: cannot reread '%s': %s", path, e->key,
                           n < 0 ? strerror(errno) : "the file was truncated meanwhile");
        vr_buf_add(b, chunk, (size_t)n);
        at += (uint64_t)n;
    }
    return true;
}

static bool put_meta(struct vr_buf *b, const struct vr_model *m, struct vr_err *err)
{
    const char *path = m->parts[0].path;
    VR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return vr_fail(err, VR_EIO, "%s: %s", path, strerror(errno));
    for (uint32_t i = 0; i < m->n_meta; i++)
        if (keeps(m, &m->meta[i]) && !put_entry(b, fd, path, &m->meta[i], err)) return false;
    put_string(b, "tokenizer.ggml.model");
    put_u32(b, VR_V_STRING);
    put_string(b, "no_vocab");
    put_u64(b, strlen(m->arch) + strlen(".vocab_size"));
    vr_buf_addf(b, "%s.vocab_size", m->arch);
    put_u32(b, VR_V_U32);
    put_u32(b, m->n_vocab);
    return true;
}

/* Returns the size of the data area. */
static uint64_t put_tensors(struct vr_buf *b, const struct vr_model *m)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        const struct vr_tensor *t = &m->tensors[i];
        put_string(b, t->name);
        put_u32(b, t->n_dims);
        for (uint32_t d = 0; d < t->n_dims; d++) put_u64(b, t->ne[d]);
        put_u32(b, t->type);
        put_u64(b, offset);
        offset += (t->bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    return offset;
}

int vr_model_strip(const struct vr_model *m, struct vr_err *err)
{
    uint64_t n_meta = 2; /* ours */
    for (uint32_t i = 0; i < m->n_meta; i++) n_meta += keeps(m, &m->meta[i]);
    VR_AUTO_BUF b = { 0 };
    vr_buf_adds(&b, "GGUF");
    put_u32(&b, 3);
    put_u64(&b, m->n_tensors);
    put_u64(&b, n_meta);
    if (!put_meta(&b, m, err)) return -1;
    uint64_t data = put_tensors(&b, m);
    vr_buf_addc(&b, '\0', (size_t)((ALIGN - b.n % ALIGN) % ALIGN));
    if (b.failed) return vr_fail_nomem(err, "writing a header"), -1;

    VR_AUTO_CLOSE int fd = memfd_create("vram-llm-header", MFD_CLOEXEC);
    if (fd < 0 || !vr_fd_write(fd, b.data, b.n) || ftruncate(fd, (off_t)(b.n + data)) != 0 ||
        lseek(fd, 0, SEEK_SET) != 0) {
        vr_fail(err, VR_EIO, "%s: cannot keep a header of %zu bytes in memory: %s", m->parts[0].path, b.n,
                strerror(errno));
        return -1;
    }
    int out = fd;
    fd = -1;
    return out;
}
