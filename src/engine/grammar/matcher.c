/* Sets of items, as in Earley's algorithm, over frames that the readings share, as in a graph-structured stack.
 *
 * An item is a symbol, how often it was taken, and the frame of its rule; a frame is a rule that was entered, and where
 * its callers go on when it ends (resume). While a set is being made, a rule is entered once, however many items want
 * it; each adds where it goes on. A rule that may be empty is stepped over where it is entered, so that its end there
 * means nothing, and the end of a rule whose frame has one caller is where that one goes on: `x ::= a x |` does not
 * pile up frames. When the set is complete, its frames and then the set itself are looked up among those there are
 * (frozen frames never change), so that coming back to a state gives the same number; what a byte makes of a set is
 * kept by that number. */
#include "engine/grammar/matcher_sets.h"

#include <string.h>

#include "base/vec.h"

enum {
    MOST_ITEMS = 1 << 17, /* of one set */
    MANY = 64,            /* items of a set that has buckets */
    OFTEN = 8,            /* ways to leave a set that has a row of them */
    ROW = 256,
    LOOKS = 4, /* that cost one operation */
    OTHERS = 128,
    TOKENS,
    N_BUCKETS,
    END_OF_RULE = 0, /* the symbol that stands for every end */
};
#define FRESH 0x80000000u /* in a frame's number: made for the set that is being made */

/* --- cost --- */

static bool ambiguous(struct vr_err *err)
{
    return vr_fail(err, VR_EUSAGE, "the grammar is too ambiguous: there are too many ways to parse the output");
}

static bool no_memory(struct vr_err *err) { return vr_fail_nomem(err, "matching a grammar"); }

static bool spend(struct vr_matcher *m, uint32_t n, struct vr_err *err)
{
    m->n_operations += n;
    m->allowance -= n;
    return m->allowance >= 0 || ambiguous(err);
}

uint32_t vr_matcher_held(const struct vr_matcher *m)
{
    return m->n_items + m->n_resumes + m->n_frames + m->n_transitions + m->n_rows / 4;
}

/* --- hashes --- */

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 29;
}

static uint64_t hash_item(const struct item *i)
{
    return mix(mix(0, (uint64_t)i->at << 32 | i->count), (uint64_t)i->frame << 32 | i->part);
}

/* The hash is the first member of what is looked up. */
static uint64_t hash_at(const void *array, size_t size, uint32_t i)
{
    uint64_t h;
    memcpy(&h, (const char *)array + i * size, sizeof h);
    return h;
}

bool vr_matcher_index_last(struct index *x, const void *array, size_t size, uint32_t n)
{
    uint32_t from = n - 1;
    if (2 * n >= x->cap) {
        uint32_t cap = x->cap ? 2 * x->cap : 256;
        uint32_t *slots = calloc(cap, sizeof *slots);
        if (!slots) return false;
        free(x->slots);
        x->slots = slots;
        x->cap = cap;
        from = 0;
    }
    for (uint32_t i = from; i < n; i++) {
        uint32_t at = (uint32_t)hash_at(array, size, i) & (x->cap - 1);
        while (x->slots[at]) at = (at + 1) & (x->cap - 1);
        x->slots[at] = i + 1;
    }
    return true;
}

/* --- items --- */

static bool grow_work(struct vr_matcher *m)
{
    uint32_t cap = m->cap_work ? 2 * m->cap_work : 64;
    struct item *work = realloc(m->work, cap * sizeof *work);
    if (work) m->work = work;
    struct mark *marks = work ? calloc(2 * (size_t)cap, sizeof *marks) : NULL;
    if (!marks) return false;
    free(m->marks);
    m->marks = marks;
    m->cap_marks = 2 * cap;
    m->cap_work = cap;
    for (uint32_t i = 0; i < m->n_work; i++) {
        uint32_t at = (uint32_t)hash_item(&m->work[i]) & (m->cap_marks - 1);
        while (m->marks[at].epoch == m->epoch) at = (at + 1) & (m->cap_marks - 1);
        m->marks[at] = (struct mark){ m->epoch, i };
    }
    return true;
}

