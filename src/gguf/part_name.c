#include "gguf/part_name.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

bool vr_part_name(const char *path, size_t *n_stem, unsigned *no, unsigned *count)
{
    size_t n = strlen(path), tail = strlen("-00002-of-00009.gguf");
    int used = 0;
    if (n <= tail || sscanf(path + n - tail, "-%5u-of-%5u.gguf%n", no, count, &used) != 2) return false;
    *n_stem = n - tail;
    return (size_t)used == tail && *no >= 1;
}

bool vr_gguf_name(const char *path, size_t *n_stem, unsigned *no, unsigned *count)
{
    size_t n = strlen(path), tail = strlen(".gguf");
    if (vr_part_name(path, n_stem, no, count)) return *no <= *count;
    *n_stem = n - tail;
    *no = *count = 1;
    return n > tail && strcasecmp(path + *n_stem, ".gguf") == 0;
}
