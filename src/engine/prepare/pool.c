/* A worker's life: asked for, born (its socket is here), ready (it has said hello), busy, and leaving: told to die, or
 * about to end by itself. Its place is free again when the zygote has reaped it: until then its request, if it has one,
 * waits to be told why. */
#include "engine/prepare/pool.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <ggml.h>

#include "base/clock.h"
#include "engine/prepare/budget.h"

enum {
    SPARE = 2, /* workers without anything to do */
    READ_BYTES = 1 << 16,
    RETRY_MS = 1000,       /* after a fork that failed */
    ASLEEP_MS = 60000,     /* beside ten times its processor time */
    MOST_TEXT = 128 << 20, /* of an answer without pictures */
};

enum state { NONE, ASKED, BORN, READY, BUSY, LEAVING };

struct worker {
    enum state state;
    int fd; /* -1: none */
    struct vr_prepare_job *job;
    struct vr_prepare_ask ask;
    size_t sent;      /* of ask and body */
    struct vr_buf in; /* hello, or an answer with its head */
    double due_ms;    /* from then on it sleeps; 0: it may */
    bool greeted;     /* it has said hello */
    bool late;
};

struct vr_pool {
    pid_t zygote;
    int control;
    atomic_int *stages;
    struct vr_pool_hooks hooks;
    struct vr_prepare_facts facts;
    struct worker workers[VR_MOST_WORKERS];
    struct vr_prepare_job *waiting, **tail;
    struct vr_prepare_hello hello;
    bool loaded, tried;   /* the vocabulary; the template */
    bool chats;           /* as far as is known */
    double retry_ms;      /* not before then */
    unsigned n_stillborn; /* in a row */
};

/* --- the zygote --- */

static _Noreturn void become_zygote(int control, int not_there, const struct vr_zygote_setup *setup)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* of the thread that forks, which lives as long as the process */
    ggml_set_abort_callback(NULL);    /* the engine process's would speak for it */
    close(not_there);
    _exit(vr_zygote_run(control, setup));
}

struct vr_pool *vr_pool_start(const char *model, const char *chat_template_or_null, int not_there,
                              const struct vr_pool_hooks *hooks, struct vr_err *err)
{
    struct vr_pool *p = calloc(1, sizeof *p);
    size_t page = VR_MOST_WORKERS * sizeof(atomic_int);
    int pair[2];
    if (!p) return VR_FAIL_NULL(err, VR_ENOMEM, "out of memory");
    p->stages = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p->stages == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        vr_fail(err, VR_EIO, "cannot make a socket for the process that prepares requests: %s", strerror(errno));
        return free(p), NULL;
    }
    p->zygote = fork();
    if (p->zygote == 0) {
        close(pair[0]);
        become_zygote(pair[1], not_there, &(struct vr_zygote_setup){ model, chat_template_or_null, p->stages });
    }
    close(pair[1]);
    p->control = pair[0];
    p->hooks = *hooks;
    p->tail = &p->waiting;
    p->chats = true;
    for (size_t i = 0; i < VR_MOST_WORKERS; i++) p->workers[i].fd = -1;
    if (p->zygote > 0) return p;
    vr_fail(err, VR_EIO, "cannot start the process that prepares requests: %s", strerror(errno));
    close(p->control);
    return free(p), NULL;
}

static bool order(struct vr_pool *p, const struct vr_zygote_order *o)
{
    return send(p->control, o, sizeof *o, MSG_NOSIGNAL) == sizeof *o;
}

/* --- jobs --- */

static void forget(struct worker *w)
{
    if (w->fd >= 0) close(w->fd);
    vr_buf_done(&w->in);
    *w = (struct worker){ .fd = -1, .state = w->state };
}

/* The job has no result. */
static void refuse(struct vr_pool *p, struct worker *w, int status)
{
    struct vr_refusal why;
    struct vr_prepare_job *job = w->job;
    int stage = atomic_load(&p->stages[w - p->workers]);
    w->job = NULL;
    if (!job) return;
    vr_budget_refuse(&why, stage, job->n_body, status, w->late);
    p->hooks.refused(p->hooks.ctx, job, &why);
}

