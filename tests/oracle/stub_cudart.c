/* libcudart.so.13 (and .12) without a GPU: enough for the host code of the prebuilt libggml-cuda.so to believe in the
 * devices that VR_STUB_CUDA describes, and nothing more.
 *
 *     VR_STUB_CUDA="NVIDIA GeForce RTX 3090:24576:24000:8.6;..."     name : MiB in all : MiB free : compute capability
 *
 * Device memory is address space that nobody may touch (a write is a crash, so "the oracle never executes" is proven
 * by running at all); it is counted per device, and with VR_STUB_CUDA_CAP=1 it runs out as a card's does. Pinned host
 * memory is real. Every other call answers "success" and does nothing. The calls are those that the prebuilt library
 * imports, versioned by the soname as NVIDIA's are (ld --default-symver); no NVIDIA header is needed to build this. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MAX_DEVICES               16
#define CUDA_SUCCESS              0
#define CUDA_ERROR_OUT_OF_MEMORY  2
#define CUDA_ERROR_INVALID_DEVICE 101
#define MIB                       ((uint64_t)1 << 20)

/* cudaDeviceProp of CUDA 13: the fields that ggml reads, at their places. */
struct device_prop {
    char name[256];
    char unread_a[32];
    uint64_t total_bytes;              /* 288 */
    uint64_t shared_per_block;         /* 296 */
    int32_t regs_per_block, warp_size; /* 304 */
    char unread_b[48];
    int32_t major, minor; /* 360 */
    char unread_c[16];
    int32_t n_multiprocessors, integrated; /* 384 */
    char unread_d[280];
    uint64_t shared_per_block_optin; /* 672 */
    char unread_e[328];
};
_Static_assert(offsetof(struct device_prop, total_bytes) == 288, "layout");
_Static_assert(offsetof(struct device_prop, warp_size) == 308, "layout");
_Static_assert(offsetof(struct device_prop, major) == 360, "layout");
_Static_assert(offsetof(struct device_prop, n_multiprocessors) == 384, "layout");
_Static_assert(offsetof(struct device_prop, shared_per_block_optin) == 672, "layout");
_Static_assert(sizeof(struct device_prop) == 1008, "layout");

static struct device {
    char name[256];
    uint64_t total_bytes, free_bytes, used_bytes;
    int major, minor;
} devices[MAX_DEVICES];
static int n_devices = -1;
static _Thread_local int current;

static struct block {
    struct block *next;
    void *at;
    size_t bytes;
    int device;
} * blocks;

static void read_devices(void)
{
    if (n_devices >= 0) return;
    n_devices = 0;
    const char *s = getenv("VR_STUB_CUDA");
    while (s && *s && n_devices < MAX_DEVICES) {
        struct device *d = &devices[n_devices];
        unsigned long total = 0, free_mib = 0;
        if (sscanf(s, "%255[^:;]:%lu:%lu:%d.%d", d->name, &total, &free_mib, &d->major, &d->minor) != 5) {
            fprintf(stderr, "VR_STUB_CUDA: '%s' is not name:MiB:MiB:major.minor\n", s);
            abort();
        }
        d->total_bytes = total * MIB;
        d->free_bytes = free_mib * MIB;
        n_devices++;
        s = strchr(s, ';');
        if (s) s++;
    }
}

/* What a block may ask for at most, in KiB, by compute capability. */
static uint64_t shared_optin_bytes(const struct device *d)
{
    static const struct {
        int cc, kib;
    } rows[] = { { 60, 48 },  { 70, 96 }, { 75, 64 },  { 80, 163 }, { 86, 99 },
                 { 87, 163 }, { 89, 99 }, { 90, 227 }, { 120, 99 } };
    uint64_t kib = 48;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (d->major * 10 + d->minor >= rows[i].cc) kib = (uint64_t)rows[i].kib;
    return kib * 1024;
}

#define API __attribute__((visibility("default")))

