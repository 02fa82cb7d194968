/* Alternatives are sorted by their symbols; those that share the next ones lie side by side, and become one
 * alternative: what they share, and a rule for the rest. Their ends stay where they are, so nothing is copied but what
 * is shared. */
#include "engine/grammar/factor.h"

#include "base/vec.h"

enum { WORTH = 8 }; /* alternatives of a rule */

struct task { /* alternatives from..to of `starts` are those of a rule, but for their first `depth` symbols */
    uint32_t rule, from, to, depth;
};

struct factoring {
    struct vr_gbnf *g;
    uint32_t *starts;
    struct task *tasks;
    uint32_t n_tasks, cap_tasks;
};

/* Only plain characters are shared. */
static bool is_plain(const struct vr_gbnf_symbol *s)
{
    return s->kind == VR_GBNF_CHAR && s->least == 1 && s->most == 1;
}

static int by_symbols(const void *a, const void *b, void *grammar)
{
    struct vr_gbnf *g = grammar;
    const struct vr_gbnf_symbol *x = g->symbols + *(const uint32_t *)a, *y = g->symbols + *(const uint32_t *)b;
    for (;; x++, y++) {
        bool plain = is_plain(x);
        g->n_operations++;
        if (plain != is_plain(y)) return plain ? 1 : -1;
        if (!plain) return 0;
        if (x->value != y->value) return x->value < y->value ? -1 : 1;
    }
}

static uint32_t n_shared(const struct vr_gbnf *g, uint32_t a, uint32_t b)
{
    uint32_t n = 0;
    while (is_plain(&g->symbols[a + n]) && is_plain(&g->symbols[b + n]) &&
           g->symbols[a + n].value == g->symbols[b + n].value)
        n++;
    return n;
}

static bool add_alternative(struct vr_gbnf *g, uint32_t start)
{
    if (!VR_ROOM(g, alternatives)) return false;
    g->alternatives[g->n_alternatives++] = g->symbols[start].kind == VR_GBNF_END ? 0 : start;
    return true;
}

static bool add_symbol(struct vr_gbnf *g, struct vr_gbnf_symbol s)
{
    if (!VR_ROOM(g, symbols)) return false;
    g->symbols[g->n_symbols++] = s;
    g->n_operations++;
    return true;
}

/* What alternatives from..to share behind `depth` symbols, and a rule for the rest, which becomes a task. */
static bool share(struct factoring *f, uint32_t from, uint32_t to, uint32_t depth)
{
    struct vr_gbnf *g = f->g;
    uint32_t first = f->starts[from] + depth, start = g->n_symbols;
    uint32_t n = n_shared(g, first, f->starts[to - 1] + depth);
    if (!VR_ROOM(g, rules) || !VR_ROOM(f, tasks)) return false;
    uint32_t rule = g->n_rules++;
    g->rules[rule] = (struct vr_gbnf_rule){ .defined = true };
    f->tasks[f->n_tasks++] = (struct task){ rule, from, to, depth + n };
    for (uint32_t i = 0; i < n; i++)
        if (!add_symbol(g, g->symbols[first + i])) return false;
    return add_symbol(g, (struct vr_gbnf_symbol){ VR_GBNF_RULE, rule, 1, 1 }) &&
           add_symbol(g, (struct vr_gbnf_symbol){ VR_GBNF_END, 0, 1, 1 }) && add_alternative(g, start);
}

static bool factor(struct factoring *f, struct task t)
{
    struct vr_gbnf *g = f->g;
    uint32_t first = g->n_alternatives;
    for (uint32_t i = t.from, k; i < t.to; i = k) {
        const struct vr_gbnf_symbol *s = &g->symbols[f->starts[i] + t.depth];
        k = i + 1;
        if (is_plain(s))
            for (; k < t.to; k++) {
                const struct vr_gbnf_symbol *other = &g->symbols[f->starts[k] + t.depth];
                if (!is_plain(other) || other->value != s->value) break;
            }
        if (k == i + 1 || g->n_rules == VR_GBNF_MOST_RULES) {
            for (k = i; k < t.to && (k == i || g->n_rules == VR_GBNF_MOST_RULES); k++)
                if (!add_alternative(g, f->starts[k] + t.depth)) return false;
        } else if (!share(f, i, k, t.depth)) {
            return false;
        }
    }
    g->rules[t.rule].first = first;
    g->rules[t.rule].n = g->n_alternatives - first;
    return true;
}

static bool factor_rule(struct factoring *f, uint32_t rule)
{
    struct vr_gbnf *g = f->g;
    struct vr_gbnf_rule r = g->rules[rule];
    VR_AUTO_FREE uint32_t *starts = calloc(r.n, sizeof *starts);
    if (!starts) return false;
    for (uint32_t i = 0; i < r.n; i++) starts[i] = g->alternatives[r.first + i];
    qsort_r(starts, r.n, sizeof *starts, by_symbols, g);
    f->starts = starts;
    f->n_tasks = 0;
    bool ok = factor(f, (struct task){ rule, 0, r.n, 0 });
    for (uint32_t i = 0; ok && i < f->n_tasks; i++) ok = factor(f, f->tasks[i]);
    return ok;
}

bool vr_gbnf_factor(struct vr_gbnf *g, struct vr_err *err)
{
    struct factoring f = { .g = g };
    bool ok = true;
    for (uint32_t i = 0, n = g->n_rules; ok && i < n; i++)
        if (g->rules[i].n >= WORTH) ok = factor_rule(&f, i);
    free(f.tasks);
    return ok || vr_fail_nomem(err, "reading a grammar");
}
