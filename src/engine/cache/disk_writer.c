#include "engine/cache/disk_writer.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"

struct vr_disk_writer {
    int fd;
    pthread_t thread;
    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t begun, done;
    const struct vr_disk_write *list; /* NULL: nothing to write */
    uint32_t n;
    int error;
    bool ends;
};

static int write_all(int fd, const struct vr_disk_write *list, uint32_t n)
{
    int error = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!error) error = vr_disk_write(fd, &list[i]);
        if (error) vr_disk_unwrite(fd, &list[i]);
    }
    return error;
}

static void *run(void *ctx)
{
    struct vr_disk_writer *w = ctx;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->list && !w->ends) pthread_cond_wait(&w->begun, &w->lock);
        if (!w->list) break;
        const struct vr_disk_write *list = w->list;
        uint32_t n = w->n;
        pthread_mutex_unlock(&w->lock);
        int error = write_all(w->fd, list, n);
        pthread_mutex_lock(&w->lock);
        w->list = NULL;
        w->error = error;
        pthread_cond_signal(&w->done);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

struct vr_disk_writer *vr_disk_writer_new(int fd)
{
    struct vr_disk_writer *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    w->fd = fd;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->begun, NULL);
    pthread_cond_init(&w->done, NULL);
    if (pthread_create(&w->thread, NULL, run, w) == 0) return w;
    free(w);
    return NULL;
}

void vr_disk_writer_free(struct vr_disk_writer *w)
{
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->ends = true;
    pthread_cond_signal(&w->begun);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    free(w);
}

void vr_disk_writer_begin(struct vr_disk_writer *w, const struct vr_disk_write *list, uint32_t n)
{
    pthread_mutex_lock(&w->lock);
    w->list = list;
    w->n = n;
    pthread_cond_signal(&w->begun);
    pthread_mutex_unlock(&w->lock);
}

bool vr_disk_writer_wait(struct vr_disk_writer *w, uint32_t ms, int *error)
{
    struct timespec end = vr_clock_in(ms);
    pthread_mutex_lock(&w->lock);
    while (w->list && ms && pthread_cond_clockwait(&w->done, &w->lock, CLOCK_MONOTONIC, &end) == 0) continue;
    bool over = !w->list;
    *error = w->error;
    pthread_mutex_unlock(&w->lock);
    return over;
}
