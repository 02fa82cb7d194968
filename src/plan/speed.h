/* How long work takes: the one place with numbers about speed, for the planner and for pricing a dry run's graph.
 *
 *     time of a node   = max(bytes / (GB/s x share(type)), operations / TFLOPS(type)) + launches x launch time
 *     time of a hop    = latency + bytes / GB/s of the link
 *
 * What is no product with weights goes by the rates and the launch time of its own kind, where they were measured.
 * A token's time is the sum of its nodes and hops: decoding does one thing after the other. The shares and latencies
 * of a machine that nobody measured come from speeds.def (docs/accuracy.md tells how far off they are); what `bench`
 * measured replaces any of them, field by field. */
#ifndef VR_PLAN_SPEED_H
#define VR_PLAN_SPEED_H

#include "hw/machine.h"

#define VR_SPEED_TYPES  64 /* more than there are tensor types */
#define VR_SPEED_HOST   VR_MAX_DEVICES
#define VR_LONG_COLUMNS 4096  /* of matrices whose rows are long, and of */
#define VR_WIDE_COLUMNS 14336 /* those that lead back from a layer's widest place */
#define VR_SHORT_CELLS  2048  /* of a cache: what heads have in common stays at hand until the next one looks at it */
#define VR_LONG_CELLS   16384
#define VR_EXPERT_TILE  128 /* tokens that go through an expert's weights at once, where that was measured */

enum vr_op_kind {
#define OP(kind, name, typed) VR_OP_##kind,
#include "plan/ops.def"
#undef OP
    VR_N_OPS
};
/* Of operations that depend on no cache: what the middle one's kernel takes, for those that were not measured. */
double vr_op_middle_us(const struct vr_measured *m);
const char *vr_op_name(enum vr_op_kind kind); /* in a profile */
bool vr_op_typed(enum vr_op_kind kind);       /* whether it depends on the cache's type */

/* One kind of operation on one type of cache, as it was measured. 0: not the limit. */
struct vr_speed_op {
    uint8_t kind;   /* enum vr_op_kind */
    uint32_t type;  /* VR_TYPE_NONE where it does not matter */
    double ms;      /* per kernel, one token; over a cache, per operation */
    double long_ms; /* more, over a long cache, and still more up to … */
    double long_cells;
    double gbs, tflops, prompt_gbs, prompt_tflops;
    double cached_tflops;                   /* with everything in the processor's cache */
    double long_tflops, long_prompt_tflops; /* over VR_LONG_CELLS; 0: as over few */
};

struct vr_speed {
    double gbs;                   /* of its memory, 10^9 bytes per second */
    float share[VR_SPEED_TYPES];  /* of gbs that a product with weights of this type reaches; by vr_type() id */
    double tflops;                /* that matrix products reach in large batches */
    float matrix[VR_SPEED_TYPES]; /* TFLOPS of a batch's product with this type */
    float expert_share[VR_SPEED_TYPES], expert_matrix[VR_SPEED_TYPES]; /* the same where tokens choose experts */
    float cached_share[VR_SPEED_TYPES];                          /* of gbs, with all weights in the processor's cache */
    float wide_share[VR_SPEED_TYPES];                            /* of gbs, with VR_WIDE_COLUMNS; 0: as any */
    float row_ns[VR_SPEED_TYPES], expert_row_ns[VR_SPEED_TYPES]; /* per row of a matrix that is not */
    float type_ms[VR_SPEED_TYPES], prompt_type_ms[VR_SPEED_TYPES]; /* per kernel of a product; 0: as of any type */
    float least_ms[VR_SPEED_TYPES];     /* per kernel of a product of one token, however small */
    float expert_read[VR_SPEED_TYPES];  /* GB/s of a batch's products by expert, beside expert_matrix; 0: the longer */
    float expert_again[VR_SPEED_TYPES]; /* … for each tile of tokens more that an expert gets; 0: read once */
    float expert_act[VR_SPEED_TYPES];   /* … and GB/s of what the tokens bring and take away; 0: part of the rest */
    double tile;                        /* so many tokens */
    double act_gbs;     /* of what a batch's products read and write beside weights; 0: part of the rates above */
    double cache_bytes; /* weights of a token up to about this size are; 0: it has none */
    double attention_gbs, attention_tflops;
    bool whole_tiles; /* a batch's attention takes as long with all cells and heads of its tiles as with those in use */
    struct vr_speed_op ops[VR_MAX_MEASURED_OPS]; /* what was measured by itself */
    size_t n_ops;
    double other_ms;          /* per kernel of an operation that was not; 0: launch_ms */
    double launch_ms;         /* per kernel */
    double submit_ms;         /* what the host needs to start it, while the device works on those before */
    double product_ms;        /* more, for one that reads weights: until it runs at full speed */
    double prompt_product_ms; /* the same for a batch */
    double prompt_submit_ms;  /* a batch's kernel: the host makes its graph while the device waits */
    double pair_ms;           /* per pair of its tokens: the host fills the attention mask */
    double step_ms,
        prompt_step_ms;       /* per token and per micro-batch, whatever the model: graphs made, results awaited */
    double link_gbs, link_ms; /* to the host: bandwidth that copies reach, and latency of one */
    double net_ms;  /* a round trip to the machine that lends it: waited for when something is fetched from there */
    double peer_ms; /* more, for each that leads to another device through it */
    bool overlaps;  /* in a pipeline, it computes while the next device does */
    double mapped_gbs, mapped_expert_gbs; /* the same for weights in a mapped file */
    double switch_ms, prompt_switch_ms;   /* going on to the host in the middle of a step, and coming back */
};

