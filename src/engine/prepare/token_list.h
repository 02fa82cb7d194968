/* Tokens as JSON, for those who want to know what a text becomes (/tokenize). */
#ifndef VR_ENGINE_PREPARE_TOKEN_LIST_H
#define VR_ENGINE_PREPARE_TOKEN_LIST_H

#include <llama.h>

#include "base/buf.h"

/* [1,2,3]; with pieces [{"id":1,"piece":"a"}], where a piece that is no text alone is an array of its bytes. */
void vr_token_list(struct vr_buf *out, const struct llama_vocab *vocab, const llama_token *tokens, int n, bool pieces);

#endif
