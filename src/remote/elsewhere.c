#include "remote/elsewhere.h"

#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "gguf/part_name.h"
#include "remote/heads.h"
#include "remote/hub_cache.h"
#include "remote/url.h"

#define MAX_PARTS 1000

static bool is_hub(const struct vr_elsewhere *e) { return e->remote.owner[0]; }

/* --- files of one URL --- */

/* Where in a URL the number of its part stands, the 00002 of "…-00002-of-00009.gguf?x"; 0: it names no part. */
static size_t part_at(const char *url)
{
    char plain[VR_MAX_URL];
    size_t n_stem;
    unsigned no, parts;
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(url, "?#"), url);
    return vr_part_name(plain, &n_stem, &no, &parts) ? n_stem + 1 : 0;
}

/* The same file has the same folder, whichever of its parts is named. */
static uint64_t url_hash(const char *url)
{
    char plain[VR_MAX_URL];
    size_t at = part_at(url);
    snprintf(plain, sizeof plain, "%s", url);
    if (at) memset(plain + at, '0', 5);
    return vr_hash(plain, strlen(plain), 0);
}

/* "…-00002-of-00009.gguf…" -> the URL of part `no` */
static const char *part_url(struct vr_arena *arena, const char *url, unsigned no)
{
    char *copy = vr_arena_strdup(arena, url), digits[8];
    size_t at = part_at(url);
    snprintf(digits, sizeof digits, "%05u", no);
    if (copy && at) memcpy(copy + at, digits, 5);
    return copy;
}

static bool add_part(struct vr_elsewhere *e, const char *file, size_t n_stem, unsigned no, unsigned parts)
{
    struct vr_repo *repo = &e->repo;
    const char *path = parts == 1
                           ? vr_arena_strdup(&repo->arena, file)
                           : vr_arena_printf(&repo->arena, "%.*s-%05u-of-%05u.gguf", (int)n_stem, file, no, parts);
    const char *url = part_url(&repo->arena, e->remote.text, no);
    if (!path || !url) return false;
    repo->files[repo->n_files] = (struct vr_repo_file){ .path = path, .sum = "" };
    e->urls[repo->n_files++] = url;
    return true;
}

static bool url_files(struct vr_elsewhere *e, struct vr_err *err)
{
    struct vr_url u;
    char file[256];
    size_t n_stem;
    unsigned no, parts;
    if (!vr_url_parse(e->remote.text, &u) || !vr_url_file(&u, file, sizeof file) ||
        !vr_gguf_name(file, &n_stem, &no, &parts))
        return vr_fail(err, VR_EUSAGE, "%.200s: the URL of a model must end in the name of a .gguf file",
                       e->remote.text);
    if (parts > MAX_PARTS) return vr_fail(err, VR_EUSAGE, "%.200s: more than %d parts", file, MAX_PARTS);
    if (parts > 1 && !part_at(e->remote.text)) /* the others' URLs would be a guess */
        return vr_fail(err, VR_EUSAGE, "%.200s: write the end of the name, -%05u-of-%05u.gguf, as it is, without %%XX",
                       e->remote.text, no, parts);
    e->repo.files = calloc(parts, sizeof *e->repo.files);
    e->urls = calloc(parts, sizeof *e->urls);
    bool ok = e->repo.files && e->urls;
    for (unsigned i = 1; i <= parts && ok; i++) ok = add_part(e, file, n_stem, i, parts);
    return ok || vr_fail_nomem(err, "reading a URL");
}

/* --- opening and asking --- */

/* "headers/HOST/OWNER--NAME/COMMIT" or "headers/HOST/HASH", below a place of ours. */
static bool own_folder(const struct vr_elsewhere *e, const char *variable, const char *below_home, const char *kind,
                       char *out, size_t n, struct vr_err *err)
{
    char name[800];
    if (is_hub(e))
        snprintf(name, sizeof name, "%s/%s/%s--%s/%s", kind, e->host, e->remote.owner, e->remote.name, e->repo.commit);
    else
        snprintf(name, sizeof name, "%s/%s/%016" PRIx64, kind, e->host, url_hash(e->remote.text));
    return vr_file_own_path(variable, below_home, name, out, n) ||
           vr_fail(err, VR_EUSAGE, "there is no folder for what is fetched: set %s or HOME", variable);
}

