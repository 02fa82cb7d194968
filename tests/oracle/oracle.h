/* The oracle: what llama.cpp itself allocates for a placement, asked of the real CUDA backend's host code over a stub
 * runtime (stub_*.c) or of our virtual GPUs, one JSON line in, one out.
 *
 * A case is a JSON object; every member but "model" and "devices" may be left out:
 *     model          key in an index.json of the fixtures, "made:" and options of tests/tools/tiny-model, or the path
 *                    of a .gguf file
 *     mode           "layer" or "tensor", the split mode
 *     devices        [{"name","total_mib","free_mib","cc":"8.6"}], the machine in its own order
 *     order          [1,0]: which of them, in placement order (a device may stand twice); default all
 *     ngl            -1 for all;   split  [12,21]: tensor_split, one number per entry of order
 *     overrides      [["regex","CPU" or index of a device]]
 *     n_ctx n_batch n_ubatch n_seq n_outputs     flash "on|off|auto"     type_k type_v "f16"
 *     guesses        3: the model's MTP head guesses so many tokens ahead; earlier states are kept for them
 *     offload_min    tokens of a batch for which weights on the host are sent to a device, 32
 *     kv_unified swa_full op_offload offload_kqv pipeline     true or false; pipeline false adds an override that
 *                    matches nothing, which is how llama.cpp is told to do without
 *     draft          true: this model guesses for another; it is whole on the one device of order
 *     eagle3 dflash assistant     true: and it is a head of that kind
 *     n_draft        5: and it is a DSpark head, asked for so many guesses at a time
 *     beside         {"model","order","split"}: whose output or cache it uses
 *     taps           [1,5,9]: an EAGLE-3 or DFlash head reads these layers of the model
 *     states         true: the model gives out hidden states to an assistant
 * With guesses there is a second context for the head. What is compared with it, and with a draft, is the dry run that
 * plans are proven by (engine/probe), and of the host only contexts and graphs.
 * In split mode tensor the CUDA backend loads for real, over memory that nobody may touch, and computes a prompt whose
 * kernels are left out; what is compared with it is that dry run, too.
 * Answers: bytes per device of the machine ("model","context","compute"), the same for the host, pipeline, copies,
 * splits and nodes as [prompt, token], the resolved flash attention, milliseconds; or "error". In split mode tensor
 * also "reduce", what adding up over devices takes, and of the host only what a mapped file leaves alone. */
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
bool oracle_tensor_cases(const char *fixtures, size_t n, uint64_t seed);  /* of split mode tensor */
bool oracle_guesser_cases(const char *fixtures, size_t n, uint64_t seed); /* of heads and drafts, on every rig */

/* Header-only fixtures grown to their full (sparse) size in a new directory under $TMPDIR. */
struct oracle_models {
    char dir[512];
    const char *maker;       /* tests/tools/tiny-model, built */
    void *index, *published; /* json_t of models/index.json and published/index.json */
};
bool oracle_models_open(const char *fixtures, struct oracle_models *out);
/* The path of the model's first file: made on first use. A name that is no fixture is returned as it is. */
bool oracle_models_path(struct oracle_models *m, const char *fixtures, const char *name, char *out, size_t n);
void oracle_models_close(struct oracle_models *m);

/* Registers our virtual GPUs in this process. Weak: an oracle without it only knows the CUDA backend. */
bool oracle_vgpu_register(const struct oracle_device *devices, size_t n) __attribute__((weak));

/* What vr_probe() says about a case of split mode tensor, with guesses or of a draft: sets the answer's "devices" and
 * "host", or "error". Both are json_t. */
void oracle_probe(void *oracle_case, const char *path, const struct oracle_device *devices, size_t n, void *answer)
    __attribute__((weak));

#ifdef __cplusplus
}
#endif
#endif
