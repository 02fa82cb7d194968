/* POST /v1/rerank and its other names. */
#include "server/api/generate.h"
#include "server/dialect/rerank.h"
#include "server/http/routes.h"

void vr_answer_v1_rerank(struct vr_conn *c, const struct vr_incoming *r) { vr_generate(c, r, &vr_rerank); }
