/* llama.cpp's RPC backend (ggml-rpc.cpp, unchanged) asks its transport for a connection by host and port. Ours has none
 * of its own: the port is the number of an open descriptor, one end of a socket pair whose other end is a tunnel
 * (tunnel/pump.h). So RPC is spoken without a listening port, and by a process that may not use the network.
 *
 * A descriptor serves one connection. What a message consists of is sent at once, when its end is told by flush(). */
#include <cerrno>
#include <cstring>
#include <string>

#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <ggml-rpc/transport.h>

#define SMALL_BYTES ((size_t)16 << 10) /* larger parts of a message are not copied */

struct socket_t::impl {
    int fd;
    std::string waiting;
    bool accepted = false;
};

static bool send_all(int fd, const char *data, size_t n)
{
    while (n > 0) {
        ssize_t k = send(fd, data, n, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        data += k;
        n -= (size_t)k;
    }
    return true;
}

socket_t::socket_t(std::unique_ptr<impl> p) : pimpl(std::move(p)) {}

socket_t::~socket_t() { shutdown(pimpl->fd, SHUT_RDWR); }

bool socket_t::flush()
{
    bool ok = send_all(pimpl->fd, pimpl->waiting.data(), pimpl->waiting.size());
    pimpl->waiting.clear();
    return ok;
}

bool socket_t::send_data(const void *data, size_t size)
{
    if (size > SMALL_BYTES) return flush() && send_all(pimpl->fd, (const char *)data, size);
    pimpl->waiting.append((const char *)data, size);
    return pimpl->waiting.size() <= SMALL_BYTES || flush();
}

bool socket_t::recv_data(void *data, size_t size)
{
    char *at = (char *)data;
    while (size > 0) {
        ssize_t k = recv(pimpl->fd, at, size, 0);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        at += k;
        size -= (size_t)k;
    }
    return true;
}

/* The first one; then never again: the server's loop ends, and its process with it. */
socket_ptr socket_t::accept()
{
    if (pimpl->accepted) return nullptr;
    pimpl->accepted = true;
    return connect(nullptr, pimpl->fd);
}

/* Other transports, like RDMA, are not offered and not taken. */
void socket_t::get_caps(uint8_t *local_caps) { memset(local_caps, 0, RPC_CONN_CAPS_SIZE); }
void socket_t::update_caps(const uint8_t *remote_caps) { (void)remote_caps; }

socket_ptr socket_t::create_server(const char *host, int port) { return connect(host, port); }

socket_ptr socket_t::connect(const char *host, int port)
{
    (void)host;
    std::unique_ptr<impl> p(new impl);
    p->fd = port;
    return socket_ptr(new socket_t(std::move(p)));
}

bool rpc_transport_init() { return true; }
void rpc_transport_shutdown() {}
