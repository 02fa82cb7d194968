/* What the engine's memory holds of a sequence, as bytes in host memory (engine/cache), and back.
 *
 * llama.cpp calls "partial" what it cannot cut: recurrent states and sliding windows. A checkpoint is that. Where the
 * sequence stays, the rest of it, its plain attention cache, stays with it and is cut. Where a slot gives a sequence
 * up, all of it becomes a cached prompt: its attention cache cut into blocks, and its checkpoints. */
#ifndef VR_ENGINE_PROCESS_RECALL_H
#define VR_ENGINE_PROCESS_RECALL_H

#include "engine/cache/disk_cache.h"
#include "engine/process/loader.h"

struct vr_recall {
    const struct vr_engine *e;
    struct vr_cache_ram ram;
    struct vr_prompt_cache prompts;
    struct vr_disk_cache disk;
    struct vr_kv_rows *rows; /* how the engine lays a sequence out; NULL: not known yet */
    bool blind;              /* it is not understood: no prompt is kept */
    double us_per_mib;       /* of copying, either way */
    uint64_t saved_tokens, restored_tokens;
};

/* With what the engine's cache file has, where there is one. */
void vr_recall_init(struct vr_recall *r, const struct vr_engine *e);
void vr_recall_done(struct vr_recall *r);

/* --- checkpoints --- */

/* Bytes of the budget that a checkpoint of the sequence takes now. */
uint64_t vr_recall_partial_cost(const struct vr_recall *r, llama_seq_id seq);
/* A checkpoint of the sequence; NULL: there is no room, or the engine cannot. */
struct vr_kept *vr_recall_partial(struct vr_recall *r, llama_seq_id seq);
/* Puts it back, into any sequence. False: the sequence is in no usable state and must be emptied. */
bool vr_recall_restore(struct vr_recall *r, llama_seq_id seq, struct vr_kept *state);
/* Copies between streams happen in the next computation, over whatever is in their place by then: does them now. */
bool vr_recall_settle(struct vr_recall *r);

/* --- cached prompts --- */

struct vr_recall_of { /* a sequence; its positions are counts */
    llama_seq_id seq;
    uint64_t tenant;
    const llama_token *tokens;
    uint32_t n;
    const struct vr_checkpoints *checkpoints; /* with one behind the last token, where there are any */
    double cost;                              /* of computing it: its tokens */
};
/* Time that copying a sequence of n tokens takes, in ms, about; of which `checkpoint` bytes are not its tokens'. */
double vr_recall_ms(const struct vr_recall *r, uint32_t n, uint64_t checkpoint);
/* The same for bringing the first n tokens of a cached prompt back, which may be on disk. */
double vr_recall_back_ms(const struct vr_recall *r, const struct vr_cached_prompt *h, uint32_t n);
/* Makes a cached prompt of it. False: there is no room for it, and it is lost. */
bool vr_recall_save(struct vr_recall *r, const struct vr_recall_of *of);
/* The cached prompt that has the most of these tokens: *n of them. NULL: none has any. */
struct vr_cached_prompt *vr_recall_find(const struct vr_recall *r, uint64_t tenant, const llama_token *tokens,
                                        uint32_t most, uint32_t *n);
/* Puts the first n tokens of a cached prompt, which is as many as vr_recall_find() said, into an empty sequence. False:
 * it is in no usable state; for good, if the prompt is damaged on disk. */
bool vr_recall_load(struct vr_recall *r, llama_seq_id seq, struct vr_cached_prompt *h, uint32_t n);

/* --- on disk --- */

/* Writes on in the background, waiting at most so long for what is being written. False: all is written. */
bool vr_recall_write(struct vr_recall *r, uint32_t ms);
/* Something that the user should know, told once. False: nothing. */
bool vr_recall_note(struct vr_recall *r, char *out, size_t n);

#endif
