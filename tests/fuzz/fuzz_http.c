/* Bytes -> a request: the head, however it is cut, gives the same answer; chunks too; the body never reaches the engine
 * unless it passed every check, and a refusal always says why in valid UTF-8. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "engine/wire/limits.h"
#include "server/http/auth.h"
#include "server/api/body.h"
#include "server/api/dialect.h"
#include "server/http/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MAX_HEAD 4096

static void must(bool truth)
{
    if (!truth) abort();
}

static void must_be_text(const char *s)
{
    for (size_t at = 0, len, n = strlen(s); at < n; at += len) {
        len = vr_utf8_len((const unsigned char *)s + at, n - at);
        must(len > 0);
    }
}

/* The head as a whole and byte by byte: the same end, or the same refusal. */
static size_t scan_both(const char *text, size_t n)
{
    struct vr_head_scan whole = { 0 }, pieces = { 0 };
    struct vr_bad_http a = { 0 }, b = { 0 };
    enum vr_feed x = vr_head_scan(&whole, text, n, MAX_HEAD, &a), y = VR_FEED_MORE;
    for (size_t i = 1; i <= n && y == VR_FEED_MORE; i++) y = vr_head_scan(&pieces, text, i, MAX_HEAD, &b);
    must(x == y && whole.at == pieces.at && a.status == b.status);
    if (x == VR_FEED_BAD) must(a.status >= 400 && a.why[0]);
    if (x != VR_FEED_DONE) return 0;
    must(whole.at <= n && whole.at - whole.skip >= 4);
    struct vr_head h;
    if (!vr_head_parse(text + whole.skip, whole.at - whole.skip, &h, &a)) {
        must(a.status >= 400 && a.status < 600 && a.why[0]);
        return whole.at;
    }
    must(!(h.chunked && h.has_length));
    must(h.host.p || h.http10);
    must(h.path.n > 0 && h.path.p > text && h.path.p + h.path.n < text + n);
    return whole.at;
}

static void chunks_both(const char *text, size_t n, size_t cut)
{
    VR_AUTO_BUF a = { .max = 8192 };
    VR_AUTO_BUF b = { .max = 8192 };
    struct vr_chunks whole = { 0 }, pieces = { 0 };
    struct vr_bad_http no;
    size_t used = 0, at = 0;
    enum vr_feed x = vr_chunks_feed(&whole, text, n, &used, &a, &no), y = VR_FEED_MORE;
    while (at < n && y == VR_FEED_MORE) {
        size_t piece = n - at < cut ? n - at : cut, some = 0;
        y = vr_chunks_feed(&pieces, text + at, piece, &some, &b, &no);
        at += some;
    }
    must(x == y && a.n == b.n && (a.n == 0 || memcmp(a.data, b.data, a.n) == 0) && a.n <= 8192);
    if (x == VR_FEED_DONE) must(used == at && used <= n);
}

static void check_body(const char *text, size_t n)
{
    static const struct vr_dialect all[] = { { .kind = VR_CHAT }, { .kind = VR_COMPLETION }, { .kind = VR_EMBEDDING } };
    for (size_t i = 0; i < VR_COUNT(all); i++) {
        struct vr_body b;
        vr_body_read(text, n, &(struct vr_asker){ .dialect = &all[i], .whose = { 3, 7 } }, &b);
        if (b.ok) {
            json_t *body = json_loadb(b.json, b.n, JSON_REJECT_DUPLICATES, NULL);
            must(body && json_string_value(json_object_get(body, "kind")));
            must(b.form.n_choices >= 1 && b.form.n_choices <= VR_MOST_TEXTS);
            must(!json_object_get(body, "user") && !json_object_get(body, "stream_options"));
            must(!json_object_get(body, "model"));
            must(json_integer_value(json_object_get(body, "tenant")) == 7);
            json_decref(body);
        } else {
            must(!b.json && b.why.status >= 400 && b.why.message[0] && b.why.code);
            must_be_text(b.why.message);
            must_be_text(b.why.param);
        }
        vr_body_done(&b);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct vr_auth *auth;
    if (!auth) {
        struct vr_err err;
        static const char *const hosts[] = { "box.example", NULL };
        auth = vr_auth_new(&(struct vr_auth_config){ .hosts = hosts, .bound = "127.0.0.1" }, &err);
        must(auth);
    }
    if (n == 0) return 0;
    /* The first byte says what the rest is. */
    VR_AUTO_FREE char *text = malloc(n);
    must(text);
    memcpy(text, data + 1, n - 1);
    n--;
    switch (data[0] % 4) {
    case 0: {
        size_t head = scan_both(text, n);
        if (head) check_body(text + head, n - head);
        break;
    }
    case 1: chunks_both(text, n, 1 + data[0] / 4); break;
    case 2: check_body(text, n); break;
    case 3: {
        char out[64];
        struct vr_slice s = { text, n };
        if (vr_percent_decode(s, out, sizeof out)) must(strlen(out) < sizeof out);
        if (vr_auth_host_ok(auth, s)) must(n > 0 && n < 256);
        if (vr_auth_origin_ok(auth, s, (struct vr_slice){ "localhost", 9 })) must(n > 3);
        break;
    }
    }
    return 0;
}
