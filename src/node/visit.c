/* TLS first: a key that nobody knows gets no further, unless a join token is out; then it may show the secret and do
 * nothing else. The process that lends is a child of this one, has the RPC bytes and nothing more, and dies with it. */
#include "node/visit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/confine.h"
#include "base/file.h"
#include "base/log.h"
#include "hw/profile.h"
#include "tunnel/pump.h"

#define ANSWER_MS 20000
#define LOOK_MS   30000 /* for measuring the link */
#define START_MS  25000 /* for the engine to load its drivers */
#define WAIT_MS   5000  /* for the same client's last visit to end */

/* The process that lends is forked before this one has a key or a connection: whoever takes it over finds neither. It
 * waits for what it is to lend, and ends when nobody says. */
struct lender {
    pid_t pid;
    int data;  /* RPC; the other end is the child's */
    int order; /* struct vr_lend goes out here, "+" or why not comes back */
};

struct visit {
    const struct vr_node *node;
    struct vr_owner *owner;
    struct vr_pairs pairs;
    struct vr_secure *s;
    struct lender lender;
    const char *address;
    char client[VR_NODE_NAME];
    bool stranger; /* not paired: let in to show a secret */
};

/* --- whose the devices are --- */

struct vr_owner {
    int lock; /* an open file whose lock the owner's process has: it is gone when the process is */
    char name[VR_NODE_NAME], key[VR_FINGERPRINT];
};

struct vr_owner *vr_owner_new(struct vr_err *err)
{
    struct vr_owner *o = mmap(NULL, sizeof *o, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (o == MAP_FAILED) return VR_FAIL_NULL(err, VR_ENOMEM, "out of memory while starting the node");
    o->lock = memfd_create("owner", MFD_CLOEXEC);
    if (o->lock >= 0) return o;
    munmap(o, sizeof *o);
    return VR_FAIL_NULL(err, VR_EIO, "no lock for the devices can be made: %s", strerror(errno));
}

static bool take_devices(struct visit *v)
{
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    for (uint64_t until = vr_now_ms() + WAIT_MS;;) {
        if (fcntl(v->owner->lock, F_SETLK, &whole) == 0) break;
        if (strcmp(v->owner->key, vr_secure_peer(v->s)) != 0 || vr_now_ms() > until) return false;
        nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
    }
    memcpy(v->owner->name, v->client, sizeof v->owner->name);
    snprintf(v->owner->key, sizeof v->owner->key, "%s", vr_secure_peer(v->s));
    return true;
}

static void owner_name(struct vr_owner *o, char out[VR_NODE_NAME])
{
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    out[0] = '\0';
    if (fcntl(o->lock, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK) vr_node_name(o->name, out);
}

/* --- answers --- */

static bool answer(struct visit *v, enum vr_packet_kind kind, const void *data, size_t n)
{
    VR_AUTO_BUF b = { 0 };
    struct vr_err err = { 0 };
    vr_packet_add(&b, kind, data, n);
    if (vr_secure_send(v->s, &b, ANSWER_MS, &err)) return true;
    vr_log(VR_WARN, "%s", err.msg);
    return false;
}

static int refuse(struct visit *v, const struct vr_err *err)
{
    size_t n = strlen(err->msg);
    if (!err->code) return 1; /* it took no answer, which was told: it will not take this one */
    vr_log(VR_WARN, "%s (%s) was refused: %s", v->client[0] ? v->client : "a client", v->address, err->msg);
    answer(v, VR_PACKET_REFUSAL, err->msg, n < 1000 ? n : 1000);
    return 1;
}

static bool welcome(struct visit *v, const struct vr_machine *m, struct vr_err *err)
{
    VR_AUTO_WELCOME w = { .versions = v->node->versions };
    VR_AUTO_BUF text = { 0 };
    memcpy(w.name, v->node->name, sizeof w.name);
    owner_name(v->owner, w.owner);
    if (m) vr_profile_print(m, &w.machine);
    if (!vr_welcome_write(&w, &text) || text.n > VR_PROFILE_MAX_BYTES) return vr_fail_nomem(err, "answering a client");
    return answer(v, VR_PACKET_WELCOME, text.data, text.n);
}

/* --- joining --- */

static int join(struct visit *v, const struct vr_hello *h)
{
    struct vr_err err = { 0 };
    struct vr_pair one = { 0 };
    VR_AUTO_CLOSE int lock = vr_pairs_lock(v->node->dir, &err); /* a token is good for one */
    memcpy(one.name, h->name, sizeof one.name);
    snprintf(one.fingerprint, sizeof one.fingerprint, "%s", vr_secure_peer(v->s));
    if (lock < 0 || !vr_pairs_load(v->node->dir, &v->pairs, &err)) return refuse(v, &err);
    if (!vr_join_is(&v->pairs, h->secret, (int64_t)time(NULL))) {
        vr_fail(
            &err, VR_EUSAGE,
            "the join token has been used, has expired, or is another node's; 'vram-llm node --init' makes a new one");
    } else if (vr_pairs_add(v->pairs.clients, &v->pairs.n_clients, &one, false, &err)) {
        v->pairs.join_sha256[0] = '\0';
        if (vr_pairs_save(v->node->dir, &v->pairs, &err)) {
            vr_log(VR_INFO, "%s (%s) joined, with key %.16s…", one.name, v->address, one.fingerprint);
            if (welcome(v, NULL, &err)) return 0;
        }
    }
    return refuse(v, &err);
}

/* --- looking --- */

static int look(struct visit *v)
{
    struct vr_err err = { 0 };
    struct vr_packet p;
    VR_AUTO(vr_machine) m = vr_machine_new(&err);
    if (!m || !v->node->describe(v->node->ctx, m, &err) || !welcome(v, m, &err)) return refuse(v, &err);
    for (uint64_t until = vr_now_ms() + LOOK_MS, now = 0; now < until; now = vr_now_ms()) {
        if (!vr_secure_next(v->s, &p, ANSWER_MS, &err)) break; /* it has seen enough */
        if (p.kind != VR_PACKET_ECHO || !answer(v, VR_PACKET_ECHO, p.data, p.n)) break;
    }
    return 0;
}

/* --- lending --- */

static bool say_ready(void *ctx) { return vr_fd_write(*(int *)ctx, "+", 1); }

/* In the child. */
static int lend_process(int data, int order)
{
    static struct vr_lend l;
    struct vr_err err = { 0 };
    for (size_t at = 0; at < sizeof l;) {
        ssize_t n = read(order, (char *)&l + at, sizeof l - at);
        if (n <= 0) return 1;
        at += (size_t)n;
    }
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, STDOUT_FILENO) < 0) return 1; /* the RPC server talks */
    if (vr_lend_run(&l, data, say_ready, &order, &err)) return 0;
    return vr_fd_write(order, err.msg, strlen(err.msg)) ? 1 : 2;
}

