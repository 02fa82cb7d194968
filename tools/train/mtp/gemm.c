/* Blocks of 8 x 32 stay in registers. What does not divide is computed plainly: only the two tiny projections of the
 * delta rule are such. */
#include "gemm.h"

#include <string.h>

enum { ROWS = 8, WIDTH = 16, COLS = 2 * WIDTH };
typedef float vec __attribute__((vector_size(WIDTH * sizeof(float)), aligned(4)));

static void block(int n, int k, const float *a, int row, int col, const float *b, float *c)
{
    vec sum[ROWS][2] = { { { 0 } } };
    for (int p = 0; p < k; p++) {
        vec b0, b1;
        memcpy(&b0, b + (size_t)p * (size_t)n, sizeof b0);
        memcpy(&b1, b + (size_t)p * (size_t)n + WIDTH, sizeof b1);
        for (int r = 0; r < ROWS; r++) {
            float f = a[r * row + p * col];
            sum[r][0] += f * b0;
            sum[r][1] += f * b1;
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < COLS; i++) c[r * n + i] += sum[r][i / WIDTH][i % WIDTH];
}

static void plain(int m, int n, int k, const float *a, int row, int col, const float *b, float *c)
{
    for (int i = 0; i < m; i++)
        for (int p = 0; p < k; p++)
            for (int j = 0; j < n; j++) c[i * n + j] += a[i * row + p * col] * b[p * n + j];
}

void gemm(int m, int n, int k, const float *a, int row, int col, const float *b, float *c)
{
    if (m % ROWS || n % COLS) {
        plain(m, n, k, a, row, col, b, c);
        return;
    }
    for (int j = 0; j < n; j += COLS)
        for (int i = 0; i < m; i += ROWS) block(n, k, a + i * row, row, col, b + j, c + i * n + j);
}
