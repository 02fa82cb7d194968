/* Reranking: documents in the order in which they answer a query, as Jina, Cohere and llama.cpp ask for it
 * ("documents"), and as Hugging Face's text embeddings inference (TEI) does ("texts"). Which of both was meant is told
 * by that field, and the answer has its form. */
#ifndef VR_SERVER_DIALECT_RERANK_H
#define VR_SERVER_DIALECT_RERANK_H

#include "server/api/dialect.h"

extern const struct vr_dialect vr_rerank;

json_t *vr_rerank_translate(json_t *body, struct vr_translation *t);

#define VR_MEMO_TEI   "tei"   /* the answer has TEI's form */
#define VR_MEMO_TOP   "top_n" /* so many results; absent: all */
#define VR_MEMO_TEXTS "texts" /* the documents, where the answer is to have them */

#endif
