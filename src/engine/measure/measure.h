/* Measuring what the engine reaches on this machine, one short question per child process: a device that fails or hangs
 * costs one figure. Everything goes through ggml's backends and llama.cpp itself, as serving does.
 *
 * Times of single operations come from graphs of two lengths, so that starting and waiting do not count; rates come
 * from matrices of two sizes, so that what every kernel costs before it runs at full speed is told apart. */
#ifndef VR_ENGINE_MEASURE_MEASURE_H
#define VR_ENGINE_MEASURE_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/params/load_params.h"
#include "hw/machine.h"

struct vr_measure_where {
    const char *device;  /* the engine's name of it: "CUDA0"; NULL: the host */
    const char *peer;    /* of the other one, for vr_measure_pair() */
    const char *cpu;     /* the CPU variant, as vr_cpu_choose() proved it */
    const char *visible; /* for CUDA_VISIBLE_DEVICES; NULL: as it is */
    int cc;              /* compute capability x 100; 0: none */
    bool beside_gpus;    /* the host: weights lie as they do when there are devices, not repacked */
    char *pages;         /* … in these, VR_MEASURE_PAGES bytes; NULL: in new ones */
    double product_us;   /* … what any product costs, when it is known: then only what memory limits is measured */
    const struct vr_vgpu_spec
        *vgpus; /* vr_measure_reduce(): on these, executing, instead of real devices; NULL: none */
    size_t n_vgpus;
    int timeout_ms;
};

/* Memory that children share, for the host's weights: new pages take longer to get than weights to measure. NULL: there
 * is none. */
#define VR_MEASURE_PAGES ((size_t)1 << 30)
char *vr_measure_pages(void);
void vr_measure_pages_free(char *pages);

struct vr_measure_products {
    double gbs, tflops, expert_gbs, expert_tflops;
    double product_us, prompt_product_us; /* per product, at any size */
    double kernels;                       /* that one of them starts */
    double cached_gbs;                    /* the host: while all weights are in its cache; else */
    double wide_gbs;                      /* … with many columns */
    double row_ns, expert_row_ns;         /* … per row of the matrix */
    double least_us;                      /* a device: per kernel of a product, however small */
    double expert_prompt_gbs; /* a device: a batch by expert, reading weights beside what they compute, … */
    double expert_again_gbs;  /* … and reading them again, for each tile of tokens more; */
    double expert_act_gbs;    /* reading and writing what the tokens bring and take away */
};
/* Products with weights of the type: one token, 512 tokens, plain and by expert. */
bool vr_measure_products(const struct vr_measure_where *w, uint32_t type, struct vr_measure_products *out,
                         struct vr_err *err) VR_MUST_CHECK;

/* The host: MiB of weights that its cache holds; 0 where memory is as fast. */
bool vr_measure_cache(const struct vr_measure_where *w, double *mib, struct vr_err *err) VR_MUST_CHECK;

/* Operations that are no products with weights (plan/ops.def; measure_ops.c): all kinds, those over a cache for each of
 * the types. */
#define VR_MEASURE_CACHES 4
struct vr_measure_ops {
    struct vr_measured_op rows[VR_MAX_MEASURED_OPS];
    size_t n;
};
bool vr_measure_ops(const struct vr_measure_where *w, const uint32_t *types, size_t n_types, bool typed_only,
                    struct vr_measure_ops *out, struct vr_err *err) VR_MUST_CHECK;

struct vr_measure_link {
    double up_gbs, up_us, down_gbs, down_us; /* to the device and back; for a pair, to the peer and back */
    double mapped_gbs, mapped_expert_gbs;    /* to the device from a mapped file: waiting for each, and not */
};
bool vr_measure_link(const struct vr_measure_where *w, struct vr_measure_link *out, struct vr_err *err) VR_MUST_CHECK;
bool vr_measure_pair(const struct vr_measure_where *w, struct vr_measure_link *out, struct vr_err *err) VR_MUST_CHECK;

/* Adding up over n devices as split mode tensor does it (measure_reduce.c): CUDA0 and those after it, of those that are
 * visible. The caller sets out->devices. */
bool vr_measure_reduce(const struct vr_measure_where *w, size_t n, struct vr_measured_reduction *out,
                       struct vr_err *err) VR_MUST_CHECK;

/* --- whole models (measure_run.c) --- */

/* A model that computes next to nothing: what remains is what starting kernels and steps costs. */
struct vr_measure_tiny {
    uint32_t n_layers;
    bool experts, floats; /* a mixture of experts; weights as f16, which other libraries multiply */
};
/* Writes it as a GGUF file. */
bool vr_measure_make(const char *path, const struct vr_measure_tiny *t, struct vr_err *err) VR_MUST_CHECK;

#define VR_MEASURE_DEVICES 16

struct vr_measure_run {
    double load_ms;
    double decode_ms[2];                      /* per token, with an empty and with a full context */
    double prefill_ms[2];                     /* per micro-batch, likewise */
    uint32_t decode_fill[2], prefill_fill[2]; /* tokens in the context then */
    uint32_t n_ubatch;
    size_t n_devices;
    struct {
        char name[24];
        uint64_t model_bytes, context_bytes, compute_bytes; /* the engine's own figures */
        uint64_t before_bytes, loaded_bytes, after_bytes;   /* in use on it: before the engine started, with the model
                                                               loaded, and after all that was computed */
    } devices[VR_MEASURE_DEVICES];
};
/* Loads it as `serve` does, and measures. `env` holds NAME=VALUE strings, each ended by '\0'.
 * n_decode tokens are generated each time. `seconds` bounds the filling of the context. */
bool vr_measure_run(const struct vr_load_params *load, const char *env, size_t n_env, uint32_t n_decode, double seconds,
                    int timeout_ms, struct vr_measure_run *out, struct vr_err *err) VR_MUST_CHECK;

#endif
