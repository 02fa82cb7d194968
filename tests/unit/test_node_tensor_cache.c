/* Weights that clients sent: the oldest leave first, what was cut off leaves always, other files are nobody's business.
 */
#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "node/tensor_cache.h"
#include "scratch.h"

static char dir[600], path[700];

static const char *in_cache(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void put(const char *name, size_t n, time_t used)
{
    static const char bytes[4096];
    struct vr_err err = { 0 };
    const struct timespec times[2] = { { .tv_sec = used }, { .tv_sec = used } };
    assert_true(n <= sizeof bytes && vr_file_write(in_cache(name), bytes, n, &err));
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void test_cache(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    snprintf(dir, sizeof dir, "%s/a/cache", scratch("tensors"));
    assert_true(vr_tensor_cache_open(dir, 1000, &err)); /* made */
    put("00000000000000aa", 400, 1000);
    put("00000000000000bb", 400, 3000);
    put("00000000000000cc", 400, 2000);
    put("00000000000000dd.part", 4000, 4000);
    put("notes.txt", 4000, 1);
    put("00000000000000ddx", 4000, 1);
    assert_true(vr_tensor_cache_open(dir, 1000, &err));
    static const struct {
        const char *name;
        bool stays;
    } rows[] = { { "00000000000000aa", false },      { "00000000000000bb", true }, { "00000000000000cc", true },
                 { "00000000000000dd.part", false }, { "notes.txt", true },        { "00000000000000ddx", true } };
    for (size_t i = 0; i < VR_COUNT(rows); i++)
        if ((access(in_cache(rows[i].name), F_OK) == 0) != rows[i].stays) fail_msg("%s", rows[i].name);
    assert_true(vr_tensor_cache_open(dir, 399, &err));
    assert_int_not_equal(access(in_cache("00000000000000bb"), F_OK), 0);
}

int main(void)
{
    setenv("VRAM_LLM_CONFINE", "off", 1); /* root's engine is somebody else, whose the folder would be */
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_cache) };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
