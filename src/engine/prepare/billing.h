/* Claude Code sends a line before its system prompt, "x-anthropic-billing-header: …", that changes with every request
 * and says nothing to a model. A prompt that begins with it shares nothing with the one before, and all is computed
 * again. */
#ifndef VR_ENGINE_PREPARE_BILLING_H
#define VR_ENGINE_PREPARE_BILLING_H

#include <stdbool.h>

#include <jansson.h>

/* Takes it out of a conversation's system messages: a part that begins with it, or the first line of a text. False: no
 * memory. */
bool vr_billing_drop(json_t *messages);

#endif
