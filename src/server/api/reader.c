#include "server/api/reader.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <event2/event.h>

#include "server/http/clients.h"

#define N_THREADS  2         /* of which one large body cannot hold up the other */
#define TRIM_BYTES (1 << 20) /* of a body: then memory is given back to the system */

struct vr_body_reading {
    struct vr_turn turn; /* first: a turn is its reading */
    struct vr_readers *readers;
    struct vr_read_ask ask; /* done is NULL: cancelled */
    struct vr_buf body;
    size_t held;
    struct vr_body out;
};

struct thread {
    struct vr_readers *readers;
    pthread_t id;
    bool there;                   /* the loop's: it was started */
    struct vr_body_reading *work; /* what it reads; NULL: nothing */
    bool done;                    /* with it */
};

struct vr_readers {
    struct event_base *base;
    struct vr_clients *clients;
    struct vr_turns turns; /* of those that wait */
    struct event *finished;
    int fd; /* an eventfd: a thread has finished something */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop;
    struct thread threads[N_THREADS]; /* work, done and stop are read and written under the lock */
};

static void *run(void *ctx)
{
    struct thread *t = ctx;
    struct vr_readers *r = t->readers;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (!r->stop && (!t->work || t->done)) pthread_cond_wait(&r->wake, &r->lock);
        if (r->stop) break;
        struct vr_body_reading *j = t->work;
        pthread_mutex_unlock(&r->lock);
        vr_body_read(vr_buf_str(&j->body), j->body.n, &j->ask.asker, &j->out);
        vr_buf_done(&j->body);
        if (j->held > TRIM_BYTES) malloc_trim(0); /* a tree of a million values leaves many small holes */
        pthread_mutex_lock(&r->lock);
        t->done = true;
        eventfd_write(r->fd, 1);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* Started with the first large body. Signals are the loop's. */
static bool start_thread(struct thread *t)
{
    if (t->there) return true;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    t->there = pthread_create(&t->id, NULL, run, t) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return t->there;
}

static void reading_free(struct vr_body_reading *j)
{
    vr_client_release(j->readers->clients, j->ask.client, j->held);
    vr_client_unref(j->ask.client);
    vr_buf_done(&j->body);
    vr_body_done(&j->out);
    free(j);
}

/* Those who wait go to threads that do nothing. */
static void hand_out(struct vr_readers *r)
{
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < N_THREADS && r->turns.n; i++) {
        struct thread *t = &r->threads[i];
        if (t->work || !start_thread(t)) continue;
        struct vr_turn *turn = vr_turns_next(&r->turns);
        vr_turns_take(&r->turns, turn);
        t->work = (struct vr_body_reading *)turn;
        t->done = false;
    }
    pthread_cond_broadcast(&r->wake);
    pthread_mutex_unlock(&r->lock);
}

static void on_finished(evutil_socket_t fd, short what, void *ctx)
{
    (void)what;
    struct vr_readers *r = ctx;
    struct vr_body_reading *done[N_THREADS] = { 0 };
    eventfd_t n;
    eventfd_read(fd, &n);
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < N_THREADS; i++)
        if (r->threads[i].work && r->threads[i].done) done[i] = VR_TAKE(r->threads[i].work);
    pthread_mutex_unlock(&r->lock);
    hand_out(r);
    for (size_t i = 0; i < N_THREADS; i++) {
        struct vr_body_reading *j = done[i];
        if (!j) continue;
        struct vr_body out = j->out;
        struct vr_read_ask ask = j->ask;
        ask.client->bodies.clock += out.n_stored; /* a few bytes may have stood for them */
        if (ask.done) j->out = (struct vr_body){ 0 };
        reading_free(j);
        if (ask.done) ask.done(ask.ctx, &out);
    }
}

struct vr_body_reading *vr_read_start(struct vr_readers *r, struct vr_buf *body, const struct vr_read_ask *ask)
{
    if (!start_thread(&r->threads[0])) return NULL;
    struct vr_body_reading *j = calloc(1, sizeof *j);
    if (!j) return NULL;
    j->readers = r;
    j->ask = *ask;
    j->body = *body;
    j->held = body->n;
    *body = (struct vr_buf){ 0 };
    vr_client_ref(ask->client);
    vr_client_hold(r->clients, ask->client, j->held);
    vr_turns_add(&r->turns, &ask->client->bodies, &j->turn, j->held);
    hand_out(r);
    return j;
}

void vr_read_cancel(struct vr_body_reading *j)
{
    bool waits = j->turn.line != NULL;
    j->ask.done = NULL; /* a thread that has it does not look */
    if (!waits) return;
    vr_turns_remove(&j->readers->turns, &j->turn);
    reading_free(j);
}

void *vr_read_newest(const struct vr_client *client)
{
    return client->bodies.last ? ((struct vr_body_reading *)client->bodies.last)->ask.ctx : NULL;
}

struct vr_readers *vr_readers_new(struct event_base *base, struct vr_clients *clients)
{
    struct vr_readers *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->base = base;
    r->clients = clients;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->wake, NULL);
    for (size_t i = 0; i < N_THREADS; i++) r->threads[i].readers = r;
    r->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r->finished = r->fd < 0 ? NULL : event_new(base, r->fd, EV_READ | EV_PERSIST, on_finished, r);
    if (r->finished && event_add(r->finished, NULL) == 0) return r;
    vr_readers_free(r);
    return NULL;
}

void vr_readers_free(struct vr_readers *r)
{
    if (!r) return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->wake);
    pthread_mutex_unlock(&r->lock);
    for (size_t i = 0; i < N_THREADS; i++) {
        if (r->threads[i].there) pthread_join(r->threads[i].id, NULL);
        if (r->threads[i].work) reading_free(r->threads[i].work);
    }
    for (struct vr_turn *t; (t = vr_turns_next(&r->turns));) {
        vr_turns_remove(&r->turns, t);
        reading_free((struct vr_body_reading *)t);
    }
    if (r->finished) event_free(r->finished);
    if (r->fd >= 0) close(r->fd);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->wake);
    free(r);
}
