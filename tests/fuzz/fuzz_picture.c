/* Pictures of strangers: a file as it is, and as a data: URL. Whatever is let through to the decoder has a size within
 * the limits, a refusal says why, and a file is judged the same whether it came in base64 or not. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "engine/wire/limits.h"
#include "engine/wire/picture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool truth)
{
    if (!truth) abort();
}

static void check_size(uint32_t w, uint32_t h)
{
    must(w > 0 && h > 0 && w <= VR_MOST_PICTURE_SIDE && h <= VR_MOST_PICTURE_SIDE);
    must((uint64_t)w * h <= VR_MOST_PICTURE_PIXELS);
}

static bool read_url(const char *url, size_t n, struct vr_arena *arena, struct vr_picture_file *out)
{
    struct vr_err err = { 0 };
    if (!vr_picture_read(url, n, arena, out, &err)) {
        must(err.code == VR_EUSAGE && err.msg[0]);
        return false;
    }
    check_size(out->width, out->height);
    must(out->n <= n);
    return true;
}

static size_t encode(const uint8_t *data, size_t n, char *out)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t at = 0;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t)data[i] << 16 | (i + 1 < n ? data[i + 1] << 8 : 0) | (i + 2 < n ? data[i + 2] : 0);
        for (int k = 0; k < 4; k++) out[at++] = i + (size_t)k <= n ? letters[v >> (18 - 6 * k) & 63] : '=';
    }
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char head[] = "data:image/png;base64,";
    struct vr_arena arena = { 0 };
    struct vr_picture_file file = { 0 };
    struct vr_err err = { 0 };
    uint32_t w = 0, h = 0;
    read_url((const char *)data, n, &arena, &file); /* as an address */

    bool taken = vr_picture_size(data, n, &w, &h, &err); /* as a file */
    if (taken) check_size(w, h);
    must(taken || (err.code == VR_EUSAGE && err.msg[0]));
    VR_AUTO_FREE char *url = malloc(sizeof head + n / 3 * 4 + 4);
    must(url);
    memcpy(url, head, sizeof head - 1);
    size_t len = sizeof head - 1 + encode(data, n, url + sizeof head - 1);
    must(read_url(url, len, &arena, &file) == taken);
    if (taken) must(file.n == n && memcmp(file.data, data, n) == 0 && file.width == w && file.height == h);
    vr_arena_done(&arena);
    return 0;
}