/* Adds an item unless it is there. */
static bool add(struct vr_matcher *m, struct item item, struct vr_err *err)
{
    if (m->g->symbols[item.at].kind == VR_GBNF_END) item.at = END_OF_RULE;
    if (m->n_work == m->cap_work && !grow_work(m)) return no_memory(err);
    uint32_t at = (uint32_t)hash_item(&item) & (m->cap_marks - 1);
    for (;; at = (at + 1) & (m->cap_marks - 1)) {
        if (!spend(m, 1, err)) return false;
        if (m->marks[at].epoch != m->epoch) break;
        if (memcmp(&m->work[m->marks[at].item], &item, sizeof item) == 0) return true;
    }
    if (m->n_work == MOST_ITEMS) return ambiguous(err);
    m->marks[at] = (struct mark){ m->epoch, m->n_work };
    m->work[m->n_work++] = item;
    return true;
}

/* The symbol of an item was taken once more: where that leads. */
static struct resume after(const struct vr_matcher *m, uint32_t at, uint32_t count, uint32_t frame)
{
    const struct vr_gbnf_symbol *s = &m->g->symbols[at];
    count++;
    if (s->most == VR_GBNF_NO_END) {
        if (count > s->least) count = s->least; /* no need to count further */
    } else if (count == s->most) {
        at++;
        count = 0;
    }
    if (m->g->symbols[at].kind == VR_GBNF_END) at = END_OF_RULE;
    return (struct resume){ at, count, frame };
}

static bool add_after(struct vr_matcher *m, const struct item *i, struct vr_err *err)
{
    struct resume p = after(m, i->at, i->count, i->frame);
    return add(m, (struct item){ p.at, p.count, p.frame, 0 }, err);
}

/* --- frames --- */

/* The end of a rule with one caller is where that one goes on. */
static struct resume shortened(const struct vr_matcher *m, struct resume p)
{
    if (p.at != END_OF_RULE || p.frame & FRESH || m->frames[p.frame].n != 1) return p;
    return m->resumes[m->frames[p.frame].first];
}

static bool add_resume(struct vr_matcher *m, struct fresh_frame *c, struct resume p, struct vr_err *err)
{
    if (!spend(m, 1, err)) return false;
    if (c->n && memcmp(&m->fresh_resumes[c->tail].resume, &p, sizeof p) == 0) return true;
    if (!VR_ROOM(m, fresh_resumes)) return no_memory(err);
    uint32_t i = m->n_fresh_resumes++;
    m->fresh_resumes[i] = (struct fresh_resume){ p, UINT32_MAX };
    if (c->n++)
        m->fresh_resumes[c->tail].next = i;
    else
        c->head = i;
    c->tail = i;
    return true;
}

/* An item stands before a rule. */
static bool enter(struct vr_matcher *m, uint32_t rule, struct resume back, struct vr_err *err)
{
    const struct vr_gbnf_rule *r = &m->g->rules[rule];
    back = shortened(m, back);
    if (m->epoch_of[rule] == m->epoch) return add_resume(m, &m->fresh_frames[m->frame_of[rule]], back, err);
    if (!VR_ROOM(m, fresh_frames)) return no_memory(err);
    uint32_t i = m->n_fresh_frames++;
    m->fresh_frames[i] = (struct fresh_frame){ .rule = rule, .frozen = UINT32_MAX };
    m->epoch_of[rule] = m->epoch;
    m->frame_of[rule] = i;
    if (!add_resume(m, &m->fresh_frames[i], back, err)) return false;
    for (uint32_t k = 0; k < r->n; k++)
        if (!add(m, (struct item){ m->g->alternatives[r->first + k], 0, i | FRESH, 0 }, err)) return false;
    return true;
}

/* A rule has ended. One that is entered by this very set was empty, and was stepped over. */
static bool leave(struct vr_matcher *m, uint32_t frame, struct vr_err *err)
{
    if (frame & FRESH) return true;
    if (frame == VR_MATCHER_ROOT_FRAME) m->end = true;
    const struct frame *c = &m->frames[frame];
    for (uint32_t i = 0; i < c->n; i++) {
        struct resume p = m->resumes[c->first + i];
        if (!add(m, (struct item){ p.at, p.count, p.frame, 0 }, err)) return false;
    }
    return true;
}