struct vr_speeds {
    struct vr_speed places[VR_MAX_DEVICES + 1]; /* as the machine's devices, and the host */
    struct vr_speed alone;                      /* the host when no device has part in it */
    size_t n_devices;
    uint8_t card[VR_MAX_DEVICES]; /* the first device on the same card: those that share one take turns */
    struct {
        double gbs, ms; /* gbs 0: through the host */
    } direct[VR_MAX_DEVICES][VR_MAX_DEVICES];
    enum vr_reduce_way reduce_way; /* the best that the engine has for adding up over devices */
    uint64_t cuda, pair_kernel;    /* devices that are CUDA's, and those that its kernel for two runs on; a bit each */
    struct vr_measured_reduction reductions[VR_MAX_REDUCTIONS];
    size_t n_reductions;
    bool measured; /* all devices and the host were; else at least one is taken from the table */
    bool pinned;   /* the host's weights are not in a mapped file */
};

/* From the facts of the machine and the table. What the machine does not tell is guessed low. */
void vr_speeds_guess(const struct vr_machine *m, struct vr_speeds *out);
/* The same, with what was measured in place of guesses. */
void vr_speeds_of(const struct vr_machine *m, struct vr_speeds *out);
/* The host's weights are in pinned memory, not in a mapped file: they are sent at the link's full speed. */
void vr_speeds_pin(struct vr_speeds *s);
/* Nothing but memory bandwidth: no launches, no hops, every byte at full speed. For comparing with other planners. */
void vr_speeds_bandwidth(const struct vr_machine *m, struct vr_speeds *out);

/* What was measured for a kind of operation, on a cache of that type; NULL: nothing was. */
const struct vr_speed_op *vr_speed_find(const struct vr_speed *s, enum vr_op_kind kind, uint32_t type);
/* When a token reads all_bytes of weights and caches in all: what fits into the processor's cache is faster. TFLOPS of
 * an operation over so many cells, and milliseconds for reading the weights of a product. */
double vr_speed_tflops(const struct vr_speed *s, const struct vr_speed_op *op, double cells, double all_bytes);
double vr_speed_prompt_tflops(const struct vr_speed_op *op, double cells); /* of a batch */
double vr_speed_read_ms(const struct vr_speed *s, uint32_t type, bool experts, double bytes, uint32_t columns,
                        double all_bytes);
/* Milliseconds of a node; VR_TYPE_NONE for one without weights. */
double vr_speed_node_ms(const struct vr_speed *s, uint32_t type, double bytes, double operations, double launches);
/* Milliseconds for sending weights that stay on the host to a device, for one batch. */
double vr_speed_send_ms(const struct vr_speeds *s, size_t to, bool experts, double bytes);
/* Milliseconds for moving bytes between two places: indices of devices, or VR_SPEED_HOST. 0 when they are the same. */
double vr_speed_hop_ms(const struct vr_speeds *s, size_t from, size_t to, double bytes);
/* How these devices (a bit each) add up what they have: the way that the engine takes. */
enum vr_reduce_way vr_speed_reduce_way(const struct vr_speeds *s, uint64_t devices);
/* Milliseconds for adding up a tensor of that many bytes, of which each of these devices (a bit each) has a part: as it
 * was measured for them; else as for the slowest others that are as many, or by the slowest two of them; else by the
 * table. */
double vr_speed_reduce_ms(const struct vr_speeds *s, uint64_t devices, double bytes);

#endif
