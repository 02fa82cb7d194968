/* What a model costs in memory, layer by layer and to the byte, as the engine (llama.cpp v0.5.0) would allocate it.
 *
 * Pure arithmetic on a model's header and the settings of a context: no file, device or engine is touched. Two kinds of
 * memory exist here: a GPU (CUDA and ROCm: buffers aligned to 128, rows of quantized tensors padded to 512 weights) and
 * the host (aligned to 32). What compute needs is not here: only the engine knows, and fit/ asks it. docs/memory.md
 * says where each byte comes from. */
#ifndef VR_MEMORY_FOOTPRINT_H
#define VR_MEMORY_FOOTPRINT_H

#include "gguf/model.h"
#include "gguf/type.h"

#define VR_N_BATCH_DEFAULT  2048 /* the engine's own */
#define VR_N_UBATCH_DEFAULT 512

struct vr_context {
    uint32_t n_ctx;          /* tokens; 0: as many as the model was trained for */
    uint32_t n_seq;          /* sequences at the same time; 0: 1 */
    uint32_t n_batch;        /* 0: VR_N_BATCH_DEFAULT */
    uint32_t n_ubatch;       /* 0: VR_N_UBATCH_DEFAULT */
    uint32_t n_rollback;     /* earlier states kept per sequence; the engine ignores it where it cannot roll back */
    uint32_t type_k, type_v; /* of the KV cache: vr_type() ids */
    bool flash_attn;
    bool kv_unified;  /* one cache for all sequences instead of one each */
    bool swa_full;    /* sliding-window layers keep the whole context */
    bool offload_kqv; /* KV follows its layer to the GPU; otherwise all of it stays on the host */
    bool load_mtp;    /* load the layers for multi-token prediction, which the engine leaves out by default */
    bool mtp;         /* … and use them: a second context, with a cache of f16 */
};
#define VR_CONTEXT_DEFAULT                                                                                             \
    (struct vr_context)                                                                                                \
    {                                                                                                                  \
        .n_ctx = 4096, .n_seq = 1, .n_batch = 512, .n_ubatch = 512, .type_k = VR_TYPE_F16, .type_v = VR_TYPE_F16,      \
        .flash_attn = true, .offload_kqv = true                                                                        \
    }

/* Bytes as the engine's own breakdown names them. */
struct vr_bytes {
    uint64_t model, context;
};

/* One layer's bytes on either side. `left` is the part that stays on the host although its layer is on a GPU, because
 * the GPU backend has no kernel for it (TQ1_0 weights, bf16 norms, unusual SSM shapes); nearly always 0. */
struct vr_layer_footprint {
    uint64_t weights_gpu_bytes, weights_left_bytes, weights_host_bytes;
    uint64_t experts_gpu_bytes;                 /* the expert tensors' share of weights_gpu */
    uint64_t kv_gpu_bytes, kv_host_bytes;       /* K, V and index keys */
    uint64_t state_gpu_bytes, state_host_bytes; /* recurrent and compressor states */
    uint32_t cells;                             /* tokens its cache holds, per stream; 0: it owns no KV */
    bool swa, recurrent, mtp;
    bool tables; /* uses the rope tables below */
};

struct vr_footprint {
    struct vr_layer_footprint *layers;
    uint32_t n_layers; /* as the engine counts them: can be more than the file's blocks (loops, a router layer) */

    uint64_t input_host_bytes; /* token embeddings and other inputs: always on the host */
    /* The output matrix and norms. A tied model's output matrix is a second copy of its token embeddings on a GPU,
     * and none on the host: output_host_bytes is then without it. */
    uint64_t output_gpu_bytes, output_left_bytes, output_host_bytes;
    /* Rope tables: one copy on each device, and one on the host, where a layer uses them. */
    uint64_t tables_gpu_bytes, tables_host_bytes;
    uint64_t skipped_bytes; /* in the file, never loaded with these settings */

    /* sums over the layers */
    uint64_t weights_host_bytes, kv_gpu_bytes, kv_host_bytes, state_gpu_bytes, state_host_bytes;

    uint32_t n_ctx, n_ctx_seq; /* as the engine rounds them up */
    uint32_t n_stream;         /* caches side by side */
    uint32_t n_ubatch;         /* as the engine limits it */
    uint32_t n_swa;            /* the window; 0: none */
    uint32_t n_kv_layers, n_state_layers;
    bool offload_kqv;
    bool mla;
    bool exact;          /* false: an estimate, because … */
    const char *inexact; /* … of this (a static sentence); NULL when exact */
};

/* False with a sentence when the engine would refuse the settings for this model. `out` needs vr_footprint_done(). */
bool vr_footprint_compute(const struct vr_model *m, const struct vr_context *c, struct vr_footprint *out,
                          struct vr_err *err) VR_MUST_CHECK;
void vr_footprint_done(struct vr_footprint *f);
#define VR_AUTO_FOOTPRINT VR_CLEANUP(vr_footprint_done) struct vr_footprint

/* The bytes of a placement. where[i] is the GPU (0 .. n_gpus-1) of layer i, or -1 for the host; where[n_layers] is the
 * output's. gpus[] holds n_gpus entries. Everything is overwritten. */
void vr_footprint_place(const struct vr_footprint *f, const int *where, size_t n_gpus, struct vr_bytes *gpus,
                        struct vr_bytes *host);

/* Whether the engine can go back a few tokens in the model's memory: always, unless it is recurrent, and then if it
 * keeps earlier states (vr_context.n_rollback) for the architecture. */
bool vr_model_rolls_back(const struct vr_model *m);

/* One tensor, padded as the engine's buffers pad it. */
uint64_t vr_weight_gpu_bytes(const struct vr_tensor *t);
uint64_t vr_weight_host_bytes(const struct vr_tensor *t);

#endif
