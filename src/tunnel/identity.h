/* Who this machine is for others: a key and a certificate that it signed itself, in one file that only its user can
 * read. Nobody vouches for it: peers know each other by the fingerprint of the key (SHA-256 of the public key), which
 * they exchanged once (pairs.h). */
#ifndef VR_TUNNEL_IDENTITY_H
#define VR_TUNNEL_IDENTITY_H

#include "base/err.h"

#define VR_FINGERPRINT 65 /* 64 hexadecimal digits and a NUL */

typedef struct ssl_ctx_st SSL_CTX;
typedef struct x509_st X509;
typedef struct evp_pkey_st EVP_PKEY;

struct vr_identity {
    EVP_PKEY *key;
    X509 *certificate;
    char fingerprint[VR_FINGERPRINT];
};

/* The file in folder `dir`, which is made, with a new key, if there is none yet. */
bool vr_identity_open(const char *dir, struct vr_identity *out, struct vr_err *err) VR_MUST_CHECK;
void vr_identity_done(struct vr_identity *id);
#define VR_AUTO_IDENTITY VR_CLEANUP(vr_identity_done) struct vr_identity

/* Of a peer's certificate. */
bool vr_fingerprint_of(X509 *certificate, char out[VR_FINGERPRINT]) VR_MUST_CHECK;
/* 64 lower-case hexadecimal digits? */
bool vr_fingerprint_is(const char *text);

/* The folder of keys and peers: $XDG_CONFIG_HOME/vram-llm/node, or below ~/.config. */
bool vr_identity_dir(char *out, size_t n, struct vr_err *err) VR_MUST_CHECK;

/* n random bytes as 2n hexadecimal digits. */
bool vr_random_hex(char *out, size_t n_bytes, struct vr_err *err) VR_MUST_CHECK;
/* SHA-256 of a text, as digits. */
bool vr_sha256_hex(const void *data, size_t n, char out[VR_FINGERPRINT]) VR_MUST_CHECK;

#endif
