#include "server/http/http.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MAX_TARGET  4096
#define MAX_HEADERS 100

static bool refuse(struct vr_bad_http *no, int status, const char *why)
{
    no->status = status;
    snprintf(no->why, sizeof no->why, "%s", why);
    return false;
}

static enum vr_feed bad(struct vr_bad_http *no, int status, const char *why)
{
    return refuse(no, status, why), VR_FEED_BAD;
}

bool vr_slice_is(struct vr_slice s, const char *text) { return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0; }

bool vr_slice_is_nocase(struct vr_slice s, const char *text)
{
    return s.n == strlen(text) && strncasecmp(s.p, text, s.n) == 0;
}

/* --- the end of the head --- */

enum vr_feed vr_head_scan(struct vr_head_scan *s, const char *data, size_t n, size_t max, struct vr_bad_http *no)
{
    for (; s->at < n; s->at++) {
        char c = data[s->at];
        if (s->at >= max) return bad(no, 431, "the request headers are too large");
        if (s->after_cr) {
            if (c != '\n') return bad(no, 400, "the request headers contain a CR without LF");
            s->after_cr = false;
            if (s->line == 0 && s->at + 1 == s->skip + 2) { /* empty lines before a request: some clients send one */
                s->skip = s->at + 1;
                if (s->skip > 4) return bad(no, 400, "empty lines instead of a request");
            } else if (s->line == 0) {
                s->at++;
                return VR_FEED_DONE;
            }
            s->line = 0;
        } else if (c == '\r') {
            s->after_cr = true;
        } else if (c == '\n') {
            return bad(no, 400, "a request header line ends in LF without CR");
        } else if (c == '\0' || (s->at == s->skip && (unsigned char)c == 0x16)) {
            return bad(no, 400, "this is not an HTTP request; is the client using https on an http port?");
        } else {
            s->line++;
        }
    }
    return VR_FEED_MORE;
}

/* --- the request line --- */

