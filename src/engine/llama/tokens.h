/* Tokens that are put together from several texts. */
#ifndef VR_ENGINE_LLAMA_TOKENS_H
#define VR_ENGINE_LLAMA_TOKENS_H

#include <stdlib.h>
#include <string.h>

#include <llama.h>

#include "base/err.h"

struct vr_tokens {
    llama_token *all;
    size_t n, cap;
};

static inline void vr_tokens_done(struct vr_tokens *t) { free(t->all); }

static inline bool vr_tokens_add(struct vr_tokens *t, const llama_token *more, size_t n, struct vr_err *err)
{
    if (t->n + n > t->cap) {
        size_t cap = (t->n + n) * 2;
        llama_token *all = realloc(t->all, cap * sizeof *all);
        if (!all) return vr_fail_nomem(err, "tokenizing");
        t->all = all;
        t->cap = cap;
    }
    if (n) memcpy(t->all + t->n, more, n * sizeof *more);
    t->n += n;
    return true;
}

#endif
