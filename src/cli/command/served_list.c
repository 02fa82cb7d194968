#include "cli/command/served_list.h"

#include <stdio.h>
#include <string.h>

#include "base/child.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "catalog/catalog.h"
#include "cli/input/model_files.h"
#include "cli/models/model_name.h"
#include "cli/input/presets.h"
#include "gguf/part_name.h"

void vr_served_name(const char *path, char *out, size_t n)
{
    const char *name = vr_file_name(path);
    size_t stem;
    unsigned part, parts;
    if (!vr_gguf_name(name, &stem, &part, &parts)) stem = strlen(name);
    snprintf(out, n, "%.*s", (int)stem, name);
    vr_utf8_mask(out); /* a request names it in JSON */
}

bool vr_served_on_demand(const struct vr_options *o)
{
    return o->n_more || o->preset || o->idle_unload || (o->models_dir && !o->model);
}

void vr_served_list_done(struct vr_served_list *l)
{
    vr_arena_done(&l->arena);
    *l = (struct vr_served_list){ 0 };
}

/* --- one model --- */

/* A model on its way into the list. */
struct entry {
    const char *id; /* NULL: what it is called where it lies, or its file */
    const char *model;
    const char *mmproj;      /* NULL: the one that lies beside it, or none */
    const char *const *argv; /* options of its own */
    int argc;
    const char *const *aliases;
    size_t n_aliases;
};

/* This program again, with the same options, its own, and its file: the last one counts. */
static const char *const *plan_argv(const struct vr_options *o, const struct entry *e, const struct vr_options *own,
                                    struct vr_arena *a)
{
    size_t n = 0, most = (size_t)(o->argc + e->argc) + 5;
    const char **argv = vr_arena_alloc(a, most, sizeof *argv);
    if (!argv) return NULL;
    argv[n++] = VR_SELF;
    argv[n++] = "load-plan";
    for (int i = 0; i < o->argc; i++) argv[n++] = o->argv[i];
    for (int i = 0; i < e->argc; i++) argv[n++] = vr_arena_strdup(a, e->argv[i]);
    argv[n++] = vr_arena_printf(a, "--model=%s", own->model);
    argv[n++] = vr_arena_printf(a, "--mmproj=%s", own->mmproj ? own->mmproj : "none");
    argv[n] = NULL;
    for (size_t i = 0; i < n; i++)
        if (!argv[i]) return NULL;
    return argv;
}

static const char *const *copy_aliases(const struct entry *e, struct vr_arena *a)
{
    const char **list = vr_arena_alloc(a, e->n_aliases + 1, sizeof *list);
    for (size_t i = 0; list && i < e->n_aliases; i++)
        if (!(list[i] = vr_arena_strdup(a, e->aliases[i]))) return NULL;
    return list;
}

/* Its options: ours and its own, as the process that plans for it will read them. */
static bool own_options(const struct vr_options *o, const struct entry *e, struct vr_options *own, struct vr_err *err)
{
    *own = *o;
    if (!vr_options_add(vr_command_find("serve"), e->argc, (char **)(uintptr_t)e->argv, own, err)) return false;
    own->model = e->model;
    own->alias = NULL;
    own->n_more = 0;
    if (e->mmproj) own->mmproj = e->mmproj;
    return vr_model_name_resolve(own, VR_NEEDS_FILE, err);
}

bool vr_served_name_check(const char *name, struct vr_err *err)
{
    return vr_utf8_is(name) ||
           vr_fail(err, VR_EUSAGE, "a model's name (--alias, preset files) must be UTF-8: requests name it in JSON");
}

static bool check_names(const struct entry *e, struct vr_err *err)
{
    bool ok = !e->id || vr_served_name_check(e->id, err);
    for (size_t i = 0; ok && i < e->n_aliases; i++) ok = vr_served_name_check(e->aliases[i], err);
    return ok;
}

static bool fill(const struct vr_options *o, const struct entry *e, struct vr_arena *a, struct vr_served_config *out,
                 struct vr_err *err)
{
    struct vr_options own;
    char name[256];
    VR_AUTO_MODELS models = { 0 };
    if (!check_names(e, err) || !own_options(o, e, &own, err) || !vr_models_open(&own, &models, err)) return false;
    vr_served_name(own.model, name, sizeof name);
    out->id = vr_arena_strdup(a, e->id ? e->id : own.alias ? own.alias : name);
    out->path = vr_arena_strdup(a, own.model);
    out->aliases = copy_aliases(e, a);
    out->replan_argv = plan_argv(o, e, &own, a);
    out->bytes = models.main->file_bytes;
    return (out->id && out->path && out->aliases && out->replan_argv) || vr_fail_nomem(err, "reading the options");
}

