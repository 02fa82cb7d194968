#include "server/served.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "server/front.h"

#define MAX_NEAREST 3

/* The fingerprint changes when the program or the model does. Clients of llama.cpp look for the "b" of its builds. */
void vr_served_loads(struct vr_served *m)
{
    struct stat st = { 0 };
    const char *path = m->config->path;
    if (stat(path, &st) != 0) st.st_size = 0;
    char text[600];
    snprintf(text, sizeof text, "%s %.400s %lld %lld", VR_VERSION, path, (long long)st.st_size, (long long)st.st_mtime);
    uint64_t h = vr_hash(text, strlen(text), 0);
    snprintf(m->fingerprint, sizeof m->fingerprint, "b" VR_VERSION "-vr_%012llx",
             (unsigned long long)(h & 0xffffffffffff));
}

bool vr_served_open(struct vr_served *m, struct vr_front *f, const struct vr_served_config *c, struct vr_err *err)
{
    m->config = c;
    m->front = f;
    m->stay.pinned = c->pin;
    m->stay.asked = c->preload;
    m->stay.ttl_ms = m->stay.usual_ttl_ms = c->ttl_s ? (int64_t)c->ttl_s * 1000 : -1;
    vr_json_add_string(&m->id_json, c->id);
    vr_served_loads(m);
    if (m->id_json.failed || !vr_queue_open(m)) return vr_fail_nomem(err, "starting the server");
    return vr_worker_open(&m->engine, m, err);
}

void vr_served_close(struct vr_served *m)
{
    vr_queue_close(m);
    vr_buf_done(&m->id_json);
}

/* --- names --- */

/* The file's name, with or without ".gguf". */
static bool is_file(const char *path, const char *name)
{
    const char *file = vr_file_name(path);
    size_t n = strlen(file);
    if (strcmp(name, file) == 0) return true;
    if (n > 5 && strcmp(file + n - 5, ".gguf") == 0) n -= 5;
    return strlen(name) == n && memcmp(name, file, n) == 0;
}

static bool has_alias(const struct vr_served_config *c, const char *name)
{
    for (const char *const *a = c->aliases; a && *a; a++)
        if (strcmp(*a, name) == 0) return true;
    return false;
}

struct vr_served *vr_served_find(struct vr_front *f, const char *name)
{
    for (size_t i = 0; i < f->n_models; i++)
        if (strcmp(f->models[i].config->id, name) == 0) return &f->models[i];
    for (size_t i = 0; i < f->n_models; i++)
        if (has_alias(f->models[i].config, name)) return &f->models[i];
    for (size_t i = 0; i < f->n_models; i++)
        if (is_file(f->models[i].config->path, name)) return &f->models[i];
    return NULL;
}

struct vr_served *vr_served_default(struct vr_front *f, bool up)
{
    for (size_t i = 0; up && i < f->n_models; i++)
        if (f->models[i].engine.state == VR_WORKER_READY) return &f->models[i];
    return &f->models[0];
}

/* Those that have the name within, or its beginning in common. */
static bool resembles(const char *id, const char *name)
{
    size_t n = 0;
    while (name[n] && id[n] && (name[n] | 0x20) == (id[n] | 0x20)) n++;
    return n >= 4 || (strlen(name) >= 3 && strcasestr(id, name));
}

static const char *id_at(size_t i, const void *ctx) { return ((const struct vr_front *)ctx)->models[i].config->id; }

void vr_served_unknown(struct vr_front *f, const char *name, struct vr_buf *out)
{
    vr_buf_addf(out, "model '%.200s' not found", name);
    if (f->n_models == 1) {
        vr_buf_addf(out, "; this server serves '%s'", f->models[0].config->id);
        return;
    }
    int nearest = vr_nearest(name, f->n_models, id_at, f);
    size_t n = 0;
    if (nearest >= 0) vr_buf_addf(out, "; did you mean '%s'", id_at((size_t)nearest, f)), n++;
    for (size_t i = 0; i < f->n_models && n < MAX_NEAREST; i++)
        if ((int)i != nearest && resembles(id_at(i, f), name))
            vr_buf_addf(out, "%s'%s'", n++ ? " or " : "; did you mean ", id_at(i, f));
    vr_buf_adds(out, n ? "?" : "");
    vr_buf_addf(out, "%s GET /v1/models lists all %zu", n ? "" : ";", f->n_models);
}
