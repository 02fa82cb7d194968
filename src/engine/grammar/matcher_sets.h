/* Inside the matcher: what its two files share. matcher.c makes sets, matcher_life.c makes, copies and frees matchers.
 */
#ifndef VR_ENGINE_GRAMMAR_MATCHER_SETS_H
#define VR_ENGINE_GRAMMAR_MATCHER_SETS_H

#include "engine/grammar/matcher.h"

enum {
    VR_MATCHER_MOST_HELD = 1 << 20, /* of everything: items, frames, transitions */
    VR_MATCHER_ROOT_FRAME = 0,
};
#define VR_MATCHER_UNKNOWN UINT32_MAX

struct item {
    uint32_t at, count, frame;
    uint32_t part; /* of a character: its value so far << 2 | bytes to come; 0: between characters */
};

struct resume { /* where a caller goes on */
    uint32_t at, count, frame;
};

struct frame {
    uint64_t hash;
    uint32_t rule, first, n; /* in `resumes` */
};

struct set {
    uint64_t hash;
    uint32_t first, n; /* in `items` */
    uint32_t buckets;  /* in `buckets`, where there are many items: by ASCII character, others, tokens */
    uint32_t row;      /* in `rows`, where it is left often: by group of bytes; UNKNOWN where it is not known */
    uint16_t n_left;   /* ways that are known to leave it */
    bool end;          /* the text may end here */
};

struct fresh_frame {
    uint32_t rule, head, tail, n; /* a list in `fresh_resumes` */
    uint32_t frozen;              /* UINT32_MAX: not yet */
};

struct fresh_resume {
    struct resume resume;
    uint32_t next;
};

struct transition {
    uint64_t key; /* set << 8 | group of bytes; 0: free */
    uint32_t to;
};

struct index { /* open addressing over frames or sets; number + 1 */
    uint32_t *slots;
    uint32_t cap;
};

struct mark { /* what is in the set that is being made */
    uint32_t epoch, item;
};

struct vr_matcher {
    const struct vr_gbnf *g;
    vr_matcher_state now;
    int64_t allowance;
    uint64_t n_operations, n_known;
    uint32_t collect_at;

    struct frame *frames;
    struct resume *resumes;
    struct item *items;
    struct set *sets; /* the first is VR_MATCHER_DEAD */
    uint32_t *buckets, *rows;
    struct transition *transitions;
    uint32_t n_frames, n_resumes, n_items, n_sets, n_buckets, n_rows, n_transitions;
    uint32_t cap_frames, cap_resumes, cap_items, cap_sets, cap_buckets, cap_rows, cap_transitions;
    struct index frame_index, set_index;

    /* the set that is being made */
    struct item *work;
    struct mark *marks;
    uint32_t *epoch_of, *frame_of; /* by rule */
    struct fresh_frame *fresh_frames;
    struct fresh_resume *fresh_resumes;
    uint32_t n_work, n_fresh_frames, n_fresh_resumes;
    uint32_t cap_work, cap_marks, cap_fresh_frames, cap_fresh_resumes;
    uint32_t epoch;
    bool end;
};

uint32_t vr_matcher_held(const struct vr_matcher *m);
/* Puts the last of n elements into an index; their hash is the first member of each. */
bool vr_matcher_index_last(struct index *x, const void *array, size_t size, uint32_t n);
uint64_t vr_matcher_hash_frame(uint32_t rule, const struct resume *resumes, uint32_t n);
/* The frame of a rule whose callers are the last of `resumes`, from `first` on, or the one there is already. */
bool vr_matcher_intern_frame(struct vr_matcher *m, uint32_t rule, uint32_t first, uint32_t *out, struct vr_err *err);
/* The set of the terminal items in m->work, or the one there is already. */
bool vr_matcher_intern_set(struct vr_matcher *m, vr_matcher_state *out, struct vr_err *err);
/* The set at the beginning of a text, in m->now. */
bool vr_matcher_start(struct vr_matcher *m, struct vr_err *err);

#endif