bool vr_elsewhere_open(struct vr_elsewhere *e, const char *text, bool allow_http, struct vr_err *err)
{
    *e = (struct vr_elsewhere){ 0 };
    if (!vr_hub_setup(allow_http, &e->setup, err)) return false;
    if (!vr_remote_parse(text, e->setup.endpoint, &e->remote, err)) return false;
    struct vr_url u;
    const char *asked = is_hub(e) ? e->setup.endpoint : text;
    if (!vr_net_allowed(&e->setup, asked, err) || !vr_url_parse(asked, &u)) return false;
    snprintf(e->host, sizeof e->host, "%s", u.host);
    if (is_hub(e)) return snprintf(e->name, sizeof e->name, "hf:%s/%s", e->remote.owner, e->remote.name), true;
    if (!url_files(e, err)) return false;
    snprintf(e->name, sizeof e->name, "%s", e->repo.files[0].path);
    return own_folder(e, "XDG_CACHE_HOME", ".cache", "headers", e->heads, sizeof e->heads, err);
}

void vr_elsewhere_done(struct vr_elsewhere *e)
{
    vr_net_free(e->net);
    vr_repo_done(&e->repo);
    vr_catalog_done(&e->catalog);
    free(e->urls);
    *e = (struct vr_elsewhere){ 0 };
}

static const char *head_path(struct vr_elsewhere *e, size_t i)
{
    return vr_arena_printf(&e->repo.arena, "%s/%s", e->heads, e->repo.files[i].path);
}

/* An empty file of the right length and name for each, so that the catalog can say what belongs together. */
static bool lay_out(struct vr_elsewhere *e, struct vr_err *err)
{
    for (uint32_t i = 0; i < e->repo.n_files; i++) {
        const char *path = head_path(e, i);
        if (!path) return vr_fail_nomem(err, "listing a repository");
        if (!vr_remote_head_hold(path, e->repo.files[i].bytes, err)) return false;
    }
    return vr_catalog_folder(e->heads, &e->catalog, err);
}

bool vr_elsewhere_ask(struct vr_elsewhere *e, struct vr_err *err)
{
    e->net = vr_net_open(&e->setup, err);
    if (!e->net) return false;
    if (!is_hub(e)) return true; /* what it is, its header says */
    if (!vr_repo_ask(e->net, e->setup.endpoint, &e->remote, &e->repo, err)) return false;
    e->urls = calloc(e->repo.n_files, sizeof *e->urls);
    if (!e->urls) return vr_fail_nomem(err, "listing a repository");
    for (uint32_t i = 0; i < e->repo.n_files; i++) {
        e->urls[i] = vr_repo_url(&e->repo, e->setup.endpoint, &e->remote, e->repo.files[i].path);
        if (!e->urls[i]) return vr_fail_nomem(err, "listing a repository");
    }
    return own_folder(e, "XDG_CACHE_HOME", ".cache", "headers", e->heads, sizeof e->heads, err) && lay_out(e, err);
}

/* --- choosing --- */

/* Whether the word means the vision projector beside a model. */
static bool means_mmproj(const struct vr_elsewhere *e, const struct vr_listed *x)
{
    char stem[512];
    size_t n;
    unsigned no, parts;
    const char *name = x->mmproj ? vr_file_name(x->mmproj) : "";
    if (!vr_gguf_name(name, &n, &no, &parts)) return false;
    snprintf(stem, sizeof stem, "%.*s", (int)n, name);
    return vr_remote_means(stem, vr_file_name(e->remote.word));
}

bool vr_elsewhere_is_here(const struct vr_elsewhere *e, const struct vr_catalog *local, bool file, struct vr_found *out)
{
    char before[512];
    const struct vr_listed *found = NULL;
    unsigned n_found = 0;
    if (is_hub(e))
        snprintf(before, sizeof before, "%s/%s/", e->remote.owner, e->remote.name);
    else
        snprintf(before, sizeof before, "%s/%016" PRIx64 "/", e->host, url_hash(e->remote.text));
    for (uint32_t i = 0; i < local->n_items; i++) {
        const struct vr_listed *x = &local->items[i];
        if (x->keeper != (is_hub(e) ? VR_KEEPER_HUGGING_FACE : VR_KEEPER_OWN)) continue;
        if (strncmp(x->id, before, strlen(before)) != 0 || x->n_found < x->n_parts) continue;
        if (file && means_mmproj(e, x)) return *out = (struct vr_found){ .path = x->mmproj }, true;
        if (*e->remote.word && !vr_remote_means(x->id + strlen(before), e->remote.word)) continue;
        found = x;
        n_found++;
    }
    if (n_found != 1) return false;
    *out = (struct vr_found){ found->path, found->mmproj, found->name };
    return true;
}

