/* A small file can claim a picture of gigabytes. So the header is read here, and only what is reasonable goes on to the
 * decoder. Nothing but PNG and JPEG does as a picture: the decoder knows more formats, and films among them. */
#include "engine/wire/picture.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include <openssl/evp.h>

#include "engine/wire/limits.h"

static uint32_t big16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }
static uint32_t big32(const uint8_t *p) { return big16(p) << 16 | big16(p + 2); }

/* The frame header of a JPEG is behind segments of any number, each with its length. */
static bool jpeg_size(const uint8_t *d, size_t n, uint32_t *width, uint32_t *height)
{
    for (size_t at = 2; at + 4 <= n;) {
        if (d[at] != 0xFF) return false;
        uint8_t kind = d[at + 1];
        if (kind == 0xFF) { /* padding */
            at++;
            continue;
        }
        bool alone = kind == 0x01 || (kind >= 0xD0 && kind <= 0xD8);
        bool frame = kind >= 0xC0 && kind <= 0xCF && kind != 0xC4 && kind != 0xC8 && kind != 0xCC;
        size_t length = alone ? 0 : big16(d + at + 2);
        if (!alone && length < 2) return false;
        if (frame) {
            if (at + 9 > n) return false;
            *height = big16(d + at + 5);
            *width = big16(d + at + 7);
            return true;
        }
        if (kind == 0xD9 || kind == 0xDA) return false; /* the end, or the data, before a frame */
        at += 2 + length;
    }
    return false;
}

bool vr_picture_size(const uint8_t *data, size_t n, uint32_t *width, uint32_t *height, struct vr_err *err)
{
    static const uint8_t png[] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n' };
    bool known = false;
    if (n >= 24 && memcmp(data, png, sizeof png) == 0 && memcmp(data + 12, "IHDR", 4) == 0) {
        *width = big32(data + 16);
        *height = big32(data + 20);
        known = true;
    } else if (n >= 4 && data[0] == 0xFF && data[1] == 0xD8) {
        known = jpeg_size(data, n, width, height);
    }
    if (!known) return vr_fail(err, VR_EUSAGE, "it is neither a PNG nor a JPEG file");
    uint64_t pixels = (uint64_t)*width * *height;
    if (pixels == 0 || *width > VR_MOST_PICTURE_SIDE || *height > VR_MOST_PICTURE_SIDE ||
        pixels > VR_MOST_PICTURE_PIXELS)
        return vr_fail(err, VR_EUSAGE,
                       "it has %" PRIu32 " x %" PRIu32 " pixels; at most %d per side and %d in all are allowed", *width,
                       *height, VR_MOST_PICTURE_SIDE, VR_MOST_PICTURE_PIXELS);
    return true;
}

bool vr_picture_url(const char *url, size_t n, size_t *skip, struct vr_err *err)
{
    static const char *const heads[] = { "data:image/png;base64,", "data:image/jpeg;base64,",
                                         "data:image/jpg;base64," };
    for (size_t i = 0; i < VR_COUNT(heads); i++) {
        size_t len = strlen(heads[i]);
        if (n <= len || memcmp(url, heads[i], len) != 0) continue;
        if (skip) *skip = len;
        return true;
    }
    return vr_fail(err, VR_EUSAGE,
                   "an image must be data:image/png;base64,... or data:image/jpeg;base64,...: this server does not "
                   "fetch remote images");
}

/* Base64, also of the alphabet for URLs, with or without '=' behind it. OpenSSL wants it whole, plain and padded, and
 * takes white space at both ends, which is none of the alphabet. `out` has room for 3 bytes per 4 letters begun. */
static bool decode(const char *s, size_t n, uint8_t *out, size_t *len, struct vr_err *err)
{
    while (n && s[n - 1] == '=') n--;
    size_t padded = (n + 3) / 4 * 4;
    VR_AUTO_FREE uint8_t *text = malloc(padded + 1);
    if (!text) return vr_fail_nomem(err, "reading a file");
    bool ok = n % 4 != 1 && padded <= INT_MAX;
    for (size_t i = 0; ok && i < n; i++) {
        ok = s[i] != '=' && !strchr(" \t\r\n\v\f", s[i]);
        text[i] = (uint8_t)(s[i] == '-' ? '+' : s[i] == '_' ? '/' : s[i]);
    }
    memset(text + n, '=', padded - n);
    int got = ok ? EVP_DecodeBlock(out, text, (int)padded) : -1;
    if (got < 0) return vr_fail(err, VR_EUSAGE, "it is not valid base64");
    *len = (size_t)got - (padded - n);
    return true;
}

bool vr_picture_read(const char *url, size_t n, struct vr_arena *arena, struct vr_picture_file *out, struct vr_err *err)
{
    size_t skip;
    if (!vr_picture_url(url, n, &skip, err)) return false;
    uint8_t *data = vr_arena_alloc(arena, (n - skip) / 4 * 3 + 3, 1);
    if (!data) return vr_fail_nomem(err, "reading a file");
    *out = (struct vr_picture_file){ .data = data };
    return decode(url + skip, n - skip, data, &out->n, err) &&
           vr_picture_size(data, out->n, &out->width, &out->height, err);
}

bool vr_sound_is(const uint8_t *d, size_t n)
{
    if (n < 12) return false;
    bool wav = memcmp(d, "RIFF", 4) == 0 && memcmp(d + 8, "WAVE", 4) == 0;
    bool mp3 = memcmp(d, "ID3", 3) == 0 || (d[0] == 0xFF && (d[1] & 0xE0) == 0xE0);
    return wav || mp3 || memcmp(d, "fLaC", 4) == 0;
}

bool vr_sound_read(const char *base64, size_t n, struct vr_arena *arena, struct vr_picture_file *out,
                   struct vr_err *err)
{
    uint8_t *data = vr_arena_alloc(arena, n / 4 * 3 + 3, 1);
    if (!data) return vr_fail_nomem(err, "reading a file");
    *out = (struct vr_picture_file){ .data = data };
    if (!decode(base64, n, data, &out->n, err)) return false;
    return vr_sound_is(data, out->n) || vr_fail(err, VR_EUSAGE, "it is neither a WAV nor an MP3 nor a FLAC file");
}
