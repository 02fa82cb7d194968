/* The state file: a head that says what of, then one u32 per chunk. It is written in place; a write of four bytes at a
 * multiple of four is whole or not at all. After a crash of the computer it may be ahead of the data: the checksum
 * finds that, and where there is none, another boot begins anew. */
#include "remote/partial.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"
#include "remote/url.h"

#define MAX_CHUNK  (64 * VR_MIB)
#define MIN_CHUNK  (4 * VR_MIB)
#define FEW_CHUNKS 64
#define MAX_LENGTH ((uint64_t)64 << 40) /* no model has it, but a server may say so, and a file system believe it */

struct head {
    char magic[8];
    uint64_t length;
    uint32_t chunk, unused;
    char version[232];
};
static const char magic[8] = "vrpart1";

static uint32_t chunk_of(uint64_t length)
{
    uint64_t c = length / FEW_CHUNKS / VR_MIB * VR_MIB;
    return (uint32_t)(c < MIN_CHUNK ? MIN_CHUNK : c > MAX_CHUNK ? MAX_CHUNK : c);
}

static bool fail_write(const char *path, struct vr_err *err)
{
    if (errno == ENOSPC || errno == EDQUOT)
        return vr_fail(err, VR_EIO, "%s: the disk is full; free some space and run it again to resume", path);
    return vr_fail(err, VR_EIO, "%s: %s", path, strerror(errno));
}

/* What it must say to be of the same content. */
static struct head head_of(const struct vr_partial *p, const char *version)
{
    struct head h = { .length = p->length, .chunk = p->chunk };
    memcpy(h.magic, magic, sizeof magic);
    VR_AUTO_BUF boot = { 0 };
    bool summed = vr_is_hex(version, 64) || vr_is_hex(version, 40);
    if (!summed && !vr_file_read("/proc/sys/kernel/random/boot_id", 64, &boot, NULL)) vr_buf_clear(&boot);
    snprintf(h.version, sizeof h.version, "%s %s", version, vr_buf_str(&boot));
    return h;
}

static bool read_state(struct vr_partial *p, const struct head *want)
{
    struct head is;
    struct stat st;
    size_t n = p->n_chunks * sizeof *p->done;
    if (fstat(p->fd, &st) != 0 || (uint64_t)st.st_size != p->length) return false;
    if (pread(p->state_fd, &is, sizeof is, 0) != sizeof is || memcmp(&is, want, sizeof is) != 0) return false;
    if (pread(p->state_fd, p->done, n, sizeof is) != (ssize_t)n) return false;
    for (uint32_t i = 0; i < p->n_chunks; i++) {
        if (p->done[i] > vr_partial_size(p, i)) return false;
        p->done_bytes += p->done[i];
    }
    return true;
}

static bool begin_anew(struct vr_partial *p, const struct head *head, struct vr_err *err)
{
    size_t n = p->n_chunks * sizeof *p->done;
    memset(p->done, 0, n);
    p->done_bytes = 0;
    if (ftruncate(p->state_fd, 0) != 0 || ftruncate(p->fd, 0) != 0 || ftruncate(p->fd, (off_t)p->length) != 0)
        return fail_write(p->data_path, err);
    if (!vr_fd_pwrite(p->state_fd, p->done, n, sizeof *head) || !vr_fd_pwrite(p->state_fd, head, sizeof *head, 0))
        return fail_write(p->state_path, err);
    return true;
}

bool vr_partial_open(struct vr_partial *p, const char *path, uint64_t length, const char *version, struct vr_err *err)
{
    struct vr_num said;
    *p = (struct vr_partial){ .fd = -1, .state_fd = -1, .length = length, .chunk = chunk_of(length) };
    if (length > MAX_LENGTH)
        return vr_fail(err, VR_EFORMAT, "%s: its reported size is %s, more than any model has", vr_file_name(path),
                       vr_fmt_bytes(&said, length));
    p->n_chunks = (uint32_t)((length + p->chunk - 1) / p->chunk);
    p->done = calloc(p->n_chunks ? p->n_chunks : 1, sizeof *p->done);
    if (asprintf(&p->data_path, "%s.vram-llm", path) < 0) p->data_path = NULL;
    if (asprintf(&p->state_path, "%s.vram-llm-state", path) < 0) p->state_path = NULL;
    if (!p->done || !p->data_path || !p->state_path) return vr_fail_nomem(err, "beginning a download");
    if (!vr_file_make_parents(path, err)) return false;
    p->state_fd = open(p->state_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (p->state_fd < 0) return vr_fail(err, VR_EIO, "%s: %s", p->state_path, strerror(errno));
    if (flock(p->state_fd, LOCK_EX | LOCK_NB) != 0)
        return vr_fail(err, VR_EIO, "%s: another process is downloading it", path);
    p->fd = open(p->data_path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (p->fd < 0) return vr_fail(err, VR_EIO, "%s: %s", p->data_path, strerror(errno));
    struct head head = head_of(p, version);
    return (*version && read_state(p, &head)) || begin_anew(p, &head, err);
}

uint32_t vr_partial_size(const struct vr_partial *p, uint32_t i)
{
    uint64_t left = p->length - (uint64_t)i * p->chunk;
    return left < p->chunk ? (uint32_t)left : p->chunk;
}

bool vr_partial_add(struct vr_partial *p, uint32_t i, const void *data, size_t n, struct vr_err *err)
{
    if (n > vr_partial_size(p, i) - p->done[i]) return vr_fail(err, VR_EINTERNAL, "%s: too many bytes", p->data_path);
    if (!vr_fd_pwrite(p->fd, data, n, (uint64_t)i * p->chunk + p->done[i])) return fail_write(p->data_path, err);
    uint32_t now = p->done[i] + (uint32_t)n;
    if (!vr_fd_pwrite(p->state_fd, &now, sizeof now, sizeof(struct head) + i * sizeof now))
        return fail_write(p->state_path, err);
    p->done[i] = now;
    p->done_bytes += n;
    if (now == vr_partial_size(p, i)) /* to the disk while the rest comes, so that little is left for the end */
        sync_file_range(p->fd, (off_t)((uint64_t)i * p->chunk), now, SYNC_FILE_RANGE_WRITE);
    return true;
}

uint64_t vr_partial_front(struct vr_partial *p)
{
    while (p->front < p->n_chunks && p->done[p->front] == vr_partial_size(p, p->front)) p->front++;
    return p->front == p->n_chunks ? p->length : (uint64_t)p->front * p->chunk + p->done[p->front];
}

bool vr_partial_keep(struct vr_partial *p, const char *path, struct vr_err *err)
{
    if (fsync(p->fd) != 0 || rename(p->data_path, path) != 0)
        return vr_fail(err, VR_EIO, "%s: %s", path, strerror(errno));
    unlink(p->state_path);
    return true;
}

void vr_partial_remove(struct vr_partial *p)
{
    unlink(p->data_path);
    unlink(p->state_path);
}

void vr_partial_close(struct vr_partial *p)
{
    if (p->fd >= 0) close(p->fd);
    if (p->state_fd >= 0) close(p->state_fd);
    free(p->data_path);
    free(p->state_path);
    free(p->done);
    *p = (struct vr_partial){ .fd = -1, .state_fd = -1 };
}
