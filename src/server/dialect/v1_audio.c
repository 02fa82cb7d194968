/* POST /v1/audio/transcriptions, /v1/audio/translations. */
#include "server/api/generate.h"
#include "server/dialect/transcription.h"
#include "server/http/routes.h"

void vr_answer_v1_transcriptions(struct vr_conn *c, const struct vr_incoming *r)
{
    vr_generate(c, r, &vr_transcription);
}
void vr_answer_v1_translations(struct vr_conn *c, const struct vr_incoming *r)
{
    vr_generate(c, r, &vr_audio_translation);
}
