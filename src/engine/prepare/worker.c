/* The work is done in a thread with a deep stack, since llama.cpp's templates and regular expressions call themselves
 * for every level of their input. The thread that was called only waits. */
#include "engine/prepare/worker.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "base/file.h"
#include "engine/prepare/budget.h"

enum { DEEP_STACK = 256 << 20 }; /* of address space; pages are used when they are needed */

struct worker {
    int fd;
    const struct vr_prepare_setup *setup;
    struct vr_preparer preparer;
};

/* False: the engine process is gone. */
static bool take(int fd, void *data, size_t n)
{
    for (char *at = data; n;) {
        ssize_t got = recv(fd, at, n, MSG_WAITALL);
        if (got <= 0) return false;
        at += got;
        n -= (size_t)got;
    }
    return true;
}

/* Tries the chat template, which may never come back. */
static bool say_hello(struct worker *w)
{
    struct vr_prepare_hello hello = { 0 };
    struct vr_err err = { 0 };
    vr_budget_stage(VR_STAGE_START);
    vr_budget_begin(0);
    if (w->setup->chats)
        w->preparer.chats = vr_bridge_chats_open(w->preparer.model, w->setup->chat_template, &w->preparer.caps, &err);
    vr_budget_end();
    hello.ok = w->preparer.chats != NULL;
    hello.caps = w->preparer.caps;
    snprintf(hello.why, sizeof hello.why, "%.399s", err.msg);
    return vr_fd_write(w->fd, &hello, sizeof hello);
}

/* One request. False: it was the last. */
static bool prepare_one(struct worker *w)
{
    struct vr_prepare_ask ask;
    struct vr_prepare_answer answer = { 0 };
    VR_AUTO_BUF out = { .max = VR_MOST_ANSWER };
    if (!take(w->fd, &ask, sizeof ask)) return false;
    vr_budget_stage(VR_STAGE_JSON);
    vr_budget_begin(ask.n_body ? ask.n_body : 1);
    VR_AUTO_FREE char *body = malloc(ask.n_body + 1);
    if (!body || !take(w->fd, body, ask.n_body)) return false;
    vr_prepare(&w->preparer, &ask.facts, body, ask.n_body, &out);
    vr_budget_end();
    answer.n = out.n;
    answer.last = out.failed || vr_budget_is_worn();
    return vr_fd_write(w->fd, &answer, sizeof answer) && vr_fd_write(w->fd, out.data, out.n) && !answer.last;
}

static void *work(void *ctx)
{
    struct worker *w = ctx;
    struct vr_err err;
    sigset_t slow;
    sigemptyset(&slow);
    sigaddset(&slow, SIGVTALRM);
    pthread_sigmask(SIG_UNBLOCK, &slow, NULL);
    if (!vr_budget_open(w->setup->stage, &err) || !say_hello(w)) return NULL;
    while (prepare_one(w)) {}
    return NULL;
}

int vr_prepare_worker(int fd, const struct vr_prepare_setup *setup)
{
    struct worker w = { .fd = fd, .setup = setup, .preparer = *setup->preparer };
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t slow;
    sigemptyset(&slow);
    sigaddset(&slow, SIGVTALRM); /* it is for the thread that works */
    pthread_sigmask(SIG_BLOCK, &slow, NULL);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, DEEP_STACK);
    if (pthread_create(&thread, &attr, work, &w) != 0) return 1;
    pthread_join(thread, NULL);
    return 0;
}
