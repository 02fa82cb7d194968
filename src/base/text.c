#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copies the digits of `plain` with a comma before each group of three of the whole part. */
static const char *group(struct vr_num *out, const char *plain)
{
    size_t whole = strcspn(plain, "."), first = plain[0] == '-', o = 0;
    for (size_t i = 0; plain[i] && o + 2 < sizeof out->s; i++) {
        if (i > first && i < whole && (whole - i) % 3 == 0) out->s[o++] = ',';
        out->s[o++] = plain[i];
    }
    out->s[o] = '\0';
    return out->s;
}

const char *vr_fmt_count(struct vr_num *out, uint64_t n)
{
    char plain[32];
    snprintf(plain, sizeof plain, "%" PRIu64, n);
    return group(out, plain);
}

const char *vr_fmt_real(struct vr_num *out, double x, int decimals)
{
    char plain[40];
    snprintf(plain, sizeof plain, "%.*f", decimals, x);
    return group(out, plain);
}

const char *vr_fmt_mib(struct vr_num *out, uint64_t bytes, int decimals)
{
    return vr_fmt_real(out, (double)bytes / (double)VR_MIB, decimals);
}

const char *vr_fmt_bytes(struct vr_num *out, uint64_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    double v = (double)bytes;
    size_t u = 0; /* the unit is chosen by the number as it will be rounded: "1.00 MiB", not "1,024.00 KiB" */
    for (; v >= (u ? 1023.995 : 1024) && u + 1 < sizeof units / sizeof units[0]; u++) v /= 1024;
    struct vr_num number;
    char plain[40];
    snprintf(plain, sizeof plain, "%.*f", u ? 2 : 0, v);
    snprintf(out->s, sizeof out->s, "%.40s %s", group(&number, plain), units[u]);
    return out->s;
}

const char *vr_fmt_short(struct vr_num *out, double n)
{
    static const char *const units[] = { "", " K", " M", " B", " T" };
    size_t u = 0;
    for (; fabs(n) >= (u ? 999.995 : 999.5) && u + 1 < sizeof units / sizeof units[0]; u++) n /= 1000;
    snprintf(out->s, sizeof out->s, "%.*f%s", u ? 2 : 0, n, units[u]);
    return out->s;
}

bool vr_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *out)
{
    if (!isdigit((unsigned char)*s)) return false; /* strtoull takes signs and spaces */
    char *end;
    errno = 0;
    unsigned long long v = strtoull(s, &end, 10);
    if (errno || *end || v < min || v > max) return false;
    *out = v;
    return true;
}

bool vr_parse_double(const char *s, double *out)
{
    if (!isdigit((unsigned char)*s) && *s != '.' && *s != '-') return false;
    if (strspn(s, "0123456789.eE+-") != strlen(s)) return false; /* no hex, no "inf" */
    char *end;
    errno = 0;
    double v = strtod(s, &end);
    if (errno || *end || end == s || !isfinite(v)) return false;
    *out = v;
    return true;
}

#define MAX_WORD 63

/* Letters and digits only, lower case: how people remember a name. */
static size_t squeeze(char out[MAX_WORD + 1], const char *s)
{
    size_t n = 0;
    for (; *s && n < MAX_WORD; s++)
        if (isalnum((unsigned char)*s)) out[n++] = (char)tolower((unsigned char)*s);
    out[n] = '\0';
    return n;
}

/* Edits (insert, delete, replace, swap of neighbours) that turn a into b. */
static size_t distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t rows[3][MAX_WORD + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= nb; j++) above[j] = j;
    for (size_t i = 1; i <= na; i++) {
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best) best = above[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        size_t *free_row = before;
        before = above;
        above = row;
        row = free_row;
    }
    return above[nb];
}

int vr_nearest(const char *word, size_t n, const char *(*get)(size_t i, const void *ctx), const void *ctx)
{
    char w[MAX_WORD + 1], c[MAX_WORD + 1];
    size_t nw = squeeze(w, word);
    int best = -1;
    size_t best_d = nw / 3 + 2; /* a third of the letters and one may be wrong */
    for (size_t i = 0; nw && i < n; i++) {
        size_t nc = squeeze(c, get(i, ctx));
        size_t d = distance(w, nw, c, nc);
        if (2 * d < (nw > nc ? nw : nc) && d < best_d) { /* half right is not alike: 'cpu' is two edits from 'gpus' */
            best_d = d;
            best = (int)i;
        }
    }
    return best;
}

const char *vr_nearest_in_array(size_t i, const void *array) { return ((const char *const *)array)[i]; }

void vr_text_fit(char *out, size_t n, const char *s)
{
    size_t len = strnlen(s, n);
    if (len == n) /* what comes next would be in the middle of a character */
        for (len = n - 1; len && (s[len] & 0xC0) == 0x80;) len--;
    memcpy(out, s, len);
    out[len] = '\0';
}

size_t vr_text_width(const char *s)
{
    size_t n = 0;
    while (*s) {
        if (s[0] == '\033' && s[1] == '[') { /* a colour takes no room */
            while (*s && *s != 'm') s++;
            if (*s) s++;
            continue;
        }
        if (((unsigned char)*s & 0xC0) != 0x80) n++; /* continuation bytes belong to the one before */
        s++;
    }
    return n;
}