static bool is_terminal(const struct vr_matcher *m, const struct item *i)
{
    uint32_t kind = m->g->symbols[i->at].kind;
    return kind != VR_GBNF_END && kind != VR_GBNF_RULE;
}

static void begin_set(struct vr_matcher *m)
{
    m->n_work = m->n_fresh_frames = m->n_fresh_resumes = 0;
    m->end = false;
    if (++m->epoch) return;
    if (m->cap_marks) memset(m->marks, 0, m->cap_marks * sizeof *m->marks);
    memset(m->epoch_of, 0, m->g->n_rules * sizeof *m->epoch_of);
    m->epoch = 1;
}

/* Everything that the items stand before. */
static bool complete_set(struct vr_matcher *m, struct vr_err *err)
{
    for (uint32_t k = 0; k < m->n_work; k++) {
        const struct item i = m->work[k];
        const struct vr_gbnf_symbol *s = &m->g->symbols[i.at];
        if (i.part) continue;
        if (s->kind == VR_GBNF_END) {
            if (!leave(m, i.frame, err)) return false;
            continue;
        }
        if (i.count >= s->least && !add(m, (struct item){ i.at + 1, 0, i.frame, 0 }, err)) return false;
        if (s->kind == VR_GBNF_RULE && !enter(m, s->value, after(m, i.at, i.count, i.frame), err)) return false;
    }
    return true;
}

/* --- freezing --- */

uint64_t vr_matcher_hash_frame(uint32_t rule, const struct resume *resumes, uint32_t n)
{
    uint64_t h = mix(1, rule);
    for (uint32_t i = 0; i < n; i++)
        h = mix(mix(h, (uint64_t)resumes[i].at << 32 | resumes[i].count), resumes[i].frame);
    return h;
}

bool vr_matcher_intern_frame(struct vr_matcher *m, uint32_t rule, uint32_t first, uint32_t *out, struct vr_err *err)
{
    struct frame c = { 0, rule, first, m->n_resumes - first };
    c.hash = vr_matcher_hash_frame(rule, m->resumes + first, c.n);
    for (uint32_t at = (uint32_t)c.hash; m->frame_index.cap; at++) {
        at &= m->frame_index.cap - 1;
        if (!m->frame_index.slots[at]) break;
        const struct frame *old = &m->frames[m->frame_index.slots[at] - 1];
        if (!spend(m, 1, err)) return false;
        if (old->hash != c.hash || old->rule != rule || old->n != c.n ||
            memcmp(m->resumes + old->first, m->resumes + first, c.n * sizeof *m->resumes) != 0)
            continue;
        m->n_resumes = first;
        *out = m->frame_index.slots[at] - 1;
        return true;
    }
    if (!VR_ROOM(m, frames)) return no_memory(err);
    *out = m->n_frames;
    m->frames[m->n_frames++] = c;
    return vr_matcher_index_last(&m->frame_index, m->frames, sizeof *m->frames, m->n_frames) || no_memory(err);
}

static uint32_t frozen(const struct vr_matcher *m, uint32_t frame)
{
    return frame & FRESH ? m->fresh_frames[frame & ~FRESH].frozen : frame;
}

/* One frame; not while one of its callers is not frozen, unless `anyway`: then their numbers are known. */
static bool freeze_frame(struct vr_matcher *m, struct fresh_frame *c, bool anyway, struct vr_err *err)
{
    uint32_t first = m->n_resumes;
    for (uint32_t i = c->head; i != UINT32_MAX; i = m->fresh_resumes[i].next) {
        struct resume p = m->fresh_resumes[i].resume;
        p.frame = frozen(m, p.frame);
        if (p.frame == UINT32_MAX) {
            m->n_resumes = first;
            return true;
        }
        if (!anyway) p = shortened(m, p);
        if (!VR_ROOM(m, resumes)) return no_memory(err);
        m->resumes[m->n_resumes++] = p;
    }
    if (!anyway) return vr_matcher_intern_frame(m, c->rule, first, &c->frozen, err);
    m->frames[c->frozen].first = first;
    m->frames[c->frozen].n = m->n_resumes - first;
    return true;
}

