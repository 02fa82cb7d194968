/* URLs and headers of HTTP, as far as they decide something here: who is asked, who may see a token, which bytes came.
 * All of it comes from strangers. */
#ifndef VR_REMOTE_URL_H
#define VR_REMOTE_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define VR_MAX_URL 8192 /* signed ones are long */

struct vr_url {
    bool tls;
    char host[256]; /* in small letters, without brackets */
    uint16_t port;
    const char *path; /* from the slash on, "" if there is none; points into the text */
};

/* http:// and https:// alone, no user name in it, no blanks or control characters. */
bool vr_url_parse(const char *text, struct vr_url *out) VR_MUST_CHECK;
/* Scheme, host and port are the same: what one may be told, the other may be. */
bool vr_url_same_origin(const char *a, const char *b);
bool vr_url_is_loopback(const struct vr_url *u);
/* The last name in the path, decoded; false: there is none that could be a file's. */
bool vr_url_file(const struct vr_url *u, char *out, size_t n) VR_MUST_CHECK;
/* Appends a path with what is special in a URL as %XX; slashes stay. */
void vr_url_add_path(struct vr_buf *out, const char *path);

/* A name of one file or folder that may be made below a folder of ours: plain text, not hidden, no slash, not long. */
bool vr_url_safe_name(const char *name, size_t n);
/* The same for each part of "a/b/c". */
bool vr_url_safe_path(const char *path);

/* "bytes 0-99/1234"; the length may be "*", which is 0. */
bool vr_content_range(const char *value, uint64_t *first, uint64_t *last, uint64_t *length) VR_MUST_CHECK;
/* An ETag without quotes and "W/". */
void vr_etag_plain(const char *value, char *out, size_t n);
/* So many hexadecimal digits, in small letters, and nothing else. */
bool vr_is_hex(const char *s, size_t n);

#endif