static bool kill_worker(struct vr_pool *p, struct worker *w)
{
    w->state = LEAVING;
    return order(p, &(struct vr_zygote_order){ .what = VR_ORDER_KILL, .slot = (uint32_t)(w - p->workers) });
}

/* Sends what the socket takes; the rest when it takes more. */
static void feed(struct worker *w)
{
    size_t n_head = sizeof w->ask, n = n_head + w->job->n_body;
    while (w->sent < n) {
        bool in_head = w->sent < n_head;
        const char *from = in_head ? (const char *)&w->ask + w->sent : w->job->body + (w->sent - n_head);
        size_t left = in_head ? n_head - w->sent : n - w->sent;
        ssize_t sent = send(w->fd, from, left, MSG_DONTWAIT | MSG_NOSIGNAL | (in_head && n > n_head ? MSG_MORE : 0));
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return; /* later; or it is dead, which the zygote tells */
        w->sent += (size_t)sent;
    }
}

static void begin(struct vr_pool *p, struct worker *w, struct vr_prepare_job *job)
{
    w->state = BUSY;
    w->job = job;
    w->ask = (struct vr_prepare_ask){ .n_body = job->n_body, .facts = p->facts };
    w->sent = 0;
    w->due_ms = vr_now_fine_ms() + ASLEEP_MS + 10.0 * vr_budget_ms(job->n_body);
    atomic_store(&p->stages[w - p->workers], VR_STAGE_JSON);
    feed(w);
}

static unsigned running(const struct vr_pool *p, uint64_t client)
{
    unsigned n = 0;
    for (size_t i = 0; i < VR_MOST_WORKERS; i++) n += p->workers[i].job && p->workers[i].job->client == client;
    return n;
}

/* Takes the first job out whose client may have one more worker. */
static struct vr_prepare_job *next_job(struct vr_pool *p)
{
    for (struct vr_prepare_job **at = &p->waiting; *at; at = &(*at)->next) {
        struct vr_prepare_job *job = *at;
        if (running(p, job->client) >= VR_MOST_OF_CLIENT) continue;
        if (!(*at = job->next)) p->tail = at;
        return job;
    }
    return NULL;
}

static bool want_job(const struct vr_pool *p)
{
    for (const struct vr_prepare_job *j = p->waiting; j; j = j->next)
        if (running(p, j->client) < VR_MOST_OF_CLIENT) return true;
    return false;
}

/* --- workers --- */

static struct worker *find(struct vr_pool *p, enum state state)
{
    for (size_t i = 0; i < VR_MOST_WORKERS; i++)
        if (p->workers[i].state == state) return &p->workers[i];
    return NULL;
}

/* Workers that are, or will be, of use. */
static unsigned living(const struct vr_pool *p)
{
    unsigned n = 0;
    for (size_t i = 0; i < VR_MOST_WORKERS; i++) n += p->workers[i].state != NONE && p->workers[i].state != LEAVING;
    return n;
}

static bool ask_for_one(struct vr_pool *p)
{
    struct worker *w = find(p, NONE);
    if (!w) return true;
    w->state = ASKED;
    return order(
        p, &(struct vr_zygote_order){ .what = VR_ORDER_FORK, .slot = (uint32_t)(w - p->workers), .chats = p->chats });
}

/* Work to those who are idle, and as many workers as it takes; the first one tries the template for all. */
static bool dispatch(struct vr_pool *p)
{
    struct worker *w;
    struct vr_prepare_job *job;
    while ((w = find(p, READY)) && (job = next_job(p))) begin(p, w, job);
    if (!p->loaded || vr_now_fine_ms() < p->retry_ms) return true;
    while (living(p) < (p->tried ? SPARE : 1))
        if (!ask_for_one(p)) return false;
    bool coming = find(p, ASKED) || find(p, BORN);
    return !p->tried || coming || !want_job(p) || ask_for_one(p);
}

/* It said whether there are chats. */
static bool hear_hello(struct vr_pool *p, struct worker *w)
{
    if (w->in.n < sizeof p->hello) return true;
    struct vr_prepare_hello hello;
    memcpy(&hello, w->in.data, sizeof hello);
    hello.why[sizeof hello.why - 1] = '\0';
    if (!p->tried && p->chats) p->hello = hello;
    p->tried = true;
    p->n_stillborn = 0;
    vr_buf_clear(&w->in);
    w->state = READY;
    w->greeted = true;
    w->due_ms = 0;
    return true;
}

