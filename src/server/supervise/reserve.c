#include "server/supervise/reserve.h"

#include <fcntl.h>
#include <unistd.h>

bool vr_reserve_fill(struct vr_reserve *r)
{
    while (r->n < VR_RESERVE_FDS) {
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fd < 0) return false;
        r->fds[r->n++] = fd;
    }
    return true;
}

void vr_reserve_release(struct vr_reserve *r)
{
    while (r->n) close(r->fds[--r->n]);
}
