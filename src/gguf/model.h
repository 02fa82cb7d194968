/* A model: what the headers of a GGUF file (or of all parts of a split one) say, checked.
 *
 * Reading touches headers only, never tensor data. Everything a struct vr_model holds was verified against the
 * file: no offset, count or size in it needs to be checked again. */
#ifndef VR_GGUF_MODEL_H
#define VR_GGUF_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "gguf/names.h"

/* What a tensor is for. Decided from its name alone, so it is the same in every architecture. */
enum vr_role {
#define ROLE(id, name) id,
#include "gguf/roles.def"
#undef ROLE
    VR_N_ROLES
};
const char *vr_role_name(enum vr_role role); /* "input", "attention", … */

struct vr_tensor {
    const char *name;
    uint32_t type;   /* vr_type() */
    uint32_t n_dims; /* 0..4 */
    uint64_t ne[4];  /* weights per dimension, ne[0] is a row; unused ones are 1 */
    uint64_t bytes;  /* in the file, without padding */
    uint64_t offset; /* from the start of its part's file */
    int32_t layer;   /* -1: not in a layer */
    enum vr_role role;
    uint16_t part;
};

struct vr_layer {
    uint64_t bytes; /* all its tensors */
    uint64_t role_bytes[VR_N_ROLES];
    uint32_t n_head, n_head_kv, n_ff; /* of this layer; n_head_kv 0: no attention */
    bool mtp;                         /* a layer that only predicts further tokens (multi-token prediction) */
};

enum vr_value_type { /* the format's own numbers */
                     VR_V_U8,
                     VR_V_I8,
                     VR_V_U16,
                     VR_V_I16,
                     VR_V_U32,
                     VR_V_I32,
                     VR_V_F32,
                     VR_V_BOOL,
                     VR_V_STRING,
                     VR_V_ARRAY,
                     VR_V_U64,
                     VR_V_I64,
                     VR_V_F64,
                     VR_N_VALUE_TYPES
};

/* One metadata entry. Numbers, strings up to 4 KiB and arrays of up to VR_MAX_KEPT numbers are kept; what is larger
 * (chat templates, scores) and arrays of strings (vocabularies) are only counted. */
#define VR_MAX_KEPT 4096
struct vr_meta {
    const char *key;
    enum vr_value_type type, elem_type;
    uint64_t n;          /* elements of an array, bytes of a string, else 1 */
    uint64_t begin, end; /* where the entry (key included) lies in its part's file */
    const char *string;  /* NULL if not a string or not kept */
    const double *f64;   /* n values; NULL if not numbers or not kept */
    const int64_t *i64;  /* the same as integers, NULL for float types; u64 past INT64_MAX is INT64_MAX */
    uint16_t part;
};

struct vr_part {
    const char *path;
    uint64_t file_bytes;
    uint32_t n_tensors, version;
};

struct vr_model {
    const char *name, *arch, *quant; /* quant as people write it: "Q4_K_M"; never NULL */
    uint32_t n_layers;               /* all, MTP layers included */
    uint32_t n_layers_mtp;
    uint32_t n_embd, n_ctx_train, n_vocab;
    uint32_t n_expert, n_expert_used;
    uint64_t params, file_bytes, tensor_bytes;
    uint64_t input_bytes, output_bytes, other_bytes; /* outside the layers */
    bool tied; /* no output matrix of its own: the engine makes a second copy of the token embeddings */

    struct vr_layer *layers;   /* n_layers */
    struct vr_tensor *tensors; /* n_tensors, in file order */
    struct vr_meta *meta;
    struct vr_part *parts;
    uint32_t n_tensors, n_meta, n_parts;

    struct vr_names keys, names; /* indices of meta by key, of tensors by name */
    struct vr_arena arena;       /* owns all of the above */
};

/* Opens and validates `path` and, if it is a part of a split model, all other parts beside it. The caller owns the
 * result: vr_model_free(). */
struct vr_model *vr_model_open(const char *path, struct vr_err *err) VR_MUST_CHECK;
void vr_model_free(struct vr_model *m);
VR_DEFINE_AUTO(vr_model);

/* The entry called `key`, or NULL. A key that begins with '.' is looked up under the architecture's name:
 * ".attention.head_count" in a llama model is "llama.attention.head_count". */
const struct vr_meta *vr_model_meta(const struct vr_model *m, const char *key);
/* Number `i` of that entry (scalars answer for every i), or `fallback` when it is absent or shorter. */
uint64_t vr_model_u64(const struct vr_model *m, const char *key, uint32_t i, uint64_t fallback);
double vr_model_f64(const struct vr_model *m, const char *key, uint32_t i, double fallback);
/* Of its architecture and of every tensor's name, type and shape: the same for a copy of the file, another one for
 * another quantization. */
uint64_t vr_model_hash(const struct vr_model *m);
/* No model, but an adapter for one: it has tensors, and no layers. */
bool vr_model_is_adapter(const struct vr_model *m);
/* The tensor of that name, or NULL. */
const struct vr_tensor *vr_model_tensor(const struct vr_model *m, const char *name);

#endif
