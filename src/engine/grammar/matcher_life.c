/* What no reading refers to any more is left behind when all there is has doubled: the live part is copied, into a
 * matcher that knows nothing else. A clone is the same copy. */
#include "engine/grammar/matcher_sets.h"

#include <string.h>

#include "base/vec.h"

enum { COLLECT_FROM = 1 << 16 }; /* not worth it below */

static bool no_memory(struct vr_err *err) { return vr_fail_nomem(err, "matching a grammar"); }

void vr_matcher_free(struct vr_matcher *m)
{
    if (!m) return;
    free(m->frames);
    free(m->resumes);
    free(m->items);
    free(m->sets);
    free(m->buckets);
    free(m->rows);
    free(m->transitions);
    free(m->frame_index.slots);
    free(m->set_index.slots);
    free(m->work);
    free(m->marks);
    free(m->epoch_of);
    free(m->frame_of);
    free(m->fresh_frames);
    free(m->fresh_resumes);
    free(m);
}

/* Without a set but the dead one. */
static struct vr_matcher *new_empty(const struct vr_gbnf *g, struct vr_err *err)
{
    VR_AUTO(vr_matcher) m = calloc(1, sizeof *m);
    if (!m) return no_memory(err), NULL;
    m->g = g;
    m->allowance = VR_MATCHER_MOST_OPERATIONS;
    m->collect_at = COLLECT_FROM;
    m->epoch_of = calloc(g->n_rules, sizeof *m->epoch_of);
    m->frame_of = calloc(g->n_rules, sizeof *m->frame_of);
    uint32_t root;
    if (!m->epoch_of || !m->frame_of || !VR_ROOM(m, sets) || !VR_ROOM(m, resumes) || !VR_ROOM(m, items))
        return no_memory(err), NULL;
    m->sets[m->n_sets++] = (struct set){ .buckets = UINT32_MAX, .row = VR_MATCHER_UNKNOWN };
    if (!vr_matcher_index_last(&m->set_index, m->sets, sizeof *m->sets, 1)) return no_memory(err), NULL;
    return vr_matcher_intern_frame(m, g->root, 0, &root, err) ? VR_TAKE(m) : NULL;
}

struct vr_matcher *vr_matcher_new(const struct vr_gbnf *g, struct vr_err *err)
{
    VR_AUTO(vr_matcher) m = new_empty(g, err);
    if (!m || !vr_matcher_start(m, err)) return NULL;
    if (m->now == VR_MATCHER_DEAD)
        return VR_FAIL_NULL(err, VR_EUSAGE, "the grammar matches no text: its rules refer to each other without end");
    return VR_TAKE(m);
}

/* Marks in `to` (by frame of m) what a set refers to; the stack holds as many as there are frames. */
static void mark_live(const struct vr_matcher *m, const struct set *s, uint32_t *to, uint32_t *stack)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t frame = m->items[s->first + i].frame;
        if (to[frame] == UINT32_MAX) to[stack[n++] = frame] = 0;
        while (n) {
            const struct frame *c = &m->frames[stack[--n]];
            for (uint32_t k = 0; k < c->n; k++) {
                uint32_t next = m->resumes[c->first + k].frame;
                if (to[next] == UINT32_MAX) to[stack[n++] = next] = 0;
            }
        }
    }
}

/* Calls keep their order, so that they keep their form. */
static bool copy_frames(const struct vr_matcher *m, struct vr_matcher *out, uint32_t *to, struct vr_err *err)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_frames; i++)
        if (i == VR_MATCHER_ROOT_FRAME || to[i] != UINT32_MAX) to[i] = n++;
    for (uint32_t i = 0; i < m->n_frames; i++) {
        if (i == VR_MATCHER_ROOT_FRAME || to[i] == UINT32_MAX) continue;
        struct frame c = m->frames[i];
        c.first = out->n_resumes;
        for (uint32_t k = 0; k < c.n; k++) {
            struct resume p = m->resumes[m->frames[i].first + k];
            p.frame = to[p.frame];
            if (!VR_ROOM(out, resumes)) return no_memory(err);
            out->resumes[out->n_resumes++] = p;
        }
        c.hash = vr_matcher_hash_frame(c.rule, out->resumes + c.first, c.n);
        if (!VR_ROOM(out, frames)) return no_memory(err);
        out->frames[out->n_frames++] = c;
        if (!vr_matcher_index_last(&out->frame_index, out->frames, sizeof *out->frames, out->n_frames))
            return no_memory(err);
    }
    return true;
}

