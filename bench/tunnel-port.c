/* A tunnel to a node with a plain port on this side, so that llama.cpp's own client can compute over it: with that the
 * tunnel is all that differs from its plain RPC. (There is one socket more than where vram-llm computes.)
 *
 *     tunnel-port NODE DEVICE        of those that this machine is paired with; prints the port */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "engine/rpc/borrow.h"
#include "tunnel/dial.h"
#include "tunnel/pump.h"

#define SILENT_MS 20000

static int carry(const char *dir, const struct vr_pair *node, const char *device, int fd)
{
    struct vr_err err = { 0 };
    struct vr_hello hello = { .want = VR_WANT_LEND, .name = "bench", .n_devices = 1 };
    VR_AUTO_IDENTITY self = { 0 };
    VR_AUTO_WELCOME welcome = { 0 };
    vr_rpc_versions(&hello.versions);
    snprintf(hello.devices[0], sizeof hello.devices[0], "%s", device);
    if (vr_identity_open(dir, &self, &err)) {
        VR_AUTO(vr_secure) s = vr_dial(node, &self, &hello, &welcome, &err);
        if (s) return (int)vr_pump_run(s, fd, SILENT_MS, NULL);
    }
    return fprintf(stderr, "tunnel-port: %s\n", err.msg), 1;
}

int main(int argc, char **argv)
{
    static struct vr_pairs pairs;
    char dir[512];
    struct vr_err err = { 0 };
    if (argc != 3) return fprintf(stderr, "tunnel-port NODE DEVICE\n"), 2;
    bool ok = vr_identity_dir(dir, sizeof dir, &err) && vr_pairs_load(dir, &pairs, &err);
    const struct vr_pair *node = ok ? vr_pairs_by_name(&pairs, argv[1]) : NULL;
    if (!node) return fprintf(stderr, "tunnel-port: %s is not paired. %s\n", argv[1], err.msg), 1;
    int on = 1, listening = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof at;
    if (bind(listening, (struct sockaddr *)&at, n) != 0 || listen(listening, 8) != 0) return perror("tunnel-port"), 1;
    getsockname(listening, (struct sockaddr *)&at, &n);
    printf("port %u\n", ntohs(at.sin_port));
    fflush(stdout);
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int fd = accept(listening, NULL, NULL);
        if (fd >= 0 && fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            signal(SIGPIPE, SIG_IGN);
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            _exit(carry(dir, node, argv[2], fd));
        }
        if (fd >= 0) close(fd);
    }
}