/* `connection` is not for it, nor whose the devices are. */
static bool lender_start(struct lender *l, int connection, struct vr_owner *owner, struct vr_err *err)
{
    int data[2], order[2];
    pid_t parent = getpid();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, data) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, order) != 0 || (l->pid = fork()) < 0)
        return vr_fail(err, VR_EIO, "no process can be started: %s", strerror(errno));
    if (l->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(connection);
        close(owner->lock);
        munmap(owner, sizeof *owner);
        close(data[0]);
        close(order[0]);
        _exit(getppid() == parent ? lend_process(data[1], order[1]) : 1);
    }
    close(data[1]);
    close(order[1]);
    l->data = data[0];
    l->order = order[0];
    return true;
}

/* And what it has on the devices is free again. */
static void lender_end(const struct lender *l)
{
    kill(l->pid, SIGKILL);
    waitpid(l->pid, NULL, 0);
    close(l->data);
    close(l->order);
}

/* "+", or why not. */
static bool await_ready(int fd, struct vr_err *err)
{
    char text[900];
    struct pollfd p = { fd, POLLIN, 0 };
    ssize_t n = poll(&p, 1, START_MS) > 0 ? read(fd, text, sizeof text - 1) : -1;
    if (n > 0 && text[0] == '+') return true;
    text[n > 0 ? n : 0] = '\0';
    return vr_fail(err, VR_EENGINE, "%s", n > 0 ? text : "the engine did not start; the node's log says more");
}

static const char *how_it_ended(enum vr_pump_end end)
{
    switch (end) {
    case VR_PUMP_LOCAL: return "the engine's process here ended";
    case VR_PUMP_PEER: return "it closed the connection";
    case VR_PUMP_SILENT: return "it has not answered for long";
    case VR_PUMP_BROKEN: return "it sent something that is no message";
    default: return "memory ran out";
    }
}

