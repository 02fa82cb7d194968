#include "server/http/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

static bool tls_fail(struct vr_err *err, const char *path)
{
    char why[160];
    ERR_error_string_n(ERR_peek_last_error(), why, sizeof why);
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return vr_fail(err, VR_EUSAGE, "%s: %s", path, reason ? reason : why);
}

static int choose_http1(SSL *ssl, const unsigned char **out, unsigned char *n, const unsigned char *in, unsigned n_in,
                        void *ctx)
{
    (void)ssl;
    (void)ctx;
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *found;
    if (SSL_select_next_proto(&found, n, ours, sizeof ours - 1, in, n_in) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *out = found;
    return SSL_TLSEXT_ERR_OK;
}

SSL_CTX *vr_tls_open(const char *cert, const char *key, struct vr_err *err)
{
    SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
    if (!tls) return VR_FAIL_NULL(err, VR_ENOMEM, "out of memory while starting TLS");
    SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION);
    SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(tls, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_alpn_select_cb(tls, choose_http1, NULL);
    bool ok = true;
    if (SSL_CTX_use_certificate_chain_file(tls, cert) != 1)
        ok = tls_fail(err, cert);
    else if (SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1)
        ok = tls_fail(err, key);
    else if (SSL_CTX_check_private_key(tls) != 1)
        ok = vr_fail(err, VR_EUSAGE, "the key in %s does not match the certificate in %s", key, cert);
    if (ok) return tls;
    SSL_CTX_free(tls);
    return NULL;
}
