/* The free room next to a freed record is joined with it in the index alone: on disk it stays a chain of free extents,
 * which is the same. So a head is only ever written at the beginning of an extent of the index, by whoever uses or
 * frees it. */
#include "engine/cache/disk_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/vec.h"

#define MAGIC UINT32_C(0x31435256) /* "VRC1": with another layout of the file comes another number */
enum { ALIGN = 64, MOST_OWNER = 4000 };

struct head {
    uint32_t magic, kind;
    uint64_t room, n, serial;
    uint64_t sum;      /* of the record */
    uint64_t reserved; /* 0 */
    uint64_t own_sum;  /* of all before it */
    uint64_t end;      /* 0 */
};
_Static_assert(sizeof(struct head) == ALIGN, "a head is one line");

/* Fast, and told apart by any bit: it finds damage, not intent. */
static uint64_t checksum(const void *data, size_t n)
{
    const uint8_t *at = data;
    uint64_t h = UINT64_C(0x9E3779B97F4A7C15) ^ n, word = 0;
    for (; n >= sizeof word; n -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        h = (h ^ word) * UINT64_C(0xFF51AFD7ED558CCD);
        h ^= h >> 32;
    }
    word = 0;
    memcpy(&word, at, n);
    h = (h ^ word) * UINT64_C(0xC4CEB9FE1A85EC53);
    return h ^ h >> 29;
}

/* --- bytes --- */

/* False: it ends before that. */
static bool get(int fd, void *out, uint64_t n, uint64_t at)
{
    for (uint8_t *p = out; n;) {
        ssize_t k = pread(fd, p, n, (off_t)at);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k;
        at += (uint64_t)k;
        n -= (uint64_t)k;
    }
    return true;
}

static bool put_head(int fd, const struct vr_extent *x, uint64_t sum)
{
    struct head h = { .magic = MAGIC, .kind = x->kind, .room = x->room, .n = x->n, .serial = x->serial, .sum = sum };
    h.own_sum = checksum(&h, offsetof(struct head, own_sum));
    return vr_fd_pwrite(fd, &h, sizeof h, x->at);
}

static bool put_free(int fd, uint64_t at, uint64_t room)
{
    return put_head(fd, &(struct vr_extent){ .at = at, .room = room, .kind = VR_RECORD_FREE }, 0);
}

int vr_disk_write(int fd, const struct vr_disk_write *w)
{
    const struct vr_extent *x = &w->to;
    if (w->free_behind && !put_free(fd, x->at + x->room, w->free_behind)) return errno;
    if (!put_free(fd, x->at, x->room) || !vr_fd_pwrite(fd, w->data, x->n, x->at + ALIGN) ||
        !put_head(fd, x, checksum(w->data, x->n)))
        return errno;
    return 0;
}

void vr_disk_unwrite(int fd, const struct vr_disk_write *w)
{
    if (w->free_behind && !put_free(fd, w->to.at + w->to.room, w->free_behind)) return;
    if (!put_free(fd, w->to.at, w->to.room)) return; /* then the chain ends here when it is read again */
}

/* --- the index --- */

static uint64_t end_of(const struct vr_disk_file *d)
{
    const struct vr_extent *last = d->n_all ? &d->all[d->n_all - 1] : NULL;
    return last ? last->at + last->room : 0;
}

