/* Freed once on every path, or handed over. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>

struct thing {
    int *n_freed;
};

static void thing_free(struct thing *t)
{
    if (!t) return;
    (*t->n_freed)++;
    free(t);
}
VR_DEFINE_AUTO(thing);

static struct thing *thing_new(int *n_freed)
{
    struct thing *t = malloc(sizeof *t);
    assert_non_null(t);
    t->n_freed = n_freed;
    return t;
}

static struct thing *make(int *n_freed, int path)
{
    VR_AUTO(thing) a = thing_new(n_freed);
    if (path == 0) return NULL;
    VR_AUTO(thing) b = thing_new(n_freed);
    if (path == 1 || !b) return NULL;
    return VR_TAKE(a);
}

static void test_auto_and_take(void **state)
{
    (void)state;
    int n = 0;
    assert_null(make(&n, 0));
    assert_int_equal(n, 1);
    assert_null(make(&n, 1));
    assert_int_equal(n, 3);
    struct thing *t = make(&n, 2);
    assert_non_null(t);
    assert_int_equal(n, 4); /* b alone */
    thing_free(t);
    assert_int_equal(n, 5);
}

static void test_descriptors(void **state)
{
    (void)state;
    int seen;
    {
        VR_AUTO_CLOSE int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        VR_AUTO_CLOSE int none = -1;
        (void)none;
        seen = fd;
        assert_true(fcntl(seen, F_GETFD) >= 0);
    }
    errno = 0;
    assert_int_equal(fcntl(seen, F_GETFD), -1);
    assert_int_equal(errno, EBADF);
    {
        VR_AUTO_FCLOSE FILE *f = fopen("/dev/null", "re");
        VR_AUTO_FCLOSE FILE *no_file = NULL;
        (void)no_file;
        assert_non_null(f);
        seen = fileno(f);
    }
    assert_int_equal(fcntl(seen, F_GETFD), -1);
}

/* Leaks are found by AddressSanitizer. */
static void test_memory(void **state)
{
    (void)state;
    VR_AUTO_FREE char *p = malloc(16);
    VR_AUTO_FREE char *none = NULL;
    assert_non_null(p);
    assert_null(none);
    int row[7];
    assert_int_equal(VR_COUNT(row), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auto_and_take),
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
