#include "remote/url.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/text.h"

#define MAX_NAME 200 /* bytes; file systems take 255, and a suffix is added */

static bool plain_text(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s <= ' ' || *s == 127 || *s == '\\') return false;
    return true;
}

/* "host", "host:80", "[::1]:80" */
static bool parse_host(const char *at, size_t n, struct vr_url *out)
{
    const char *end = at + n, *name = at, *colon;
    size_t len;
    if (n && *at == '[') {
        const char *close = memchr(at, ']', n);
        if (!close) return false;
        name = at + 1;
        len = (size_t)(close - name);
        colon = close + 1;
    } else {
        colon = memchr(at, ':', n);
        if (!colon) colon = end;
        len = (size_t)(colon - at);
    }
    if (len == 0 || len >= sizeof out->host) return false;
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char)name[i]) && !strchr("-._:", name[i])) return false;
        out->host[i] = (char)tolower((unsigned char)name[i]);
    }
    out->host[len] = '\0';
    if (colon == end) return true;
    char digits[8];
    uint64_t port;
    size_t n_digits = (size_t)(end - colon) - 1;
    if (*colon != ':' || n_digits >= sizeof digits) return false;
    memcpy(digits, colon + 1, n_digits);
    digits[n_digits] = '\0';
    if (!vr_parse_u64(digits, 1, 65535, &port)) return false;
    out->port = (uint16_t)port;
    return true;
}

bool vr_url_parse(const char *text, struct vr_url *out)
{
    *out = (struct vr_url){ 0 };
    if (strncasecmp(text, "https://", 8) == 0)
        out->tls = true, out->port = 443, text += 8;
    else if (strncasecmp(text, "http://", 7) == 0)
        out->port = 80, text += 7;
    else
        return false;
    if (!plain_text(text) || strlen(text) >= VR_MAX_URL) return false;
    size_t n = strcspn(text, "/?#");
    if (memchr(text, '@', n)) return false;
    out->path = text[n] == '/' ? text + n : "";
    return parse_host(text, n, out);
}

bool vr_url_same_origin(const char *a, const char *b)
{
    struct vr_url x, y;
    return vr_url_parse(a, &x) && vr_url_parse(b, &y) && x.tls == y.tls && x.port == y.port &&
           strcmp(x.host, y.host) == 0;
}

bool vr_url_is_loopback(const struct vr_url *u)
{
    struct in_addr a;
    if (strcmp(u->host, "localhost") == 0 || strcmp(u->host, "::1") == 0) return true;
    return inet_pton(AF_INET, u->host, &a) == 1 && ntohl(a.s_addr) >> 24 == 127;
}

static int hex(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : -1;
}

bool vr_url_file(const struct vr_url *u, char *out, size_t n)
{
    size_t len = strcspn(u->path, "?#"), at = len, used = 0;
    while (at && u->path[at - 1] != '/') at--;
    for (; at < len; at++) {
        char c = u->path[at];
        if (c == '%' && at + 2 < len && hex(u->path[at + 1]) >= 0 && hex(u->path[at + 2]) >= 0) {
            c = (char)(hex(u->path[at + 1]) * 16 + hex(u->path[at + 2]));
            at += 2;
        }
        if (used + 1 >= n) return false;
        out[used++] = c;
    }
    if (n == 0) return false;
    out[used] = '\0';
    return vr_url_safe_name(out, used);
}

void vr_url_add_path(struct vr_buf *out, const char *path)
{
    for (; *path; path++)
        if (isalnum((unsigned char)*path) || strchr("-._~/", *path))
            vr_buf_addc(out, *path, 1);
        else
            vr_buf_addf(out, "%%%02X", (unsigned)(unsigned char)*path);
}

bool vr_url_safe_name(const char *name, size_t n)
{
    if (n == 0 || n > MAX_NAME || *name == '.') return false;
    for (size_t i = 0, len; i < n; i += len) {
        const unsigned char *at = (const unsigned char *)name + i;
        len = vr_utf8_len(at, n - i);
        if (len == 0 || *at == '/' || vr_utf8_is_control(at, len)) return false;
    }
    return true;
}

bool vr_url_safe_path(const char *path)
{
    for (unsigned depth = 0;; depth++) {
        size_t n = strcspn(path, "/");
        if (depth == 4 || !vr_url_safe_name(path, n)) return false; /* hubs go one folder deep */
        if (!path[n]) return true;
        path += n + 1;
    }
}

static const char *number(const char *s, uint64_t *out)
{
    if (!isdigit((unsigned char)*s)) return NULL;
    for (*out = 0; isdigit((unsigned char)*s); s++) {
        uint64_t digit = (uint64_t)(*s - '0');
        if (*out > (INT64_MAX - digit) / 10) return NULL;
        *out = *out * 10 + digit;
    }
    return s;
}

bool vr_content_range(const char *value, uint64_t *first, uint64_t *last, uint64_t *length)
{
    if (strncasecmp(value, "bytes ", 6) != 0) return false;
    value = number(value + 6, first);
    if (!value || *value != '-') return false;
    value = number(value + 1, last);
    if (!value || *value != '/' || *last < *first) return false;
    if (strcmp(value + 1, "*") == 0) return *length = 0, true;
    value = number(value + 1, length);
    return value && !*value && *length > *last;
}

void vr_etag_plain(const char *value, char *out, size_t n)
{
    if (strncmp(value, "W/", 2) == 0) value += 2;
    size_t len = strlen(value);
    if (len > 1 && *value == '"' && value[len - 1] == '"') value++, len -= 2;
    snprintf(out, n, "%.*s", (int)(len < n ? len : n - 1), value);
}

bool vr_is_hex(const char *s, size_t n) { return strlen(s) == n && strspn(s, "0123456789abcdef") == n; }
