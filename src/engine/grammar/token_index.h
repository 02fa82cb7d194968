/* The texts of a vocabulary's tokens in a tree of their bytes, made once per model: whoever asks which tokens may come
 * next looks at common beginnings once, and leaves out all that begin with what may not. Pure; read by all threads. */
#ifndef VR_ENGINE_GRAMMAR_TOKEN_INDEX_H
#define VR_ENGINE_GRAMMAR_TOKEN_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct vr_token_text {
    const char *text;
    uint32_t n;
    bool end; /* the token ends an answer */
};

/* Node i is a byte behind the bytes of its parent; nodes lie as they are walked, children behind their parent. */
struct vr_token_index {
    uint32_t n_tokens, n_nodes, most_bytes; /* of a token */
    struct vr_token_text *tokens;           /* by number; the texts are in `bytes` */
    char *bytes;
    uint8_t *byte;
    uint16_t *depth; /* 1 for the first byte of a token */
    uint32_t *skip;  /* the next node that is not below this one */
    uint32_t *first; /* the tokens that end at node i: sorted[first[i]] to sorted[first[i + 1] - 1] */
    uint32_t *sorted;
    uint32_t *others; /* tokens that are not in the tree, behind those that are */
    uint32_t n_others;
};

/* The texts are copied. Tokens without text, with a NUL in it, or that end an answer are not in the tree. */
struct vr_token_index *vr_token_index_new(const struct vr_token_text *tokens, uint32_t n,
                                          struct vr_err *err) VR_MUST_CHECK;
void vr_token_index_free(struct vr_token_index *x);
VR_DEFINE_AUTO(vr_token_index);

/* The token that has this text (a vr_gbnf_token_fn). Where several have, the one with the lowest number. */
bool vr_token_index_find(const void *index, const char *text, size_t n, uint32_t *token);

#endif
