/* Bytes -> a file in memory -> the reader. Odd inputs are stretched into a sparse file, so that tensors can be inside
 * it and the checks behind the table are reached too. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gguf/model.h"
#include "gguf/part.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) != 0 || pwrite(fd, data, n, 0) != (ssize_t)n) abort();
    uint64_t size = n & 1 ? (uint64_t)1 << 42 : n;
    if (ftruncate(fd, (off_t)size) != 0) abort();

    struct vr_err err = { 0 };
    uint64_t wants = 0,
             have = n / 2 ? n / 2 : 1; /* a half of it wants more of it, or is all that it takes, or broken */
    if (vr_part_wants(path, have, &wants, &err) ? wants && (wants <= have || wants > size) : !err.msg[0]) abort();
    err = (struct vr_err){ 0 };
    VR_AUTO(vr_model) m = vr_model_open(path, &err);
    if (!m && (err.code == VR_OK || !err.msg[0])) abort(); /* a failure without a reason */
    if (!m) return 0;
    uint64_t sum = m->input_bytes + m->output_bytes + m->other_bytes;
    for (uint32_t i = 0; i < m->n_layers; i++) sum += m->layers[i].bytes;
    if (sum != m->tensor_bytes) abort();
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        const struct vr_tensor *t = &m->tensors[i];
        if (t->offset + t->bytes > size || vr_model_tensor(m, t->name) != t) abort();
    }
    for (uint32_t i = 0; i < m->n_meta; i++)
        if (vr_model_meta(m, m->meta[i].key) != &m->meta[i] && m->meta[i].key[0] != '.') abort();
    return 0;
}
