#include "remote/sum.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <string.h>

#define BLOCK ((size_t)1 << 20)

struct vr_sum {
    int fd;
    uint64_t length;
    EVP_MD_CTX *md;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    uint64_t allowed; /* under the lock */
    uint64_t wanted;  /* under the lock: the thread sleeps until so many are allowed */
    bool stop;        /* under the lock */
    int error;        /* errno; the thread's until it has ended */
};

static uint64_t wait_past(struct vr_sum *s, uint64_t at)
{
    pthread_mutex_lock(&s->lock);
    s->wanted = s->length - at < BLOCK ? s->length : at + BLOCK; /* being woken for less costs more than hashing it */
    while (!s->stop && s->allowed < s->wanted) pthread_cond_wait(&s->more, &s->lock);
    uint64_t upto = s->stop ? 0 : s->allowed;
    pthread_mutex_unlock(&s->lock);
    return upto;
}

static void *follow(void *ctx)
{
    struct vr_sum *s = ctx;
    VR_AUTO_FREE char *block = malloc(BLOCK);
    if (!block) s->error = ENOMEM;
    for (uint64_t at = 0; at < s->length && !s->error;) {
        uint64_t upto = wait_past(s, at);
        if (upto <= at) return NULL; /* stopped */
        while (at < upto && !s->error) {
            ssize_t n = pread(s->fd, block, upto - at < BLOCK ? (size_t)(upto - at) : BLOCK, (off_t)at);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0 || !EVP_DigestUpdate(s->md, block, (size_t)n)) s->error = n < 0 ? errno : EIO;
            if (n > 0) at += (uint64_t)n;
        }
    }
    return NULL;
}

static bool begin_digest(struct vr_sum *s, size_t n_digits)
{
    char head[48];
    s->md = EVP_MD_CTX_new();
    if (!s->md) return false;
    if (n_digits == 64) return EVP_DigestInit_ex(s->md, EVP_sha256(), NULL);
    int n = snprintf(head, sizeof head, "blob %" PRIu64, s->length); /* git's, with the NUL */
    return EVP_DigestInit_ex(s->md, EVP_sha1(), NULL) && EVP_DigestUpdate(s->md, head, (size_t)n + 1);
}

struct vr_sum *vr_sum_start(int fd, uint64_t length, size_t n_digits, struct vr_err *err)
{
    struct vr_sum *s = calloc(1, sizeof *s);
    if (!s) return vr_fail_nomem(err, "computing a checksum"), NULL;
    s->fd = fd;
    s->length = length;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->more, NULL);
    if (begin_digest(s, n_digits) && pthread_create(&s->thread, NULL, follow, s) == 0) return s;
    EVP_MD_CTX_free(s->md);
    free(s);
    return VR_FAIL_NULL(err, VR_EINTERNAL, "computing a checksum: no thread or no hash function could be had");
}

void vr_sum_allow(struct vr_sum *s, uint64_t bytes)
{
    pthread_mutex_lock(&s->lock);
    s->allowed = bytes;
    if (bytes >= s->wanted) pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
}

static void join(struct vr_sum *s)
{
    if (s->thread) pthread_join(s->thread, NULL);
    s->thread = 0;
}

bool vr_sum_wait(struct vr_sum *s, char *hex, struct vr_err *err)
{
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    join(s);
    if (s->error || !EVP_DigestFinal_ex(s->md, raw, &n))
        return vr_fail(err, VR_EIO, "computing a checksum: %s", strerror(s->error ? s->error : EIO));
    for (unsigned i = 0; i < n && i < 32; i++) snprintf(hex + 2 * i, 3, "%02x", raw[i]);
    return true;
}

void vr_sum_free(struct vr_sum *s)
{
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
    join(s);
    EVP_MD_CTX_free(s->md);
    free(s);
}
