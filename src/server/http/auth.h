/* Who may ask: API keys, Host names, origins of browser pages.
 *
 * Three doors. A key, where keys are set. Without keys, a Host header that names this computer: a page on the web can
 * make a browser resolve its own name to 127.0.0.1 (DNS rebinding), but the browser still sends that name. And an
 * Origin that is allowed: other pages may not spend this computer's time, nor read what it says. */
#ifndef VR_SERVER_HTTP_AUTH_H
#define VR_SERVER_HTTP_AUTH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "server/http/http.h"

struct vr_auth;

struct vr_auth_config {
    const char *const *keys, *const *origins, *const *hosts; /* NULL or NULL-terminated */
    const char *bound;                                       /* the addresses we listen on, with commas between them */
};

/* NULL and err when memory is out or a key cannot be one. The caller frees it. */
struct vr_auth *vr_auth_new(const struct vr_auth_config *c, struct vr_err *err) VR_MUST_CHECK;
void vr_auth_free(struct vr_auth *a);

/* A key that was there before keeps its number; others get numbers that no key had. */
void vr_auth_follow(struct vr_auth *a, const struct vr_auth *before);

bool vr_auth_has_keys(const struct vr_auth *a);
/* Do people use it who need not know each other? Several keys; or none, where other machines can connect. */
bool vr_auth_is_shared(const struct vr_auth *a);
/* "Authorization: Bearer KEY" or "X-Api-Key: KEY": the number of that key, from 1. 0: there is none, or it is wrong.
 * The time it takes tells nothing about the keys. */
unsigned vr_auth_key(const struct vr_auth *a, const struct vr_head *h);
/* What stands for a key of that number where things outlive the server: always the same for the same key, and nobody
 * learns the key from it. 0 for 0. */
uint64_t vr_auth_tenant(const struct vr_auth *a, unsigned number);
bool vr_auth_host_ok(const struct vr_auth *a, struct vr_slice host);
/* May a page of that origin read our answers? `host` is the request's: a page of ours is always fine. */
bool vr_auth_origin_ok(const struct vr_auth *a, struct vr_slice origin, struct vr_slice host);

#endif