/* For the oracle: bytes that are allocated on a device now. */
API uint64_t vr_stub_cuda_used(int device);
uint64_t vr_stub_cuda_used(int device) { return device >= 0 && device < MAX_DEVICES ? devices[device].used_bytes : 0; }

API int cudaGetDeviceCount(int *n);
int cudaGetDeviceCount(int *n)
{
    read_devices();
    *n = n_devices;
    return CUDA_SUCCESS;
}

API int cudaGetDeviceProperties(struct device_prop *p, int i);
int cudaGetDeviceProperties(struct device_prop *p, int i)
{
    read_devices();
    if (i < 0 || i >= n_devices) return CUDA_ERROR_INVALID_DEVICE;
    const struct device *d = &devices[i];
    memset(p, 0, sizeof(*p));
    memcpy(p->name, d->name, sizeof(p->name));
    p->total_bytes = d->total_bytes;
    p->shared_per_block = 48 * 1024;
    p->shared_per_block_optin = shared_optin_bytes(d);
    p->regs_per_block = 65536;
    p->warp_size = 32;
    p->major = d->major;
    p->minor = d->minor;
    p->n_multiprocessors = 82;
    return CUDA_SUCCESS;
}

/* CUDA 12's, whose struct is longer and differs behind `minor`; ggml sizes by nothing that lies there. */
API int cudaGetDeviceProperties_v2(struct device_prop *p, int i);
int cudaGetDeviceProperties_v2(struct device_prop *p, int i)
{
    int error = cudaGetDeviceProperties(p, i);
    if (!error) memset(p->unread_c, 0, sizeof(*p) - offsetof(struct device_prop, unread_c));
    return error;
}

API int cudaDeviceGetAttribute(int *value, int attribute, int device);
int cudaDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)attribute, (void)device; /* only asked for cooperative launch, which every card since Pascal has */
    *value = 1;
    return CUDA_SUCCESS;
}

/* llama.cpp takes two devices with one id for one device, so the ids must differ. */
API int cudaDeviceGetPCIBusId(char *out, int n, int device);
int cudaDeviceGetPCIBusId(char *out, int n, int device)
{
    snprintf(out, (size_t)n, "0000:%02X:00.0", (unsigned)device + 1);
    return CUDA_SUCCESS;
}

API int cudaGetDevice(int *device);
int cudaGetDevice(int *device)
{
    *device = current;
    return CUDA_SUCCESS;
}

API int cudaSetDevice(int device);
int cudaSetDevice(int device)
{
    read_devices();
    if (device < 0 || device >= n_devices) return CUDA_ERROR_INVALID_DEVICE;
    current = device;
    return CUDA_SUCCESS;
}

API int cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
int cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    const struct device *d = &devices[current];
    *free_bytes = d->free_bytes > d->used_bytes ? d->free_bytes - d->used_bytes : 0;
    *total_bytes = d->total_bytes;
    return CUDA_SUCCESS;
}

