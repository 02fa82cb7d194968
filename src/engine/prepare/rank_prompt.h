/* A query and a document as one prompt, which a reranking model scores.
 *
 * Models whose file has a template for it ("rerank": Qwen3's rerankers, which judge by the likelihood of "yes") get
 * what that makes of the two; all others get [BOS]query[EOS][SEP]document[EOS], with those of the tokens that the
 * vocabulary asks for. Either way the texts are content: special tokens that they spell are text. */
#ifndef VR_ENGINE_PREPARE_RANK_PROMPT_H
#define VR_ENGINE_PREPARE_RANK_PROMPT_H

#include <jansson.h>
#include <llama.h>

#include "base/err.h"
#include "engine/content/specials.h"

/* Its tokens in *out (the caller frees it): how many, or -1. Both texts are JSON strings. */
int vr_rank_prompt(const struct llama_model *model, const struct vr_specials *specials, const json_t *query,
                   const json_t *document, llama_token **out, struct vr_err *err);

#endif
