/* Memory of a process that others cannot have: its own, shared, and locked; not what is mapped from a file. */
#include "test.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "server/supervise/host_use.h"

#define BYTES (4 << 20)
#define ABOUT (1 << 20)

/* What so many bytes more are told to be, where they are mapped so. */
static uint64_t more(int flags, int fd, bool lock)
{
    uint64_t before = vr_host_use_bytes(getpid());
    char *at = mmap(NULL, BYTES, fd < 0 ? PROT_READ | PROT_WRITE : PROT_READ, flags, fd, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    if (fd < 0)
        memset(at, 1, BYTES);
    else
        for (size_t i = 0; i < BYTES; i += 4096) assert_int_equal(((volatile char *)at)[i], 0);
    if (lock && mlock(at, BYTES) != 0) skip(); /* as many bytes as that may not be locked here */
    uint64_t after = vr_host_use_bytes(getpid());
    munmap(at, BYTES);
    return after > before ? after - before : 0;
}

static void test_use(void **state)
{
    (void)state;
    char path[] = "/tmp/vram-llm-host-use-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && unlink(path) == 0 && ftruncate(fd, BYTES) == 0);
    assert_in_range(more(MAP_PRIVATE | MAP_ANONYMOUS, -1, false), BYTES - ABOUT, BYTES + ABOUT);
    assert_in_range(more(MAP_SHARED | MAP_ANONYMOUS, -1, false), BYTES - ABOUT, BYTES + ABOUT);
    assert_int_equal(vr_host_use_bytes(0), 0);
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0 || fs.f_type == TMPFS_MAGIC) skip(); /* its files are shared memory */
    assert_in_range(more(MAP_PRIVATE, fd, false), 0, ABOUT);
#ifndef __SANITIZE_ADDRESS__ /* its mlock() locks nothing */
    assert_in_range(more(MAP_PRIVATE, fd, true), BYTES - ABOUT, BYTES + ABOUT);
#endif
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_use) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
