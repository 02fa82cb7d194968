/* A file of records, in which places are used again: what the prompt cache keeps over a restart (disk_cache.h).
 *
 * The file is a chain of extents, each a head of 64 bytes and room for a record: what it is, how long, and two
 * checksums. A record is written into free room: first the head of what stays free behind it, then its bytes, and its
 * own head last, so a process that dies in between leaves a chain that is whole. What was not written to its end is
 * not there; what does not have its checksum is damaged, and is not used. The first record says whose the file is.
 *
 * One thread uses the index; vr_disk_write() may run in another. The file is open already and belongs to this process
 * alone: nothing here needs a path, so a confined process can do it. */
#ifndef VR_ENGINE_CACHE_DISK_FILE_H
#define VR_ENGINE_CACHE_DISK_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vr_record { VR_RECORD_FREE, VR_RECORD_OWNER, VR_RECORD_PIECE, VR_RECORD_PROMPT, VR_N_RECORDS };

struct vr_extent {
    uint64_t at, room; /* bytes of the file, the head included */
    uint64_t n;        /* bytes of the record */
    uint64_t serial;   /* no two records of a file ever have the same */
    uint32_t kind;     /* an enum vr_record */
};

struct vr_disk_file {
    int fd; /* -1: none */
    uint64_t limit_bytes, used_bytes;
    struct vr_extent *all; /* all of the file, in order; no two free ones are neighbours, and the last is not free */
    uint32_t n_all, cap_all;
    uint64_t serial; /* the last one given */
};

/* A record that is to be written: made by vr_disk_file_reserve(). */
struct vr_disk_write {
    struct vr_extent to;
    uint64_t free_behind; /* bytes of the extent that is left over behind it; 0: none */
    const void *data;
};

enum vr_disk_found { VR_DISK_NEW, VR_DISK_KEPT, VR_DISK_FOREIGN, VR_DISK_DAMAGED, VR_DISK_BROKEN };

/* Reads the chain of an open file, which it takes over. One that is empty or of another owner begins anew
 * (VR_DISK_NEW, VR_DISK_FOREIGN); one that breaks off somewhere is kept up to there (VR_DISK_DAMAGED). VR_DISK_BROKEN:
 * it cannot be read or written at all, with errno. */
enum vr_disk_found vr_disk_file_open(struct vr_disk_file *d, int fd, const char *owner, uint64_t limit_bytes);
void vr_disk_file_close(struct vr_disk_file *d);

/* A place for a record of n bytes; false: the file would become too large. */
bool vr_disk_file_reserve(struct vr_disk_file *d, enum vr_record kind, const void *data, uint64_t n,
                          struct vr_disk_write *out);
/* Writes it; 0, or what errno says. */
int vr_disk_write(int fd, const struct vr_disk_write *w);
/* Leaves its place as free room, after one before it could not be written. */
void vr_disk_unwrite(int fd, const struct vr_disk_write *w);
/* The record is no longer there. */
void vr_disk_file_free(struct vr_disk_file *d, uint64_t at);
/* The extent at that place; NULL: there is none, or it is free. */
const struct vr_extent *vr_disk_file_at(const struct vr_disk_file *d, uint64_t at);
/* Reads a whole record of x->n bytes. False: it is damaged. */
bool vr_disk_file_read(const struct vr_disk_file *d, const struct vr_extent *x, void *out);

#endif
