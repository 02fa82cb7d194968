/* Models that are loaded already, and one that wants to be: does it move in beside them, or who leaves?
 *
 * The newcomer is to be at most VR_SLOWER slower than with all models gone that may leave: those that are neither
 * pinned nor busy. It moves in beside all of them if it can; else the cheapest set leaves that gives it enough room. A
 * model costs the seconds that loading it again takes, times the chance that it is wanted soon; of sets that cost the
 * same, the one with the fewest bytes leaves.
 *
 * How the newcomer does in a room is a plan, which takes a while, so as few rooms as possible are tried. More room is
 * never worse: a set that frees no more than one that was not enough is not enough, one that frees no less than one
 * that was is enough, and of sets that are probably not enough those are tried first that speak for the most others.
 * What comes out is the cheapest set by these rules (`exact`), unless that took more than VR_MOST_PLANS plans or more
 * than VR_MOST_MOVABLE models may leave: then a set of which none can stay. */
#ifndef VR_FIT_RESIDENTS_H
#define VR_FIT_RESIDENTS_H

#include "hw/select.h"

#define VR_MAX_RESIDENTS 64
#define VR_MOST_MOVABLE  12
#define VR_MOST_PLANS    24
#define VR_SLOWER        0.10

/* Bytes in each place: taken by a model, or given back by some. */
struct vr_room {
    uint64_t devices[VR_MAX_DEVICES]; /* of the machine */
    uint64_t host;
};
void vr_room_add(struct vr_room *to, const struct vr_room *r);
/* What an outcome takes, with its companions. */
struct vr_outcome;
struct vr_room vr_room_of(const struct vr_outcome *o);
/* Makes the free memory of a machine smaller, to 0 at most; or larger. */
void vr_room_take(struct vr_machine *m, const struct vr_room *r);
void vr_room_give(struct vr_machine *m, const struct vr_room *r);
/* What a process takes on a device beside all that is planned, of which the reserve is `reserve_bytes`. */
uint64_t vr_process_bytes(const struct vr_device *d, uint64_t reserve_bytes);

struct vr_resident {
    char id[256];
    bool pinned, busy;
    double reload_s;    /* that loading it again takes */
    double last_used_s; /* ago */
    struct vr_room room;
};
/* What it costs to let it go: seconds, times the chance that it is wanted soon, which halves in ten minutes. */
double vr_resident_cost(const struct vr_resident *r);

/* A set of residents has a bit for each. */
struct vr_newcomer {
    /* What it costs per token when these have left, in any unit; INFINITY: it does not fit. False: an error. */
    bool (*plan)(void *ctx, uint64_t leaving, double *cost, struct vr_err *err);
    /* Does it do there, without a plan, what it did in the room that was planned for first? May be NULL. */
    bool (*as_well)(void *ctx, uint64_t leaving);
    /* Is it clearly too slow there, by a quick look? May be NULL. `unsure`: that may be wrong, so plans are made for
     * what it rules out and would be cheaper. */
    bool (*too_slow)(void *ctx, uint64_t leaving);
    bool unsure;
    /* The bytes that it misses on devices, about, while all stay: less is probably not enough. */
    uint64_t (*misses)(void *ctx);
    void *ctx;
};

enum vr_newcomer_end {
    VR_MOVES_IN, /* when `leaving` have left, if any */
    VR_BLOCKED,  /* it would fit if pinned or busy models left */
    VR_TOO_LARGE,
};

struct vr_departure {
    enum vr_newcomer_end end;
    uint64_t leaving;
    uint64_t blocking; /* VR_BLOCKED: without these it would fit; busy ones alone if that is enough, else pinned ones */
    unsigned plans;    /* that were made */
    bool exact;        /* no cheaper set is enough */
};

/* What stands in the way of a newcomer, as data: obstacles.def. The sentence is made where something is shown. */
enum vr_obstacle {
#define OBSTACLE(kind, json) VR_OBSTACLE_##kind,
#include "fit/obstacles.def"
#undef OBSTACLE
    VR_N_OBSTACLES
};
const char *vr_obstacle_name(enum vr_obstacle kind); /* in JSON */
bool vr_obstacle_parse(const char *name, enum vr_obstacle *out) VR_MUST_CHECK;

/* At most VR_MAX_RESIDENTS. Fails only if plan() does. */
bool vr_residents_settle(const struct vr_resident *all, size_t n, const struct vr_newcomer *who,
                         struct vr_departure *out, struct vr_err *err) VR_MUST_CHECK;

#endif
