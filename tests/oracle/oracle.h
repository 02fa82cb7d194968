/* The oracle: what llama.cpp itself allocates for a placement, asked of the real CUDA backend's host code over a stub
 * runtime (stub_*.c) or of our virtual GPUs, one JSON line in, one out.
 *
 * A case is a JSON object; every member but "model" and "devices" may be left out:
 *     model          key in the fixtures' index.json, or the path of a .gguf file
 *     devices        [{"name","total_mib","free_mib","cc":"8.6"}], the machine in its own order
 *     order          [1,0]: which of them, in placement order (a device may stand twice); default all
 *     ngl            -1 for all;   split  [12,21]: tensor_split, one number per entry of order
 *     overrides      [["regex","CPU" or index of a device]]
 *     n_ctx n_batch n_ubatch n_seq n_outputs     flash "on|off|auto"     type_k type_v "f16"
 *     kv_unified swa_full op_offload offload_kqv pipeline     true or false; pipeline false adds an override that
 *                    matches nothing, which is how llama.cpp is told to do without
 * Answers: bytes per device of the machine ("model","context","compute"), the same for the host, pipeline, copies,
 * splits and nodes as [prompt, token], the resolved flash attention, milliseconds; or "error". */
#ifndef ORACLE_H
#define ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ORACLE_DEVICES 16

struct oracle_device {
    char name[96];
    uint64_t total_mib, free_mib;
    int cc_major, cc_minor;
};

/* Prints n cases, the same ones for the same seed; cuda12 adds cards that only CUDA 12 builds know. False with a
 * message on stderr when the fixtures cannot be read. */
bool oracle_cases(const char *fixtures, size_t n, uint64_t seed, bool cuda12);

/* Header-only fixtures grown to their full (sparse) size in a new directory under $TMPDIR. */
struct oracle_models {
    char dir[512];
    void *index; /* json_t of index.json */
};
bool oracle_models_open(const char *fixtures, struct oracle_models *out);
/* The path of the model's first file: made on first use. A name that is no fixture is returned as it is. */
bool oracle_models_path(struct oracle_models *m, const char *fixtures, const char *name, char *out, size_t n);
void oracle_models_close(struct oracle_models *m);

/* Registers our virtual GPUs in this process. Weak: an oracle without it only knows the CUDA backend. */
bool oracle_vgpu_register(const struct oracle_device *devices, size_t n) __attribute__((weak));

#ifdef __cplusplus
}
#endif
#endif
