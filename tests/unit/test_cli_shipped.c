/* The model that ships is found from where the program lies, and nowhere else. */
#include "test.h"

#include "cli/input/shipped.h"

#include <fcntl.h>
#include <sys/stat.h>

static void touch(const char *path)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    close(fd);
}

static void test_places(void **state)
{
    (void)state;
    static const struct {
        const char *name, *dirs[5], *file, *program;
    } rows[] = {
        { "a build tree", { "t", "t/build", "t/models" }, "t/models/demo.gguf", "t/build" },
        { "its sanitized build", { "a", "a/build", "a/build/asan", "a/models" }, "a/models/demo.gguf", "a/build/asan" },
        { "a prefix", { "p", "p/bin", "p/share", "p/share/vram-llm" }, "p/share/vram-llm/demo.gguf", "p/bin" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char found[512];
        for (size_t k = 0; rows[i].dirs[k]; k++) assert_int_equal(mkdir(scratch("%s", rows[i].dirs[k]), 0755), 0);
        if (vr_shipped_find(scratch("%s", rows[i].program), found, sizeof found))
            fail_msg("%s: too early", rows[i].name);
        touch(scratch("%s", rows[i].file));
        if (!vr_shipped_find(scratch("%s", rows[i].program), found, sizeof found))
            fail_msg("%s: not found", rows[i].name);
        struct stat a, b;
        assert_int_equal(stat(found, &a) | stat(scratch("%s", rows[i].file), &b), 0);
        assert_true(a.st_ino == b.st_ino);
    }
}

static void test_no_room(void **state)
{
    (void)state;
    char small[8];
    assert_false(vr_shipped_find(scratch("t/build"), small, sizeof small));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_places), cmocka_unit_test(test_no_room) };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
