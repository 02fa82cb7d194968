/* A section becomes a draft: what its lines say, in their order. When all are read, what [*] says and a section does
 * not is added to it, and each draft becomes a preset. */
#include "cli/input/presets.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/ini.h"
#include "base/text.h"
#include "cli/options.h"
#include "cli/settings.h"

#define MAX_FILE    (1 << 20)
#define MAX_PRESETS 1000
#define MAX_ALIASES 32
#define MAX_NAME    255 /* bytes, of a model */
#define MAX_ITEMS   128 /* options of one model */
#define MAX_TTL_S   (365u * 86400)

enum kind { OPTION, NOT, MODEL, HF_REPO, HF_FILE, ALIAS, PIN, PRELOAD, TTL, DEFAULT, ALWAYS, REFUSED, SERVERS };

static const struct key {
    const char *name;
    enum kind kind;
    const char *to;
} keys[] = {
#define KEY(name, kind, to) { name, kind, to },
#define VALUE(option, theirs, ours)
#include "cli/input/presets.def"
#undef KEY
#undef VALUE
};

static const struct {
    const char *option, *theirs, *ours;
} values[] = {
#define KEY(name, kind, to)
#define VALUE(option, theirs, ours) { option, theirs, ours },
#include "cli/input/presets.def"
#undef KEY
#undef VALUE
};

struct item {
    const char *option, *value;
};

struct draft {
    const char *name;
    struct item items[MAX_ITEMS];
    size_t n_items;
    const char *model, *hf_repo, *hf_file;
    const char *aliases[MAX_ALIASES];
    size_t n_aliases;
    bool said[REFUSED]; /* which kinds of keys stand in the section */
    bool pin, preload, is_default;
    unsigned ttl_s;
};

struct reading {
    const char *from;
    struct vr_arena *arena;
    struct draft all; /* [*] */
    bool seen_all;
    struct draft **drafts;
    size_t n;
    struct draft *at; /* NULL: before the first section */
};

static bool wrong(const struct reading *r, unsigned line, const char *why, struct vr_err *err)
{
    return vr_fail(err, VR_EUSAGE, "%s, line %u: %s", r->from, line, why);
}

/* --- keys --- */

/* Candidates for "did you mean": the keys of the table, then the options. */
static const char *key_name(size_t i, const void *ctx)
{
    (void)ctx;
    if (i < VR_COUNT(keys)) return keys[i].kind == REFUSED ? "" : keys[i].name;
    const char *name = vr_option_of("serve", i - VR_COUNT(keys));
    return name ? name : "";
}

static size_t n_key_names(void)
{
    size_t n = VR_COUNT(keys);
    while (vr_option_of("serve", n - VR_COUNT(keys))) n++;
    return n;
}

static struct key find_key(const char *name)
{
    for (size_t i = 0; i < VR_COUNT(keys); i++)
        if (strcmp(keys[i].name, name) == 0) return keys[i];
    const char *section, *option = vr_option_named("serve", name, &section);
    bool models = option && (strncmp(section, "Model", 5) == 0 || strncmp(section, "Placement", 9) == 0);
    return (struct key){ option, models ? OPTION : SERVERS, option };
}

static bool unknown(const struct reading *r, const struct vr_ini_line *line, struct vr_err *err)
{
    int i = vr_nearest(line->name, n_key_names(), key_name, NULL);
    vr_fail(err, VR_EUSAGE, "%s, line %u: unknown key '%.60s'", r->from, line->number, line->name);
    return i < 0 ? false : vr_fail_more(err, "; did you mean %s?", key_name((size_t)i, NULL));
}

/* --- values --- */

static bool read_bool(const struct reading *r, const struct vr_ini_line *line, bool *out, struct vr_err *err)
{
    return vr_setting_bool(line->value, out) ||
           vr_fail(err, VR_EUSAGE, "%s, line %u: %s: '%.60s' is neither yes nor no", r->from, line->number, line->name,
                   line->value);
}

