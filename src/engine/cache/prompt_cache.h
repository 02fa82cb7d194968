/* Prompts that slots had to give up, in host memory: tokens, the blocks of their attention cache (kv_rows.h), and their
 * checkpoints.
 *
 * They are sorted like words in a dictionary, tenant first, so those that begin alike are neighbours: the one that
 * shares the longest beginning with a prompt is beside the place where the prompt would be. What begins alike shares
 * blocks, and one that is the beginning of another is part of it. When memory is wanted, the one goes that is worth
 * least: what it would cost to compute again, by the byte, and how long ago it was used (GreedyDual). One that is on
 * disk, too (disk_cache.h), leaves its tokens here, and is found and brought back like the others. */
#ifndef VR_ENGINE_CACHE_PROMPT_CACHE_H
#define VR_ENGINE_CACHE_PROMPT_CACHE_H

#include "engine/cache/checkpoints.h"

struct vr_cached_prompt {
    struct vr_cache_ram *ram;
    uint64_t tenant;
    uint32_t n;              /* tokens */
    struct vr_kept *tokens;  /* n of int32_t */
    struct vr_kept **blocks; /* room for so many */
    uint32_t n_blocks, room; /* 0: all that the model remembers is in checkpoints */
    struct vr_checkpoints checkpoints;
    double worth;
    uint64_t used;   /* when, by the cache's clock */
    uint32_t n_pins; /* being used: it stays */
    bool is_here;    /* some of its pieces may be in host memory */
    uint64_t record; /* its place on disk; 0: it is not there */
    bool skipped;    /* it will not be written: there is no room on disk for it */
};

struct vr_prompt_cache {
    struct vr_cache_ram *ram;
    struct vr_cached_prompt **all; /* sorted */
    size_t n, room;
    double floor;     /* what the last that went was worth */
    uint64_t clock;   /* counts uses */
    uint64_t n_added; /* since the beginning */
};

/* A cached prompt that shares the first *n tokens with these, and holds the engine's memory of so many: as many as any
 * can, or as many as a checkpoint is for with `by_checkpoint`. NULL: none does. */
struct vr_cached_prompt *vr_prompt_cache_find(const struct vr_prompt_cache *h, uint64_t tenant, const int32_t *tokens,
                                              uint32_t most, bool by_checkpoint, uint32_t *n);
/* How many of the first tokens any cached prompt of the tenant has. */
uint32_t vr_prompt_cache_known(const struct vr_prompt_cache *h, uint64_t tenant, const int32_t *tokens, uint32_t n);

/* What is to be added: blocks are asked for one by one, as far as they are not there yet. NULL: no memory. */
struct vr_cache_source {
    uint64_t tenant;
    const int32_t *tokens;
    uint32_t n, n_block; /* tokens, and tokens of a block; 0: no blocks */
    const struct vr_checkpoints *checkpoints;
    struct vr_kept *(*block)(void *ctx, uint32_t from, uint32_t n);
    void *ctx;
    double cost; /* of computing it: any unit, always the same */
};
/* Bytes that adding it takes, besides its checkpoints, when a token of a block takes so many. */
uint64_t vr_prompt_cache_need(const struct vr_prompt_cache *h, const struct vr_cache_source *s, uint64_t token_bytes);
/* Adds it, or what is new in it. False: there is no room, and nothing was added. */
bool vr_prompt_cache_add(struct vr_prompt_cache *h, const struct vr_cache_source *s);
/* It was used. */
void vr_prompt_cache_touch(struct vr_prompt_cache *h, struct vr_cached_prompt *one, double cost);

/* One that was read from disk, which it takes over. False: no memory, or it is there already; then it is freed. */
bool vr_prompt_cache_put(struct vr_prompt_cache *h, struct vr_cached_prompt *one);
/* It is on disk now: what is a beginning of it need not be. */
void vr_prompt_cache_absorb(struct vr_prompt_cache *h, struct vr_cached_prompt *one);
/* Drops the one on disk alone that is worth least, unless it is worth more than `one`. False: there is none. */
bool vr_prompt_cache_yield(struct vr_prompt_cache *h, const struct vr_cached_prompt *one);
/* Drops all that need a piece which turned out to be damaged on disk, so that nothing new shares it. */
void vr_prompt_cache_drop_damaged(struct vr_prompt_cache *h);
bool vr_cached_prompt_is_damaged(const struct vr_cached_prompt *one);

/* Those that are worth least leave until so many bytes are free. False: all are gone, or pinned, and they are not. */
bool vr_prompt_cache_make_room(struct vr_prompt_cache *h, uint64_t bytes);
/* Forgets all of them; what is on disk stays there. */
void vr_prompt_cache_done(struct vr_prompt_cache *h);
/* One that is in no cache, without any of its blocks. NULL: the budget, or the memory, has no room for it. */
struct vr_cached_prompt *vr_cached_prompt_new(struct vr_cache_ram *ram, uint64_t tenant, const int32_t *tokens,
                                              uint32_t n, uint32_t n_blocks);
void vr_cached_prompt_free(struct vr_cached_prompt *one);

#endif
