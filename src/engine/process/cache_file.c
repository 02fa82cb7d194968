/* Models are too large to be read whole for this: a file is known by its size, when it was changed, its beginning, and
 * samples of the rest, which no two trainings of a model have in common. */
#include "engine/process/cache_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "gguf/part_name.h"
#include "gguf/type.h"

enum { SAMPLES = 64, SAMPLE_BYTES = 4096, BEGINNING = 256 << 10 };

int vr_cache_file_open(const char *path, char *why, size_t n)
{
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    struct stat st;
    const char *reason;
    if (fd <= 0 || fstat(fd, &st) != 0)
        reason = strerror(errno);
    else if (!S_ISREG(st.st_mode))
        reason = "it is not a plain file";
    else if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        reason = errno == EWOULDBLOCK ? "another process uses it" : strerror(errno);
    else
        return fd;
    snprintf(why, n, "--cache-dir: cached prompts are not kept over a restart: %.120s: %s", path, reason);
    if (fd > 0) close(fd);
    return 0;
}

static uint64_t mix(int fd, uint64_t at, size_t n, uint64_t hash)
{
    uint8_t block[SAMPLE_BYTES];
    for (size_t done = 0; done < n;) {
        ssize_t k = pread(fd, block, sizeof block, (off_t)(at + done));
        if (k <= 0) break;
        hash = vr_hash(block, (size_t)k, hash);
        done += (size_t)k;
    }
    return hash;
}

static uint64_t hash_file(const char *path, uint64_t hash)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return hash;
    if (fstat(fd, &st) == 0) {
        uint64_t facts[] = { (uint64_t)st.st_size, (uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec };
        hash = mix(fd, 0, BEGINNING, vr_hash(facts, sizeof facts, hash));
        for (uint64_t i = 1; i <= SAMPLES; i++)
            hash = mix(fd, (uint64_t)st.st_size / (SAMPLES + 1) * i, SAMPLE_BYTES, hash);
    }
    close(fd);
    return hash;
}

/* All parts of it. */
static uint64_t hash_model(const char *path)
{
    size_t stem;
    unsigned no, count;
    char part[4096];
    uint64_t hash = 0;
    if (!vr_part_name(path, &stem, &no, &count)) return hash_file(path, 0);
    for (unsigned i = 1; i <= count; i++) {
        snprintf(part, sizeof part, "%.*s-%05u-of-%05u.gguf", (int)stem, path, i, count);
        hash = hash_file(part, hash);
    }
    return hash;
}

void vr_cache_owner(const struct vr_load_params *p, struct vr_engine *e)
{
    snprintf(e->cache_owner, sizeof e->cache_owner,
             "vram-llm cached prompts\nengine %.80s\nmodel %016llx\ncache %s %s flash_attn %d %d\n"
             "n_ctx_seq %u n_seq %u unified %d n_swa %u\n",
             llama_version(), (unsigned long long)hash_model(p->model), vr_type(p->context.type_k)->name,
             vr_type(p->context.type_v)->name, p->flash_auto, p->context.flash_attn, e->n_ctx_seq, e->n_seq, e->unified,
             e->n_swa);
}
