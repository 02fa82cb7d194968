#include "base/json.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* --- UTF-8 --- */

/* What the second byte must be within, by the first (Unicode, table 3-7); n == 0: no character begins so. */
struct lead {
    uint8_t n, low, high;
};

static struct lead lead_of(unsigned char c)
{
    if (c < 0x80) return (struct lead){ 1, 0, 0 };
    if (c < 0xC2) return (struct lead){ 0, 0, 0 };
    if (c < 0xE0) return (struct lead){ 2, 0x80, 0xBF };
    if (c == 0xE0) return (struct lead){ 3, 0xA0, 0xBF };
    if (c == 0xED) return (struct lead){ 3, 0x80, 0x9F };
    if (c < 0xF0) return (struct lead){ 3, 0x80, 0xBF };
    if (c == 0xF0) return (struct lead){ 4, 0x90, 0xBF };
    if (c < 0xF4) return (struct lead){ 4, 0x80, 0xBF };
    if (c == 0xF4) return (struct lead){ 4, 0x80, 0x8F };
    return (struct lead){ 0, 0, 0 };
}

enum vr_utf8 vr_utf8_look(const unsigned char *s, size_t n, size_t *len)
{
    struct lead lead = lead_of(s[0]);
    *len = 1;
    if (lead.n == 0) return VR_UTF8_BROKEN;
    for (size_t i = 1; i < lead.n; i++) {
        if (i == n) return VR_UTF8_MORE;
        bool fits = i == 1 ? s[i] >= lead.low && s[i] <= lead.high : (s[i] & 0xC0) == 0x80;
        if (!fits) return VR_UTF8_BROKEN;
        *len = i + 1;
    }
    return VR_UTF8_CHARACTER;
}

size_t vr_utf8_len(const unsigned char *s, size_t n)
{
    size_t len;
    return n && vr_utf8_look(s, n, &len) == VR_UTF8_CHARACTER ? len : 0;
}

bool vr_utf8_is_control(const unsigned char *s, size_t len)
{
    return *s < ' ' || *s == 127 || (len == 2 && s[0] == 0xC2 && s[1] < 0xA0);
}

void vr_utf8_mask(char *s)
{
    for (size_t n = strlen(s), len; n; s += len, n -= len) {
        bool is = (len = vr_utf8_len((const unsigned char *)s, n)) != 0;
        if (!is) len = 1;
        if (!is || vr_utf8_is_control((const unsigned char *)s, len)) memset(s, '?', len);
    }
}

/* --- strings --- */

/* Bytes that need care: control characters, quotes, backslashes, and all that is not ASCII. */
static const bool special[256] = {
    [0 ... 31] = true,
    ['"'] = true,
    ['\\'] = true,
    [127 ... 255] = true,
};

static void add_special(struct vr_buf *out, unsigned char c)
{
    switch (c) {
    case '\n': vr_buf_add(out, "\\n", 2); break;
    case '\t': vr_buf_add(out, "\\t", 2); break;
    case '\r': vr_buf_add(out, "\\r", 2); break;
    case '"': vr_buf_add(out, "\\\"", 2); break;
    case '\\': vr_buf_add(out, "\\\\", 2); break;
    default: {
        static const char hex[] = "0123456789abcdef";
        vr_buf_add(out, (const char[]){ '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] }, 6);
    }
    }
}

/* The characters of a JSON string, without the quotes. What is not UTF-8 becomes U+FFFD. */
static void add_escaped(struct vr_buf *out, const char *s, size_t n)
{
    const unsigned char *at = (const unsigned char *)s, *end = at + n;
    while (at < end) {
        const unsigned char *from = at;
        size_t len = 0;
        while (at < end && (!special[*at] || (*at >= 0x80 && (len = vr_utf8_len(at, (size_t)(end - at)))))) {
            at += special[*at] ? len : 1;
            len = 0;
        }
        if (at > from) vr_buf_add(out, from, (size_t)(at - from));
        if (at == end) return;
        if (*at >= 0x80)
            vr_buf_adds(out, "\xEF\xBF\xBD");
        else
            add_special(out, *at);
        at++;
    }
}

void vr_json_add_text(struct vr_buf *b, const char *s, size_t n)
{
    vr_buf_addc(b, '"', 1);
    add_escaped(b, s, n);
    vr_buf_addc(b, '"', 1);
}

bool vr_utf8_is(const char *s)
{
    size_t n = strlen(s), len;
    for (size_t at = 0; at < n; at += len)
        if ((len = vr_utf8_len((const unsigned char *)s + at, n - at)) == 0) return false;
    return true;
}

void vr_json_add_string(struct vr_buf *b, const char *s) { vr_json_add_text(b, s, strlen(s)); }

json_t *vr_json_text(const char *s)
{
    if (!s) return json_null();
    if (vr_utf8_is(s)) return json_string(s);
    VR_AUTO_BUF text = { 0 };
    vr_json_add_string(&text, s);
    return text.failed ? NULL : json_loadb(text.data, text.n, JSON_DECODE_ANY, NULL);
}

bool vr_json_read_text(const json_t *v, char *out, size_t n)
{
    const char *s = json_string_value(v);
    return s && (size_t)snprintf(out, n, "%s", s) < n;
}
