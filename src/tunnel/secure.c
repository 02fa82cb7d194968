#include "tunnel/secure.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/clock.h"

#define READ_BYTES ((size_t)64 << 10)
#define HEAR_MS    1000
#define SUITES     "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384"

struct vr_secure {
    int fd;
    SSL_CTX *ctx;
    SSL *ssl;
    struct vr_secure_ask ask;
    char peer[VR_FINGERPRINT], who[280];
    bool unknown;     /* the peer's key */
    struct vr_buf in; /* for vr_secure_next() */
    size_t told;      /* of it */
};

/* In place of OpenSSL's own: a key is known or not; who signed it, and until when, says nothing. */
static int check_peer(X509_STORE_CTX *store, void *ctx)
{
    struct vr_secure *s = ctx;
    X509 *certificate = X509_STORE_CTX_get0_cert(store);
    if (vr_fingerprint_of(certificate, s->peer) && s->ask.known(s->ask.ctx, s->peer)) return 1;
    s->unknown = true;
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED);
    return 0;
}

static bool set_up(struct vr_secure *s)
{
    s->ctx = SSL_CTX_new(s->ask.server ? TLS_server_method() : TLS_client_method());
    if (!s->ctx || SSL_CTX_set_min_proto_version(s->ctx, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(s->ctx, SUITES) != 1 ||
        SSL_CTX_use_certificate(s->ctx, s->ask.self->certificate) != 1 ||
        SSL_CTX_use_PrivateKey(s->ctx, s->ask.self->key) != 1)
        return false;
    SSL_CTX_set_verify(s->ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_cert_verify_callback(s->ctx, check_peer, s);
    SSL_CTX_set_session_cache_mode(s->ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(s->ctx, 0); /* nothing is resumed, and nothing comes before the keys are shown */
    SSL_CTX_set_mode(s->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    s->ssl = SSL_new(s->ctx);
    return s->ssl && SSL_set_fd(s->ssl, s->fd) == 1;
}

static void set_socket(int fd)
{
    int on = 1;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

/* Waits until the socket is what OpenSSL wants. False: it is too late. */
static bool wait_for(struct vr_secure *s, int result, uint64_t until_ms)
{
    int want = SSL_get_error(s->ssl, result);
    struct pollfd p = { s->fd, want == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN, 0 };
    if (want != SSL_ERROR_WANT_READ && want != SSL_ERROR_WANT_WRITE) return false;
    for (;;) {
        uint64_t now = vr_now_ms();
        int n = now < until_ms ? poll(&p, 1, (int)(until_ms - now)) : 0;
        if (n < 0 && errno == EINTR) continue;
        return n > 0;
    }
}

static bool open_fail(struct vr_secure *s, uint64_t until_ms, struct vr_err *err)
{
    unsigned long code = ERR_peek_error();
    const char *reason = ERR_reason_error_string(code);
    if (s->unknown && s->ask.server) return vr_fail(err, VR_EUSAGE, "%s has a key that is not paired", s->who);
    if (s->unknown)
        return vr_fail(err, VR_EUSAGE,
                       "%s has a different key from the one it was paired with: if it was set up anew, pair again "
                       "(vram-llm node --init there, --join here); if not, the connection may be intercepted",
                       s->who);
    if (vr_now_ms() >= until_ms) return vr_fail(err, VR_EIO, "%s does not answer", s->who);
    return vr_fail(err, VR_EIO, "%s does not speak TLS 1.3 as a node does%s%s", s->who, reason ? ": " : "",
                   reason ? reason : "");
}

/* Closing with bytes unread would make the kernel throw away what was sent: the peer is to hear why it was refused. */
static void let_it_hear(int fd)
{
    char block[4096];
    uint64_t until = vr_now_ms() + HEAR_MS;
    struct pollfd p = { fd, POLLIN, 0 };
    shutdown(fd, SHUT_WR);
    for (uint64_t now = vr_now_ms(); now < until; now = vr_now_ms())
        if (poll(&p, 1, (int)(until - now)) <= 0 || read(fd, block, sizeof block) <= 0) return;
}

struct vr_secure *vr_secure_open(int fd, const struct vr_secure_ask *ask, struct vr_err *err)
{
    VR_AUTO(vr_secure) s = calloc(1, sizeof *s);
    if (!s) {
        close(fd);
        return VR_FAIL_NULL(err, VR_ENOMEM, "out of memory while opening a connection");
    }
    s->fd = fd;
    s->ask = *ask;
    snprintf(s->who, sizeof s->who, "%s", ask->peer);
    set_socket(fd);
    ERR_clear_error();
    if (!set_up(s)) return VR_FAIL_NULL(err, VR_EINTERNAL, "OpenSSL cannot speak TLS 1.3 here");
    uint64_t until = vr_now_ms() + (uint64_t)ask->timeout_ms;
    int n;
    do n = ask->server ? SSL_accept(s->ssl) : SSL_connect(s->ssl);
    while (n != 1 && wait_for(s, n, until));
    if (n == 1) return VR_TAKE(s);
    open_fail(s, until, err);
    if (ask->server) let_it_hear(fd);
    return NULL;
}

void vr_secure_free(struct vr_secure *s)
{
    if (!s) return;
    if (s->ssl && SSL_is_init_finished(s->ssl)) SSL_shutdown(s->ssl); /* told, not waited for */
    ERR_clear_error();
    SSL_free(s->ssl);
    SSL_CTX_free(s->ctx);
    vr_buf_done(&s->in);
    close(s->fd);
    free(s);
}

int vr_secure_fd(const struct vr_secure *s) { return s->fd; }
const char *vr_secure_peer(const struct vr_secure *s) { return s->peer; }
bool vr_secure_pending(const struct vr_secure *s) { return SSL_pending(s->ssl) > 0; }

static long result_of(struct vr_secure *s, int n)
{
    if (n > 0) return n;
    int want = SSL_get_error(s->ssl, n);
    return want == SSL_ERROR_WANT_READ || want == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

long vr_secure_read(struct vr_secure *s, void *out, size_t n)
{
    ERR_clear_error();
    return result_of(s, SSL_read(s->ssl, out, (int)(n < READ_BYTES ? n : READ_BYTES)));
}

long vr_secure_write(struct vr_secure *s, const void *data, size_t n)
{
    ERR_clear_error();
    return result_of(s, SSL_write(s->ssl, data, (int)(n < READ_BYTES ? n : READ_BYTES)));
}

bool vr_secure_send(struct vr_secure *s, const struct vr_buf *b, int timeout_ms, struct vr_err *err)
{
    if (b->failed) return vr_fail_nomem(err, "writing a message");
    uint64_t until = vr_now_ms() + (uint64_t)timeout_ms;
    for (size_t at = 0; at < b->n;) {
        ERR_clear_error();
        int n = SSL_write(s->ssl, b->data + at, (int)(b->n - at < READ_BYTES ? b->n - at : READ_BYTES));
        if (n > 0)
            at += (size_t)n;
        else if (!wait_for(s, n, until))
            return vr_fail(err, VR_EIO, "%s %s", s->who,
                           vr_now_ms() >= until ? "takes no more data" : "closed the connection");
    }
    return true;
}

/* In TLS 1.3 a client hears only after its handshake that its key was not taken. */
static bool lost(struct vr_secure *s, uint64_t until, struct vr_err *err)
{
    int reason = ERR_GET_REASON(ERR_peek_error());
    if (vr_now_ms() >= until) return vr_fail(err, VR_EIO, "%s does not answer", s->who);
    if (reason > SSL_AD_REASON_OFFSET)
        return vr_fail(err, VR_EUSAGE,
                       "%s does not know the key of this machine: pair them (vram-llm node --init there, --join here)",
                       s->who);
    return vr_fail(err, VR_EIO, "%s closed the connection", s->who);
}

bool vr_secure_next(struct vr_secure *s, struct vr_packet *out, int timeout_ms, struct vr_err *err)
{
    uint64_t until = vr_now_ms() + (uint64_t)timeout_ms;
    vr_secure_rest(s);
    for (;;) {
        char block[16 << 10];
        long len = vr_packet_parse((const uint8_t *)vr_buf_str(&s->in), s->in.n, out);
        if (len < 0) return vr_fail(err, VR_EFORMAT, "%s sent a malformed message", s->who);
        if (len > 0) return s->told = (size_t)len, true;
        ERR_clear_error();
        int n = SSL_read(s->ssl, block, sizeof block);
        if (n > 0)
            vr_buf_add(&s->in, block, (size_t)n);
        else if (!wait_for(s, n, until))
            return lost(s, until, err);
        if (s->in.failed) return vr_fail_nomem(err, "reading a message");
    }
}

const struct vr_buf *vr_secure_rest(struct vr_secure *s)
{
    if (s->told) {
        memmove(s->in.data, s->in.data + s->told, s->in.n - s->told);
        s->in.n -= s->told;
        s->told = 0;
    }
    return &s->in;
}
