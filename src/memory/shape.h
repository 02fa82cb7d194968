/* The shape of a model's memory: which layers keep what, and how wide. Read once from the file's keys and the row of
 * its architecture in archs.def; private to memory/. */
#ifndef VR_MEMORY_SHAPE_H
#define VR_MEMORY_SHAPE_H

#include "gguf/model.h"

/* What the engine limits. */
#define MAX_LAYERS 512
#define MAX_SEQ    256

enum cache {
    CACHE_KV,              /* K and V in every trunk layer */
    CACHE_NONE,            /* encoders and diffusion models */
    CACHE_BORROWED,        /* a draft model that reads its target's cache */
    CACHE_STATE,           /* recurrent state in every layer */
    CACHE_HYBRID,          /* KV where a layer has KV heads, else state */
    CACHE_HYBRID_BOTH,     /* both in every layer */
    CACHE_HYBRID_NEMOTRON, /* as CACHE_HYBRID, but nothing in FFN layers */
    CACHE_HYBRID_TRUNK,    /* as CACHE_HYBRID, but by interval, and nothing in MTP layers */
    CACHE_DSA,             /* KV, and index keys in layers with an indexer */
    CACHE_DSA_OPTIONAL,    /* CACHE_DSA if the file has an indexer, else KV in all layers */
    CACHE_DSA_SWA,         /* CACHE_DSA with a window in the other layers */
    CACHE_MSA,             /* KV in all layers, index keys and values after the leading dense ones */
    CACHE_DSV4,            /* a window in every layer, compressed K and compressor states by ratio */
};

enum window {
    WINDOW_NONE,
    WINDOW_IF_SET,  /* when the file's window is more than 0 */
    WINDOW_ALWAYS,  /* the file's window, else .size */
    WINDOW_FIXED,   /* .size, when the file's window is more than 0 */
    WINDOW_CHUNKED, /* .size, unless the file's window is 0 */
    WINDOW_IF_64,   /* WINDOW_ALWAYS in models with 64 layers, else none */
};

enum state {
    STATE_NONE,
    STATE_SSM,       /* Mamba: convolution and scan */
    STATE_RWKV,      /* token shift and wkv */
    STATE_SHORTCONV, /* convolution only */
    STATE_KDA,       /* three convolutions and a matrix per head */
    STATE_LINEAR,    /* a matrix per head */
};

struct arch {
    const char *name;
    enum cache cache;
    enum window window;
    uint32_t size;   /* of the window, where the file does not say */
    uint32_t period; /* every period-th layer attends to everything; 0: none does. The file's own pattern goes first */
    bool full_first; /* … beginning with the first layer instead of ending with the last */
    bool listed;     /* the file always lists its window layers */
    uint32_t kv_layers; /* only so many first layers own KV */
    bool shared_kv;     /* the file says how many last layers own none */
    bool mla;           /* K only, when the file has the keys of latent attention */
    enum state state;
    uint32_t interval;                          /* every interval-th layer attends, the others carry state */
    bool ungrouped;                             /* the file's group count is not used */
    bool rollback;                              /* can keep earlier states */
    bool index_all, index_glm, index_attention; /* which layers have an indexer, where the file does not list them */
    bool no_flash;
    bool no_head;           /* no output matrix is made from tied embeddings */
    bool output_first;      /* a tied output matrix is a copy on the host, too */
    bool input_from_output; /* tied the other way round: a copy beside the output */
    bool norm_is_output;    /* "token_embd_norm" is the output's norm */
    bool tables_full_only;  /* window layers do not use the rope tables */
    bool keeps_mtp;         /* a model of MTP layers only: always loaded */
    bool drops_mtp;         /* MTP layers are never loaded */
    bool looped;            /* the same weights several times, each time with its own KV */
    bool router_layer;      /* one more layer, with KV of one head and no weights */
    bool draft;             /* needs a target model, which decides what it shares with it */
};

/* NULL when the engine does not know it. */
const struct arch *vr_arch_find(const char *name);

struct layer_shape {
    uint64_t k, v; /* widths of a cell; 0: none */
    uint64_t index_k, index_v;
    uint32_t head_k, head_v, n_head, n_head_kv, n_ff;
    uint32_t ratio; /* CACHE_DSV4: tokens per compressed cell; 0: not compressed */
    bool swa, recr;
    bool indexer;
    bool kv, index, state; /* what it owns */
    bool ple;              /* one more state row */
};

struct shape {
    const struct arch *arch; /* the plain one for an unknown architecture */
    bool known;
    uint32_t n_layers, n_trunk; /* all, and those that are not for MTP */
    uint32_t n_file_layers;
    uint32_t n_embd, n_head; /* n_head of the first layer */
    uint32_t n_swa;
    bool swa, mla;
    uint32_t index_head;
    uint64_t state_r, state_s, state_ple; /* f32 values per sequence and layer */
    struct layer_shape *layers;
    struct vr_arena arena;
};

bool vr_shape_read(const struct vr_model *m, struct shape *s, struct vr_err *err);
void vr_shape_done(struct shape *s);

#endif
