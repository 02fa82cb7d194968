/* The process that workers are forked from.
 *
 * The engine process cannot fork once it has threads and GPUs, so it forks this one before. It loads the vocabulary
 * alone, which workers then share, and does nothing further but fork, kill and reap: all that may go wrong goes wrong
 * in a worker. It speaks with the engine process in packets: orders one way, news the other; the socket to a new worker
 * comes with the news of it. It ends when the engine process does. */
#ifndef VR_ENGINE_PREPARE_ZYGOTE_H
#define VR_ENGINE_PREPARE_ZYGOTE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { VR_MOST_WORKERS = 16 };

struct vr_zygote_order {
    enum { VR_ORDER_FORK, VR_ORDER_KILL } what;
    uint32_t slot; /* of the worker */
    bool chats;    /* of FORK: the template may be tried */
};

struct vr_zygote_news {
    enum { VR_NEWS_LOADED, VR_NEWS_NOT_LOADED, VR_NEWS_BORN, VR_NEWS_NOT_BORN, VR_NEWS_DIED } what;
    uint32_t slot;
    int status;    /* of DIED: waitpid's */
    char why[400]; /* of NOT_LOADED */
};

struct vr_zygote_setup {
    const char *model;
    const char *chat_template; /* NULL: the model's own */
    atomic_int *stages;        /* one for each worker, in memory that is shared */
};

/* Runs it, in a process without threads that is its own. Returns the exit status. */
int vr_zygote_run(int control, const struct vr_zygote_setup *setup);

#endif