/* Callers are mostly made before what they enter: two rounds freeze all but those that enter each other in a circle, as
 * left recursion does. These are kept as they are. */
static bool freeze_frames(struct vr_matcher *m, struct vr_err *err)
{
    uint32_t n_left = m->n_fresh_frames, circle = m->n_frames;
    for (int round = 0; round < 2 && n_left; round++)
        for (uint32_t i = 0; i < m->n_fresh_frames; i++) {
            struct fresh_frame *c = &m->fresh_frames[i];
            if (c->frozen != UINT32_MAX) continue;
            if (!spend(m, c->n, err) || !freeze_frame(m, c, false, err)) return false;
            n_left -= c->frozen != UINT32_MAX;
        }
    if (n_left == 0) return true;
    circle = m->n_frames;
    for (uint32_t i = 0; i < m->n_fresh_frames; i++) {
        struct fresh_frame *c = &m->fresh_frames[i];
        if (c->frozen != UINT32_MAX) continue;
        if (!VR_ROOM(m, frames)) return no_memory(err);
        c->frozen = m->n_frames;
        m->frames[m->n_frames] = (struct frame){ mix(2, m->n_frames), c->rule, 0, 0 };
        m->n_frames++;
        if (!vr_matcher_index_last(&m->frame_index, m->frames, sizeof *m->frames, m->n_frames)) return no_memory(err);
    }
    for (uint32_t i = 0; i < m->n_fresh_frames; i++)
        if (m->fresh_frames[i].frozen >= circle && !freeze_frame(m, &m->fresh_frames[i], true, err)) return false;
    return true;
}

static uint32_t bucket_of(const struct vr_matcher *m, const struct item *i)
{
    const struct vr_gbnf_symbol *s = &m->g->symbols[i->at];
    if (s->kind == VR_GBNF_TOKEN || s->kind == VR_GBNF_TOKEN_NOT) return TOKENS;
    return s->kind == VR_GBNF_CHAR && s->value < OTHERS && !i->part ? s->value : OTHERS;
}

/* The terminal items of the set, behind the last of `items`; in buckets where there are many. */
static bool write_items(struct vr_matcher *m, struct set *s, struct vr_err *err)
{
    uint32_t start[N_BUCKETS + 1] = { 0 };
    for (uint32_t i = 0; i < m->n_work; i++) {
        if (!is_terminal(m, &m->work[i])) continue;
        if (!VR_ROOM(m, items)) return no_memory(err);
        struct item *item = &m->items[m->n_items++];
        *item = m->work[i];
        item->frame = frozen(m, item->frame);
        start[bucket_of(m, item) + 1]++;
    }
    s->n = m->n_items - s->first;
    if (s->n < MANY) return true;
    for (uint32_t b = 0; b < N_BUCKETS; b++) start[b + 1] += start[b];
    s->buckets = m->n_buckets;
    for (uint32_t b = 0; b <= N_BUCKETS; b++) {
        if (!VR_ROOM(m, buckets)) return no_memory(err);
        m->buckets[m->n_buckets++] = start[b];
    }
    memcpy(m->work, m->items + s->first, s->n * sizeof *m->work);
    for (uint32_t i = 0; i < s->n; i++) m->items[s->first + start[bucket_of(m, &m->work[i])]++] = m->work[i];
    return true;
}

