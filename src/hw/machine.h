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

#define VR_MAX_DEVICES 32

struct vr_device {
    char id[24];      /* backend and index in the machine's list: "CUDA1" */
    char name[96];    /* "NVIDIA GeForce RTX 3090 Ti" */
    char backend[16]; /* "CUDA", "ROCm", "Vulkan", "SYCL" */
    char uuid[64], pci[32]; /* "" when unknown */
    uint64_t total_bytes, free_bytes;
    double bandwidth_gbs; /* memory, 10^9 bytes per second */
    double fp16_tflops;   /* dense matrix */
    uint16_t cc_major, cc_minor; /* NVIDIA compute capability; 0.0 unknown */
    uint16_t pcie_gen, pcie_lanes;         /* now: idle cards train down */
    uint16_t pcie_gen_max, pcie_lanes_max; /* at most, in this slot */
    int numa; /* -1 unknown */
};

enum vr_link_kind { VR_LINK_UNKNOWN, VR_LINK_NVLINK, VR_LINK_SWITCH, VR_LINK_BRIDGE, VR_LINK_NODE, VR_LINK_SYSTEM };
struct vr_link {
    uint16_t a, b; /* indices into devices, a < b */
    enum vr_link_kind kind;
    uint16_t n_nvlinks;
    double gbs;    /* one direction; 0 unknown */
    bool p2p;      /* the driver allows direct access */
};

struct vr_host {
    char cpu[96];
    uint64_t ram_total_bytes, ram_free_bytes;
    double bandwidth_gbs; /* 0: never measured */
    uint32_t cores, threads, numa_nodes;
};

struct vr_machine {
    char about[256];
    char driver[64]; /* "NVIDIA 580.65 (CUDA 13.0)" or "" */
    struct vr_host host;
    struct vr_device devices[VR_MAX_DEVICES];
    struct vr_link links[VR_MAX_DEVICES * (VR_MAX_DEVICES - 1) / 2];
    size_t n_devices, n_links;
};

#endif
