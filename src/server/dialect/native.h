/* llama.cpp's own API, as its server has it: /completion, /infill, /tokenize, /detokenize, /apply-template, /embedding,
 * /props, /slots, and how many tokens a chat has (native.c, native_render.c, v1_llama_server.c). */
#ifndef VR_SERVER_DIALECT_NATIVE_H
#define VR_SERVER_DIALECT_NATIVE_H

#include "server/api/dialect.h"

extern const struct vr_dialect vr_native_completion, vr_native_infill, vr_native_embedding, vr_native_tokenize,
    vr_native_detokenize, vr_native_template, vr_native_count;

json_t *vr_native_translate_completion(json_t *body, struct vr_translation *t);
json_t *vr_native_translate_infill(json_t *body, struct vr_translation *t);
json_t *vr_native_translate_embedding(json_t *body, struct vr_translation *t);
json_t *vr_native_translate_tokenize(json_t *body, struct vr_translation *t);
json_t *vr_native_translate_detokenize(json_t *body, struct vr_translation *t);
json_t *vr_native_translate_template(json_t *body, struct vr_translation *t);
json_t *vr_native_translate_count(json_t *body, struct vr_translation *t);

#define VR_MEMO_SETTINGS "settings" /* text: an object of what the request asked for */
#define VR_MEMO_PROMPT   "prompt"   /* as it came */
#define VR_MEMO_TOKENS   "tokens"   /* their ids are wanted */
#define VR_MEMO_NSTOPS   "words"    /* the stop strings */
#define VR_MEMO_FIELDS   "fields"   /* of the answer, by name: no others are wanted */
#define VR_MEMO_PROBS    "probs"    /* probabilities are wanted */

#endif
