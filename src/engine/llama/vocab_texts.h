/* The texts of a model's tokens, as its grammars see them: special tokens are written out. */
#ifndef VR_ENGINE_LLAMA_VOCAB_TEXTS_H
#define VR_ENGINE_LLAMA_VOCAB_TEXTS_H

#include <llama.h>

#include "engine/grammar/token_index.h"

struct vr_token_index *vr_vocab_texts(const struct llama_vocab *vocab, struct vr_err *err) VR_MUST_CHECK;

#endif
