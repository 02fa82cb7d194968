#include "server/dialect/response_store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ID     40
#define MAX_STORED 8192             /* a look-up goes through them all */
#define MAX_OWN    (MAX_STORED / 8) /* of one client: others' are not pushed out by many small ones */

struct stored {
    struct stored *older, *newer;
    struct vr_stored_owner owner;
    char id[MAX_ID];
    size_t n_items, n_response;
    char data[]; /* both, each with a NUL */
};

struct vr_responses {
    pthread_mutex_t lock;
    struct stored *oldest, *newest;
    size_t n, bytes, client_most, most;
};

struct vr_responses *vr_responses_new(size_t client_bytes, size_t bytes)
{
    struct vr_responses *all = calloc(1, sizeof *all);
    if (!all) return NULL;
    pthread_mutex_init(&all->lock, NULL);
    all->client_most = client_bytes;
    all->most = bytes;
    return all;
}

static size_t size_of(const struct stored *s) { return sizeof *s + s->n_items + s->n_response + 2; }

static void drop(struct vr_responses *all, struct stored *s)
{
    *(s->older ? &s->older->newer : &all->oldest) = s->newer;
    *(s->newer ? &s->newer->older : &all->newest) = s->older;
    all->n--;
    all->bytes -= size_of(s);
    free(s);
}

void vr_responses_free(struct vr_responses *all)
{
    if (!all) return;
    while (all->oldest) drop(all, all->oldest);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

static bool is_same(const struct vr_stored_owner *a, const struct vr_stored_owner *b)
{
    return a->key == b->key && (a->key || a->client == b->client);
}

/* The oldest of that owner go until it has room for `bytes`; then the oldest of all. */
static void make_room(struct vr_responses *all, const struct vr_stored_owner *owner, size_t bytes)
{
    size_t has = 0, n_own = 0;
    for (struct stored *s = all->oldest; s; s = s->newer) {
        bool own = is_same(&s->owner, owner);
        has += own ? size_of(s) : 0;
        n_own += own;
    }
    for (struct stored *s = all->oldest, *next; s && (has + bytes > all->client_most || n_own >= MAX_OWN); s = next) {
        next = s->newer;
        if (!is_same(&s->owner, owner)) continue;
        n_own--;
        has -= size_of(s);
        drop(all, s);
    }
    while (all->oldest && (all->bytes + bytes > all->most || all->n == MAX_STORED)) drop(all, all->oldest);
}

bool vr_responses_has_room(const struct vr_responses *all, size_t bytes)
{
    return sizeof(struct stored) + bytes + 2 <= all->client_most;
}

bool vr_responses_put(struct vr_responses *all, const struct vr_stored_owner *owner, const char *id, const char *items,
                      size_t n_items, const char *response, size_t n_response)
{
    if (!vr_responses_has_room(all, n_items + n_response)) return false;
    struct stored *s = malloc(sizeof *s + n_items + n_response + 2);
    if (!s) return false;
    *s = (struct stored){ .owner = *owner, .n_items = n_items, .n_response = n_response };
    snprintf(s->id, sizeof s->id, "%s", id);
    memcpy(s->data, items, n_items);
    s->data[n_items] = '\0';
    memcpy(s->data + n_items + 1, response, n_response);
    s->data[n_items + 1 + n_response] = '\0';
    pthread_mutex_lock(&all->lock);
    make_room(all, owner, size_of(s));
    s->older = all->newest;
    *(all->newest ? &all->newest->newer : &all->oldest) = s;
    all->newest = s;
    all->n++;
    all->bytes += size_of(s);
    pthread_mutex_unlock(&all->lock);
    return true;
}

static struct stored *find(const struct vr_responses *all, unsigned key, const char *id)
{
    for (struct stored *s = all->newest; s; s = s->older)
        if (s->owner.key == key && strcmp(s->id, id) == 0) return s;
    return NULL;
}

static char *copy_of(struct vr_responses *all, unsigned key, const char *id, bool response, size_t *n)
{
    char *copy = NULL;
    pthread_mutex_lock(&all->lock);
    const struct stored *s = find(all, key, id);
    if (s) {
        *n = response ? s->n_response : s->n_items;
        copy = malloc(*n + 1);
        if (copy) memcpy(copy, s->data + (response ? s->n_items + 1 : 0), *n + 1);
    }
    pthread_mutex_unlock(&all->lock);
    return copy;
}

char *vr_responses_items(struct vr_responses *all, unsigned key, const char *id, size_t *n)
{
    return copy_of(all, key, id, false, n);
}

char *vr_responses_get(struct vr_responses *all, unsigned key, const char *id, size_t *n)
{
    return copy_of(all, key, id, true, n);
}

bool vr_responses_drop(struct vr_responses *all, unsigned key, const char *id)
{
    pthread_mutex_lock(&all->lock);
    struct stored *s = find(all, key, id);
    if (s) drop(all, s);
    pthread_mutex_unlock(&all->lock);
    return s != NULL;
}
