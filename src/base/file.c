#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool vr_file_read(const char *path, size_t max, struct vr_buf *out, struct vr_err *err)
{
    VR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return vr_fail(err, VR_EIO, "%s: %s", path, strerror(errno));
    char chunk[16384];
    size_t total = 0;
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return vr_fail(err, VR_EIO, "%s: %s", path, strerror(errno));
        if (n == 0) break;
        total += (size_t)n;
        if (total > max) return vr_fail(err, VR_EFORMAT, "%s: larger than %zu bytes", path, max);
        vr_buf_add(out, chunk, (size_t)n);
    }
    return !out->failed || vr_fail_nomem(err, "reading a file");
}

bool vr_fd_write(int fd, const void *data, size_t n)
{
    for (const char *at = data; n;) {
        ssize_t w = write(fd, at, n);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0) return false;
        at += w;
        n -= (size_t)w;
    }
    return true;
}

bool vr_fd_pwrite(int fd, const void *data, size_t n, uint64_t at)
{
    for (const char *from = data; n;) {
        ssize_t w = pwrite(fd, from, n, (off_t)at);
        if (w < 0 && errno == EINTR) continue;
        if (w <= 0) return w < 0 ? false : (errno = EIO, false);
        from += w;
        at += (uint64_t)w;
        n -= (size_t)w;
    }
    return true;
}

static bool write_in_place(const char *path, const void *data, size_t n, struct vr_err *err)
{
    VR_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    return (fd >= 0 && vr_fd_write(fd, data, n)) || vr_fail(err, VR_EIO, "%s: %s", path, strerror(errno));
}

bool vr_file_write(const char *path, const void *data, size_t n, struct vr_err *err)
{
    struct stat st;
    bool exists = stat(path, &st) == 0;
    if (exists && !S_ISREG(st.st_mode)) return write_in_place(path, data, n, err); /* never rename over /dev/null */
    VR_AUTO_FREE char *real = realpath(path, NULL); /* a link stays: what it points to is replaced */
    const char *target = real ? real : path;
    VR_AUTO_BUF tmp = { 0 };
    vr_buf_addf(&tmp, "%s.XXXXXX", target);
    if (tmp.failed) return vr_fail_nomem(err, "writing a file");
    VR_AUTO_CLOSE int fd = mkostemp(tmp.data, O_CLOEXEC);
    if (fd < 0) return vr_fail(err, VR_EIO, "%s: %s", path, strerror(errno));
    mode_t mask = umask(0); /* mkostemp makes 0600; the file gets what open() would have given */
    umask(mask);
    mode_t mode = exists ? st.st_mode & 0777 : 0666 & ~mask;
    bool ok = vr_fd_write(fd, data, n) && fchmod(fd, mode) == 0 && fsync(fd) == 0 && rename(tmp.data, target) == 0;
    if (ok) return true;
    vr_fail(err, VR_EIO, "%s: %s", path, strerror(errno));
    unlink(tmp.data);
    return false;
}

bool vr_file_readable(const char *path)
{
    VR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return fd >= 0;
}

bool vr_file_own_path(const char *variable, const char *below_home, const char *name, char *out, size_t n)
{
    const char *dir = getenv(variable), *home = getenv("HOME");
    int len;
    if (dir && *dir == '/') /* the XDG rules: a relative one is ignored */
        len = snprintf(out, n, "%s/vram-llm/%s", dir, name);
    else if (home && *home == '/')
        len = snprintf(out, n, "%s/%s/vram-llm/%s", home, below_home, name);
    else
        return false;
    return len > 0 && (size_t)len < n;
}

bool vr_file_make_parents(const char *path, struct vr_err *err)
{
    VR_AUTO_BUF dir = { 0 };
    vr_buf_adds(&dir, path);
    if (dir.failed) return vr_fail_nomem(err, "making a directory");
    if (!dir.n) return true;
    for (char *slash = dir.data; (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        if (mkdir(dir.data, 0700) != 0 && errno != EEXIST)
            return vr_fail(err, VR_EIO, "%s: cannot make the directory: %s", dir.data, strerror(errno));
        *slash = '/';
    }
    return true;
}

const char *vr_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
