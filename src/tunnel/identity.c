#include "tunnel/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>

#include "base/file.h"

#define FILE_NAME "identity.pem"
#define VALID_S   (100L * 365 * 86400) /* a pinned key needs no end */
#define MAX_BYTES (64u << 10)

static void to_hex(const unsigned char *bytes, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

bool vr_sha256_hex(const void *data, size_t n, char out[VR_FINGERPRINT])
{
    unsigned char digest[32];
    if (EVP_Digest(data, n, digest, NULL, EVP_sha256(), NULL) != 1) return false;
    to_hex(digest, sizeof digest, out);
    return true;
}

bool vr_random_hex(char *out, size_t n_bytes, struct vr_err *err)
{
    unsigned char bytes[64];
    if (n_bytes > sizeof bytes || RAND_bytes(bytes, (int)n_bytes) != 1)
        return vr_fail(err, VR_EINTERNAL, "the system provides no random bytes");
    to_hex(bytes, n_bytes, out);
    return true;
}

bool vr_fingerprint_of(X509 *certificate, char out[VR_FINGERPRINT])
{
    unsigned char *der = NULL;
    int n = certificate ? i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &der) : -1;
    bool ok = n > 0 && vr_sha256_hex(der, (size_t)n, out);
    OPENSSL_free(der);
    return ok;
}

bool vr_fingerprint_is(const char *text)
{
    return strlen(text) == VR_FINGERPRINT - 1 && strspn(text, "0123456789abcdef") == VR_FINGERPRINT - 1;
}

bool vr_identity_dir(char *out, size_t n, struct vr_err *err)
{
    return vr_file_own_path("XDG_CONFIG_HOME", ".config", "node", out, n) ||
           vr_fail(err, VR_EUSAGE, "there is no folder for the key of this machine: set HOME or XDG_CONFIG_HOME");
}

/* --- making one --- */

static X509 *sign_own(EVP_PKEY *key)
{
    X509 *c = X509_new();
    X509_NAME *name = c ? X509_get_subject_name(c) : NULL;
    if (name && X509_set_version(c, 2) == 1 && ASN1_INTEGER_set(X509_get_serialNumber(c), 1) == 1 &&
        X509_gmtime_adj(X509_getm_notBefore(c), -86400) && X509_gmtime_adj(X509_getm_notAfter(c), VALID_S) &&
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"vram-llm", -1, -1, 0) == 1 &&
        X509_set_issuer_name(c, name) == 1 && X509_set_pubkey(c, key) == 1 && X509_sign(c, key, NULL) > 0)
        return c;
    X509_free(c);
    return NULL;
}

static bool make(struct vr_identity *out, struct vr_err *err)
{
    out->key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    out->certificate = out->key ? sign_own(out->key) : NULL;
    return out->certificate || vr_fail(err, VR_EINTERNAL, "OpenSSL could not make a key");
}

/* Whole or not at all, and never readable by others, not even for a moment. */
static bool save(const char *path, const struct vr_identity *id, struct vr_err *err)
{
    BIO *b = BIO_new(BIO_s_mem());
    char *text;
    bool ok = b && PEM_write_bio_PrivateKey(b, id->key, NULL, NULL, 0, NULL, NULL) == 1 &&
              PEM_write_bio_X509(b, id->certificate) == 1;
    long n = ok ? BIO_get_mem_data(b, &text) : 0;
    char tmp[600];
    snprintf(tmp, sizeof tmp, "%s.%ld", path, (long)getpid());
    int fd = n > 0 ? open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    /* link(2) and not rename(2): of two that begin at the same time the first one stays */
    ok = fd >= 0 && vr_fd_write(fd, text, (size_t)n) && fsync(fd) == 0 && (link(tmp, path) == 0 || errno == EEXIST);
    if (!ok) vr_fail(err, VR_EIO, "%s: cannot be written: %s", path, strerror(errno));
    if (fd >= 0) {
        close(fd);
        unlink(tmp);
    }
    BIO_free(b);
    return ok;
}

/* --- reading it --- */

static bool load(const char *path, struct vr_identity *out, struct vr_err *err)
{
    VR_AUTO_BUF text = { 0 };
    struct stat st;
    if (stat(path, &st) == 0 && st.st_mode & 077)
        return vr_fail(err, VR_EUSAGE,
                       "%s: other users can access this key (mode %03o): chmod 600 it, or remove it and pair again",
                       path, (unsigned)st.st_mode & 0777);
    if (!vr_file_read(path, MAX_BYTES, &text, err)) return false;
    BIO *b = BIO_new_mem_buf(text.data, (int)text.n);
    out->key = b ? PEM_read_bio_PrivateKey(b, NULL, NULL, NULL) : NULL;
    out->certificate = out->key ? PEM_read_bio_X509(b, NULL, NULL, NULL) : NULL;
    BIO_free(b);
    OPENSSL_cleanse(text.data, text.n);
    if (out->certificate && X509_check_private_key(out->certificate, out->key) == 1 &&
        vr_fingerprint_of(out->certificate, out->fingerprint))
        return true;
    return vr_fail(err, VR_EFORMAT, "%s does not hold a key and its certificate; remove it, and pair again", path);
}

bool vr_identity_open(const char *dir, struct vr_identity *out, struct vr_err *err)
{
    char path[560];
    *out = (struct vr_identity){ 0 };
    if (snprintf(path, sizeof path, "%s/" FILE_NAME, dir) >= (int)sizeof path)
        return vr_fail(err, VR_EUSAGE, "%s: the name is too long", dir);
    if (access(path, F_OK) != 0) {
        VR_AUTO_IDENTITY fresh = { 0 };
        if (!vr_file_make_parents(path, err) || !make(&fresh, err) || !save(path, &fresh, err)) return false;
    }
    if (load(path, out, err)) return true;
    vr_identity_done(out);
    return false;
}

void vr_identity_done(struct vr_identity *id)
{
    X509_free(id->certificate);
    EVP_PKEY_free(id->key);
    id->certificate = NULL;
    id->key = NULL;
}
