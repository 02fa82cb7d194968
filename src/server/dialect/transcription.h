/* Speech to text, as OpenAI's libraries ask for it: a form with a file of sound becomes a chat with that sound, in
 * which a model whose projector takes sound is asked for its words. "prompt" is said instead of the usual words, as in
 * llama.cpp's server. */
#ifndef VR_SERVER_DIALECT_TRANSCRIPTION_H
#define VR_SERVER_DIALECT_TRANSCRIPTION_H

#include "server/api/dialect.h"

extern const struct vr_dialect vr_transcription, vr_audio_translation;

/* {"file": base64, "model": "...", "include": [...]}: a name that ends in [] has a list. */
json_t *vr_form_parse(const char *data, size_t n, const char *boundary, struct vr_refusal *why);
json_t *vr_transcription_translate(json_t *form, struct vr_translation *t);
json_t *vr_audio_translation_translate(json_t *form, struct vr_translation *t);

#define VR_MEMO_PLAIN "plain" /* the answer is the text alone */

#endif