static bool is_taken(const struct vr_served_list *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++) {
        if (strcmp(l->models[i].id, name) == 0) return true;
        for (const char *const *x = l->models[i].aliases; *x; x++)
            if (strcmp(*x, name) == 0) return true;
    }
    return false;
}

static bool add(const struct vr_options *o, const struct entry *e, struct vr_served_list *l, struct vr_err *err)
{
    struct vr_served_config *m = &l->models[l->n];
    if (!fill(o, e, &l->arena, m, err)) return false;
    if (is_taken(l, m->id))
        return vr_fail(err, VR_EUSAGE, "two models are called '%s'; a preset file (--preset) can give them other names",
                       m->id);
    m->ttl_s = (unsigned)o->idle_unload;
    l->n++;
    return true;
}

static bool reserve(struct vr_served_list *l, size_t n, struct vr_err *err)
{
    l->models = vr_arena_alloc(&l->arena, n ? n : 1, sizeof *l->models);
    return l->models || vr_fail_nomem(err, "reading the options");
}

/* --- where they come from --- */

static bool add_words(const struct vr_options *o, struct vr_served_list *l, struct vr_err *err)
{
    if (!reserve(l, o->n_more + 1, err)) return false;
    if (!add(o, &(struct entry){ .id = o->n_more ? NULL : o->alias, .model = o->model, .mmproj = o->mmproj }, l, err))
        return false;
    l->models[0].preload = true;
    for (size_t i = 0; i < o->n_more; i++)
        if (!add(o, &(struct entry){ .model = o->more[i] }, l, err)) return false;
    return true;
}

static bool add_preset(const struct vr_options *o, const struct vr_preset *p, struct vr_served_list *l,
                       struct vr_err *err)
{
    struct entry e = { .id = p->name,
                       .model = p->model,
                       .argv = p->argv,
                       .argc = p->argc,
                       .aliases = p->aliases,
                       .n_aliases = p->n_aliases };
    if (!add(o, &e, l, err)) return false;
    struct vr_served_config *m = &l->models[l->n - 1];
    m->pin = p->pin;
    m->preload = p->preload;
    if (p->ttl_s) m->ttl_s = p->ttl_s;
    return true;
}

static bool add_presets(const struct vr_options *o, struct vr_served_list *l, struct vr_err *err)
{
    VR_AUTO_PRESETS all = { 0 };
    if (!vr_presets_read(o->preset, &all, err) || !reserve(l, all.n, err)) return false;
    for (int first = 1; first >= 0; first--)
        for (size_t i = 0; i < all.n; i++)
            if (all.items[i].is_default == first && !add_preset(o, &all.items[i], l, err)) return false;
    return true;
}

static bool add_folder(const struct vr_options *o, struct vr_served_list *l, struct vr_err *err)
{
    VR_AUTO_CATALOG all = { 0 };
    if (!vr_catalog_folder(o->models_dir, &all, err) || !reserve(l, all.n_items, err)) return false;
    for (size_t i = 0; i < all.n_items; i++) {
        const struct vr_listed *x = &all.items[i];
        struct vr_err why = { 0 };
        const char *aliases[] = { x->id };
        struct entry e = { .id = x->name,
                           .model = x->path,
                           .mmproj = x->mmproj,
                           .aliases = aliases,
                           .n_aliases = strcmp(x->id, x->name) != 0 };
        if (x->n_found < x->n_parts)
            vr_log(VR_WARN, "%s is left out: %u of its %u files are missing", x->path, x->n_parts - x->n_found,
                   x->n_parts);
        else if (!add(o, &e, l, &why))
            vr_log(VR_WARN, "%s is left out: %s", x->name, why.msg);
    }
    return l->n || vr_fail(err, VR_EUSAGE, "--models-dir: there is no model in %s that can be served", o->models_dir);
}

bool vr_served_list(const struct vr_options *o, struct vr_served_list *out, struct vr_err *err)
{
    static const char many[] = "is for one model; with several, give each its own in a preset file (--preset)";
    bool one = o->model && !o->n_more && !o->preset;
    if (!one && o->alias) return vr_fail(err, VR_EUSAGE, "--alias %s", many);
    if (!one && o->mmproj) return vr_fail(err, VR_EUSAGE, "--mmproj %s", many);
    if (!one && o->draft) return vr_fail(err, VR_EUSAGE, "--draft %s", many);
    if (!one && o->chat_template) return vr_fail(err, VR_EUSAGE, "--chat-template %s", many);
    if (o->preset && o->model)
        return vr_fail(err, VR_EUSAGE, "give models on the command line or in a preset file (--preset), not both");
    if (o->preset) return add_presets(o, out, err);
    return o->model ? add_words(o, out, err) : add_folder(o, out, err);
}
