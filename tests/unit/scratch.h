/* A directory of its own for each test program, removed at the end. */
#ifndef SCRATCH_H
#define SCRATCH_H

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char scratch_dir[256];

static inline int scratch_setup(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(scratch_dir, sizeof scratch_dir, "%s/vram-llm-test-XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(scratch_dir) ? 0 : -1;
}

static inline int scratch_remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static inline int scratch_teardown(void **state)
{
    (void)state;
    return nftw(scratch_dir, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* A path in the scratch directory; four calls may be in use at once. */
__attribute__((format(printf, 1, 2))) static inline const char *scratch(const char *fmt, ...)
{
    static char paths[4][512];
    static unsigned at;
    char *p = paths[at++ % 4];
    int n = snprintf(p, sizeof paths[0], "%s/", scratch_dir);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p + n, sizeof paths[0] - (size_t)n, fmt, ap);
    va_end(ap);
    return p;
}

#endif
