/* Names of cards as people and drivers write them, and the table of known ones.
 *
 * A name is cut into runs of letters and runs of digits ("RTX3090Ti" and "RTX 3090 Ti" give the same: 3090, ti). Words
 * that tell cards of one vendor from another's and nothing else are dropped. "24 GB" is taken out as the size. Each
 * token remembers whether a written word starts at it, so that "100" does not match inside "A100". */
#include "hw/gpus.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

static const struct vr_gpu gpus[] = {
#define GPU(name, backend, mib, gbs, tflops, major, minor, gen, lanes)                                                 \
    { name, #backend, mib, gbs, tflops, major, minor, gen, lanes },
#define ALIAS(said, meant)
#include "hw/gpus.def"
#undef GPU
#undef ALIAS
};

static const struct {
    const char *said, *meant;
} aliases[] = {
#define GPU(name, backend, mib, gbs, tflops, major, minor, gen, lanes)
#define ALIAS(said, meant) { said, meant },
#include "hw/gpus.def"
#undef GPU
#undef ALIAS
};

size_t vr_gpu_count(void) { return VR_COUNT(gpus); }
const struct vr_gpu *vr_gpu_at(size_t i) { return i < VR_COUNT(gpus) ? &gpus[i] : NULL; }

#define MAX_TOKENS 16

struct token {
    const char *s;
    size_t n;
    bool starts_word;
};

struct words {
    struct token t[MAX_TOKENS];
    size_t n;
    uint64_t mib; /* of "24GB"; 0 for none */
    bool too_many;
};

/* What says nothing about which card it is. "PRO" stays: an RTX PRO 6000 is not an RTX 6000. */
static const char *const noise[] = {
    "nvidia",   "geforce", "tesla",  "quadro",   "amd",  "ati",        "radeon", "instinct",
    "intel",    "arc",     "rtx",    "gtx",      "rx",   "gt",         "gpu",    "edition",
    "founders", "with",    "design", "graphics", "card", "generation",
};

/* What people write for something else; those with `after_digits` only directly behind a four-digit number: "4080M". */
static const struct {
    const char *said, *meant;
    bool after_digits;
} synonyms[] = {
    { "mobile", "laptop", false },
    { "notebook", "laptop", false },
    { "m", "laptop", true },
    { "s", "super", true },
};

static bool token_is(const struct token *t, const char *word)
{
    return t->n == strlen(word) && !strncasecmp(t->s, word, t->n);
}

static bool token_digits(const struct token *t) { return isdigit((unsigned char)t->s[0]); }

static bool is_noise(const struct token *t)
{
    for (size_t i = 0; i < VR_COUNT(noise); i++)
        if (token_is(t, noise[i])) return true;
    return false;
}

static struct token synonym(struct token t, const struct token *before)
{
    bool behind = before && !t.starts_word && token_digits(before) && before->n == 4;
    for (size_t i = 0; i < VR_COUNT(synonyms); i++) {
        if (!token_is(&t, synonyms[i].said) || (synonyms[i].after_digits && !behind)) continue;
        t.s = synonyms[i].meant;
        t.n = strlen(t.s);
        t.starts_word = true;
        break;
    }
    return t;
}

static bool is_unit(const struct token *t) { return token_is(t, "gb") || token_is(t, "g") || token_is(t, "gib"); }

static struct token next_token(const char **at)
{
    const char *s = *at;
    bool starts = false;
    while (*s && !isalnum((unsigned char)*s)) {
        s += !strncasecmp(s, "(r)", 3) ? 3 : !strncasecmp(s, "(tm)", 4) ? 4 : 1;
        starts = true;
    }
    struct token t = { .s = s, .starts_word = starts };
    int digits = isdigit((unsigned char)*s);
    while (isalnum((unsigned char)s[t.n]) && isdigit((unsigned char)s[t.n]) == digits) t.n++;
    *at = s + t.n;
    return t;
}

/* `keep_size` leaves "24", "gb" among the words, for names that must be equal in full. */
static void cut(const char *name, bool keep_size, struct words *w)
{
    *w = (struct words){ 0 };
    struct token all[2 * MAX_TOKENS];
    size_t n = 0;
    for (const char *at = name; n < VR_COUNT(all);) {
        struct token t = next_token(&at);
        if (!t.n) break;
        if (n == 0) t.starts_word = true;
        all[n++] = t;
    }
    w->too_many = n == VR_COUNT(all);
    for (size_t i = 0; i < n; i++) {
        /* a size starts a word and ends one: the 10 of "A10G" does neither */
        if (i + 1 < n && token_digits(&all[i]) && all[i].starts_word && is_unit(&all[i + 1]) &&
            (i + 2 == n || all[i + 2].starts_word)) {
            uint64_t gib = 0;
            for (size_t k = 0; k < all[i].n && gib < 100000; k++) gib = gib * 10 + (uint64_t)(all[i].s[k] - '0');
            w->mib = gib * 1024;
            if (!keep_size) {
                i++;
                continue;
            }
        }
        struct token t = synonym(all[i], i ? &all[i - 1] : NULL);
        if (is_noise(&t)) continue;
        if (w->n == MAX_TOKENS) {
            w->too_many = true;
            return;
        }
        w->t[w->n++] = t;
    }
}

static bool same_at(const struct words *typed, const struct words *name, size_t at)
{
    if (!typed->n || at + typed->n > name->n) return false;
    for (size_t i = 0; i < typed->n; i++) {
        const struct token *a = &typed->t[i], *b = &name->t[at + i];
        if (a->n != b->n || strncasecmp(a->s, b->s, a->n)) return false;
    }
    return true;
}

enum vr_gpu_match vr_gpu_match(const char *typed, const char *name)
{
    struct words a, b;
    cut(typed, true, &a);
    cut(name, true, &b);
    if (a.too_many || b.too_many) return VR_GPU_DIFFERENT;
    if (a.n == b.n && same_at(&a, &b, 0)) return VR_GPU_SAME;
    cut(typed, false, &a);
    cut(name, false, &b);
    bool numbered = false; /* "laptop" is a part of many names and means none of them */
    for (size_t i = 0; i < a.n; i++) numbered = numbered || token_digits(&a.t[i]);
    for (size_t at = 0; at + a.n <= b.n; at++) {
        if (!same_at(&a, &b, at)) continue;
        if (at == 0 && a.n == b.n) return VR_GPU_BASE;
        if (!numbered || (!b.t[at].starts_word && at > 0)) continue;
        if (at + a.n < b.n && !b.t[at + a.n].starts_word) continue;
        return at == 0 ? VR_GPU_PREFIX : VR_GPU_INSIDE;
    }
    return VR_GPU_DIFFERENT;
}

static uint64_t apart(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

/* Whether row a is a better answer than row b of an equally good match: the rules of vr_gpu_meant(). */
static bool better(const struct vr_gpu *a, const struct vr_gpu *b, uint64_t mib)
{
    if (mib) return apart(a->mib, mib) < apart(b->mib, mib);
    return a->mib < b->mib;
}

/* Words that make another model of a card: "RX 7700" is not short for "RX 7700 XT". */
static bool adds_model(const char *typed, const char *name)
{
    static const char *const models[] = { "ti", "super", "laptop", "xt", "xtx", "gre", "d", "max", "sff", "nvl" };
    struct words a, b;
    cut(typed, false, &a);
    cut(name, false, &b);
    for (size_t i = 0; i < VR_COUNT(models); i++) {
        bool in_a = false, in_b = false;
        for (size_t k = 0; k < a.n; k++) in_a = in_a || token_is(&a.t[k], models[i]);
        for (size_t k = 0; k < b.n; k++) in_b = in_b || token_is(&b.t[k], models[i]);
        if (in_b && !in_a) return true;
    }
    return false;
}

/* The first number of a name that is not its size ("3090"), which every match must hold; "" when there is none. */
static void first_number(const char *name, char *out, size_t n)
{
    struct words w;
    cut(name, false, &w);
    out[0] = '\0';
    for (size_t i = 0; i < w.n && !*out; i++)
        if (token_digits(&w.t[i])) snprintf(out, n, "%.*s", (int)w.t[i].n, w.t[i].s);
}

/* The match of a row, for a name whose first number is `number`. */
static enum vr_gpu_match match_row(const char *name, const char *number, const struct vr_gpu *row)
{
    if (!strstr(row->name, number)) return VR_GPU_DIFFERENT; /* spares the careful look at all but a few rows */
    enum vr_gpu_match m = vr_gpu_match(name, row->name);
    return (m == VR_GPU_PREFIX || m == VR_GPU_INSIDE) && adds_model(name, row->name) ? VR_GPU_DIFFERENT : m;
}

static const struct vr_gpu *best(const char *name, uint64_t mib, enum vr_gpu_match at_least)
{
    const struct vr_gpu *found = NULL;
    char number[16];
    first_number(name, number, sizeof number);
    for (size_t i = 0; i < VR_COUNT(gpus); i++) {
        enum vr_gpu_match m = match_row(name, number, &gpus[i]);
        /* with a size in hand, a name that is equal in full says no more than one that is equal but for the size */
        if (m == VR_GPU_SAME && mib) m = VR_GPU_BASE;
        if (m < at_least || (m == at_least && found && !better(&gpus[i], found, mib))) continue;
        if (m > at_least) at_least = m;
        found = &gpus[i];
    }
    return found;
}

const struct vr_gpu *vr_gpu_known(const char *name, uint64_t total_mib) { return best(name, total_mib, VR_GPU_BASE); }

uint64_t vr_gpu_typed_mib(const char *typed)
{
    struct words w;
    cut(typed, false, &w);
    return w.mib;
}

/* What the table calls that which people call otherwise. */
static const char *without_alias(const char *typed)
{
    for (size_t i = 0; i < VR_COUNT(aliases); i++) {
        enum vr_gpu_match m = vr_gpu_match(typed, aliases[i].said);
        if (m == VR_GPU_SAME || (m == VR_GPU_BASE && !vr_gpu_typed_mib(aliases[i].said))) return aliases[i].meant;
    }
    return typed;
}

const struct vr_gpu *vr_gpu_meant(const char *typed, uint64_t mib)
{
    uint64_t size = mib ? mib : vr_gpu_typed_mib(typed);
    const struct vr_gpu *same = best(typed, mib, VR_GPU_SAME); /* "GH200 480GB": that size is a part of the name */
    return same ? same : best(without_alias(typed), size, VR_GPU_INSIDE);
}

size_t vr_gpu_sizes(const char *typed, unsigned gib[VR_GPU_SIZES])
{
    const struct vr_gpu *g = vr_gpu_typed_mib(typed) ? NULL : vr_gpu_meant(typed, 0);
    if (!g) return 0;
    const char *name = vr_gpu_match(typed, g->name) == VR_GPU_SAME ? typed : without_alias(typed);
    enum vr_gpu_match level = vr_gpu_match(name, g->name);
    if (level == VR_GPU_SAME) level = VR_GPU_BASE; /* "RTX 3060" is the name of one row and of all its sizes */
    char number[16];
    first_number(name, number, sizeof number);
    size_t n = 0;
    for (size_t i = 0; i < VR_COUNT(gpus); i++) {
        enum vr_gpu_match m = match_row(name, number, &gpus[i]);
        if (m < level || (m > level && level != VR_GPU_BASE)) continue;
        unsigned size = vr_gpu_gib(&gpus[i]);
        size_t at = n;
        while (at && gib[at - 1] > size) at--;
        if ((at && gib[at - 1] == size) || n == VR_GPU_SIZES) continue;
        memmove(gib + at + 1, gib + at, (n++ - at) * sizeof *gib);
        gib[at] = size;
    }
    return n;
}

unsigned vr_gpu_gib(const struct vr_gpu *g) { return (g->mib + 512) / 1024; }

const char *vr_gpu_label(const struct vr_gpu *g, char *out, size_t n)
{
    unsigned gib[VR_GPU_SIZES];
    const char *name = vr_gpu_short(g->name);
    if (vr_gpu_sizes(name, gib) > 1)
        snprintf(out, n, "%s %uGB", name, vr_gpu_gib(g));
    else
        snprintf(out, n, "%s", name);
    return out;
}

static const char *skip_words(const char *name, const char *const *words, size_t n)
{
    for (const char *s = name;;) {
        const char *at = s;
        struct token t = next_token(&at);
        bool skip = false;
        for (size_t i = 0; t.n && i < n; i++) skip = skip || token_is(&t, words[i]);
        if (!skip || isalnum((unsigned char)*at)) return t.n ? t.s : name;
        s = at;
    }
}

const char *vr_gpu_short(const char *name)
{
    static const char *const vendor[] = { "nvidia", "geforce", "amd", "radeon", "intel" };
    return skip_words(name, vendor, VR_COUNT(vendor));
}

/* What is compared: "3090 Ti". Otherwise "RTX" alone makes any two names alike. */
static const char *bare(const char *name) { return skip_words(name, noise, VR_COUNT(noise)); }

static const char *bare_row(size_t i, const void *ctx)
{
    (void)ctx;
    return bare(gpus[i].name);
}

const char *vr_gpu_nearest(const char *typed)
{
    for (size_t k = 0; k < VR_COUNT(gpus); k++) /* "RX 7700", "4050": only another model of it is known */
        if (vr_gpu_match(typed, gpus[k].name) >= VR_GPU_PREFIX) return vr_gpu_short(gpus[k].name);
    int i = vr_nearest(bare(typed), VR_COUNT(gpus), bare_row, NULL);
    return i < 0 ? NULL : vr_gpu_short(gpus[i].name);
}

bool vr_gpu_fill(struct vr_device *d)
{
    const struct vr_gpu *g = vr_gpu_known(d->name, d->total_bytes / VR_MIB);
    if (!g) return false;
    if (!(d->bandwidth_gbs > 0)) d->bandwidth_gbs = g->gbs;
    if (!(d->fp16_tflops > 0)) d->fp16_tflops = g->tflops;
    if (!d->cc_major) {
        d->cc_major = g->cc_major;
        d->cc_minor = g->cc_minor;
    }
    return true;
}

struct vr_rates vr_device_rates(const struct vr_device *d, double otherwise)
{
    double listed = d->fp16_tflops > 0 ? d->fp16_tflops : otherwise;
    bool unknown = !(d->fp16_tflops > 0) && strcmp(d->backend, "CUDA") == 0;
    bool halved = unknown || strstr(d->name, "GeForce RTX"), dp4a = d->cc_major == 6 && d->cc_minor == 1;
    double fp16 = halved && !dp4a ? 2 * listed : listed;
    return (struct vr_rates){ listed, fp16, dp4a ? 4 * listed : 2 * fp16 };
}