/* Characters of a token (RFC 9110 5.6.2): methods and header names. */
static bool is_token(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static enum vr_method method_of(struct vr_slice s)
{
    static const char *const names[] = { "GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH" };
    for (size_t i = 0; i < VR_COUNT(names); i++)
        if (vr_slice_is(s, names[i])) return (enum vr_method)i;
    return VR_OTHER_METHOD;
}

/* METHOD SP /path[?query] SP HTTP/1.x: single spaces, nothing else. */
static bool parse_request_line(const char *p, size_t n, struct vr_head *out, struct vr_bad_http *no)
{
    const char *end = p + n, *at = p;
    while (at < end && is_token((unsigned char)*at)) at++;
    out->method_name = (struct vr_slice){ p, (size_t)(at - p) };
    if (at == p || at == end || *at != ' ' || at - p > 32) return refuse(no, 400, "the request line has no method");
    out->method = method_of(out->method_name);

    const char *target = ++at;
    while (at < end && (unsigned char)*at > ' ' && (unsigned char)*at < 127) at++;
    size_t len = (size_t)(at - target);
    if (at == end || *at != ' ') return refuse(no, 400, "the request line has no valid target or version");
    if (len > MAX_TARGET) return refuse(no, 414, "the request target is too long");
    bool asterisk = len == 1 && *target == '*' && out->method == VR_OPTIONS;
    if (len == 0 || (*target != '/' && !asterisk))
        return refuse(no, 400, "the request target must be a path such as /v1/models");
    if (memchr(target, '#', len)) return refuse(no, 400, "the request target has a fragment");
    const char *q = memchr(target, '?', len);
    out->path = (struct vr_slice){ target, q ? (size_t)(q - target) : len };
    if (q) out->query = (struct vr_slice){ q + 1, len - out->path.n - 1 };

    struct vr_slice version = { at + 1, (size_t)(end - at - 1) };
    if (vr_slice_is(version, "HTTP/1.1"))
        out->keep_alive = true;
    else if (vr_slice_is(version, "HTTP/1.0"))
        out->http10 = true;
    else
        return refuse(no, version.n >= 5 && memcmp(version.p, "HTTP/", 5) == 0 ? 505 : 400,
                      "this server supports HTTP/1.1 and HTTP/1.0");
    return true;
}

/* --- headers --- */

static bool on_length(struct vr_head *h, struct vr_slice v, struct vr_bad_http *no)
{
    if (h->has_length) return refuse(no, 400, "duplicate Content-Length header");
    if (v.n == 0 || v.n > 18) return refuse(no, 400, "Content-Length is not valid");
    uint64_t n = 0;
    for (size_t i = 0; i < v.n; i++) {
        if (v.p[i] < '0' || v.p[i] > '9') return refuse(no, 400, "Content-Length is not an integer");
        n = n * 10 + (uint64_t)(v.p[i] - '0');
    }
    h->content_length = n;
    h->has_length = true;
    return true;
}

static bool on_transfer(struct vr_head *h, struct vr_slice v, struct vr_bad_http *no)
{
    if (h->chunked) return refuse(no, 400, "duplicate Transfer-Encoding header");
    if (!vr_slice_is_nocase(v, "chunked")) return refuse(no, 501, "the only supported Transfer-Encoding is chunked");
    h->chunked = true;
    return true;
}

static bool on_expect(struct vr_head *h, struct vr_slice v, struct vr_bad_http *no)
{
    if (!vr_slice_is_nocase(v, "100-continue")) return refuse(no, 417, "the only supported Expect is 100-continue");
    h->expect_continue = true;
    return true;
}

static bool on_encoding(struct vr_head *h, struct vr_slice v, struct vr_bad_http *no)
{
    (void)h;
    if (vr_slice_is_nocase(v, "identity")) return true;
    return refuse(no, 415, "compressed request bodies are not supported; send plain JSON");
}

/* Connection: a list of words; `close` wins. */
static bool on_connection(struct vr_head *h, struct vr_slice v, struct vr_bad_http *no)
{
    (void)no;
    for (size_t at = 0; at < v.n;) {
        while (at < v.n && (v.p[at] == ',' || v.p[at] == ' ' || v.p[at] == '\t')) at++;
        size_t from = at;
        while (at < v.n && v.p[at] != ',' && v.p[at] != ' ' && v.p[at] != '\t') at++;
        struct vr_slice word = { v.p + from, at - from };
        if (vr_slice_is_nocase(word, "close")) {
            h->keep_alive = false;
            return true;
        }
        if (vr_slice_is_nocase(word, "keep-alive")) h->keep_alive = true;
    }
    return true;
}

/* HEADER(name, slice) keeps the value, of which there may be one; RULE(name, function) looks at it. */
#define KEEP(header, slice)                                                                                            \
    {                                                                                                                  \
        header, offsetof(struct vr_head, slice), NULL                                                                  \
    }
#define RULE(header, function)                                                                                         \
    {                                                                                                                  \
        header, 0, function                                                                                            \
    }
static const struct header {
    const char *name;
    size_t field;
    bool (*rule)(struct vr_head *, struct vr_slice, struct vr_bad_http *);
} headers[] = {
    KEEP("host", host),
    KEEP("origin", origin),
    KEEP("authorization", authorization),
    KEEP("x-api-key", api_key),
    KEEP("x-request-id", request_id),
    KEEP("access-control-request-headers", want_headers),
    KEEP("if-none-match", if_none_match),
    KEEP("content-type", content_type),
    RULE("content-length", on_length),
    RULE("transfer-encoding", on_transfer),
    RULE("expect", on_expect),
    RULE("content-encoding", on_encoding),
    RULE("connection", on_connection),
};

static bool on_header(struct vr_head *h, struct vr_slice name, struct vr_slice value, struct vr_bad_http *no)
{
    for (size_t i = 0; i < VR_COUNT(headers); i++) {
        if (!vr_slice_is_nocase(name, headers[i].name)) continue;
        if (headers[i].rule) return headers[i].rule(h, value, no);
        struct vr_slice *keep = (struct vr_slice *)(void *)((char *)h + headers[i].field);
        if (keep->p) {
            no->status = 400;
            snprintf(no->why, sizeof no->why, "duplicate %s header", headers[i].name);
            return false;
        }
        *keep = value;
        return true;
    }
    return true;
}

/* name ":" OWS value OWS */
static bool parse_header(struct vr_head *h, const char *p, size_t n, struct vr_bad_http *no)
{
    if (*p == ' ' || *p == '\t') return refuse(no, 400, "folded header lines are not allowed");
    size_t colon = 0;
    while (colon < n && is_token((unsigned char)p[colon])) colon++;
    if (colon == 0 || colon == n || p[colon] != ':') return refuse(no, 400, "a header line has no valid name");
    const char *v = p + colon + 1, *end = p + n;
    while (v < end && (*v == ' ' || *v == '\t')) v++;
    while (end > v && (end[-1] == ' ' || end[-1] == '\t')) end--;
    for (const char *c = v; c < end; c++)
        if (((unsigned char)*c < ' ' && *c != '\t') || *c == 127)
            return refuse(no, 400, "a header contains a control character");
    return on_header(h, (struct vr_slice){ p, colon }, (struct vr_slice){ v, (size_t)(end - v) }, no);
}

bool vr_head_parse(const char *data, size_t n, struct vr_head *out, struct vr_bad_http *no)
{
    *out = (struct vr_head){ 0 };
    const char *end = data + n, *at = data;
    for (size_t i = 0;; i++) {
        const char *cr = at < end ? memmem(at, (size_t)(end - at), "\r\n", 2) : NULL;
        if (!cr) return refuse(no, 400, "the request headers are truncated");
        size_t len = (size_t)(cr - at);
        if (i > MAX_HEADERS) return refuse(no, 431, "too many headers");
        if (i == 0 && !parse_request_line(at, len, out, no)) return false;
        if (i > 0 && len == 0) break;
        if (i > 0 && !parse_header(out, at, len, no)) return false;
        at = cr + 2;
    }
    if (out->chunked && out->has_length) return refuse(no, 400, "both Content-Length and Transfer-Encoding are set");
    if (out->chunked && out->http10) return refuse(no, 400, "HTTP/1.0 has no Transfer-Encoding");
    if (!out->host.p && !out->http10) return refuse(no, 400, "an HTTP/1.1 request needs a Host header");
    return true;
}

/* --- chunks --- */

enum { C_SIZE, C_SIZE_LF, C_DATA, C_DATA_CR, C_DATA_LF, C_END_CR, C_END_LF };

static int hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* A character between the data: sizes and line ends. */
static enum vr_feed chunk_char(struct vr_chunks *c, char ch, struct vr_bad_http *no)
{
    static const char ends[] = {
        [C_SIZE_LF] = '\n', [C_DATA_CR] = '\r', [C_DATA_LF] = '\n', [C_END_CR] = '\r', [C_END_LF] = '\n'
    };
    if (c->state == C_SIZE) {
        int digit = hex(ch);
        if (digit >= 0) {
            if (++c->digits > 8) return bad(no, 400, "a chunk size has too many digits");
            c->left = c->left << 4 | (unsigned)digit;
            return VR_FEED_MORE;
        }
        if (ch != '\r' || c->digits == 0)
            return bad(no, 400, "a chunk size is not a hexadecimal number on its own line");
        c->state = C_SIZE_LF;
        return VR_FEED_MORE;
    }
    if (ch != ends[c->state])
        return bad(no, 400,
                   c->state >= C_END_CR ? "trailers after the last chunk are not supported"
                                        : "a chunk does not end where its size says");
    switch (c->state) {
    case C_SIZE_LF: c->state = c->left ? C_DATA : C_END_CR; break;
    case C_DATA_LF:
        c->state = C_SIZE;
        c->digits = 0;
        break;
    case C_END_LF: return VR_FEED_DONE;
    default: c->state++; break;
    }
    return VR_FEED_MORE;
}

enum vr_feed vr_chunks_feed(struct vr_chunks *c, const char *data, size_t n, size_t *used, struct vr_buf *out,
                            struct vr_bad_http *no)
{
    size_t at = 0;
    enum vr_feed fed = VR_FEED_MORE;
    while (at < n && fed == VR_FEED_MORE) {
        if (c->state != C_DATA) {
            fed = chunk_char(c, data[at++], no);
            if (out->max && c->left > out->max - out->n) fed = bad(no, 413, "the request body is too large");
            continue;
        }
        size_t take = n - at < c->left ? n - at : (size_t)c->left;
        vr_buf_add(out, data + at, take);
        if (out->failed) return bad(no, 503, "out of memory for the request body");
        at += take;
        c->left -= take;
        if (c->left == 0) c->state = C_DATA_CR;
    }
    *used = at;
    return fed;
}

/* --- the rest --- */

bool vr_percent_decode(struct vr_slice s, char *out, size_t n_out)
{
    size_t k = 0;
    for (size_t i = 0; i < s.n; i++) {
        int c = (unsigned char)s.p[i];
        if (c == '%') {
            int hi = i + 1 < s.n ? hex(s.p[i + 1]) : -1, lo = i + 2 < s.n ? hex(s.p[i + 2]) : -1;
            if (hi < 0 || lo < 0) return false;
            c = hi << 4 | lo;
            i += 2;
        }
        if (c == 0 || k + 1 >= n_out) return false;
        out[k++] = (char)c;
    }
    if (k >= n_out) return false;
    out[k] = '\0';
    return true;
}

const char *vr_http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        { 200, "OK" },
        { 202, "Accepted" },
        { 204, "No Content" },
        { 304, "Not Modified" },
        { 400, "Bad Request" },
        { 401, "Unauthorized" },
        { 403, "Forbidden" },
        { 404, "Not Found" },
        { 405, "Method Not Allowed" },
        { 408, "Request Timeout" },
        { 409, "Conflict" },
        { 413, "Content Too Large" },
        { 414, "URI Too Long" },
        { 415, "Unsupported Media Type" },
        { 417, "Expectation Failed" },
        { 429, "Too Many Requests" },
        { 431, "Request Header Fields Too Large" },
        { 500, "Internal Server Error" },
        { 501, "Not Implemented" },
        { 502, "Bad Gateway" },
        { 503, "Service Unavailable" },
        { 505, "HTTP Version Not Supported" },
        { 507, "Insufficient Storage" },
    };
    for (size_t i = 0; i < VR_COUNT(reasons); i++)
        if (reasons[i].status == status) return reasons[i].reason;
    return "Error";
}
