#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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

static bool write_all(int fd, const char *data, size_t n)
{
    while (n) {
        ssize_t w = write(fd, data, n);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0) return false;
        data += w;
        n -= (size_t)w;
    }
    return true;
}

static bool write_in_place(const char *path, const void *data, size_t n, struct vr_err *err)
{
    VR_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    return (fd >= 0 && write_all(fd, data, n)) || vr_fail(err, VR_EIO, "%s: %s", path, strerror(errno));
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
    bool ok = write_all(fd, data, n) && fchmod(fd, mode) == 0 && fsync(fd) == 0 && rename(tmp.data, target) == 0;
    if (ok) return true;
    vr_fail(err, VR_EIO, "%s: %s", path, strerror(errno));
    unlink(tmp.data);
    return false;
}
