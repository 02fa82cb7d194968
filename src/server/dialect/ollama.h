/* Ollama's API: /api/chat, /api/generate, /api/embed and the rest of what its clients ask. Bodies become ours
 * (ollama.c), answers are lines of JSON (ollama_render.c); one model is there, is loaded, and stays (api_ollama.c). */
#ifndef VR_SERVER_DIALECT_OLLAMA_H
#define VR_SERVER_DIALECT_OLLAMA_H

#include "server/api/dialect.h"

extern const struct vr_dialect vr_ollama_chat, vr_ollama_generate, vr_ollama_embed, vr_ollama_embeddings;

json_t *vr_ollama_translate_chat(json_t *body, struct vr_translation *t);
json_t *vr_ollama_translate_generate(json_t *body, struct vr_translation *t);
json_t *vr_ollama_translate_embed(json_t *body, struct vr_translation *t);

/* In a memo: nothing is to be said, the model is only to be there. */
#define VR_MEMO_LOAD "load"

#endif
