/* POST /v1/responses and /v1/responses/input_tokens, GET and DELETE /v1/responses/{id}. */
#include <stdio.h>
#include <string.h>

#include "server/api/generate.h"
#include "server/dialect/response_store.h"
#include "server/dialect/responses.h"
#include "server/front.h"
#include "server/http/routes.h"

/* A few bytes may stand for a long conversation that was stored: such a body is read beside the loop. */
static bool refers(const struct vr_buf *body)
{
    return memmem(vr_buf_str(body), body->n, "previous_response_id", 20) ||
           memmem(vr_buf_str(body), body->n, "item_reference", 14);
}

static void answer(struct vr_conn *c, const struct vr_incoming *r, const struct vr_dialect *d)
{
    if (refers(&r->body))
        vr_generate_aside(c, d);
    else
        vr_generate(c, r, d);
}

void vr_answer_v1_responses(struct vr_conn *c, const struct vr_incoming *r) { answer(c, r, &vr_responses_create); }
void vr_answer_v1_responses_count(struct vr_conn *c, const struct vr_incoming *r) { answer(c, r, &vr_responses_count); }

static bool read_id(const struct vr_incoming *r, char *out, size_t n)
{
    size_t skip = strlen("/v1/responses/");
    return vr_percent_decode((struct vr_slice){ r->head.path.p + skip, r->head.path.n - skip }, out, n);
}

static void not_found(struct vr_conn *c, const char *id)
{
    vr_reply_error(c, 404, NULL, "response_not_found", "the response '%.60s' is not stored here, or no longer", id);
}

void vr_answer_v1_response(struct vr_conn *c, const struct vr_incoming *r)
{
    char id[80];
    size_t n = 0;
    if (!read_id(r, id, sizeof id)) return not_found(c, "?");
    VR_AUTO_FREE char *text = vr_responses_get(c->front->responses, c->key, id, &n);
    if (!text) return not_found(c, id);
    vr_reply(c, 200, "application/json", NULL, text, n);
}

void vr_answer_v1_response_delete(struct vr_conn *c, const struct vr_incoming *r)
{
    char id[80];
    if (!read_id(r, id, sizeof id) || !vr_responses_drop(c->front->responses, c->key, id)) return not_found(c, id);
    VR_AUTO_BUF out = { 0 };
    vr_buf_addf(&out, "{\"id\":\"%s\",\"object\":\"response.deleted\",\"deleted\":true}\n", id);
    vr_reply_buf(c, 200, "application/json", &out);
}
