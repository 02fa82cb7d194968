/* What a device does for a token or for a batch of prompt, node by node, and how long that takes.
 *
 * Rows come from the graph of a dry run (engine/probe/graph.h). They are priced twice, by the same function: where they
 * are executed, which gives the time that a plan is shown with (fit/price.h), and wherever they could be executed,
 * which is what the planner chooses by (build.h). */
#ifndef VR_PLAN_WORK_H
#define VR_PLAN_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/phase.h"
#include "plan/speed.h"

#define VR_STATION_INPUT  UINT16_MAX       /* before the first layer */
#define VR_STATION_OUTPUT (UINT16_MAX - 1) /* behind the last one */

/* Equal nodes of one layer. Bytes are what a node must touch: weights (of the experts it uses only), the KV cache or
 * recurrent state, and activations. Graphs are reserved for a full context: a row with `cells` works on that many cells
 * of the cache, and on fewer while it fills. */
struct vr_work {
    uint8_t phase;    /* enum vr_phase */
    uint8_t device;   /* index of the trial's devices; their number: the host */
    uint8_t op;       /* the engine's number, for telling rows apart; `name` is for people */
    bool quantized;   /* weights are; else floats */
    bool sliced;      /* split mode tensor: the other devices do the rest of it; else each device does all of it */
    uint16_t station; /* the layer, or one of the above */
    uint16_t stage;   /* split mode tensor: between two additions over all devices, where they wait for each other */
    uint32_t type;    /* of the weights, or of the cache for attention (vr_type()); VR_TYPE_NONE: neither */
    uint32_t n;       /* equal nodes: the host runs one after the other … */
    uint32_t kernels; /* … a device so many kernels (none where another row's kernel does it along) */
    uint32_t cells;   /* of the cache: what each node reads and computes is in proportion to them */
    uint32_t columns; /* of a product's matrix: a row of it has so many weights; of a norm: of what it is taken */
    uint16_t heads;   /* of attention: so many look at each head of the cache, … */
    uint16_t
        together; /* … of which a device's kernel takes so many at once, the last ones in vain if there are fewer */
    uint64_t weight_bytes, cache_bytes, act_bytes, flops; /* of all n together */
    char name[24];
    char weight[64]; /* of a product: the tensor that is multiplied with; "": none */
};

/* Split mode tensor: parts of a result that are added up over all devices, and none goes on before that. Each ends a
 * stage. */
struct vr_reduction {
    uint8_t phase, n_devices;
    uint32_t n;
    uint64_t bytes; /* of each: the result, as f32 */
};

/* What the cache holds when the time is taken. */
struct vr_fill {
    double share;       /* of the context is full, 0 .. 1 */
    uint32_t n_ctx_seq; /* tokens that a sequence's context holds */
    uint32_t n_ubatch;
};

/* How much of the cells of a row's cache is worked on; whole: those that nobody may see, too. */
double vr_work_share(const struct vr_work *w, const struct vr_fill *f, bool whole);
/* Milliseconds on a place of that speed, which reads all_bytes of weights and caches for a token. */
double vr_work_ms(const struct vr_work *w, const struct vr_fill *f, const struct vr_speed *s, bool on_device,
                  double all_bytes);

#endif
