/* For which NVIDIA GPUs the engine's CUDA library has code, and whether what it needs is installed.
 *
 * Such a library has machine code, which runs on the compute capability X.Y that it was made for and on X.Z with a
 * larger Z, and PTX, which the driver compiles at the first start for anything newer. Both are read from the file:
 * asking the driver would start it. */
#ifndef VR_ENGINE_LLAMA_GPU_CODE_H
#define VR_ENGINE_LLAMA_GPU_CODE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "hw/machine.h"

#define VR_MAX_GPU_CODES 32

enum vr_gpu_code { VR_CODE_NONE, VR_CODE_PTX, VR_CODE_NATIVE };

struct vr_gpu_codes {
    uint32_t native[VR_MAX_GPU_CODES], ptx[VR_MAX_GPU_CODES]; /* 86 is compute capability 8.6, 120 is 12.0 */
    size_t n_native, n_ptx;
    char runtime[16]; /* "13": it needs libcudart.so.13 and libcublas.so.13; "": none beside the driver */
};

/* Of a library. One in which no code can be found says so with an error. */
bool vr_gpu_codes_read(const char *path, struct vr_gpu_codes *out, struct vr_err *err) VR_MUST_CHECK;
/* The best of it for a GPU. */
enum vr_gpu_code vr_gpu_codes_for(const struct vr_gpu_codes *c, unsigned major, unsigned minor);

/* Can the linked engine run on this device of this computer? If not, `why` says what is missing and what to do. Where
 * its library cannot be read, or the GPU does not tell what it is, the answer is yes. */
bool vr_gpu_usable(const struct vr_device *d, struct vr_err *why) VR_MUST_CHECK;
/* What builds a CUDA library here: tools/gpu/build-cuda in a checkout, else the path of the one that was installed. */
const char *vr_gpu_builder(void);
/* Of a device that is usable: does the driver compile the code first? */
bool vr_gpu_compiles(const struct vr_device *d);

#endif
