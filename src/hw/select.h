/* Which devices a plan may use and how much of each: --devices, --device-order, --reserve-mib, --min-budget-mib. */
#ifndef VR_HW_SELECT_H
#define VR_HW_SELECT_H

#include "hw/machine.h"

#define VR_RESERVE_DEFAULT_MIB 1024 /* until the machine is calibrated */
#define VR_RESERVE_MARGIN_MIB  128  /* beside what was measured: pools that grow, fragments, other programs' windows */

enum vr_device_order {
    VR_ORDER_AUTO,       /* the planner's choice; until it chooses, the machine's order */
    VR_ORDER_FREE_DESC,  /* most free memory first; equal ones keep the machine's order */
    VR_ORDER_TOTAL_DESC, /* most memory first, likewise */
    VR_ORDER_INDEX,      /* the machine's order, fixed */
};

/* As the user typed it; NULL: not given. */
struct vr_select {
    /* A list of indices, ids ("CUDA1"), UUIDs or their beginnings ("GPU-3f2a"), or names ("3090 Ti", which takes all
     * cards of that name). It says which devices, not in which order. */
    const char *devices;
    /* CUDA_VISIBLE_DEVICES, by which batch systems hand out cards: no other CUDA device is used. Numbers count in PCI
     * order; parts of a card (MIG-...) say nothing here. */
    const char *visible;
    const char *device_order; /* auto, free_desc, total_desc, index */
    const char *reserve_mib;  /* one for all, or one per device of the machine, in its order, chosen or not */
    uint64_t min_budget_bytes;
};

struct vr_budget {
    uint16_t device;                      /* index into the machine's devices */
    uint64_t budget_bytes, reserve_bytes; /* budget = free - reserve, always > 0 */
};

/* Why a device may not be used. */
enum vr_exclusion {
    VR_EXCLUDED_NOT_CHOSEN,        /* by --devices */
    VR_EXCLUDED_NOT_VISIBLE,       /* by CUDA_VISIBLE_DEVICES */
    VR_EXCLUDED_MEMORY_UNKNOWN,    /* nobody knows how much it has */
    VR_EXCLUDED_RESERVE_TAKES_ALL, /* no more is free than the reserve */
    VR_EXCLUDED_BELOW_MIN_BUDGET,  /* less than --min-budget-mib is left */
    VR_EXCLUDED_ALLOCATION_FAILED, /* earlier nothing could be allocated of what it says is free */
};

struct vr_excluded {
    uint16_t device;
    enum vr_exclusion why;
    uint64_t free_bytes, reserve_bytes, min_budget_bytes; /* as far as they matter for it */
};

struct vr_budgets {
    struct vr_budget items[VR_MAX_DEVICES]; /* in the order asked for */
    struct vr_excluded excluded[VR_MAX_DEVICES];
    size_t n, n_excluded;
    enum vr_device_order order;
};

/* No device left is a success with n == 0: the host can still serve. */
bool vr_budgets_select(const struct vr_machine *m, const struct vr_select *s, struct vr_budgets *out,
                       struct vr_err *err) VR_MUST_CHECK;

/* What is left free on a device unless the user says so: what its runtime was measured to take, and a margin. */
uint64_t vr_device_reserve(const struct vr_device *d);

/* What was to be left free on a device of the machine, whether it may be used or not. */
uint64_t vr_budgets_reserve(const struct vr_budgets *b, size_t device);

bool vr_device_order_parse(const char *s, enum vr_device_order *out, struct vr_err *err) VR_MUST_CHECK;

#endif
