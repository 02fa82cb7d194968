/* POST /v1/messages and /v1/messages/count_tokens. */
#include "server/api/generate.h"
#include "server/dialect/messages.h"
#include "server/http/routes.h"

void vr_answer_v1_messages(struct vr_conn *c, const struct vr_incoming *r) { vr_generate(c, r, &vr_messages_create); }
void vr_answer_v1_messages_count(struct vr_conn *c, const struct vr_incoming *r)
{
    vr_generate(c, r, &vr_messages_count);
}
