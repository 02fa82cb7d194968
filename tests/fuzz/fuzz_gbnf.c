/* Grammars and texts: reading and matching must not crash, and nothing costs more than its allowance. The input is a
 * grammar, a NUL, and a text; where there is none, the grammar's own text is matched. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/gbnf.h"
#include "engine/grammar/matcher.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void match(const struct vr_gbnf *g, const char *text, size_t n)
{
    struct vr_err err = { 0 };
    VR_AUTO(vr_matcher) m = vr_matcher_new(g, &err);
    uint64_t before = 0;
    for (size_t i = 0; m && i < n; i++) {
        vr_matcher_state s = vr_matcher_now(m);
        /* pairs of bytes are tokens, too, for grammars that name some */
        if (!vr_matcher_step_token(m, &s, (uint8_t)text[i], text + i, i % 3 == 2 && i + 1 < n ? 2 : 1, &err)) break;
        if (s == VR_MATCHER_DEAD) break;
        if (!vr_matcher_settle(m, s, &err)) break;
        if (i % 7 == 3) { /* a copy is as good */
            struct vr_matcher *copy = vr_matcher_clone(m, &err);
            vr_matcher_free(m);
            m = copy;
        }
        if (m && vr_matcher_operations(m) - before > VR_MATCHER_MOST_OPERATIONS + 1000000) abort();
        if (m) before = vr_matcher_operations(m);
    }
    if (m && vr_matcher_bytes(m) > 64 << 20) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct vr_err err = { 0 };
    const char *text = (const char *)data, *cut = n ? memchr(data, '\0', n) : NULL;
    size_t n_gbnf = cut ? (size_t)(cut - text) : n;
    VR_AUTO(vr_gbnf) g = vr_gbnf_read(text, n_gbnf, NULL, NULL, &err);
    if (!g) {
        if (!err.msg[0]) abort();
        return 0;
    }
    if (g->n_operations > 64 * (n_gbnf + 64)) abort(); /* linear, but for sorting */
    if (cut)
        match(g, cut + 1, n - n_gbnf - 1);
    else
        match(g, text, n);
    return 0;
}