/* Malformed answers are no answers: the worker is killed, and what it had is refused. */
static bool hear_answer(struct vr_pool *p, struct worker *w)
{
    struct vr_prepare_answer head;
    if (w->in.n < sizeof head) return true;
    memcpy(&head, w->in.data, sizeof head);
    if (head.n == 0 || head.n > (p->facts.vision || p->facts.sound_rate ? VR_MOST_ANSWER : MOST_TEXT) ||
        w->in.n > sizeof head + head.n)
        return kill_worker(p, w);
    if (w->in.n < sizeof head + head.n) return true;
    struct vr_buf answer = w->in;
    w->in = (struct vr_buf){ 0 };
    answer.n -= sizeof head;
    memmove(answer.data, answer.data + sizeof head, answer.n);
    struct vr_prepare_job *job = w->job;
    w->job = NULL;
    w->state = head.last ? LEAVING : READY;
    w->due_ms = 0;
    p->hooks.done(p->hooks.ctx, job, &answer);
    return true;
}

static bool hear(struct vr_pool *p, struct worker *w)
{
    char block[READ_BYTES];
    ssize_t n = recv(w->fd, block, sizeof block, MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR || kill_worker(p, w);
    if (n == 0) { /* the zygote will tell how it ended */
        close(w->fd);
        w->fd = -1;
        return kill_worker(p, w);
    }
    vr_buf_add(&w->in, block, (size_t)n);
    if (w->in.failed || (w->state != BORN && w->state != BUSY)) return kill_worker(p, w);
    return w->state == BORN ? hear_hello(p, w) : hear_answer(p, w);
}

/* --- news --- */

static bool on_born(struct worker *w, int fd)
{
    if (fd < 0 || w->state != ASKED) return false;
    w->fd = fd;
    w->state = BORN;
    w->due_ms = vr_now_fine_ms() + ASLEEP_MS;
    return true;
}

/* One that died before it said hello has died of the template, unless somebody killed it. Without a template there is
 * no reason to die. */
static bool on_stillborn(struct vr_pool *p, int status, bool late, struct vr_err *err)
{
    enum { MOST_KILLED = 3 };
    struct vr_refusal why;
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !late;
    p->n_stillborn++;
    if (killed && p->n_stillborn <= MOST_KILLED) return true;
    if (!p->chats && p->n_stillborn > MOST_KILLED)
        return vr_fail(err, VR_EENGINE, "the processes that prepare requests end as soon as they are started");
    if (!p->chats) return true;
    vr_budget_refuse(&why, VR_STAGE_START, 0, status, late);
    p->chats = false;
    p->n_stillborn = 0;
    if (!p->tried) snprintf(p->hello.why, sizeof p->hello.why, "%.399s", why.message);
    return true;
}

static bool on_died(struct vr_pool *p, struct worker *w, int status, struct vr_err *err)
{
    while (w->fd >= 0 && (w->state == BORN || w->state == BUSY)) { /* its last words */
        char byte;
        if (recv(w->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0 || !hear(p, w)) break;
    }
    bool greeted = w->greeted, late = w->late;
    refuse(p, w, status);
    forget(w);
    w->state = NONE;
    return greeted || on_stillborn(p, status, late, err);
}

static bool hear_news(struct vr_pool *p, struct vr_err *err)
{
    struct vr_zygote_news news;
    int fd = -1;
    char room[CMSG_SPACE(sizeof fd)];
    struct iovec v = { &news, sizeof news };
    struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };
    ssize_t n = recvmsg(p->control, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n != sizeof news || news.slot >= VR_MOST_WORKERS)
        return vr_fail(err, VR_EENGINE, "the process that prepares requests has ended");
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c && c->cmsg_type == SCM_RIGHTS) memcpy(&fd, CMSG_DATA(c), sizeof fd);
    struct worker *w = &p->workers[news.slot];
    switch (news.what) {
    case VR_NEWS_LOADED: p->loaded = true; return true;
    case VR_NEWS_NOT_LOADED: news.why[sizeof news.why - 1] = '\0'; return vr_fail(err, VR_EENGINE, "%s", news.why);
    case VR_NEWS_BORN: return on_born(w, fd) || vr_fail(err, VR_EENGINE, "a worker that nobody asked for");
    case VR_NEWS_NOT_BORN:
        forget(w);
        w->state = NONE;
        p->retry_ms = vr_now_fine_ms() + RETRY_MS;
        return true;
    case VR_NEWS_DIED: return on_died(p, w, news.status, err);
    }
    return vr_fail(err, VR_EENGINE, "the process that prepares requests is out of order");
}

