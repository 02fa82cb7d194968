/* Two rules: bytes wait in `tail` until they are a character, characters wait in `held` until they are no stop string.
 * Each byte is looked at a bounded number of times, so a long answer that is kept whole costs no more than a stream. */
#include "engine/process/pieces.h"

#include <string.h>

#include "base/json.h"

#define REPLACEMENT "\xEF\xBF\xBD"

/* Moves whole characters of s to held; returns how many bytes are left, which begin a character. */
static size_t absorb(struct vr_text *t, const unsigned char *s, size_t n)
{
    size_t start = 0, at = 0;
    while (at < n) {
        size_t len;
        enum vr_utf8 v = vr_utf8_look(s + at, n - at, &len);
        if (v == VR_UTF8_CHARACTER && s[at] != '\0') {
            at += len;
            continue;
        }
        vr_buf_add(&t->held, s + start, at - start);
        if (v == VR_UTF8_MORE) return n - at;
        vr_buf_adds(&t->held, REPLACEMENT);
        start = at += len;
    }
    vr_buf_add(&t->held, s + start, at - start);
    return 0;
}

void vr_text_add(struct vr_text *t, const char *piece, size_t n)
{
    const unsigned char *s = (const unsigned char *)piece;
    while (t->n_tail && n) { /* at most three rounds: a character has four bytes */
        t->tail[t->n_tail++] = *s++;
        n--;
        size_t left = absorb(t, t->tail, t->n_tail);
        memmove(t->tail, t->tail + t->n_tail - left, left);
        t->n_tail = left;
    }
    if (n == 0) return;
    size_t left = absorb(t, s, n);
    memcpy(t->tail, s + n - left, left);
    t->n_tail = left;
}

void vr_text_end(struct vr_text *t)
{
    if (t->n_tail) vr_buf_adds(&t->held, REPLACEMENT);
    t->n_tail = 0;
}

/* The length of the longest end of s that begins `stop` without being all of it. */
static size_t overlap(const char *s, size_t n, const char *stop, size_t n_stop)
{
    size_t most = n < n_stop - 1 ? n : n_stop - 1;
    for (size_t k = most; k > 0; k--)
        if (s[n - k] == stop[0] && memcmp(s + n - k, stop, k) == 0) return k;
    return 0;
}

/* The one that is complete first wins, so that it does not matter how the text was cut into pieces. */
size_t vr_text_ready(struct vr_text *t, int *stop)
{
    size_t n = t->held.n, first = n, end = n + 1, kept = 0, longest = 1;
    *stop = -1;
    if (n == 0) return 0;
    for (size_t i = 0; i < t->n_stops; i++) {
        size_t len = strlen(t->stops[i]);
        if (len > longest) longest = len;
        const char *hit = memmem(t->held.data + t->clean, n - t->clean, t->stops[i], len);
        size_t at = hit ? (size_t)(hit - t->held.data) : n;
        if (hit && (at + len < end || (at + len == end && at < first))) {
            first = at;
            end = at + len;
            *stop = (int)i;
        }
        size_t k = overlap(t->held.data + t->clean, n - t->clean, t->stops[i], len);
        if (k > kept) kept = k;
    }
    if (*stop >= 0) return first;
    if (n + 1 > longest && n + 1 - longest > t->clean) t->clean = n + 1 - longest;
    return n - kept;
}

void vr_text_take(struct vr_text *t, size_t n)
{
    if (n == 0) return;
    memmove(t->held.data, t->held.data + n, t->held.n - n + 1);
    t->held.n -= n;
    t->clean = t->clean > n ? t->clean - n : 0;
}

void vr_text_done(struct vr_text *t) { vr_buf_done(&t->held); }
