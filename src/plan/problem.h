/* The placement problem, stripped of everything but numbers: where do a model's pieces go so that a token takes the
 * least time and no memory is exceeded?
 *
 * A model is a row of stations: its layers and, last, the output. A station is a core (attention, norms, router, cache)
 * and up to VR_MAX_UNITS units that can live elsewhere (expert tensors, FFN tensors). A computer is a host and devices;
 * devices that are alike in every number are one kind, so that ten equal cards cost the search no more than one.
 *
 * What is allowed is what llama.cpp can execute (docs/planner.md has it in full):
 *   - the first stations may stay on the host; the others follow on devices, consecutive stations on each, each device
 * once;
 *   - a device is in use when it has a station; it then pays its compute buffer, which depends on its situation;
 *   - a unit is where its core is, or on any device in use or the host (VR_MOVE_FREE), or only across the border next
 *     to its station (VR_MOVE_BORDER): with the station before when that is on another device, or with the station
 * after;
 *   - a place with layers has one with a cache;
 *   - the first device in use pays a larger compute buffer as soon as any weight is on the host.
 *
 * Time is a sum. A token starts on the host (embeddings), visits each station's core and then its units in their order,
 * returns to the core, goes on to the next station, and ends on the host (logits). Each change of place is a hop, and
 * one copy of activations; reaching a unit that is away takes more of them, and leaving a core for a unit and coming
 * back interrupts what would be one stretch of work. A device in use is also told where the token is (positions,
 * masks). */
#ifndef VR_PLAN_PROBLEM_H
#define VR_PLAN_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "plan/phase.h"

#define VR_MAX_PLACED   15 /* devices: with the host, the engine takes 16 */
#define VR_ON_HOST      15 /* the host as a place, beside devices or kinds 0 .. 14 */
#define VR_MAX_UNITS    8  /* movable pieces of a station */
#define VR_MAX_STATIONS 2048

/* A device's situation decides how large its compute buffer is; the bits add up. */
enum vr_situation {
    VR_SIT_MIDDLE = 0,
    VR_SIT_FIRST = 1,    /* first device, while weights are on the host: their batches are computed here */
    VR_SIT_OUTPUT = 2,   /* carries the output */
    VR_SIT_PIPELINE = 4, /* copies for overlapping batches */
    VR_N_SITUATIONS = 8
};

struct vr_kind {
    uint32_t n;                              /* devices of this kind */
    uint64_t budget_bytes;                   /* of each: free, less reserve, less what the driver takes */
    uint64_t compute_bytes[VR_N_SITUATIONS]; /* of each, if in use; more bits never cost less */
};

/* Something that is in one place. */
struct vr_piece {
    uint64_t gpu_bytes, host_bytes;        /* what it takes there */
    uint64_t left_bytes;                   /* what stays on the host even when it is on a device */
    double ms[VR_N_PHASES][VR_MAX_PLACED]; /* of a decoding step; of a prompt, per token */
    double piped_ms[VR_MAX_PLACED];        /* of a prompt, while the host starts the next device's work */
    /* On the host: large batches are computed on the first device in use, so its kind matters. The last entry is for
     * the case that no device is in use. */
    double host_ms[VR_N_PHASES][VR_MAX_PLACED + 1];
};

enum vr_move { VR_MOVE_BORDER, VR_MOVE_FREE };

struct vr_unit {
    struct vr_piece piece;
    enum vr_move move;
    uint8_t n_in; /* copies for reaching it, away from its core: activations, which experts */
    uint8_t
        n_along; /* further ones from its core when it is on another device: for what is computed there along with it */
    double back_ms[VR_N_PHASES][VR_MAX_PLACED]; /* on the host, its core on a device: what is more to bring back */
    uint32_t allow; /* kinds and the host as bits, for what the user fixed; 0: no restriction */
};

/* What a station keeps of earlier tokens. */
enum vr_cache {
    VR_CACHE_SOME,
    VR_CACHE_EMPTY, /* a layer without attention: the engine cannot load a place that has only such layers */
    VR_CACHE_NONE,  /* no layer: the output */
};

/* Stations that are alike share one of these. */
struct vr_station_class {
    enum vr_cache cache;
    struct vr_piece core;
    struct vr_unit units[VR_MAX_UNITS];
    uint32_t n_units;
};

struct vr_problem {
    struct vr_kind kinds[VR_MAX_PLACED];
    uint32_t n_kinds;
    uint32_t n_devices; /* numbered kind by kind */
    bool ordered;       /* kinds may only follow each other in rising order: the user fixed it */

    struct vr_station_class *classes;
    uint32_t n_classes;
    uint16_t *stations; /* n_stations, a class each; the last is the output */
    uint32_t *allow;    /* n_stations: where the core may be, as bits; 0: no restriction */
    uint32_t n_stations;

    double hop_ms[VR_N_PHASES][VR_MAX_PLACED + 1]
                 [VR_MAX_PLACED + 1];           /* between two devices of these kinds, or the host */
    double open_ms[VR_N_PHASES][VR_MAX_PLACED]; /* for telling a device in use where the token is */
    double switch_ms[VR_N_PHASES];              /* for each change of place within a station, beside its hop */
    double weight[VR_N_PHASES];                 /* how much a phase counts */
    double first_share; /* of a prompt is its first micro-batch, which fills a pipeline; 0: the prompt is endless */

    uint64_t host_budget_bytes;
    uint64_t host_fixed_bytes; /* there whatever the plan: token embeddings, its own compute buffer */
};

/* A solution. Devices are numbered as in the problem: those of kind 0 first. */
struct vr_placement {
    uint8_t *core;  /* n_stations: a device or VR_ON_HOST */
    uint8_t *units; /* n_stations x VR_MAX_UNITS */
};

/* What a placement costs: the definition that the search must agree with, to the last bit of memory. */
struct vr_account {
    uint64_t weight_bytes[VR_MAX_PLACED + 1];  /* cores and units; the host is the last */
    uint64_t compute_bytes[VR_MAX_PLACED];     /* 0 when not in use */
    double ms[VR_N_PHASES][VR_MAX_PLACED + 1]; /* executing there */
    double piped_ms[VR_MAX_PLACED];            /* of a prompt, in a pipeline */
    double hop_ms[VR_N_PHASES];                /* between places */
    double cost; /* the weighted sum of all; in a pipeline, prompts go by the slowest device once it is filled */
    uint8_t order[VR_MAX_PLACED], n_order;  /* devices in use, as the token visits them */
    uint32_t n_stations[VR_MAX_PLACED + 1]; /* on each device */
    bool on_host;                           /* weights are */
    bool moved;                             /* units are away from their core */
};

/* False with a sentence about what breaks the rules or exceeds a memory; `out` then holds what was counted so far.
 * `situation` is added to that of every device: VR_SIT_PIPELINE or 0. */
bool vr_problem_account(const struct vr_problem *p, const struct vr_placement *x, unsigned situation,
                        struct vr_account *out, struct vr_err *err) VR_MUST_CHECK;

/* Checks that a problem makes sense: counts within limits, times finite, compute buffers that grow with the situation.
 */
bool vr_problem_check(const struct vr_problem *p, struct vr_err *err) VR_MUST_CHECK;

/* Units that could only cross a border may be anywhere from now on. */
void vr_problem_free_units(struct vr_problem *p);

uint32_t vr_problem_kind_of(const struct vr_problem *p, uint32_t device);

#endif
