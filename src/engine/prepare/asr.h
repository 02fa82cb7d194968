/* Speech recognition: the words that a model is asked with for a transcription, which its chat template decides
 * (llama.cpp's common). */
#ifndef VR_ENGINE_PREPARE_ASR_H
#define VR_ENGINE_PREPARE_ASR_H

#include <jansson.h>

#include "engine/llama/bridge.h"

/* Puts them before the text of the only message, which is a part of text and a sound; a part without text leaves. */
bool vr_asr_ask(const struct vr_chats *c, json_t *messages, struct vr_err *err) VR_MUST_CHECK;

#endif
