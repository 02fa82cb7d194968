/* HTTP/1.1 requests as bytes: where a head ends, what it says, and bodies in chunks. Pure: no sockets, no clocks.
 *
 * Strict on purpose. Whatever two parsers could read differently (and a proxy in front of us is a second parser) is
 * refused: a length beside chunks, two lengths, folded lines, a bare CR or LF, space before a colon, chunk
 * extensions, trailers. What is refused comes with an HTTP status and one sentence. */
#ifndef VR_SERVER_HTTP_HTTP_H
#define VR_SERVER_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum vr_method { VR_GET, VR_HEAD, VR_POST, VR_OPTIONS, VR_PUT, VR_DELETE, VR_PATCH, VR_OTHER_METHOD };

struct vr_slice {
    const char *p; /* NULL: the header is not there */
    size_t n;
};

/* Slices point into the bytes that were parsed. */
struct vr_head {
    enum vr_method method;
    struct vr_slice method_name, path, query;
    struct vr_slice host, origin, authorization, api_key, request_id, want_headers, if_none_match, content_type;
    uint64_t content_length;
    bool has_length, chunked, expect_continue;
    bool keep_alive; /* by the version and the Connection header */
    bool http10;
};

struct vr_bad_http {
    int status;
    char why[160];
};

enum vr_feed { VR_FEED_MORE, VR_FEED_DONE, VR_FEED_BAD };

/* Looks for the end of the head, a few bytes at a time: data[0, n) is all that has come, of which `at` bytes were seen
 * before. Zero it for each request. DONE: the head is data[skip, at), the blank line included. */
struct vr_head_scan {
    size_t at, skip, line;
    bool after_cr;
};
enum vr_feed vr_head_scan(struct vr_head_scan *s, const char *data, size_t n, size_t max, struct vr_bad_http *no);

/* Reads a whole head, as found by vr_head_scan. */
bool vr_head_parse(const char *data, size_t n, struct vr_head *out, struct vr_bad_http *no) VR_MUST_CHECK;

/* Decodes a chunked body. `used` bytes of data were consumed; decoded bytes are appended to out, whose `max` is the
 * limit. Zero it for each request. */
struct vr_chunks {
    uint8_t state, digits;
    uint64_t left;
};
enum vr_feed vr_chunks_feed(struct vr_chunks *c, const char *data, size_t n, size_t *used, struct vr_buf *out,
                            struct vr_bad_http *no);

bool vr_slice_is(struct vr_slice s, const char *text);        /* the same bytes */
bool vr_slice_is_nocase(struct vr_slice s, const char *text); /* ASCII letters alike */

/* %41 -> A, into out (n_out bytes with the NUL). False on a bad escape, a NUL or too little room. */
bool vr_percent_decode(struct vr_slice s, char *out, size_t n_out) VR_MUST_CHECK;

const char *vr_http_reason(int status);

#endif