bool vr_matcher_intern_set(struct vr_matcher *m, vr_matcher_state *out, struct vr_err *err)
{
    struct set s = { .first = m->n_items, .buckets = UINT32_MAX, .row = VR_MATCHER_UNKNOWN, .end = m->end };
    uint32_t n_buckets = m->n_buckets;
    if (!write_items(m, &s, err)) return false;
    if (s.n == 0 && !s.end) return *out = VR_MATCHER_DEAD, true;
    s.hash = s.end;
    for (uint32_t i = 0; i < s.n; i++) s.hash = mix(s.hash, hash_item(&m->items[s.first + i]));
    if (!spend(m, s.n, err)) return false;
    for (uint32_t at = (uint32_t)s.hash; m->set_index.cap; at++) {
        at &= m->set_index.cap - 1;
        if (!m->set_index.slots[at]) break;
        const struct set *old = &m->sets[m->set_index.slots[at] - 1];
        if (!spend(m, 1, err)) return false;
        if (old->hash != s.hash || old->n != s.n || old->end != s.end ||
            memcmp(m->items + old->first, m->items + s.first, s.n * sizeof *m->items) != 0)
            continue;
        m->n_items = s.first;
        m->n_buckets = n_buckets;
        *out = m->set_index.slots[at] - 1;
        return true;
    }
    if (!VR_ROOM(m, sets)) return no_memory(err);
    *out = m->n_sets;
    m->sets[m->n_sets++] = s;
    return vr_matcher_index_last(&m->set_index, m->sets, sizeof *m->sets, m->n_sets) || no_memory(err);
}

static bool end_set(struct vr_matcher *m, vr_matcher_state *out, struct vr_err *err)
{
    if (!complete_set(m, err) || !freeze_frames(m, err) || !vr_matcher_intern_set(m, out, err)) return false;
    return vr_matcher_held(m) <= VR_MATCHER_MOST_HELD || ambiguous(err);
}

bool vr_matcher_start(struct vr_matcher *m, struct vr_err *err)
{
    const struct vr_gbnf_rule *r = &m->g->rules[m->g->root];
    begin_set(m);
    for (uint32_t i = 0; i < r->n; i++)
        if (!add(m, (struct item){ m->g->alternatives[r->first + i], 0, VR_MATCHER_ROOT_FRAME, 0 }, err)) return false;
    return end_set(m, &m->now, err);
}

/* --- bytes --- */

/* Whether a character that begins with `value`, with n bytes to come, can be one of a symbol's. */
static bool can_become(const struct vr_matcher *m, const struct vr_gbnf_symbol *s, uint32_t value, uint32_t n)
{
    uint32_t low = value << 6 * n, high = low | ((1u << 6 * n) - 1);
    if (low > 0x10FFFF || (low >= 0xD800 && high <= 0xDFFF)) return false;
    if (low == 0) low = n == 2 ? 0x800 : 0x10000;
    return vr_gbnf_has_any(m->g, s, low, high);
}

/* The bytes that begin a character of UTF-8, and may follow the beginning of one: nothing longer than need be. */
static bool may_begin(uint8_t byte) { return byte >= 0xC2 && byte <= 0xF4; }
static bool may_follow(uint32_t value, uint32_t n, uint8_t byte)
{
    return (byte & 0xC0) == 0x80 && (value || byte >= (n == 2 ? 0xA0 : 0x90));
}

/* An item and a byte: the next item, or none. */
static bool take_byte(struct vr_matcher *m, const struct item *i, uint8_t byte, struct vr_err *err)
{
    const struct vr_gbnf_symbol *s = &m->g->symbols[i->at];
    uint32_t value = i->part >> 2, n = i->part & 3;
    if (s->kind != VR_GBNF_CHAR && s->kind != VR_GBNF_CLASS) return true;
    if (n) {
        if (!may_follow(value, n, byte)) return true;
        value = value << 6 | (byte & 0x3F);
        n--;
    } else if (byte < 0x80) {
        value = byte;
    } else {
        if (!may_begin(byte)) return true;
        n = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
        value = byte & (0x3Fu >> n);
    }
    if (n == 0) return !vr_gbnf_has(m->g, s, value) || add_after(m, i, err);
    if (!can_become(m, s, value, n)) return true;
    return add(m, (struct item){ i->at, i->count, i->frame, value << 2 | n }, err);
}

/* What a byte makes of items from..to of a set. add() never touches `items`. */
static bool take_items(struct vr_matcher *m, uint32_t from, uint32_t to, uint8_t byte, struct vr_err *err)
{
    if (!spend(m, to - from, err)) return false;
    for (uint32_t i = from; i < to; i++)
        if (!take_byte(m, &m->items[i], byte, err)) return false;
    return true;
}