static bool fail_choice(const struct vr_elsewhere *e, const char *const *which, unsigned n, struct vr_err *err)
{
    const struct vr_catalog *c = &e->catalog;
    if (n)
        vr_fail(err, VR_EUSAGE, "%s:%s may be any of %u files; name one as %s:FILE:", e->name, e->remote.word, n,
                e->name);
    else if (!*e->remote.word)
        vr_fail(err, VR_EUSAGE, "%s has %u models; name one as %s:QUANT ('vram-llm plan %s' compares them):", e->name,
                c->n_items, e->name, e->name);
    else
        vr_fail(err, VR_EUSAGE, "%s has no model called %s; it has", e->name, e->remote.word);
    for (unsigned i = 0; i < (n ? n : c->n_items) && i < 8; i++)
        vr_fail_more(err, "%s %s", i ? "," : "", n ? which[i] : c->items[i].name);
    return vr_fail_more(err, "%s", (n ? n : c->n_items) > 8 ? ", …" : "");
}

/* Any file by its name, as an mmproj is none of the models. */
static bool pick_file(struct vr_elsewhere *e, struct vr_found *out, struct vr_err *err)
{
    const char *which[8] = { 0 };
    unsigned n = 0;
    for (uint32_t i = 0; i < e->repo.n_files; i++) {
        size_t stem;
        unsigned no, parts;
        const char *path = e->repo.files[i].path;
        char plain[1024];
        if (!vr_gguf_name(path, &stem, &no, &parts) || no != 1) continue;
        snprintf(plain, sizeof plain, "%.*s", (int)stem, path);
        if (!vr_remote_means(plain, e->remote.word)) continue;
        if (n < VR_COUNT(which)) which[n] = path;
        n++;
    }
    if (n != 1) return fail_choice(e, which, n, err);
    *out = (struct vr_found){ .path = vr_arena_printf(&e->repo.arena, "%s/%s", e->heads, which[0]) };
    return out->path || vr_fail_nomem(err, "choosing a model");
}

bool vr_elsewhere_pick(struct vr_elsewhere *e, bool file, struct vr_found *out, struct vr_err *err)
{
    const struct vr_catalog *c = &e->catalog;
    const struct vr_listed *found = NULL;
    const char *which[8] = { 0 };
    unsigned n = 0;
    if (!is_hub(e)) {
        char *path = vr_arena_printf(&e->repo.arena, "%s/%s", e->heads, e->repo.files[0].path);
        *out = (struct vr_found){ .path = path, .name = NULL };
        return path || vr_fail_nomem(err, "choosing a model");
    }
    if (file) return pick_file(e, out, err);
    for (uint32_t i = 0; i < c->n_items; i++) {
        const struct vr_listed *x = &c->items[i];
        if (*e->remote.word ? !vr_remote_means(x->id, e->remote.word) : c->n_items > 1) continue;
        if (n < VR_COUNT(which)) which[n] = x->name;
        found = x;
        n++;
    }
    if (n != 1) return fail_choice(e, which, n, err);
    if (found->n_found < found->n_parts)
        return vr_fail(err, VR_EFORMAT, "%s: %u of the %u files of %s are missing", e->name,
                       found->n_parts - found->n_found, found->n_parts, found->name);
    *out = (struct vr_found){ found->path, found->mmproj, found->name };
    return true;
}

/* Is file `path` the one at `whole`, or another part of it? */
static bool belongs(const char *path, const char *whole)
{
    size_t stem, stem_whole;
    unsigned no, parts, no_whole, parts_whole;
    return whole && vr_gguf_name(path, &stem, &no, &parts) &&
           vr_gguf_name(whole, &stem_whole, &no_whole, &parts_whole) && stem == stem_whole && parts == parts_whole &&
           strncmp(path, whole, stem) == 0;
}

static bool is_wanted(const struct vr_elsewhere *e, const char *path, const struct vr_found *found)
{
    if (found) return belongs(path, found->path) || belongs(path, found->mmproj);
    for (uint32_t i = 0; i < e->catalog.n_items; i++) {
        const struct vr_listed *x = &e->catalog.items[i];
        if (belongs(path, x->path) || belongs(path, x->mmproj)) return true;
    }
    return false;
}

/* --- headers --- */

static void heads_done(struct vr_remote_head *heads, size_t n)
{
    for (size_t i = 0; i < n; i++) vr_source_done(&heads[i].source);
    free(heads);
}

/* What the answers told about a file at a URL. */
static void learn(struct vr_elsewhere *e, const struct vr_source *s)
{
    for (uint32_t i = 0; i < e->repo.n_files; i++) {
        struct vr_repo_file *f = &e->repo.files[i];
        if (e->urls[i] != s->url || is_hub(e)) continue;
        const char *sum = vr_arena_strdup(&e->repo.arena, s->sum);
        f->bytes = s->length;
        f->version = vr_arena_strdup(&e->repo.arena, s->version); /* NULL costs resuming */
        if (sum) f->sum = sum;
    }
}

