/* Responses that were stored, for previous_response_id, item references and GET /v1/responses/{id}: the items of the
 * conversation up to and with each, as JSON.
 *
 * Bounded: so many bytes for each client (an API key, or an address where there is none), so many in all; the oldest
 * make room, first those of the client that is over. They live as long as the process. A response is given only to the
 * key that made it; its id is random. Safe in any thread: bodies are read beside the loop. */
#ifndef VR_SERVER_DIALECT_RESPONSE_STORE_H
#define VR_SERVER_DIALECT_RESPONSE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"

#define VR_RESPONSES_CLIENT_BYTES (8u << 20)
#define VR_RESPONSES_BYTES        (128u << 20)

struct vr_responses;
struct vr_responses *vr_responses_new(size_t client_bytes, size_t bytes) VR_MUST_CHECK;
void vr_responses_free(struct vr_responses *all); /* accepts NULL */

struct vr_stored_owner {
    unsigned key;    /* may have it again */
    uint64_t client; /* counts for it where there is no key */
};
/* Whether something of that size would be kept at all. */
bool vr_responses_has_room(const struct vr_responses *all, size_t bytes);
/* Keeps copies: the items with commas between them, and the response itself. False: there is no room or memory. */
bool vr_responses_put(struct vr_responses *all, const struct vr_stored_owner *owner, const char *id, const char *items,
                      size_t n_items, const char *response, size_t n_response);
/* A copy that the caller frees; NULL: none of that key, or no memory. */
char *vr_responses_items(struct vr_responses *all, unsigned key, const char *id, size_t *n);
char *vr_responses_get(struct vr_responses *all, unsigned key, const char *id, size_t *n);
/* False: there is none. */
bool vr_responses_drop(struct vr_responses *all, unsigned key, const char *id);

#endif
