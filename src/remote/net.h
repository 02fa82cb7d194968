/* Requests over HTTP, several at once, until each has its bytes or a sentence that says why not.
 *
 * A file elsewhere is a struct vr_source; a request is for some of its bytes. Redirects are followed here and not by
 * libcurl: where they led is kept for the next range of the same file (a signed URL), and asked for again from the
 * start when it has expired. A token goes to the origin of the endpoint and to nobody else. What ends early, is refused
 * for now (429, 5xx) or says nothing for a while is asked for again from the byte where it ended, a few times; every
 * answer must tell the same length and, unless the source is pinned, the same version of the file. Everything happens
 * inside vr_net_run(), in one thread. */
#ifndef VR_REMOTE_NET_H
#define VR_REMOTE_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct vr_net;

struct vr_net_setup {
    const char *endpoint;  /* the hub: "https://huggingface.co" */
    const char *token;     /* NULL: none */
    bool allow_http;       /* also from other machines than this one */
    unsigned silence_s;    /* a connection on which nothing comes for so long has ended */
    unsigned max_parallel; /* requests under way at once */
};

struct vr_source {
    const char *url;
    const char *name;  /* for messages */
    uint64_t length;   /* of the file; 0: not known yet */
    bool pinned;       /* what it contains is known otherwise: by a checksum, or its version is in the URL */
    bool answered;     /* bytes of it have come */
    char version[160]; /* its ETag, else its date; "" before the first answer */
    char sum[72];      /* its SHA-256 where the server tells it; "" */
    char *at;          /* where redirects led; net's */
};
void vr_source_done(struct vr_source *s);

struct vr_fetch_request {
    struct vr_source *source;
    uint64_t begin, end; /* the bytes, cut at the end of the file; end 0: all, without a range */
    /* Takes the next bytes; false with an error ends the request. Without a range, NULL: all begins again. */
    bool (*take)(struct vr_fetch_request *r, const void *data, size_t n, struct vr_err *err);
    /* It has come to its end, with `ok` or `err` set; may add others. Never called after vr_net_stop(). */
    void (*done)(struct vr_fetch_request *r);
    void *ctx;

    uint64_t got; /* bytes taken */
    bool ok;
    struct vr_err err;

    struct vr_http_transfer *transfer; /* net's */
    struct vr_fetch_request *next;
};

/* NULL on failure. The texts must outlive it. */
struct vr_net *vr_net_open(const struct vr_net_setup *setup, struct vr_err *err) VR_MUST_CHECK;
void vr_net_free(struct vr_net *net);
VR_DEFINE_AUTO(vr_net);

/* Waits for its turn; `r` must live until done(), stop or free. */
void vr_net_add(struct vr_net *net, struct vr_fetch_request *r);
/* Ends all that is under way or waits. */
void vr_net_stop(struct vr_net *net);
/* Until nothing is left. `tick` (may be NULL) is called a few times a second. */
void vr_net_run(struct vr_net *net, void (*tick)(void *ctx), void *ctx);
/* Bytes of bodies received so far, whether they were of use or not. */
uint64_t vr_net_bytes(const struct vr_net *net);

/* Whether a URL may be asked at all: well formed, and not plain HTTP unless that is allowed. */
bool vr_net_allowed(const struct vr_net_setup *setup, const char *url, struct vr_err *err) VR_MUST_CHECK;

#endif