/* An option in a section, or again: the last line counts. */
static bool set_option(struct reading *r, const struct vr_ini_line *line, const char *option, const char *value,
                       struct vr_err *err)
{
    struct draft *d = r->at;
    struct vr_err why = { 0 };
    size_t i = 0;
    for (size_t k = 0; k < VR_COUNT(values); k++)
        if (strcmp(values[k].option, option) == 0 && strcmp(values[k].theirs, value) == 0) value = values[k].ours;
    if (!vr_option_check("serve", option, value, &why)) return wrong(r, line->number, why.msg, err);
    while (i < d->n_items && strcmp(d->items[i].option, option) != 0) i++;
    if (i == MAX_ITEMS) return wrong(r, line->number, "too many options for one model", err);
    d->items[i] = (struct item){ option, vr_arena_strdup(r->arena, value) };
    if (i == d->n_items) d->n_items++;
    return d->items[i].value || vr_fail_nomem(err, "reading presets");
}

static bool add_alias(struct reading *r, const struct vr_ini_line *line, const char *name, size_t n, struct vr_err *err)
{
    struct draft *d = r->at;
    if (n > MAX_NAME) return wrong(r, line->number, "a name has more than 255 bytes", err);
    if (d->n_aliases == MAX_ALIASES) return wrong(r, line->number, "more than 32 aliases", err);
    d->aliases[d->n_aliases] = vr_arena_strndup(r->arena, name, n);
    return d->aliases[d->n_aliases++] || vr_fail_nomem(err, "reading presets");
}

/* Names between commas. */
static bool add_aliases(struct reading *r, const struct vr_ini_line *line, struct vr_err *err)
{
    for (const char *at = line->value; *at;) {
        at += strspn(at, ", \t");
        size_t n = strcspn(at, ",");
        const char *next = at + n;
        while (n && (at[n - 1] == ' ' || at[n - 1] == '\t')) n--;
        if (n && !add_alias(r, line, at, n, err)) return false;
        at = next;
    }
    return true;
}

static bool read_ttl(struct reading *r, const struct vr_ini_line *line, struct vr_err *err)
{
    uint64_t s = 0;
    if (strcmp(line->value, "-1") != 0 && !vr_parse_u64(line->value, 0, MAX_TTL_S, &s))
        return wrong(r, line->number, "ttl is a number of seconds, 0 to 31,536,000; 0: the model stays", err);
    r->at->ttl_s = (unsigned)s;
    return true;
}

/* What can be one model's alone. */
static bool take_identity(struct reading *r, const struct vr_ini_line *line, enum kind kind, struct vr_err *err)
{
    struct draft *d = r->at;
    if (d == &r->all)
        return vr_fail(err, VR_EUSAGE, "%s, line %u: %s is for a single model and cannot be set in [*]", r->from,
                       line->number, line->name);
    if (kind == ALIAS) return add_aliases(r, line, err);
    if (kind == DEFAULT) return read_bool(r, line, &d->is_default, err);
    const char **to = kind == MODEL ? &d->model : kind == HF_REPO ? &d->hf_repo : &d->hf_file;
    *to = vr_arena_strdup(r->arena, line->value);
    return *to || vr_fail_nomem(err, "reading presets");
}

static bool take_always(struct reading *r, const struct vr_ini_line *line, const char *only, struct vr_err *err)
{
    bool is, must;
    if (!vr_setting_bool(only, &must)) return true;
    if (!read_bool(r, line, &is, err)) return false;
    return is == must || vr_fail(err, VR_EUSAGE, "%s, line %u: %s is always %s here; remove this line", r->from,
                                 line->number, line->name, must ? "on" : "off");
}

static bool take_key(struct reading *r, const struct vr_ini_line *line, const struct key *key, struct vr_err *err)
{
    bool flag;
    if (key->kind < REFUSED) r->at->said[key->kind] = true;
    switch (key->kind) {
    case OPTION: return set_option(r, line, key->to, line->value, err);
    case NOT: return read_bool(r, line, &flag, err) && set_option(r, line, key->to, flag ? "no" : "yes", err);
    case PIN: return read_bool(r, line, &r->at->pin, err);
    case PRELOAD: return read_bool(r, line, &r->at->preload, err);
    case TTL: return read_ttl(r, line, err);
    case ALWAYS: return take_always(r, line, key->to, err);
    case REFUSED: break;
    case SERVERS:
        return vr_fail(err, VR_EUSAGE,
                       "%s, line %u: %s is set for the server, not for a model: give --%s on the command line", r->from,
                       line->number, line->name, key->to);
    default: return take_identity(r, line, key->kind, err);
    }
    return vr_fail(err, VR_EUSAGE, "%s, line %u: %s cannot be set for a model: %s", r->from, line->number, line->name,
                   key->to);
}