static int lend(struct visit *v, const struct vr_hello *h)
{
    struct vr_err err = { 0 };
    VR_AUTO_FREE struct vr_lend *l = calloc(1, sizeof *l);
    VR_AUTO(vr_machine) m = vr_machine_new(&err);
    char owner[VR_NODE_NAME];
    if (!l || !m) return vr_fail_nomem(&err, "lending devices"), refuse(v, &err);
    if (!take_devices(v)) {
        owner_name(v->owner, owner);
        vr_fail(&err, VR_EDEVICE, "its devices are lent to %s", owner[0] ? owner : "somebody else");
        return refuse(v, &err);
    }
    if (!v->node->describe(v->node->ctx, m, &err) || !v->node->prepare(v->node->ctx, m, h, l, &err))
        return refuse(v, &err);
    if (!vr_fd_write(v->lender.order, l, sizeof *l))
        return vr_fail(&err, VR_EENGINE, "its engine process has ended"), refuse(v, &err);
    if (!await_ready(v->lender.order, &err)) return refuse(v, &err);
    if (!welcome(v, NULL, &err)) return 1;
    vr_log(VR_INFO, "%zu device%s lent to %s (%s)", h->n_devices, h->n_devices == 1 ? "" : "s", v->client, v->address);
    vr_confine(&(struct vr_confine){ .calls = VR_CALLS_DRIVERS, .confines_files = true }, NULL);
    enum vr_pump_end end = vr_pump_run(v->s, v->lender.data, v->node->silent_ms, NULL);
    vr_log(VR_INFO, "%s (%s) gave the devices back: %s", v->client, v->address, how_it_ended(end));
    return 0;
}

/* --- who comes --- */

static bool known(void *ctx, const char *fingerprint)
{
    struct visit *v = ctx;
    v->stranger = !vr_pairs_by_key(v->pairs.clients, v->pairs.n_clients, fingerprint);
    return !v->stranger || vr_join_open(&v->pairs, (int64_t)time(NULL));
}

static int hear(struct visit *v)
{
    struct vr_packet p;
    struct vr_hello h;
    struct vr_err err = { 0 };
    if (!vr_secure_next(v->s, &p, ANSWER_MS, &err)) return 1;
    if (p.kind != VR_PACKET_HELLO || !vr_hello_read(p.data, p.n, &h))
        return vr_fail(&err, VR_EFORMAT, "the client's first message is malformed"), refuse(v, &err);
    memcpy(v->client, h.name, sizeof v->client);
    if (v->stranger && h.want != VR_WANT_JOIN)
        return vr_fail(&err, VR_EUSAGE, "this key is not paired with it"), refuse(v, &err);
    if (!vr_versions_match(&v->node->versions, v->node->name, &h.versions, h.name, &err)) return refuse(v, &err);
    switch (h.want) {
    case VR_WANT_JOIN: return join(v, &h);
    case VR_WANT_LEND: return lend(v, &h);
    default: return look(v);
    }
}

int vr_node_visit(const struct vr_node *n, struct vr_owner *owner, int fd, const char *address)
{
    struct vr_err err = { 0 };
    VR_AUTO_FREE struct visit *v = calloc(1, sizeof *v);
    VR_AUTO_IDENTITY self = { 0 };
    if (!v) return 1;
    v->node = n;
    v->owner = owner;
    v->address = address;
    const struct vr_secure_ask ask = {
        .self = &self, .server = true, .known = known, .ctx = v, .peer = address, .timeout_ms = ANSWER_MS
    };
    if (!lender_start(&v->lender, fd, owner, &err)) {
        vr_log(VR_ERROR, "%s", err.msg);
        close(fd);
        return 1;
    }
    if (!vr_pairs_load(n->dir, &v->pairs, &err) || !vr_identity_open(n->dir, &self, &err)) {
        vr_log(VR_ERROR, "%s", err.msg);
        close(fd);
    } else if (!(v->s = vr_secure_open(fd, &ask, &err))) {
        vr_log(VR_WARN, "%s", err.msg);
    }
    int status = v->s ? hear(v) : 1;
    vr_secure_free(v->s);
    lender_end(&v->lender);
    return status;
}
