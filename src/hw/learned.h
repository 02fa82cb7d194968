/* What this machine taught us: how much of the memory that a device reports as free cannot be had, and which models end
 * an engine in split mode tensor.
 *
 * Kept as JSON under $XDG_STATE_HOME/vram-llm, so that the next start plans right at once:
 *   {"devices":{"GPU-uuid":{"hidden_bytes":N,"free_bytes":N,"stage":"load","when":1789000000}},
 *    "splits":[{"id":"16 hex digits","model":"Qwen3 8B","engine":"0.5.0","why":"ended by signal 8","when":1789000000}]}
 * A device is known by its UUID (its PCI address where it has none), since names like CUDA0 move when others come or
 * go. It is an overhead and not a budget: when another program's memory is free again, it may be used. What nobody
 * confirmed for a month is forgotten, and a load that shows it to be too high lowers it (server/supervise/recovery.h).
 *
 * The rest of a row is of this run only: the limits that plans are made again with.
 *
 * A split is a model, an engine's version and the devices of a machine. With another of them, or after a month, split
 * mode tensor is tried again; a user who asks for it by name always gets it. */
#ifndef VR_HW_LEARNED_H
#define VR_HW_LEARNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "hw/load_stage.h"

#define VR_MAX_LEARNED  32
#define VR_LEARNED_DAYS 30

struct vr_learned_row {
    char key[96];
    uint64_t hidden_bytes;    /* 0: nothing is known */
    uint64_t free_bytes;      /* what it reported then */
    enum vr_load_stage stage; /* when memory ran out */
    int64_t when;             /* seconds since 1970 */

    uint64_t most_bytes; /* of this run: no plan may use more there; 0: no limit */
    unsigned fails;      /* of this run */
};

/* Split mode tensor of a model with an engine on a machine; the id is a hash of them all, the rest is for people. */
struct vr_split {
    char id[20], model[96], engine[64];
};

struct vr_learned_split {
    struct vr_split split;
    char why[160]; /* how the engine ended */
    int64_t when;
};

struct vr_learned {
    struct vr_learned_row rows[VR_MAX_LEARNED];
    size_t n;
    struct vr_learned_split splits[VR_MAX_LEARNED];
    size_t n_splits;
    unsigned n_fails; /* of this run, all devices together */
    bool split_off;   /* of this run: split mode tensor ended its engine, and is not tried again, whoever asks */
};

/* Is it known to end the engine? NULL: not known. */
const struct vr_learned_split *vr_learned_split(const struct vr_learned *l, const struct vr_split *s);
/* It did: remembered, the oldest one forgotten where there is no room. */
void vr_learned_split_died(struct vr_learned *l, const struct vr_split *s, const char *why, int64_t now);

/* NULL: not there. */
struct vr_learned_row *vr_learned_find(struct vr_learned *l, const char *key);
/* Makes it if it is not there; NULL when the table is full or the key too long. */
struct vr_learned_row *vr_learned_at(struct vr_learned *l, const char *key);

/* $XDG_STATE_HOME/vram-llm/learned.json, or below ~/.local/state. False when neither is known. */
bool vr_learned_path(char *out, size_t n) VR_MUST_CHECK;
/* A file that is not there is an empty table; rows from before VR_LEARNED_DAYS, or as long after `now`, are left out.
 */
bool vr_learned_load(const char *path, int64_t now, struct vr_learned *out, struct vr_err *err) VR_MUST_CHECK;
/* Only what is worth keeping. */
bool vr_learned_save(const char *path, const struct vr_learned *l, struct vr_err *err) VR_MUST_CHECK;

/* The same as text; `run`: with what is of this run only, for the process that plans again. */
bool vr_learned_print(const struct vr_learned *l, bool run, struct vr_buf *out, struct vr_err *err) VR_MUST_CHECK;
bool vr_learned_parse(const char *text, size_t n, struct vr_learned *out) VR_MUST_CHECK;

#endif