static bool take(struct vr_matcher *m, const struct set *s, uint8_t byte, struct vr_err *err)
{
    if (s->buckets == UINT32_MAX) return take_items(m, s->first, s->first + s->n, byte, err);
    const uint32_t *b = m->buckets + s->buckets;
    return (byte >= OTHERS || take_items(m, s->first + b[byte], s->first + b[byte + 1], byte, err)) &&
           take_items(m, s->first + (byte < OTHERS ? b[OTHERS] : 0), s->first + b[TOKENS], byte, err);
}

/* --- transitions --- */

static struct transition *transition_at(struct transition *t, uint32_t cap, uint64_t key)
{
    uint32_t at = (uint32_t)mix(0, key) & (cap - 1);
    while (t[at].key && t[at].key != key) at = (at + 1) & (cap - 1);
    return &t[at];
}

static bool grow_transitions(struct vr_matcher *m)
{
    uint32_t cap = m->cap_transitions ? 2 * m->cap_transitions : 256;
    struct transition *t = calloc(cap, sizeof *t);
    if (!t) return false;
    for (uint32_t i = 0; i < m->cap_transitions; i++)
        if (m->transitions[i].key) *transition_at(t, cap, m->transitions[i].key) = m->transitions[i];
    free(m->transitions);
    m->transitions = t;
    m->cap_transitions = cap;
    return true;
}

/* A set that is left often gets a row, with what is known already. */
static bool give_row(struct vr_matcher *m, vr_matcher_state s)
{
    uint32_t row = m->n_rows;
    for (uint32_t i = 0; i < ROW; i++) {
        if (!VR_ROOM(m, rows)) return false;
        m->rows[m->n_rows++] = VR_MATCHER_UNKNOWN;
    }
    for (uint32_t i = 0; i < ROW; i++) {
        const struct transition *t = transition_at(m->transitions, m->cap_transitions, (uint64_t)s << 8 | i);
        if (t->key) m->rows[row + i] = t->to;
    }
    m->sets[s].row = row;
    return true;
}

static bool keep_transition(struct vr_matcher *m, vr_matcher_state s, uint8_t group, vr_matcher_state to)
{
    if (m->sets[s].row != VR_MATCHER_UNKNOWN) {
        m->rows[m->sets[s].row + group] = to;
        return true;
    }
    uint64_t key = (uint64_t)s << 8 | group;
    if (2 * m->n_transitions >= m->cap_transitions && !grow_transitions(m)) return false;
    *transition_at(m->transitions, m->cap_transitions, key) = (struct transition){ key, to };
    m->n_transitions++;
    return ++m->sets[s].n_left < OFTEN || give_row(m, s);
}

/* VR_MATCHER_UNKNOWN: it was not there yet. */
static vr_matcher_state known_step(const struct vr_matcher *m, vr_matcher_state s, uint8_t group)
{
    if (m->sets[s].row != VR_MATCHER_UNKNOWN) return m->rows[m->sets[s].row + group];
    if (m->sets[s].n_left == 0) return VR_MATCHER_UNKNOWN;
    const struct transition *t = transition_at(m->transitions, m->cap_transitions, (uint64_t)s << 8 | group);
    return t->key ? t->to : VR_MATCHER_UNKNOWN;
}

static bool step_byte(struct vr_matcher *m, vr_matcher_state *s, uint8_t byte, struct vr_err *err)
{
    vr_matcher_state from = *s, to = known_step(m, from, m->g->alike[byte]);
    if (++m->n_known % LOOKS == 0 && !spend(m, 1, err)) return false;
    if (to != VR_MATCHER_UNKNOWN) return *s = to, true;
    struct set set = m->sets[from];
    begin_set(m);
    if (!take(m, &set, byte, err) || !end_set(m, s, err)) return false;
    return keep_transition(m, from, m->g->alike[byte], *s) || no_memory(err);
}

bool vr_matcher_step(struct vr_matcher *m, vr_matcher_state *s, const char *text, size_t n, struct vr_err *err)
{
    for (size_t i = 0; i < n && *s != VR_MATCHER_DEAD; i++)
        if (!step_byte(m, s, (uint8_t)text[i], err)) return false;
    return true;
}

