#include "base/json.h"

#include <string.h>

size_t vr_utf8_len(const unsigned char *s, size_t n)
{
    if (n == 0) return 0;
    if (s[0] < 0x80) return 1;
    size_t len = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    if (s[0] < 0xC2 || s[0] > 0xF4 || len > n) return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    if (s[0] == 0xE0 && s[1] < 0xA0) return 0; /* overlong */
    if (s[0] == 0xED && s[1] > 0x9F) return 0; /* surrogates */
    if (s[0] == 0xF0 && s[1] < 0x90) return 0;
    if (s[0] == 0xF4 && s[1] > 0x8F) return 0; /* past U+10FFFF */
    return len;
}

void vr_json_add_string(struct vr_buf *b, const char *s)
{
    const unsigned char *at = (const unsigned char *)s;
    size_t left = strlen(s);
    vr_buf_addc(b, '"', 1);
    while (left) {
        size_t len = vr_utf8_len(at, left);
        if (len == 0) {
            vr_buf_adds(b, "\xEF\xBF\xBD");
            len = 1;
        } else if (*at == '"' || *at == '\\') {
            vr_buf_addf(b, "\\%c", *at);
        } else if (*at < ' ' || *at == 127) {
            vr_buf_addf(b, "\\u%04x", *at);
        } else {
            vr_buf_add(b, at, len);
        }
        at += len;
        left -= len;
    }
    vr_buf_addc(b, '"', 1);
}

bool vr_utf8_is(const char *s)
{
    size_t n = strlen(s), len;
    for (size_t at = 0; at < n; at += len)
        if ((len = vr_utf8_len((const unsigned char *)s + at, n - at)) == 0) return false;
    return true;
}
