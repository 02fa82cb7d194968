/* libcublas.so.13 (and .12) without a GPU (see stub_cudart.c): nothing is ever multiplied, so success is the only
 * answer. */
#define NOTHING(name)                                                                                                  \
    __attribute__((visibility("default"))) int name(void);                                                             \
    int name(void) { return 0; }

__attribute__((visibility("default"))) int cublasCreate_v2(void **handle);
int cublasCreate_v2(void **handle)
{
    static char h;
    *handle = &h;
    return 0;
}

__attribute__((visibility("default"))) const char *cublasGetStatusString(int status);
const char *cublasGetStatusString(int status) { return status ? "error" : "success"; }

NOTHING(cublasDestroy_v2)
NOTHING(cublasGemmBatchedEx)
NOTHING(cublasGemmEx)
NOTHING(cublasGemmStridedBatchedEx)
NOTHING(cublasSetMathMode)
NOTHING(cublasSetStream_v2)
NOTHING(cublasSetWorkspace_v2)
NOTHING(cublasSgemmBatched)
NOTHING(cublasSgemmStridedBatched)
NOTHING(cublasSgemm_v2)
NOTHING(cublasStrsmBatched)