/* --- tokens --- */

static bool takes(const struct vr_gbnf_symbol *s, uint32_t token)
{
    return s->kind == VR_GBNF_TOKEN ? s->value == token : s->kind == VR_GBNF_TOKEN_NOT && s->value != token;
}

/* The items of a set that may stand for tokens. */
static struct set token_items(const struct vr_matcher *m, vr_matcher_state state)
{
    struct set s = m->sets[state];
    if (!m->g->has_tokens) s.n = 0;
    if (s.buckets == UINT32_MAX || s.n == 0) return s;
    s.n -= m->buckets[s.buckets + TOKENS];
    s.first += m->buckets[s.buckets + TOKENS];
    return s;
}

static bool takes_token(struct vr_matcher *m, vr_matcher_state state, uint32_t token, bool *yes, struct vr_err *err)
{
    struct set s = token_items(m, state);
    *yes = false;
    for (uint32_t i = 0; i < s.n && !*yes; i++) *yes = takes(&m->g->symbols[m->items[s.first + i].at], token);
    return spend(m, s.n, err);
}

/* The tokens, of n, that the grammar names here by their numbers. */
static bool mask_tokens(struct vr_matcher *m, vr_matcher_state state, uint64_t *mask, uint32_t n, struct vr_err *err)
{
    struct set s = token_items(m, state);
    uint32_t but = UINT32_MAX; /* the only token that a TOKEN_NOT does not take */
    bool inverse = false;
    if (!spend(m, s.n, err)) return false;
    for (uint32_t i = 0; i < s.n; i++) {
        const struct vr_gbnf_symbol *symbol = &m->g->symbols[m->items[s.first + i].at];
        if (symbol->kind == VR_GBNF_TOKEN && symbol->value < n)
            mask[symbol->value / 64] |= UINT64_C(1) << symbol->value % 64;
        if (symbol->kind != VR_GBNF_TOKEN_NOT) continue;
        but = inverse && but != symbol->value ? UINT32_MAX : symbol->value;
        inverse = true;
    }
    if (!inverse) return true;
    for (uint32_t i = 0; i < n; i++)
        if (i != but) mask[i / 64] |= UINT64_C(1) << i % 64;
    return true;
}

bool vr_matcher_step_token(struct vr_matcher *m, vr_matcher_state *state, uint32_t token, const char *text, size_t n,
                           struct vr_err *err)
{
    bool named;
    if (!takes_token(m, *state, token, &named, err)) return false;
    if (!named) return vr_matcher_step(m, state, text, n, err);
    vr_matcher_state before = n ? *state : VR_MATCHER_DEAD;
    if (n && !vr_matcher_step(m, &before, text, n - 1, err)) return false;
    struct set s = token_items(m, *state), last = m->sets[before];
    begin_set(m);
    if (n && !take(m, &last, (uint8_t)text[n - 1], err)) return false;
    if (!spend(m, s.n, err)) return false;
    for (uint32_t i = 0; i < s.n; i++) {
        struct item item = m->items[s.first + i];
        if (takes(&m->g->symbols[item.at], token) && !add_after(m, &item, err)) return false;
    }
    return end_set(m, state, err);
}

bool vr_matcher_may_end(const struct vr_matcher *m, vr_matcher_state s) { return m->sets[s].end; }

bool vr_matcher_mask(struct vr_matcher *m, vr_matcher_state state, const struct vr_token_index *x, uint64_t *mask,
                     vr_matcher_state *stack, struct vr_err *err)
{
    stack[0] = state;
    for (uint32_t i = 0; i < x->n_nodes;) {
        vr_matcher_state to = stack[x->depth[i] - 1];
        if (!step_byte(m, &to, x->byte[i], err)) return false;
        if (to == VR_MATCHER_DEAD) {
            i = x->skip[i];
            continue;
        }
        stack[x->depth[i]] = to;
        for (uint32_t k = x->first[i]; k < x->first[i + 1]; k++)
            mask[x->sorted[k] / 64] |= UINT64_C(1) << x->sorted[k] % 64;
        i++;
    }
    return mask_tokens(m, state, mask, x->n_tokens, err);
}
