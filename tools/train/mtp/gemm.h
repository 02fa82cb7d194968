/* c[m x n] += a[m x k] b[k x n]; a's rows and columns are `row` and `col` floats apart, b and c are dense. */
#ifndef TRAIN_MTP_GEMM_H
#define TRAIN_MTP_GEMM_H

void gemm(int m, int n, int k, const float *a, int row, int col, const float *b, float *c);

#endif
