/* TLS as this server speaks it: 1.2 or newer, HTTP/1.1, no renegotiation. */
#ifndef VR_SERVER_HTTP_TLS_H
#define VR_SERVER_HTTP_TLS_H

#include <openssl/types.h>

#include "base/err.h"

/* A certificate with its chain and its key, both PEM files. The caller frees it with SSL_CTX_free(); connections that
 * were made with it keep it alive. */
SSL_CTX *vr_tls_open(const char *cert, const char *key, struct vr_err *err) VR_MUST_CHECK;

#endif
