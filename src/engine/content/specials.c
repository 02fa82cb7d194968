/* The texts are sorted, so those that begin with the bytes seen so far are a range, which each further byte narrows by
 * two binary searches. A text of n bytes costs at most n times the longest of them, and that only where it keeps
 * looking like one. */
#include "engine/content/specials.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

struct entry {
    char *text;
    size_t n;
    unsigned kinds;
};

struct vr_specials {
    struct entry *all;
    size_t n;
    bool first[256];
    bool may_join, hide;
};

/* --- making the set --- */

static int compare(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    return order ? order : x->n < y->n ? -1 : x->n > y->n;
}

/* In some vocabularies runs of spaces and lines are tokens of this kind. */
static bool is_blank(const char *text) { return text[strspn(text, " \t\r\n")] == '\0'; }

/* <|im_end|>, and DeepSeek's with a full-width bar. */
static bool is_barred(const char *text)
{
    return strncmp(text, "<|", 2) == 0 || strncmp(text, "<\xef\xbd\x9c", 4) == 0;
}

/* The kind by which a token counts; 0: not at all. */
static unsigned kind_of(const struct vr_special *t, const char *chat_template)
{
    size_t n = strlen(t->text);
    if (n == 0 || vr_utf8_len((const unsigned char *)t->text, n) == n) return 0; /* cannot be broken; none is known */
    if (t->kind == VR_SPECIAL_CONTROL || is_barred(t->text)) return VR_SPECIAL_CONTROL;
    return !is_blank(t->text) && strstr(chat_template, t->text) ? VR_SPECIAL_DEFINED : 0;
}

/* Equal texts become one entry, of all their kinds. */
static void unite(struct vr_specials *s)
{
    size_t n = 0;
    qsort(s->all, s->n, sizeof *s->all, compare);
    for (size_t i = 0; i < s->n; i++) {
        if (n && compare(&s->all[n - 1], &s->all[i]) == 0) {
            s->all[n - 1].kinds |= s->all[i].kinds;
            free(s->all[i].text);
        } else {
            s->all[n++] = s->all[i];
        }
    }
    s->n = n;
    for (size_t i = 0; i < n; i++) {
        s->first[(unsigned char)s->all[i].text[0]] = true;
        for (const char *p = s->all[i].text; *p; p++) s->hide |= (unsigned char)*p < 0x20 || *p == '"' || *p == '\\';
    }
}

struct vr_specials *vr_specials_new(const struct vr_special *all, size_t n, const char *chat_template,
                                    struct vr_err *err)
{
    VR_AUTO(vr_specials) s = calloc(1, sizeof *s);
    if (s) s->all = calloc(n + 1, sizeof *s->all);
    if (!s || !s->all) return VR_FAIL_NULL(err, VR_ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        unsigned kind = kind_of(&all[i], chat_template);
        if (!kind) continue;
        char *text = strdup(all[i].text);
        if (!text) return VR_FAIL_NULL(err, VR_ENOMEM, "out of memory");
        s->all[s->n++] = (struct entry){ text, strlen(text), kind };
    }
    unite(s);
    s->may_join = strstr(chat_template, "replace") != NULL;
    return VR_TAKE(s);
}

void vr_specials_free(struct vr_specials *s)
{
    if (!s) return;
    for (size_t i = 0; s->all && i < s->n; i++) free(s->all[i].text);
    free(s->all);
    free(s);
}

/* --- asking it --- */

/* The first entry from `lo` on whose byte `at` is not below `byte`; all of them are alike before it. */
static size_t lower(const struct vr_specials *s, size_t lo, size_t hi, size_t at, int byte)
{
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int b = at < s->all[mid].n ? (unsigned char)s->all[mid].text[at] : -1;
        if (b < byte)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

size_t vr_specials_begin(const struct vr_specials *s, unsigned kinds, const char *text, size_t n)
{
    size_t lo = 0, hi = s->n, longest = 0;
    if (n == 0 || !s->first[(unsigned char)text[0]]) return 0;
    for (size_t at = 0; at < n && lo < hi; at++) {
        int byte = (unsigned char)text[at];
        lo = lower(s, lo, hi, at, byte);
        hi = lower(s, lo, hi, at, byte + 1);
        if (lo < hi && s->all[lo].n == at + 1 && s->all[lo].kinds & kinds) longest = at + 1;
    }
    return longest;
}

bool vr_specials_first(const struct vr_specials *s, char byte) { return s->first[(unsigned char)byte]; }
bool vr_specials_hide(const struct vr_specials *s) { return s->hide; }
bool vr_specials_may_join(const struct vr_specials *s) { return s->may_join; }

size_t vr_specials_weigh(const struct vr_specials *s, const char *text, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += vr_specials_begin(s, VR_SPECIAL_ANY, text + i, n - i);
    return sum;
}
