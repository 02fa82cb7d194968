#include "base/rank.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double vr_rank(double *values, size_t n, double share)
{
    if (n == 0) return 0;
    qsort(values, n, sizeof *values, by_value);
    size_t i = (size_t)((double)n * share);
    return values[i < n ? i : n - 1];
}