static int map(void **out, size_t bytes, int device, int prot)
{
    struct block *b = malloc(sizeof(*b));
    if (!b) return CUDA_ERROR_OUT_OF_MEMORY;
    void *at = mmap(NULL, bytes ? bytes : 1, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        free(b);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *b = (struct block){ .next = blocks, .at = at, .bytes = bytes, .device = device };
    blocks = b;
    if (device >= 0) devices[device].used_bytes += bytes;
    *out = at;
    return CUDA_SUCCESS;
}

API int cudaMalloc(void **out, size_t bytes);
int cudaMalloc(void **out, size_t bytes)
{
    const struct device *d = &devices[current];
    const char *cap = getenv("VR_STUB_CUDA_CAP");
    if (cap && *cap == '1' && d->used_bytes + bytes > d->free_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    return map(out, bytes, current, PROT_NONE);
}

API int cudaMallocManaged(void **out, size_t bytes, unsigned flags);
int cudaMallocManaged(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    return cudaMalloc(out, bytes);
}

API int cudaMallocHost(void **out, size_t bytes);
int cudaMallocHost(void **out, size_t bytes) { return map(out, bytes, -1, PROT_READ | PROT_WRITE); }

API int cudaHostAlloc(void **out, size_t bytes, unsigned flags);
int cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    return cudaMallocHost(out, bytes);
}

API int cudaFree(void *at);
int cudaFree(void *at)
{
    for (struct block **p = &blocks; at && *p; p = &(*p)->next) {
        struct block *b = *p;
        if (b->at != at) continue;
        *p = b->next;
        if (b->device >= 0) devices[b->device].used_bytes -= b->bytes;
        munmap(b->at, b->bytes ? b->bytes : 1);
        free(b);
        break;
    }
    return CUDA_SUCCESS;
}

API int cudaFreeHost(void *at);
int cudaFreeHost(void *at) { return cudaFree(at); }

API const char *cudaGetErrorString(int error);
const char *cudaGetErrorString(int error)
{
    return error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : error ? "error" : "no error";
}

API int cudaDeviceCanAccessPeer(int *can, int a, int b);
int cudaDeviceCanAccessPeer(int *can, int a, int b)
{
    (void)a, (void)b;
    *can = 0;
    return CUDA_SUCCESS;
}

API int cudaStreamIsCapturing(void *stream, int *status);
int cudaStreamIsCapturing(void *stream, int *status)
{
    (void)stream;
    *status = 0;
    return CUDA_SUCCESS;
}

/* Handles only have to be different from NULL. */
static char handle;
#define HANDLE(name, ...)                                                                                              \
    API int name(void **out, ##__VA_ARGS__);                                                                           \
    int name(void **out, ##__VA_ARGS__)                                                                                \
    {                                                                                                                  \
        *out = &handle;                                                                                                \
        return CUDA_SUCCESS;                                                                                           \
    }
HANDLE(cudaStreamCreateWithFlags)
HANDLE(cudaEventCreateWithFlags)
HANDLE(cudaGraphInstantiate)
HANDLE(cudaHostGetDevicePointer)

API void **__cudaRegisterFatBinary(void *binary);
void **__cudaRegisterFatBinary(void *binary)
{
    (void)binary;
    static void *registered;
    return &registered;
}

#define NOTHING(name)                                                                                                  \
    API int name(void);                                                                                                \
    int name(void) { return CUDA_SUCCESS; }
NOTHING(__cudaGetKernel)
NOTHING(__cudaLaunchKernel)
NOTHING(__cudaPopCallConfiguration)
NOTHING(__cudaPushCallConfiguration)
NOTHING(__cudaRegisterFatBinaryEnd)
NOTHING(__cudaRegisterFunction)
NOTHING(__cudaRegisterVar)
NOTHING(__cudaUnregisterFatBinary)
NOTHING(cudaDeviceEnablePeerAccess)
NOTHING(cudaDeviceSynchronize)
NOTHING(cudaEventDestroy)
NOTHING(cudaEventRecord)
NOTHING(cudaEventSynchronize)
NOTHING(cudaFuncGetAttributes)
NOTHING(cudaFuncSetAttribute)
NOTHING(cudaGetLastError)
NOTHING(cudaGraphDestroy)
NOTHING(cudaGraphExecDestroy)
NOTHING(cudaGraphExecUpdate)
NOTHING(cudaGraphLaunch)
NOTHING(cudaHostRegister)
NOTHING(cudaHostUnregister)
NOTHING(cudaLaunchCooperativeKernel)
NOTHING(cudaLaunchKernel)
NOTHING(cudaLaunchKernelExC)
NOTHING(cudaMemcpy2DAsync)
NOTHING(cudaMemcpyAsync)
NOTHING(cudaMemcpyPeerAsync)
NOTHING(cudaMemset)
NOTHING(cudaMemsetAsync)
NOTHING(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)
NOTHING(cudaPeekAtLastError)
NOTHING(cudaSetDeviceFlags)
NOTHING(cudaStreamBeginCapture)
NOTHING(cudaStreamDestroy)
NOTHING(cudaStreamEndCapture)
NOTHING(cudaStreamSynchronize)
NOTHING(cudaStreamWaitEvent)
