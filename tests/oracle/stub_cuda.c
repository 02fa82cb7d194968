/* libcuda.so.1 without a GPU (see stub_cudart.c). ggml asks the driver only for its virtual memory calls, which back
 * the pool that kernels use at run time: no kernel runs here, so the pool is addresses and never memory. */
#include <stddef.h>
#include <sys/mman.h>

#define API __attribute__((visibility("default")))
#define NOTHING(name)                                                                                                  \
    API int name(void);                                                                                                \
    int name(void) { return 0; }

API int cuDeviceGet(int *device, int ordinal);
int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return 0;
}

API int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)attribute, (void)device; /* virtual memory management: yes */
    *value = 1;
    return 0;
}

API int cuMemGetAllocationGranularity(size_t *bytes, const void *prop, int option);
int cuMemGetAllocationGranularity(size_t *bytes, const void *prop, int option)
{
    (void)prop, (void)option;
    *bytes = (size_t)2 << 20;
    return 0;
}

API int cuMemAddressReserve(void **out, size_t bytes, size_t alignment, void *at, unsigned long long flags);
int cuMemAddressReserve(void **out, size_t bytes, size_t alignment, void *at, unsigned long long flags)
{
    (void)alignment, (void)at, (void)flags;
    *out = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return *out == MAP_FAILED ? 2 : 0;
}

API int cuGetErrorString(int error, const char **text);
int cuGetErrorString(int error, const char **text)
{
    *text = error ? "error" : "no error";
    return 0;
}

NOTHING(cuMemAddressFree)
NOTHING(cuMemCreate)
NOTHING(cuMemMap)
NOTHING(cuMemRelease)
NOTHING(cuMemSetAccess)
NOTHING(cuMemUnmap)
