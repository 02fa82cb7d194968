#include "node/tensor_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "engine/llama/confinement.h"

#define NAME_DIGITS 16
#define CUT_OFF     ".part" /* behind the name of a file that was never finished: bridge_rpc_file.h */
#define MAX_FILES   65536

struct entry {
    char name[NAME_DIGITS + 1];
    uint64_t bytes;
    int64_t used;
};

bool vr_tensor_cache_path(char *out, size_t n, struct vr_err *err)
{
    /* root's engine is somebody else, who cannot look into root's home */
    if (geteuid() == 0 && !vr_confine_is_off()) return snprintf(out, n, "/var/cache/vram-llm-node") > 0;
    return vr_file_own_path("XDG_CACHE_HOME", ".cache", "node", out, n) ||
           vr_fail(err, VR_EUSAGE, "there is no folder for weights: set HOME or XDG_CACHE_HOME");
}

static bool make_folder(const char *dir, struct vr_err *err)
{
    uid_t uid;
    gid_t gid;
    const char *user = getenv(VR_ENGINE_USER_VAR);
    if (!vr_file_make_parents(dir, err)) return false;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) return vr_fail(err, VR_EIO, "%s: %s", dir, strerror(errno));
    if (geteuid() != 0 || vr_confine_is_off()) return true;
    VR_AUTO_CLOSE int fd = open(dir, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return (fd >= 0 && vr_confine_user_id(user ? user : VR_ENGINE_USER, &uid, &gid) && fchown(fd, uid, gid) == 0) ||
           vr_fail(err, VR_EIO, "%s cannot be given to the user that the engine runs as", dir);
}

static int by_age(const void *a, const void *b)
{
    int64_t x = ((const struct entry *)a)->used, y = ((const struct entry *)b)->used;
    return (x > y) - (x < y);
}

/* Of the files that are whole; others that the RPC server left are removed. */
static size_t list(DIR *d, struct entry *out, uint64_t *bytes)
{
    size_t n = 0;
    struct stat st;
    for (struct dirent *e; n < MAX_FILES && (e = readdir(d));) {
        if (strspn(e->d_name, "0123456789abcdef") != NAME_DIGITS) continue;
        if (strcmp(e->d_name + NAME_DIGITS, CUT_OFF) == 0) unlinkat(dirfd(d), e->d_name, 0);
        if (e->d_name[NAME_DIGITS]) continue;
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode)) continue;
        out[n].bytes = (uint64_t)st.st_size;
        out[n].used = st.st_atime > st.st_mtime ? st.st_atime : st.st_mtime;
        memcpy(out[n].name, e->d_name, NAME_DIGITS + 1);
        *bytes += out[n++].bytes;
    }
    return n;
}

bool vr_tensor_cache_open(const char *dir, uint64_t most_bytes, struct vr_err *err)
{
    uint64_t bytes = 0;
    if (!make_folder(dir, err)) return false;
    DIR *d = opendir(dir);
    VR_AUTO_FREE struct entry *all = calloc(MAX_FILES, sizeof *all);
    if (!d || !all) {
        if (d) closedir(d);
        return vr_fail(err, VR_EIO, "%s cannot be read", dir);
    }
    size_t n = list(d, all, &bytes);
    qsort(all, n, sizeof *all, by_age);
    for (size_t i = 0; i < n && bytes > most_bytes; i++)
        if (unlinkat(dirfd(d), all[i].name, 0) == 0) bytes -= all[i].bytes;
    closedir(d);
    return true;
}
