/* Numbers of the same length are a tree of digits: digits that are followed by the same numbers are one branch. */
#include "plan/layer_pattern.h"

#include <inttypes.h>

#define BASE 10

struct numbers {
    const bool *in;
    uint32_t n;
};

static bool has(const struct numbers *x, uint32_t i) { return i < x->n && x->in[i]; }

/* Whether two stretches of `width` numbers have the same ones. */
static bool same(const struct numbers *x, uint32_t a, uint32_t b, uint32_t width)
{
    for (uint32_t i = 0; i < width; i++)
        if (has(x, a + i) != has(x, b + i)) return false;
    return true;
}

static bool empty(const struct numbers *x, uint32_t from, uint32_t width)
{
    for (uint32_t i = 0; i < width; i++)
        if (has(x, from + i)) return false;
    return true;
}

/* The digits from `digit` on that lead to the same numbers as it does; none if it leads to none, or was in an earlier
 * branch. */
static unsigned branch(const struct numbers *x, uint32_t from, uint32_t width, uint32_t first, uint32_t digit)
{
    uint32_t at = from + digit * width;
    unsigned digits = 0;
    if (empty(x, at, width)) return 0;
    for (uint32_t d = first; d < digit; d++)
        if (same(x, from + d * width, at, width)) return 0;
    for (uint32_t d = digit; d < BASE; d++)
        if (same(x, from + d * width, at, width)) digits |= 1u << d;
    return digits;
}

static void add_digits(struct vr_buf *to, unsigned digits)
{
    bool several = (digits & (digits - 1)) != 0;
    const char *between = several ? "(" : "";
    for (uint32_t d = 0; d < BASE; d++) {
        if (!(digits >> d & 1)) continue;
        vr_buf_addf(to, "%s%" PRIu32, between, d);
        between = "|";
    }
    if (several) vr_buf_adds(to, ")");
}

static uint32_t n_branches(const struct numbers *x, uint32_t from, uint32_t width)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < BASE; d++) n += branch(x, from, width, 0, d) != 0;
    return n;
}

/* The numbers from `from` on, by their last digits; the first of these stands for `width` and is `least` or more. */
static void add_tree(struct vr_buf *to, const struct numbers *x, uint32_t from, uint32_t width, uint32_t least)
{
    const char *between = "";
    for (uint32_t d = least; d < BASE; d++) {
        unsigned digits = branch(x, from, width, least, d);
        if (!digits) continue;
        vr_buf_adds(to, between);
        between = "|";
        add_digits(to, digits);
        if (width == 1) continue;
        uint32_t rest = from + d * width;
        bool several = n_branches(x, rest, width / BASE) > 1;
        if (several) vr_buf_adds(to, "(");
        add_tree(to, x, rest, width / BASE, 0);
        if (several) vr_buf_adds(to, ")");
    }
}

static void add_list(struct vr_buf *to, const struct numbers *x)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (has(x, i)) vr_buf_addf(to, "%s%" PRIu32, to->n ? "|" : "", i);
}

void vr_layer_pattern(struct vr_buf *to, const bool *in, uint32_t n)
{
    const struct numbers x = { in, n };
    VR_AUTO_BUF tree = { 0 }, list = { 0 };
    for (uint64_t width = 1; width == 1 || width < n; width *= BASE) { /* of one digit, of two, … */
        uint32_t least = width > 1, end = (uint32_t)width * BASE;
        if (empty(&x, least * (uint32_t)width, end - least * (uint32_t)width)) continue;
        if (tree.n) vr_buf_adds(&tree, "|");
        add_tree(&tree, &x, 0, (uint32_t)width, least);
    }
    add_list(&list, &x);
    if (tree.failed || list.failed) to->failed = true;
    vr_buf_addf(to, "(%s)", vr_buf_str(tree.n < list.n ? &tree : &list));
}
