#include "cli/models/remote_model.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "cli/load/load_plan.h"

/* --- how far a download is --- */

struct teller {
    const char *name, *host;
    bool begun;    /* there is something to download */
    unsigned told; /* tenths, in the log */
    bool line;     /* one is open on the terminal */
};

static const char *time_left(double s, char *out, size_t n)
{
    uint64_t t = s < 0 ? 0 : s > 359999 ? 359999 : (uint64_t)s;
    if (s < 0)
        snprintf(out, n, "--:--");
    else if (t >= 3600)
        snprintf(out, n, "%u:%02u:%02u", (unsigned)(t / 3600), (unsigned)(t / 60 % 60), (unsigned)(t % 60));
    else
        snprintf(out, n, "%u:%02u", (unsigned)(t / 60), (unsigned)(t % 60));
    return out;
}

static void tell(void *ctx, const struct vr_progress *p)
{
    struct teller *t = ctx;
    struct vr_num done, all, rate;
    char left[32];
    if (p->total_bytes == 0) return;
    unsigned percent = (unsigned)(100.0 * (double)p->done_bytes / (double)p->total_bytes);
    vr_fmt_bytes(&done, p->done_bytes);
    vr_fmt_bytes(&all, p->total_bytes);
    if (!t->begun) vr_log(VR_INFO, "downloading %s (%s) from %s", t->name, all.s, t->host);
    t->begun = true;
    vr_fmt_bytes(&rate, (uint64_t)p->bytes_per_s);
    time_left(p->left_s, left, sizeof left);
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\033[K  %s: %s of %s, %u %%, %s/s, %s", t->name, done.s, all.s, percent, rate.s,
                p->verifying ? "verifying" : left);
        if (!p->verifying) fputs(" left", stderr);
        t->line = true;
    } else if (percent / 10 > t->told) {
        t->told = percent / 10;
        vr_log(VR_INFO, "%s: %s of %s (%u %%), %s/s, %s left", t->name, done.s, all.s, percent, rate.s, left);
    }
}

bool vr_remote_download(struct vr_elsewhere *e, struct vr_found *found, unsigned n_connections, struct vr_err *err)
{
    struct teller t = { .name = found->name ? found->name : e->name, .host = e->host };
    bool ok = vr_elsewhere_fetch(e, found, n_connections, tell, &t, err);
    if (t.line) fputs("\r\033[K", stderr);
    if (ok && !t.begun) vr_log(VR_INFO, "%s was downloaded before", t.name);
    return ok;
}

/* --- options --- */

enum { MODEL, DRAFT, MMPROJ, N_FILES };

struct file {
    const char **option;
    struct vr_elsewhere *e; /* NULL: it is no remote one */
    struct vr_found found;
    bool here;
};

static bool look(struct file *f, const char *text, bool file, const struct vr_options *o,
                 const struct vr_catalog *local, struct vr_err *err)
{
    static struct vr_elsewhere kept[N_FILES]; /* until the program ends: paths point into them */
    static size_t n_kept;
    f->e = &kept[n_kept++ % N_FILES];
    if (!vr_elsewhere_open(f->e, text, o->allow_http, err)) return false;
    f->here = vr_elsewhere_is_here(f->e, local, file, &f->found);
    if (f->here) return true;
    if (!vr_elsewhere_ask(f->e, err) || !vr_elsewhere_pick(f->e, file, &f->found, err)) return false;
    if (file || o->mmproj) f->found.mmproj = NULL;
    return vr_elsewhere_heads(f->e, &f->found, err);
}

/* With headers in place of the files. */
static bool would_fit(const struct vr_options *o, struct vr_err *err)
{
    VR_AUTO_MODELS models;
    VR_CLEANUP(vr_load_done) struct vr_load load = { 0 };
    struct vr_learned learned = { 0 };
    return (vr_models_open(o, &models, err) && vr_load_plan(o, &models, &learned, &load, err)) ||
           vr_fail_more(err, "; nothing was downloaded");
}

/* A repository as a whole: for `plan`, which compares what is in it. */
static bool is_repository(const struct vr_options *o, struct vr_err *err, bool *is)
{
    struct vr_net_setup setup;
    struct vr_remote r;
    if (!vr_hub_setup(o->allow_http, &setup, err) || !vr_remote_parse(o->model, setup.endpoint, &r, err)) return false;
    *is = *r.owner && !*r.word;
    return true;
}

static void use(struct vr_options *o, const struct file *files)
{
    const struct file *m = &files[MODEL];
    for (size_t i = 0; i < N_FILES; i++)
        if (files[i].e) *files[i].option = files[i].found.path;
    if (!m->e) return;
    if (!o->alias) o->alias = m->found.name;
    if (!files[MMPROJ].e && (!o->mmproj || m->found.mmproj)) o->mmproj = m->found.mmproj;
}

bool vr_remote_options(struct vr_options *o, enum vr_needs needs, struct vr_err *err)
{
    struct file files[N_FILES] = { { .option = &o->model }, { .option = &o->draft }, { .option = &o->mmproj } };
    static struct vr_catalog local; /* the same */
    bool any = false, repository = false, missing = false;
    for (size_t i = 0; i < N_FILES; i++) any |= *files[i].option && vr_remote_is(*files[i].option);
    if (!any) return true;
    if (needs == VR_NEEDS_HEADERS && o->model && vr_remote_is(o->model) && !is_repository(o, err, &repository))
        return false;
    if (!vr_catalog_read(o->models_dir, &local, err)) return false;
    for (size_t i = 0; i < N_FILES; i++) {
        const char *text = *files[i].option;
        if (!text || !vr_remote_is(text) || (i == MODEL && repository)) continue;
        if (!look(&files[i], text, i == MMPROJ, o, &local, err)) return false;
        missing |= !files[i].here;
    }
    if (o->mmproj && !files[MMPROJ].e) files[MODEL].found.mmproj = NULL;
    use(o, files);
    if (!missing || needs == VR_NEEDS_HEADER || needs == VR_NEEDS_HEADERS) return true;
    if (needs == VR_NEEDS_FIT && !would_fit(o, err)) return false;
    for (size_t i = 0; i < N_FILES; i++)
        if (files[i].e && !files[i].here &&
            !vr_remote_download(files[i].e, &files[i].found, (unsigned)o->connections, err))
            return false;
    use(o, files);
    return true;
}
