/* Where the next prompt of a conversation may leave this one, as tokens of this one: behind each of the last messages
 * of the user, since templates drop the thoughts that followed them; before the last of them, which may be sent again
 * in other words; and where the answer begins. The engine remembers its state there (process/stops.h). A place that is
 * a few tokens off costs as many tokens, so messages are simply looked for in the text that the template wrote. */
#ifndef VR_ENGINE_PREPARE_BOUNDARIES_H
#define VR_ENGINE_PREPARE_BOUNDARIES_H

#include <jansson.h>
#include <llama.h>

#include "engine/prepare/prepared.h"

/* `text` is the prompt, which ends with `begun` (what the template writes of the answer); `tokens` are made of it. How
 * many places there are, ascending, each between two tokens. */
size_t vr_boundaries_find(const struct llama_vocab *vocab, const json_t *messages, struct vr_span text,
                          struct vr_span begun, struct vr_ids tokens, uint32_t out[VR_MOST_BOUNDARIES]);
/* The same as offsets into the text. Pure. */
size_t vr_boundaries_offsets(const json_t *messages, struct vr_span text, struct vr_span begun,
                             size_t out[VR_MOST_BOUNDARIES]);

#endif
