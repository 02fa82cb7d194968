/* The child says "+" when the devices are lent, or "-" and why not; later, why it ends. */
#include "tunnel/tunnel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/confine.h"
#include "base/file.h"
#include "tunnel/dial.h"
#include "tunnel/pump.h"

#define OPEN_MS 90000 /* a node may need this long to start its engine */

static void say(int fd, const char *text)
{
    if (!vr_fd_write(fd, text, strlen(text))) return; /* then nobody listens any more */
}

static void tell_end(int fd, const char *node, unsigned silent_s, enum vr_pump_end end)
{
    char text[200] = "";
    if (end == VR_PUMP_PEER) snprintf(text, sizeof text, "node %s closed the connection", node);
    if (end == VR_PUMP_SILENT) snprintf(text, sizeof text, "node %s has not answered for %u seconds", node, silent_s);
    if (end == VR_PUMP_BROKEN) snprintf(text, sizeof text, "node %s sent something that is no message", node);
    if (end == VR_PUMP_NOMEM) snprintf(text, sizeof text, "the tunnel to node %s ran out of memory", node);
    say(fd, text);
}

/* In the child. It goes on with the connection and the two descriptors alone. */
static int run(const struct vr_pair *node, const struct vr_hello *hello, unsigned silent_s, int fd, int why_fd,
               _Atomic uint64_t *sent)
{
    char dir[512];
    struct vr_err err = { 0 };
    VR_AUTO_IDENTITY self = { 0 };
    VR_AUTO_WELCOME welcome = { 0 };
    VR_AUTO(vr_secure) s = NULL;
    if (vr_identity_dir(dir, sizeof dir, &err) && vr_identity_open(dir, &self, &err))
        s = vr_dial(node, &self, hello, &welcome, &err);
    if (!s) return say(why_fd, "-"), say(why_fd, err.msg), 1;
    vr_confine(&(struct vr_confine){ .calls = VR_CALLS_COMPUTE, .confines_files = true, .user = "nobody" }, NULL);
    vr_confine_settle();
    say(why_fd, "+");
    tell_end(why_fd, node->name, silent_s, vr_pump_run(s, fd, (int)silent_s * 1000, sent));
    return 0;
}

/* "+", or the sentence. */
static bool hear(int fd, const char *node, struct vr_err *err)
{
    char text[900];
    size_t n = 0;
    struct pollfd p = { fd, POLLIN, 0 };
    uint64_t until = vr_now_ms() + OPEN_MS;
    while (n + 1 < sizeof text) {
        uint64_t now = vr_now_ms();
        if (now >= until || (poll(&p, 1, (int)(until - now)) < 0 && errno != EINTR)) break;
        ssize_t k = read(fd, text + n, sizeof text - 1 - n);
        if (k < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (k <= 0) break;
        n += (size_t)k;
        if (text[0] == '+') return true;
    }
    text[n] = '\0';
    return vr_fail(err, VR_EDEVICE, "%s%s", n > 1 ? text + 1 : "there is no tunnel to node ", n > 1 ? "" : node);
}

bool vr_tunnel_open(const struct vr_pair *node, const struct vr_hello *hello, unsigned silent_s, struct vr_tunnel *out,
                    struct vr_err *err)
{
    int data[2] = { -1, -1 }, why[2] = { -1, -1 };
    *out = (struct vr_tunnel){ -1, -1, -1, NULL };
    pid_t parent = getpid();
    void *sent = mmap(NULL, sizeof *out->sent, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (sent == MAP_FAILED) return vr_fail_nomem(err, "opening a tunnel");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, data) == 0 && pipe2(why, O_CLOEXEC) == 0) out->pid = fork();
    if (out->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGPIPE, SIG_IGN);
        close(data[0]);
        close(why[0]);
        _exit(getppid() == parent ? run(node, hello, silent_s, data[1], why[1], sent) : 1);
    }
    if (data[1] >= 0) close(data[1]);
    if (why[1] >= 0) close(why[1]);
    out->fd = data[0];
    out->why_fd = why[0];
    out->sent = sent;
    if (out->pid > 0) {
        fcntl(why[0], F_SETFL, O_NONBLOCK);
        if (hear(why[0], node->name, err)) return true;
        kill(out->pid, SIGKILL);
        waitpid(out->pid, NULL, 0);
    } else {
        vr_fail(err, VR_EIO, "no tunnel to node %s can be made: %s", node->name, strerror(errno));
    }
    if (data[0] >= 0) close(data[0]);
    if (why[0] >= 0) close(why[0]);
    munmap(sent, sizeof *out->sent);
    *out = (struct vr_tunnel){ -1, -1, -1, NULL };
    return false;
}

void vr_tunnel_why(const struct vr_tunnel *t, char *out, size_t n)
{
    ssize_t k = t->why_fd >= 0 ? read(t->why_fd, out, n - 1) : -1;
    out[k > 0 ? k : 0] = '\0';
}