bool vr_elsewhere_heads(struct vr_elsewhere *e, const struct vr_found *found, struct vr_err *err)
{
    struct vr_remote_head *heads = calloc(e->repo.n_files, sizeof *heads);
    size_t n = 0;
    if (!heads) return vr_fail_nomem(err, "fetching headers");
    for (uint32_t i = 0; i < e->repo.n_files; i++) {
        const struct vr_repo_file *f = &e->repo.files[i];
        const char *path = head_path(e, i);
        if (!path) return heads_done(heads, n), vr_fail_nomem(err, "fetching headers");
        if (!is_wanted(e, path, found) || (is_hub(e) && vr_remote_head_is_there(path, f->bytes))) continue;
        heads[n++] =
            (struct vr_remote_head){ path,
                                     { .url = e->urls[i], .name = f->path, .length = f->bytes, .pinned = is_hub(e) } };
    }
    bool ok = vr_heads_fetch(e->net, heads, n, err);
    for (size_t i = 0; i < n && ok; i++) learn(e, &heads[i].source);
    heads_done(heads, n);
    return ok;
}

/* --- all of it --- */

/* Where the content of file i shall lie. */
static const char *content_path(struct vr_elsewhere *e, const char *folder, const struct vr_repo_file *f)
{
    return is_hub(e) ? vr_hub_cache_blob(folder, f, &e->repo.arena)
                     : vr_arena_printf(&e->repo.arena, "%s/%s", folder, f->path);
}

/* A path among the headers -> the same file among the downloads. */
static const char *downloaded(struct vr_elsewhere *e, const char *folder, const char *head)
{
    if (!head) return NULL;
    const char *below = head + strlen(e->heads) + 1;
    return is_hub(e) ? vr_arena_printf(&e->repo.arena, "%s/snapshots/%s/%s", folder, e->repo.commit, below)
                     : vr_arena_printf(&e->repo.arena, "%s/%s", folder, below);
}

static bool link_all(struct vr_elsewhere *e, const char *folder, const struct vr_found *found, struct vr_err *err)
{
    if (!is_hub(e)) return true;
    for (uint32_t i = 0; i < e->repo.n_files; i++) {
        const char *path = head_path(e, i);
        if (!path) return vr_fail_nomem(err, "linking a file");
        if (is_wanted(e, path, found) && !vr_hub_cache_link(folder, e->repo.commit, &e->repo.files[i], err))
            return false;
    }
    return vr_hub_cache_set_main(folder, e->repo.commit, err);
}

static void wanted_done(struct vr_wanted *w, size_t n)
{
    for (size_t i = 0; i < n; i++) vr_source_done(&w[i].source);
    free(w);
}

bool vr_elsewhere_fetch(struct vr_elsewhere *e, struct vr_found *found, unsigned n_connections,
                        void (*tell)(void *ctx, const struct vr_progress *p), void *ctx, struct vr_err *err)
{
    char folder[1100];
    bool placed = is_hub(e) ? vr_hub_cache_folder(&e->remote, folder, sizeof folder, err)
                            : own_folder(e, "XDG_DATA_HOME", ".local/share", "models", folder, sizeof folder, err);
    if (!placed) return false;
    struct vr_wanted *w = calloc(e->repo.n_files, sizeof *w);
    size_t n = 0;
    bool ok = w != NULL;
    for (uint32_t i = 0; i < e->repo.n_files && ok; i++) {
        const struct vr_repo_file *f = &e->repo.files[i];
        const char *head = head_path(e, i), *path = content_path(e, folder, f);
        ok = head && path;
        if (!ok || !is_wanted(e, head, found)) continue;
        w[n++] = (struct vr_wanted){
            path, { .url = e->urls[i], .name = f->path, .length = f->bytes, .pinned = *f->sum != '\0' }, f->sum
        };
        if (f->version) snprintf(w[n - 1].source.version, sizeof w->source.version, "%s", f->version);
    }
    if (!ok) vr_fail_nomem(err, "beginning a download");
    ok = ok && vr_fetch(e->net, w, n, n_connections, tell, ctx, err) && link_all(e, folder, found, err);
    wanted_done(w, n);
    if (!ok) return false;
    found->path = downloaded(e, folder, found->path);
    if (found->mmproj) found->mmproj = downloaded(e, folder, found->mmproj);
    return found->path || vr_fail_nomem(err, "finishing a download");
}