/* A matcher that knows of one set and nothing else. */
static struct vr_matcher *copy_live(const struct vr_matcher *m, vr_matcher_state state, struct vr_err *err)
{
    const struct set *s = &m->sets[state];
    VR_AUTO(vr_matcher) out = new_empty(m->g, err);
    VR_AUTO_FREE uint32_t *to = malloc(m->n_frames * sizeof *to), *stack = malloc((m->n_frames + 1) * sizeof *stack);
    if (!out) return NULL;
    if (!to || !stack) return no_memory(err), NULL;
    memset(to, 0xFF, m->n_frames * sizeof *to);
    mark_live(m, s, to, stack);
    if (!copy_frames(m, out, to, err)) return NULL;
    for (uint32_t i = 0; i < s->n; i++) {
        struct item item = m->items[s->first + i];
        item.frame = to[item.frame];
        if (!VR_ROOM(out, work)) return no_memory(err), NULL;
        out->work[out->n_work++] = item;
    }
    out->end = s->end;
    out->allowance = VR_MATCHER_MOST_OPERATIONS;
    if (!vr_matcher_intern_set(out, &out->now, err)) return NULL;
    out->n_work = out->cap_work = 0; /* it has no marks yet */
    out->allowance = m->allowance;
    out->n_operations = m->n_operations;
    return VR_TAKE(out);
}

struct vr_matcher *vr_matcher_clone(const struct vr_matcher *m, struct vr_err *err)
{
    return copy_live(m, m->now, err);
}

vr_matcher_state vr_matcher_now(const struct vr_matcher *m) { return m->now; }

bool vr_matcher_settle(struct vr_matcher *m, vr_matcher_state s, struct vr_err *err)
{
    m->now = s;
    m->allowance += VR_MATCHER_OPERATIONS_PER_TOKEN;
    if (m->allowance > VR_MATCHER_MOST_OPERATIONS) m->allowance = VR_MATCHER_MOST_OPERATIONS;
    if (vr_matcher_held(m) < m->collect_at) return true;
    struct vr_matcher *live = copy_live(m, s, err);
    if (!live) return false;
    struct vr_matcher old = *m;
    *m = *live;
    *live = old;
    vr_matcher_free(live);
    m->collect_at = vr_matcher_held(m) < COLLECT_FROM / 2 ? COLLECT_FROM : 2 * vr_matcher_held(m);
    return vr_matcher_held(m) <= VR_MATCHER_MOST_HELD / 2 ||
           vr_fail(err, VR_EUSAGE, "the grammar's output is nested too deeply");
}

uint64_t vr_matcher_operations(const struct vr_matcher *m) { return m->n_operations; }

size_t vr_matcher_bytes(const struct vr_matcher *m)
{
    return m->cap_frames * sizeof *m->frames + m->cap_resumes * sizeof *m->resumes + m->cap_items * sizeof *m->items +
           m->cap_sets * sizeof *m->sets + m->cap_buckets * sizeof *m->buckets + m->cap_rows * sizeof *m->rows +
           m->cap_transitions * sizeof *m->transitions + m->cap_work * sizeof *m->work +
           m->cap_marks * sizeof *m->marks + m->cap_fresh_frames * sizeof *m->fresh_frames +
           m->cap_fresh_resumes * sizeof *m->fresh_resumes + 2 * m->g->n_rules * sizeof(uint32_t) +
           (m->frame_index.cap + m->set_index.cap) * sizeof(uint32_t);
}
