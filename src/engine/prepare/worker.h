/* A worker: a process that prepares one request at a time until it is killed, worn, or its socket ends.
 *
 *     hello                 first, from the worker: whether the chat template can be used
 *     ask, body             from the engine process
 *     answer, bytes         from the worker: what vr_prepare() wrote
 *
 * Heads are structs as they are in memory: both ends are forks of one program. */
#ifndef VR_ENGINE_PREPARE_WORKER_H
#define VR_ENGINE_PREPARE_WORKER_H

#include "engine/prepare/prepare.h"

#define VR_MOST_ANSWER ((uint64_t)512 << 20) /* pictures: VR_MOST_PICTURES_PIXELS, and what goes with them */

struct vr_prepare_hello {
    bool ok; /* there are chats */
    struct vr_chat_caps caps;
    char why[400]; /* there are none */
};

struct vr_prepare_ask {
    uint64_t n_body;
    struct vr_prepare_facts facts;
};

struct vr_prepare_answer {
    uint64_t n;
    uint32_t last; /* it ends after this one */
};

struct vr_prepare_setup {
    const struct vr_preparer *preparer; /* without chats */
    const char *chat_template;          /* NULL: the model's own */
    bool chats;                         /* false: they are known to be unusable */
    _Atomic int *stage;
};

/* Runs it, in a process without threads that is its own. Returns the exit status. */
int vr_prepare_worker(int fd, const struct vr_prepare_setup *setup);

#endif
