/* Fake /sys and /proc trees for the hw tests, made file by file in the scratch directory. */
#ifndef TEST_HW_TREE_H
#define TEST_HW_TREE_H

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scratch.h"

/* Makes the directories of `path` (in the scratch directory), without its last name. */
static inline void tree_dirs(const char *path, char *full, size_t n)
{
    snprintf(full, n, "%s/%s", scratch_dir, path);
    for (char *p = full + strlen(scratch_dir) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(full, 0777);
        *p = '/';
    }
}

static inline void tree_put(const char *path, const char *text)
{
    char full[1024];
    tree_dirs(path, full, sizeof full);
    FILE *f = fopen(full, "w");
    if (!f) abort();
    fputs(text, f);
    fclose(f);
}

static inline void tree_link(const char *path, const char *target)
{
    char full[1024], to[1024];
    tree_dirs(path, full, sizeof full);
    snprintf(to, sizeof to, "%s/%s", scratch_dir, target);
    if (symlink(to, full)) abort();
}

#endif
