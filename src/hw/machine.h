/* A computer as the planner sees it: its devices, how they are linked, and the host.
 *
 * It comes from this computer (detect.c: NVML, sysfs), from a profile (profile.c: JSON), or from what a person types
 * (spec.c, with the table of known cards). A fact that nobody could tell is 0, and printed as "?". */
#ifndef VR_HW_MACHINE_H
#define VR_HW_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "hw/reduction.h"

#define VR_MAX_DEVICES 32

#define VR_MAX_MEASURED_TYPES 48
#define VR_MAX_MEASURED_OPS   48

/* Products with weights of one type. */
struct vr_measured_type {
    char name[16];                    /* "q4_K" */
    double gbs, tflops;               /* one token: weights read, 10^9 bytes/s; 512 tokens: 10^12 operations/s */
    double expert_gbs, expert_tflops; /* the same where each token chooses its experts */
    double cached_gbs;                /* one token on the host, while all weights are in the processor's cache */
    double wide_gbs;                  /* one token on the host: weights read of a matrix with 14,336 columns */
    double row_ns, expert_row_ns;     /* one token on the host: per row of the matrix, however long, out of the cache */
    double us, prompt_us;             /* per kernel, at any size: one token, 512 tokens */
    double least_us;                  /* one token on a device: per kernel, however small the matrix */
    double expert_prompt_gbs;         /* a batch on a device: weights read, beside what expert_tflops counts, … */
    double expert_again_gbs;          /* … and again for each tile of tokens more that an expert gets; */
    double expert_act_gbs;            /* and what its tokens bring and take away */
};

/* An operation that is no product with weights (plan/ops.def). */
struct vr_measured_op {
    char name[24];
    char type[16];      /* of the cache that it works on; "" where there is none */
    double us;          /* one token: per kernel, over a cache per operation, at any size */
    double long_us;     /* over a cache of thousands of cells: so much more, for putting parts together */
    double long_cells;  /* it goes on growing up to so many, where the engine has another kernel; 0: not */
    double gbs, tflops; /* one token: 10^9 bytes/s and 10^12 operations/s beyond that; 0: not the limit */
    double prompt_gbs, prompt_tflops; /* the same for 512 tokens */
    double cached_tflops;             /* one token on the host, while all is in the processor's cache */
    double long_tflops;               /* one token on the host, over a cache of 16,384 cells */
    double long_prompt_tflops;        /* … a batch */
};

/* What `bench` measured on a device or on the host. A figure that is 0 was not measured; without `when`, nothing was.
 */
struct vr_measured {
    char when[32];                      /* 2026-11-15T09:30:00Z */
    char engine[64], driver[64];        /* with which it was measured */
    uint64_t runtime_bytes, blas_bytes; /* taken beside all that is planned; more of it once float matrices multiply */
    double launch_us;                   /* per kernel */
    double submit_us;         /* that the host needs to start one; it runs ahead of the device while generating */
    double prompt_submit_us;  /* per kernel of a micro-batch: the host makes its graph while the device waits */
    double prompt_pair_ns;    /* per pair of a micro-batch's tokens: the host fills the attention mask */
    double step_us;           /* per token, whatever the model */
    double product_us;        /* per product with weights of one token, before it runs at full speed */
    double cache_mib;         /* the host: weights up to about this size stay in the processor's cache */
    double prompt_product_us; /* the same for 512 tokens */
    double attention_gbs, attention_tflops;
    double up_gbs, up_us, down_gbs, down_us; /* from the host's memory and back */
    double mapped_gbs, mapped_expert_gbs;    /* weights that stay in a mapped file and are sent to be used */
    double switch_us, prompt_switch_us;      /* each time that work goes on to the host and comes back */
    struct vr_measured_type types[VR_MAX_MEASURED_TYPES];
    struct vr_measured_op ops[VR_MAX_MEASURED_OPS];
    size_t n_types, n_ops;
};

struct vr_device {
    char id[24];            /* backend and index among that backend's devices: "CUDA1" */
    char name[96];          /* "NVIDIA GeForce RTX 3090 Ti" */
    char backend[16];       /* "CUDA", "ROCm", "Vulkan", "SYCL" */
    char uuid[64], pci[32]; /* "" when unknown; pci as sysfs writes it: "0000:01:00.0" */
    uint64_t total_bytes, free_bytes;
    double bandwidth_gbs;                  /* memory, 10^9 bytes per second */
    double fp16_tflops;                    /* dense matrix */
    uint16_t cc_major, cc_minor;           /* NVIDIA compute capability; 0.0 unknown */
    uint16_t pcie_gen, pcie_lanes;         /* now: idle cards train down */
    uint16_t pcie_gen_max, pcie_lanes_max; /* at most, in this slot */
    int numa;                              /* -1 unknown */
    char note[160];                        /* what is odd about it, for doctor; "" when nothing is */
    char node[14];          /* the machine that lends it; "": it is this one's. Then its id is "attic/CUDA1" */
    double net_gbs, net_us; /* the way there: 10^9 bytes/s in one direction, and a round trip */
    struct vr_measured measured;
};