/* The first extent not before that place. */
static uint32_t index_of(const struct vr_disk_file *d, uint64_t at)
{
    uint32_t from = 0, to = d->n_all;
    while (from < to) {
        uint32_t mid = from + (to - from) / 2;
        if (d->all[mid].at < at)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

static bool insert(struct vr_disk_file *d, uint32_t i, struct vr_extent x)
{
    if (!VR_ROOM(d, all)) return false;
    memmove(&d->all[i + 1], &d->all[i], (d->n_all - i) * sizeof x);
    d->all[i] = x;
    d->n_all++;
    return true;
}

static void remove_at(struct vr_disk_file *d, uint32_t i)
{
    memmove(&d->all[i], &d->all[i + 1], (d->n_all - i - 1) * sizeof d->all[0]);
    d->n_all--;
}

const struct vr_extent *vr_disk_file_at(const struct vr_disk_file *d, uint64_t at)
{
    uint32_t i = index_of(d, at);
    return i < d->n_all && d->all[i].at == at && d->all[i].kind != VR_RECORD_FREE ? &d->all[i] : NULL;
}

/* Joins extent i with the next one where both are free. */
static void join(struct vr_disk_file *d, uint32_t i)
{
    if (i + 1 >= d->n_all || d->all[i].kind != VR_RECORD_FREE || d->all[i + 1].kind != VR_RECORD_FREE) return;
    d->all[i].room += d->all[i + 1].room;
    remove_at(d, i + 1);
}

void vr_disk_file_free(struct vr_disk_file *d, uint64_t at)
{
    uint32_t i = index_of(d, at);
    if (!vr_disk_file_at(d, at)) return;
    struct vr_extent *x = &d->all[i];
    d->used_bytes -= x->room;
    *x = (struct vr_extent){ .at = x->at, .room = x->room, .kind = VR_RECORD_FREE };
    put_free(d->fd, x->at, x->room); /* if that fails, its place may be used again all the same: serials differ */
    join(d, i);
    if (i > 0) join(d, i - 1);
    if (d->all[d->n_all - 1].kind != VR_RECORD_FREE) return;
    d->n_all--;
    if (ftruncate(d->fd, (off_t)end_of(d)) != 0) return; /* it stays as long as it is */
}

bool vr_disk_file_reserve(struct vr_disk_file *d, enum vr_record kind, const void *data, uint64_t n,
                          struct vr_disk_write *out)
{
    struct vr_extent x = { .room = (ALIGN + n + ALIGN - 1) / ALIGN * ALIGN, .n = n, .kind = kind };
    uint32_t i = 0;
    while (i < d->n_all && (d->all[i].kind != VR_RECORD_FREE || d->all[i].room < x.room)) i++;
    x.at = i < d->n_all ? d->all[i].at : end_of(d);
    x.serial = ++d->serial;
    *out = (struct vr_disk_write){ .to = x, .data = data };
    if (i == d->n_all) {
        if (x.at + x.room > d->limit_bytes || !insert(d, i, x)) return false;
    } else {
        out->free_behind = d->all[i].room - x.room;
        struct vr_extent rest = { .at = x.at + x.room, .room = out->free_behind, .kind = VR_RECORD_FREE };
        if (out->free_behind && !insert(d, i + 1, rest)) return false;
        d->all[i] = x;
    }
    d->used_bytes += x.room;
    return true;
}

bool vr_disk_file_read(const struct vr_disk_file *d, const struct vr_extent *x, void *out)
{
    struct head h;
    return get(d->fd, &h, sizeof h, x->at) && h.magic == MAGIC && h.n == x->n && h.serial == x->serial &&
           h.own_sum == checksum(&h, offsetof(struct head, own_sum)) && get(d->fd, out, x->n, x->at + ALIGN) &&
           h.sum == checksum(out, x->n);
}

/* --- opening --- */

/* The chain, up to where it ends or breaks off, and not beyond the limit. False: no memory. */
static bool read_chain(struct vr_disk_file *d, uint64_t size)
{
    struct head h;
    for (uint64_t at = 0; at + sizeof h <= size; at += h.room) {
        if (!get(d->fd, &h, sizeof h, at) || h.magic != MAGIC || h.kind >= VR_N_RECORDS ||
            h.own_sum != checksum(&h, offsetof(struct head, own_sum)) || h.room < ALIGN || h.room % ALIGN ||
            h.room > INT64_MAX - at || at + h.room > d->limit_bytes || h.n > h.room - ALIGN || h.n > size - at - ALIGN)
            return true;
        struct vr_extent x = { .at = at, .room = h.room, .n = h.n, .serial = h.serial, .kind = h.kind };
        if (!insert(d, d->n_all, x)) return false;
        if (h.serial > d->serial) d->serial = h.serial;
        if (h.kind != VR_RECORD_FREE) d->used_bytes += h.room;
        if (d->n_all > 1) join(d, d->n_all - 2);
    }
    return true;
}

static bool is_owned(const struct vr_disk_file *d, const char *owner)
{
    char is[MOST_OWNER];
    const struct vr_extent *x = vr_disk_file_at(d, 0);
    return x && x->kind == VR_RECORD_OWNER && x->n == strlen(owner) && x->n <= sizeof is &&
           vr_disk_file_read(d, x, is) && memcmp(is, owner, x->n) == 0;
}

/* Empties it, and writes down whose it is. */
static bool begin(struct vr_disk_file *d, const char *owner)
{
    struct vr_disk_write w;
    d->n_all = 0;
    d->used_bytes = 0;
    if (ftruncate(d->fd, 0) != 0) return false;
    if (!vr_disk_file_reserve(d, VR_RECORD_OWNER, owner, strlen(owner), &w)) return errno = ENOSPC, false;
    int error = vr_disk_write(d->fd, &w);
    return error == 0 || (errno = error, false);
}

enum vr_disk_found vr_disk_file_open(struct vr_disk_file *d, int fd, const char *owner, uint64_t limit_bytes)
{
    struct stat st;
    *d = (struct vr_disk_file){ .fd = fd, .limit_bytes = limit_bytes };
    if (fstat(fd, &st) != 0 || !read_chain(d, (uint64_t)st.st_size)) return VR_DISK_BROKEN;
    if (!is_owned(d, owner)) {
        bool ok = begin(d, owner);
        return !ok ? VR_DISK_BROKEN : st.st_size ? VR_DISK_FOREIGN : VR_DISK_NEW;
    }
    uint64_t end = end_of(d);
    while (d->n_all && d->all[d->n_all - 1].kind == VR_RECORD_FREE) d->n_all--;
    if (end_of(d) < (uint64_t)st.st_size && ftruncate(fd, (off_t)end_of(d)) != 0) return VR_DISK_BROKEN;
    return end < (uint64_t)st.st_size ? VR_DISK_DAMAGED : VR_DISK_KEPT;
}

void vr_disk_file_close(struct vr_disk_file *d)
{
    if (d->fd >= 0) close(d->fd);
    free(d->all);
    *d = (struct vr_disk_file){ .fd = -1 };
}