/* --- the owner's side --- */

int vr_pool_wait(const struct vr_pool *p, struct pollfd fds[VR_POOL_FDS])
{
    double now = vr_now_fine_ms(), first = p->retry_ms > now ? p->retry_ms : 0;
    fds[0] = (struct pollfd){ p->control, POLLIN, 0 };
    for (size_t i = 0; i < VR_MOST_WORKERS; i++) {
        const struct worker *w = &p->workers[i];
        bool more = w->job && w->sent < sizeof w->ask + w->job->n_body;
        fds[1 + i] = (struct pollfd){ w->fd, (short)(POLLIN | (more ? POLLOUT : 0)), 0 };
        if (w->due_ms > 0 && !w->late && (first == 0 || w->due_ms < first)) first = w->due_ms;
    }
    return first == 0 ? -1 : first > now ? (int)(first - now) + 1 : 0;
}

bool vr_pool_turn(struct vr_pool *p, const struct pollfd fds[VR_POOL_FDS], struct vr_err *err)
{
    double now = vr_now_fine_ms();
    bool ok = true;
    for (size_t i = 0; ok && i < VR_MOST_WORKERS; i++) {
        struct worker *w = &p->workers[i];
        if (w->fd < 0 || w->fd != fds[1 + i].fd) continue;
        if ((fds[1 + i].revents & POLLOUT) && w->job) feed(w);
        if (fds[1 + i].revents & (POLLIN | POLLHUP | POLLERR)) ok = hear(p, w);
        if (ok && w->due_ms > 0 && w->due_ms < now && !w->late) {
            w->late = true;
            ok = kill_worker(p, w);
        }
    }
    if (fds[0].revents && !hear_news(p, err)) return false;
    return (ok && dispatch(p)) || vr_fail(err, VR_EENGINE, "the process that prepares requests has ended");
}

bool vr_pool_hello(const struct vr_pool *p, struct vr_prepare_hello *out)
{
    *out = p->hello;
    return p->tried;
}

void vr_pool_set_facts(struct vr_pool *p, const struct vr_prepare_facts *facts) { p->facts = *facts; }

void vr_pool_add(struct vr_pool *p, struct vr_prepare_job *job)
{
    job->next = NULL;
    job->added_ms = vr_now_fine_ms();
    *p->tail = job;
    p->tail = &job->next;
    if (!dispatch(p)) return; /* the zygote is gone, as the next turn will tell */
}

bool vr_pool_drop(struct vr_pool *p, const struct vr_prepare_job *job)
{
    for (size_t i = 0; i < VR_MOST_WORKERS; i++) {
        struct worker *w = &p->workers[i];
        if (w->job != job) continue;
        w->job = NULL;
        if (w->state != LEAVING) kill_worker(p, w);
        return true;
    }
    for (struct vr_prepare_job **at = &p->waiting; *at; at = &(*at)->next) {
        if (*at != job) continue;
        if (!(*at = job->next)) p->tail = at;
        return true;
    }
    return false;
}

struct vr_pool_state vr_pool_state(const struct vr_pool *p)
{
    struct vr_pool_state s = { 0 };
    double now = vr_now_fine_ms(), first = now;
    for (size_t i = 0; i < VR_MOST_WORKERS; i++) {
        if (!p->workers[i].job) continue;
        s.n_running++;
        if (p->workers[i].job->added_ms < first) first = p->workers[i].job->added_ms;
    }
    for (const struct vr_prepare_job *j = p->waiting; j; j = j->next) {
        s.n_waiting++;
        if (j->added_ms < first) first = j->added_ms;
    }
    s.oldest_ms = now - first;
    return s;
}
