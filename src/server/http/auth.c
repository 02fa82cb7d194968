#include "server/http/auth.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "server/server.h"

struct digest {
    unsigned char b[SHA256_DIGEST_LENGTH];
};

struct vr_auth {
    struct digest *keys; /* digests are of one length, whatever the keys are */
    unsigned *numbers;   /* of the keys: what is kept for a client, or for its prompts, goes by them */
    unsigned last;       /* number that was ever given */
    size_t n_keys;
    const char *const *origins, *const *hosts;
    const char *bound;
    char own_name[256];
};

static bool is_loopback(const char *host)
{
    struct in_addr v4;
    size_t n = strlen(host);
    if (strcasecmp(host, "localhost") == 0) return true;
    if (n > 10 && strcasecmp(host + n - 10, ".localhost") == 0) return true;
    if (inet_pton(AF_INET, host, &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
    return strcmp(host, "::1") == 0 || strcmp(host, "[::1]") == 0;
}

const char *vr_host_next(const char *list, char host[VR_MAX_HOST])
{
    size_t n = strcspn(list, ",");
    snprintf(host, VR_MAX_HOST, "%.*s", (int)(n < VR_MAX_HOST ? n : VR_MAX_HOST - 1), list);
    return list[n] ? list + n + 1 : NULL;
}

bool vr_hosts_are_loopback(const char *list)
{
    char host[VR_MAX_HOST];
    bool all = true;
    while (list && all) {
        list = vr_host_next(list, host);
        all = is_loopback(host);
    }
    return all;
}

static bool is_among(const char *list, const char *name)
{
    char host[VR_MAX_HOST];
    bool found = false;
    while (list && !found) {
        list = vr_host_next(list, host);
        found = strcasecmp(host, name) == 0;
    }
    return found;
}

static size_t count(const char *const *list)
{
    size_t n = 0;
    while (list && list[n]) n++;
    return n;
}

static void digest_of(const char *p, size_t n, struct digest *out) { SHA256((const unsigned char *)p, n, out->b); }

struct vr_auth *vr_auth_new(const struct vr_auth_config *c, struct vr_err *err)
{
    struct vr_auth *a = calloc(1, sizeof *a);
    size_t n = count(c->keys);
    if (a) a->keys = calloc(n + 1, sizeof *a->keys);
    if (a) a->numbers = calloc(n + 1, sizeof *a->numbers);
    if (!a || !a->keys || !a->numbers) {
        vr_auth_free(a);
        return VR_FAIL_NULL(err, VR_ENOMEM, "out of memory");
    }
    for (; a->n_keys < n; a->n_keys++) {
        digest_of(c->keys[a->n_keys], strlen(c->keys[a->n_keys]), &a->keys[a->n_keys]);
        a->numbers[a->n_keys] = ++a->last;
    }
    a->origins = c->origins;
    a->hosts = c->hosts;
    a->bound = c->bound;
    if (gethostname(a->own_name, sizeof a->own_name - 1) != 0) a->own_name[0] = '\0';
    return a;
}

void vr_auth_free(struct vr_auth *a)
{
    if (!a) return;
    free(a->keys);
    free(a->numbers);
    free(a);
}

void vr_auth_follow(struct vr_auth *a, const struct vr_auth *before)
{
    a->last = before->last;
    for (size_t i = 0; i < a->n_keys; i++) {
        a->numbers[i] = 0;
        for (size_t k = 0; k < before->n_keys && !a->numbers[i]; k++)
            if (CRYPTO_memcmp(&a->keys[i], &before->keys[k], sizeof a->keys[i]) == 0)
                a->numbers[i] = before->numbers[k];
        if (!a->numbers[i]) a->numbers[i] = ++a->last;
    }
}

bool vr_auth_has_keys(const struct vr_auth *a) { return a->n_keys > 0; }

bool vr_auth_is_shared(const struct vr_auth *a)
{
    return a->n_keys == 0 ? !vr_hosts_are_loopback(a->bound) : a->n_keys > 1;
}

unsigned vr_auth_key(const struct vr_auth *a, const struct vr_head *h)
{
    if (a->n_keys == 0) return 0;
    struct vr_slice key = h->api_key;
    if (h->authorization.p && h->authorization.n > 7 && strncasecmp(h->authorization.p, "Bearer ", 7) == 0)
        key = (struct vr_slice){ h->authorization.p + 7, h->authorization.n - 7 };
    if (!key.p) return 0;
    struct digest d;
    digest_of(key.p, key.n, &d);
    unsigned found = 0;
    for (size_t i = a->n_keys; i-- > 0;) { /* the first of two that are alike */
        unsigned same = 0u - (unsigned)(CRYPTO_memcmp(&d, &a->keys[i], sizeof d) == 0);
        found = (same & a->numbers[i]) | (~same & found);
    }
    return found;
}

uint64_t vr_auth_tenant(const struct vr_auth *a, unsigned number)
{
    uint64_t tenant = 0;
    for (size_t i = 0; i < a->n_keys && number; i++) {
        struct digest d;
        if (a->numbers[i] != number) continue;
        digest_of((const char *)a->keys[i].b, sizeof a->keys[i].b, &d);
        memcpy(&tenant, d.b, sizeof tenant);
        return (tenant >> 11) | 1; /* as many bits as numbers have that are read by any language */
    }
    return 0;
}

/* Splits "name", "name:80", "[::1]:80" into a name. False when it is none. */
static bool split_host(struct vr_slice host, char *out, size_t n_out)
{
    if (host.n == 0 || host.n >= n_out) return false;
    memcpy(out, host.p, host.n);
    out[host.n] = '\0';
    char *port;
    if (*out == '[') {
        port = strchr(out, ']');
        if (!port) return false;
        port++;
    } else {
        port = out + strcspn(out, ":");
    }
    if (*port && (*port != ':' || port[1 + strspn(port + 1, "0123456789")])) return false;
    *port = '\0';
    size_t n = strlen(out);
    if (n > 1 && out[n - 1] == '.') out[n - 1] = '\0'; /* "localhost." is localhost */
    return *out != '\0';
}

/* An address: no name was resolved, so nobody can have rebound it. */
static bool is_address(const char *host)
{
    unsigned char bytes[16];
    char v6[256];
    if (inet_pton(AF_INET, host, bytes) == 1) return true;
    if (*host != '[' || strlen(host) >= sizeof v6) return false;
    snprintf(v6, sizeof v6, "%s", host + 1);
    v6[strcspn(v6, "]")] = '\0';
    return inet_pton(AF_INET6, v6, bytes) == 1;
}

static bool listed(const char *const *list, const char *name)
{
    for (; list && *list; list++)
        if (strcmp(*list, "*") == 0 || strcasecmp(*list, name) == 0) return true;
    return false;
}

bool vr_auth_host_ok(const struct vr_auth *a, struct vr_slice host)
{
    if (a->n_keys || !host.p) return true; /* a rebound page has no key; HTTP/1.0 is no browser's */
    char name[256];
    if (!split_host(host, name, sizeof name)) return false;
    return is_loopback(name) || is_address(name) || is_among(a->bound, name) ||
           (*a->own_name && strcasecmp(name, a->own_name) == 0) || listed(a->hosts, name);
}

bool vr_auth_origin_ok(const struct vr_auth *a, struct vr_slice origin, struct vr_slice host)
{
    char text[256], name[256];
    if (origin.n == 0 || origin.n >= sizeof text) return false;
    memcpy(text, origin.p, origin.n);
    text[origin.n] = '\0';
    if (listed(a->origins, text)) return true;
    const char *rest = strstr(text, "://");
    if (!rest) return false; /* "null", or no origin at all */
    rest += 3;
    struct vr_slice authority = { rest, strlen(rest) };
    if (host.p && authority.n == host.n && strncasecmp(rest, host.p, host.n) == 0) return true;
    /* Pages that this computer serves itself (a chat window under development) may talk to a loopback server. */
    return vr_hosts_are_loopback(a->bound) && split_host(authority, name, sizeof name) && is_loopback(name);
}
