/* Whole files from elsewhere, several ranges of them at once.
 *
 * A file is fetched in chunks, in their order, so that its checksum can follow. It grows in PATH.vram-llm; beside it
 * lies how far each chunk is, written right after the bytes: a download that ends at any byte, for whatever reason,
 * goes on there the next time. When all is there and the checksum is right, it appears at PATH. Two processes never
 * fetch the same file at once. */
#ifndef VR_REMOTE_FETCH_H
#define VR_REMOTE_FETCH_H

#include "remote/net.h"

struct vr_wanted {
    const char *path;        /* where it shall lie; its folder is made. What is there already is taken as it is */
    struct vr_source source; /* url, name, length, pinned; the caller's to end */
    const char *sum;         /* the checksum in hexadecimal, 64 or 40 digits (remote/sum.h); "": not known */
};

struct vr_progress {
    uint64_t total_bytes, done_bytes;
    double bytes_per_s; /* lately; 0: not known yet */
    double left_s;      /* -1: not known yet */
    bool verifying;     /* all is there; the checksum is not complete yet */
};

/* Fetches them all. `tell` (may be NULL) is called a few times a second. */
bool vr_fetch(struct vr_net *net, struct vr_wanted *files, size_t n, unsigned n_connections,
              void (*tell)(void *ctx, const struct vr_progress *p), void *ctx, struct vr_err *err) VR_MUST_CHECK;

#endif