/* --- lines --- */

static bool begin_section(struct reading *r, const struct vr_ini_line *line, struct vr_err *err)
{
    bool all = strcmp(line->section, "*") == 0;
    bool again = all && r->seen_all;
    if (!*line->section || strlen(line->section) > MAX_NAME)
        return wrong(r, line->number, "the name of a model has 1 to 255 bytes", err);
    for (size_t i = 0; i < r->n; i++) again |= strcmp(r->drafts[i]->name, line->section) == 0;
    if (again)
        return vr_fail(err, VR_EUSAGE, "%s, line %u: there is already a section [%s]", r->from, line->number,
                       line->section);
    r->seen_all |= all;
    r->at = &r->all;
    if (all) return true;
    if (r->n == MAX_PRESETS) return wrong(r, line->number, "more than 1,000 models", err);
    struct draft *d = vr_arena_alloc(r->arena, 1, sizeof *d);
    if (d) d->name = vr_arena_strdup(r->arena, line->section);
    if (!d || !d->name) return vr_fail_nomem(err, "reading presets");
    r->at = r->drafts[r->n++] = d;
    return true;
}

static bool take_line(void *ctx, const struct vr_ini_line *line, struct vr_err *err)
{
    struct reading *r = ctx;
    if (!line->name) return begin_section(r, line, err);
    struct key key = find_key(line->name);
    if (!r->at && strcmp(line->name, "version") == 0) return true;
    if (!r->at)
        return wrong(r, line->number, "settings belong into a section: [*] for all models, [NAME] for one", err);
    if (!key.name) return unknown(r, line, err);
    if (!*line->value)
        return vr_fail(err, VR_EUSAGE, "%s, line %u: %s has no value", r->from, line->number, line->name);
    return take_key(r, line, &key, err);
}

/* --- presets --- */

static const char *model_of(struct reading *r, const struct draft *d, struct vr_err *err)
{
    if (d->model && d->hf_repo)
        return VR_FAIL_NULL(err, VR_EUSAGE, "%s: [%s] has a model and an hf-repo: give one of them", r->from, d->name);
    if (d->hf_file && !d->hf_repo)
        return VR_FAIL_NULL(err, VR_EUSAGE, "%s: [%s] has an hf-file without an hf-repo", r->from, d->name);
    if (!d->hf_repo) return d->model ? d->model : d->name;
    size_t n = d->hf_file ? strcspn(d->hf_repo, ":") : strlen(d->hf_repo); /* a file goes before a quantization */
    const char *model = vr_arena_printf(r->arena, "hf:%.*s%s%s", (int)n, d->hf_repo, d->hf_file ? ":" : "",
                                        d->hf_file ? d->hf_file : "");
    if (!model) vr_fail_nomem(err, "reading presets");
    return model;
}

static bool has_option(const struct draft *d, const char *option)
{
    for (size_t i = 0; i < d->n_items; i++)
        if (strcmp(d->items[i].option, option) == 0) return true;
    return false;
}

/* "--option=value": a flag may be said to be off. */
static bool add_arguments(struct reading *r, const struct draft *from, const struct draft *unless,
                          struct vr_preset *out)
{
    for (size_t i = 0; i < from->n_items; i++) {
        if (unless && has_option(unless, from->items[i].option)) continue;
        const char *flag = vr_option_is_flag(from->items[i].option) ? from->items[i].value : NULL;
        const char *name = vr_arena_printf(r->arena, flag ? "--%s=%s" : "--%s", from->items[i].option, flag);
        if (!name) return false;
        out->argv[out->argc++] = name;
        if (!flag) out->argv[out->argc++] = from->items[i].value;
    }
    return true;
}

