/* Where an answer ends because of its lines: every row in one piece, byte by byte, and in all ways to cut it in two. */
#include "test.h"

#include <string.h>

#include "engine/process/line_ends.h"

struct row {
    const char *what, *in;
    uint32_t n_indent;
    bool late;
    const char *said; /* of `in` */
    bool over;
};

static const struct row rows[] = {
    { "no rule", "a\nb\n\nc", 0, false, "a\nb\n\nc", false },
    { "indented", "a\n    b\n\t\t\t\tc", 4, false, "a\n    b\n\t\t\t\tc", false },
    { "the first line goes on another", "a", 4, false, "a", false },
    { "too little", "a\n    b\n  c", 4, false, "a\n    b\n  ", true },
    { "nothing", "a\nb", 1, false, "a\n", true },
    { "blanks alone are not enough to know", "a\n  ", 4, false, "a\n  ", false },
    { "an empty line", "a\n\n    b", 4, false, "a\n", true },
    { "more blanks inside", "a\n    b  c", 4, false, "a\n    b  c", false },
    { "late, in a line", "abc", 0, true, "abc", false },
    { "late, at its end", "abc\ndef", 0, true, "abc\n", true },
    { "late and too little", "a\nb", 4, true, "a\n", true },
};

/* What is said of `in`, whose pieces end at `a` and `b`. */
static void check(const struct row *r, size_t a, size_t b)
{
    const size_t n = strlen(r->in), ends[] = { a, b, n };
    struct vr_line_ends l = { 0 };
    size_t from = 0, said = 0;
    bool over = false;
    for (int i = 0; i < 3 && !over; from = ends[i++])
        said += vr_line_ends_add(&l, r->in + from, ends[i] - from, r->n_indent, r->late, &over);
    if (said != strlen(r->said) || over != r->over) fail_msg("%s, cut at %zu and %zu: %zu bytes", r->what, a, b, said);
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t b = 0; b <= strlen(rows[i].in); b++)
            for (size_t a = 0; a <= b; a++) check(&rows[i], a, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