enum vr_link_kind { VR_LINK_UNKNOWN, VR_LINK_NVLINK, VR_LINK_SWITCH, VR_LINK_BRIDGE, VR_LINK_NODE, VR_LINK_SYSTEM };
struct vr_link {
    uint16_t a, b; /* indices into devices, a < b */
    enum vr_link_kind kind;
    uint16_t n_nvlinks;
    double gbs; /* one direction; 0 unknown */
    bool p2p;   /* the driver allows direct access */
    double measured_gbs, measured_us;
};

/* Who told how fast the host's memory is: its modules (dimms.h), reading it (bandwidth.h), `bench`, the user. */
enum vr_bandwidth_from { VR_FROM_NOBODY, VR_FROM_MODULES, VR_FROM_READING, VR_FROM_BENCH, VR_FROM_USER };

struct vr_host {
    char cpu[96];
    uint64_t ram_total_bytes, ram_free_bytes;
    double bandwidth_gbs; /* of its memory modules, or as measured; 0: nobody knows */
    enum vr_bandwidth_from bandwidth_from;
    uint32_t cores, threads, numa_nodes;
    struct vr_measured measured; /* as layers run there beside devices; without any device, as all run */
    struct vr_measured alone;    /* with devices that are left unused: weights then lie as the CPU likes them best */
};

struct vr_machine {
    char about[256];
    char driver[64]; /* "NVIDIA 580.65 (CUDA 13.0)" or "" */
    char note[512];  /* what was met while looking, one sentence per line; "" when nothing was */
    struct vr_host host;
    struct vr_device devices[VR_MAX_DEVICES];
    struct vr_link links[VR_MAX_DEVICES * (VR_MAX_DEVICES - 1) / 2];
    size_t n_devices, n_links;
    enum vr_reduce_way reduce_way; /* the best that the engine has */
    struct vr_measured_reduction reductions[VR_MAX_REDUCTIONS];
    size_t n_reductions;
};

/* Half a megabyte: on the heap, never on a stack. NULL: memory is out. */
struct vr_machine *vr_machine_new(struct vr_err *err) VR_MUST_CHECK;
void vr_machine_free(struct vr_machine *m);
VR_DEFINE_AUTO(vr_machine);

/* A zeroed device (numa unknown) at the end of the list, or NULL when the list is full. */
struct vr_device *vr_machine_add(struct vr_machine *m);
/* Gives every device its id: CUDA0, CUDA1, ROCm0, in the order of the list; attic/CUDA0 where a node lends it. */
void vr_machine_number(struct vr_machine *m);
/* The devices of another machine that lends them, behind those that are there, with the way to it. Returns how many;
 * what exceeds VR_MAX_DEVICES is left out. */
size_t vr_machine_borrow(struct vr_machine *m, const struct vr_machine *lender, const char *node, double net_gbs,
                         double net_us);
/* The processor and its memory as a device ("CPU0") that other machines can borrow; `most_bytes` of what is free. */
bool vr_machine_add_cpu(struct vr_machine *m, uint64_t most_bytes);
/* The id that a device has on the machine that it is part of: "CUDA1" of "attic/CUDA1". */
const char *vr_device_own_id(const struct vr_device *d);

/* Adds a line to m->note; what does not fit is cut. */
void vr_machine_note(struct vr_machine *m, const char *fmt, ...) VR_PRINTF(2, 3);

/* One card that is shown several times (GGML_CUDA_DEVICES)? */
bool vr_device_same_card(const struct vr_device *a, const struct vr_device *b);

/* The link between devices i and j (in any order), or NULL when nobody told. */
const struct vr_link *vr_machine_link(const struct vr_machine *m, size_t i, size_t j);
/* "nvlink", "switch", ...: the words of the profile. */
const char *vr_link_kind_name(enum vr_link_kind kind);
bool vr_link_kind_parse(const char *name, enum vr_link_kind *out);
/* "modules", "measured", ...: the same. */
const char *vr_bandwidth_from_name(enum vr_bandwidth_from from);
bool vr_bandwidth_from_parse(const char *name, enum vr_bandwidth_from *out);

/* GB/s of a PCIe link in one direction, after line encoding and before packet overhead (a good driver reaches 80 to
 * 90 % of it): gen 3 0.985, gen 4 1.969, gen 5 3.938 per lane. 0 for a generation nobody knows. */
double vr_pcie_gbs(unsigned gen, unsigned lanes);
/* The same for a device: its best generation, because an idle card trains down to gen 1, times the lanes that it has
 * now, because what is wired does not change (a riser or an eGPU box has four, whatever the slot promises). */
double vr_device_link_gbs(const struct vr_device *d);

/* What is free on an idle card of this size when nobody could look: 2 % go to page tables and firmware (a 24,576 MiB
 * RTX 4090 tells CUDA of 24,082) and 256 MiB to an idle driver. Within 1 % of what headless machines report. */
uint64_t vr_device_free_guess(uint64_t total_bytes);

#endif