static bool finish(struct reading *r, const struct draft *d, struct vr_preset *out, struct vr_err *err)
{
    const struct draft *all = &r->all;
    *out = (struct vr_preset){ .name = d->name,
                               .aliases = (const char **)(uintptr_t)d->aliases,
                               .n_aliases = d->n_aliases,
                               .pin = d->said[PIN] ? d->pin : all->pin,
                               .preload = d->said[PRELOAD] ? d->preload : all->preload,
                               .ttl_s = d->said[TTL] ? d->ttl_s : all->ttl_s,
                               .is_default = d->is_default,
                               .model = model_of(r, d, err) };
    if (!out->model) return false;
    out->argv = vr_arena_alloc(r->arena, 2 * (all->n_items + d->n_items) + 1, sizeof *out->argv);
    return (out->argv && add_arguments(r, all, d, out) && add_arguments(r, d, NULL, out)) ||
           vr_fail_nomem(err, "reading presets");
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool check_names(const struct reading *r, const struct vr_presets *p, struct vr_err *err)
{
    size_t n = 0, room = 0;
    for (size_t i = 0; i < p->n; i++) room += 1 + p->items[i].n_aliases;
    VR_AUTO_FREE const char **names = calloc(room, sizeof *names);
    if (!names) return vr_fail_nomem(err, "reading presets");
    for (size_t i = 0; i < p->n; i++) {
        names[n++] = p->items[i].name;
        for (size_t k = 0; k < p->items[i].n_aliases; k++) names[n++] = p->items[i].aliases[k];
    }
    qsort(names, n, sizeof *names, compare_names);
    for (size_t i = 1; i < n; i++)
        if (strcmp(names[i], names[i - 1]) == 0)
            return vr_fail(err, VR_EUSAGE, "%s: two models are called '%s'", r->from, names[i]);
    return true;
}

static bool choose_default(const struct reading *r, struct vr_presets *p, struct vr_err *err)
{
    const struct vr_preset *first = NULL;
    for (size_t i = 0; i < p->n; i++) {
        if (!p->items[i].is_default) continue;
        if (first)
            return vr_fail(err, VR_EUSAGE, "%s: [%s] and [%s] are both the default model", r->from, first->name,
                           p->items[i].name);
        first = &p->items[i];
    }
    if (!first) p->items[0].is_default = true;
    return true;
}

static bool finish_all(struct reading *r, struct vr_presets *out, struct vr_err *err)
{
    if (!r->n) return vr_fail(err, VR_EUSAGE, "%s: there is no [NAME] section, so no model", r->from);
    out->items = vr_arena_alloc(r->arena, r->n, sizeof *out->items);
    if (!out->items) return vr_fail_nomem(err, "reading presets");
    for (; out->n < r->n; out->n++)
        if (!finish(r, r->drafts[out->n], &out->items[out->n], err)) return false;
    return choose_default(r, out, err) && check_names(r, out, err);
}

static bool read_presets(const char *text, const char *from, struct vr_presets *out, struct vr_err *err)
{
    *out = (struct vr_presets){ 0 };
    VR_AUTO_FREE struct reading *r = calloc(1, sizeof *r);
    VR_AUTO_FREE struct draft **drafts = calloc(MAX_PRESETS, sizeof(struct draft *));
    if (!r || !drafts) return vr_fail_nomem(err, "reading presets");
    *r = (struct reading){ .from = from, .arena = &out->arena, .drafts = drafts };
    struct vr_ini_reader reader = { .from = from, .inline_comments = true, .take = take_line, .ctx = r };
    bool ok = text ? vr_ini_parse(text, &reader, err) : vr_ini_read(from, MAX_FILE, reader, err);
    return ok && finish_all(r, out, err);
}

bool vr_presets_read(const char *path, struct vr_presets *out, struct vr_err *err)
{
    return read_presets(NULL, path, out, err);
}

bool vr_presets_parse(const char *text, const char *from, struct vr_presets *out, struct vr_err *err)
{
    return read_presets(text, from, out, err);
}

void vr_presets_done(struct vr_presets *p)
{
    vr_arena_done(&p->arena);
    *p = (struct vr_presets){ 0 };
}
