#include "server/http/clients.h"

#include <math.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/hash.h"

#define FORGOTTEN 0.5 /* of a turn */

void vr_clients_init(struct vr_clients *all, size_t max)
{
    *all = (struct vr_clients){ .max = max, .seed = vr_hash_secret() };
}

static void client_free(struct vr_client *c)
{
    for (struct vr_client_line *l = c->lines, *next; l; l = next) {
        next = l->next;
        free(l);
    }
    free(c);
}

void vr_clients_done(struct vr_clients *all)
{
    for (size_t i = 0; i < VR_CLIENT_BUCKETS; i++)
        for (struct vr_client *c = all->buckets[i], *next; c; c = next) {
            next = c->next;
            client_free(c);
        }
    *all = (struct vr_clients){ 0 };
}

static void forget(struct vr_clients *all, struct vr_client **at)
{
    struct vr_client *c = *at;
    *at = c->next;
    all->n--;
    client_free(c);
}

/* An entry that nothing refers to makes room, wherever the hand finds one. */
static bool make_room(struct vr_clients *all)
{
    for (size_t i = 0; i < VR_CLIENT_BUCKETS; i++, all->hand = (all->hand + 1) % VR_CLIENT_BUCKETS)
        for (struct vr_client **at = &all->buckets[all->hand]; *at; at = &(*at)->next)
            if ((*at)->n_refs == 0) return forget(all, at), true;
    return false;
}

static struct vr_client *find(struct vr_clients *all, const uint8_t id[9], uint64_t now_ms)
{
    struct vr_client **bucket = &all->buckets[vr_hash(id, 9, all->seed) % VR_CLIENT_BUCKETS];
    for (struct vr_client *c = *bucket; c; c = c->next)
        if (memcmp(c->id, id, 9) == 0) return c->n_refs++, c;
    if (all->n >= all->max && !make_room(all)) return NULL;
    struct vr_client *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    memcpy(c->id, id, 9);
    c->number = ++all->last;
    c->n_refs = 1;
    c->use_ms = now_ms;
    c->next = *bucket;
    *bucket = c;
    all->n++;
    return c;
}

struct vr_client *vr_client_of_address(struct vr_clients *all, const struct sockaddr *a, uint64_t now_ms)
{
    uint8_t id[9] = { '?' };
    if (a && a->sa_family == AF_INET) {
        id[0] = '4';
        memcpy(id + 1, &((const struct sockaddr_in *)(const void *)a)->sin_addr, 4);
    } else if (a && a->sa_family == AF_INET6) {
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
        bool v4 = IN6_IS_ADDR_V4MAPPED(v6);
        id[0] = v4 ? '4' : '6';
        memcpy(id + 1, v6->s6_addr + (v4 ? 12 : 0), v4 ? 4 : 8);
    }
    return find(all, id, now_ms);
}

struct vr_client *vr_client_of_key(struct vr_clients *all, unsigned key, uint64_t now_ms)
{
    uint8_t id[9] = { 'k' };
    memcpy(id + 1, &key, sizeof key);
    return find(all, id, now_ms);
}

void vr_client_ref(struct vr_client *c) { c->n_refs++; }

void vr_client_unref(struct vr_client *c)
{
    if (c) c->n_refs--;
}

void vr_clients_sweep(struct vr_clients *all, uint64_t now_ms)
{
    for (size_t i = 0; i < VR_CLIENT_BUCKETS && all->n; i++)
        for (struct vr_client **at = &all->buckets[i]; *at;)
            if ((*at)->n_refs == 0 && vr_client_use(*at, now_ms) < FORGOTTEN)
                forget(all, at);
            else
                at = &(*at)->next;
}

struct vr_client_line *vr_client_line(struct vr_client *c, const void *of)
{
    struct vr_client_line *l = c->lines;
    while (l && l->of != of) l = l->next;
    if (l) return l;
    l = calloc(1, sizeof *l);
    if (!l) return NULL;
    l->client = c;
    l->of = of;
    l->next = c->lines;
    return c->lines = l;
}

void vr_client_hold(struct vr_clients *all, struct vr_client *c, uint64_t bytes)
{
    c->body_bytes += bytes;
    all->body_bytes += bytes;
}

void vr_client_release(struct vr_clients *all, struct vr_client *c, uint64_t bytes)
{
    c->body_bytes -= bytes;
    all->body_bytes -= bytes;
}

double vr_client_use(const struct vr_client *c, uint64_t now_ms)
{
    uint64_t since = now_ms > c->use_ms ? now_ms - c->use_ms : 0;
    return c->use > 0 ? c->use * exp2(-(double)since / VR_USE_HALF_MS) : 0;
}

void vr_client_used(struct vr_client *c, double turns, uint64_t now_ms)
{
    c->use = vr_client_use(c, now_ms) + turns;
    c->use_ms = now_ms;
}

struct vr_client *vr_clients_most_conns(const struct vr_clients *all)
{
    struct vr_client *most = NULL;
    for (size_t i = 0; i < VR_CLIENT_BUCKETS; i++)
        for (struct vr_client *c = all->buckets[i]; c; c = c->next)
            if (c->n_conns > (most ? most->n_conns : 0)) most = c;
    return most;
}

struct vr_client *vr_clients_most_bytes(const struct vr_clients *all)
{
    struct vr_client *most = NULL;
    for (size_t i = 0; i < VR_CLIENT_BUCKETS; i++)
        for (struct vr_client *c = all->buckets[i]; c; c = c->next)
            if (c->body_bytes > (most ? most->body_bytes : 0)) most = c;
    return most;
}
