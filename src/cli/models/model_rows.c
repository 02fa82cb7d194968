#include "cli/models/model_rows.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/load/placement.h"
#include "cli/text/show.h"

#define GRAIN        (64 * VR_MIB) /* of a device's free memory */
#define HOST_GRAIN   VR_GIB        /* of the host's, which is never quiet */
#define LIMIT_MS     120000        /* for one model */
#define MAX_SIDE     16
#define MAX_REMEMBER (8 << 20)

/* --- the question --- */

static void round_budgets(struct vr_input *in)
{
    for (size_t i = 0; i < in->budgets.n; i++) {
        struct vr_budget *b = &in->budgets.items[i];
        uint64_t *free_bytes = &in->machine.devices[b->device].free_bytes, odd = *free_bytes % GRAIN;
        if (odd >= b->budget_bytes) continue;
        *free_bytes -= odd;
        b->budget_bytes -= odd;
    }
    in->machine.host.ram_free_bytes -= in->machine.host.ram_free_bytes % HOST_GRAIN;
}

/* All that an answer depends on beside the file: what placement.c asks with. NULL: memory is out. */
static json_t *question(const struct vr_options *o, const struct vr_input *in)
{
    const struct vr_context *c = &in->context;
    json_t *context = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:b}", "n_ctx", (int)c->n_ctx, "n_seq", (int)c->n_seq,
                                "n_batch", (int)c->n_batch, "n_ubatch", (int)c->n_ubatch, "type_k", (int)c->type_k,
                                "type_v", (int)c->type_v, "kv_unified", c->kv_unified);
    json_t *rest =
        json_pack("{s:s, s:s, s:s, s:i, s:s?, s:s?, s:b, s:b, s:i, s:i, s:i}", "optimize", o->optimize, "host_weights",
                  o->host_weights, "spec", o->spec, "n_draft", (int)o->n_draft, "draft", o->draft, "lora", o->lora,
                  "no_mmap", o->no_mmap, "embeddings", o->embeddings, "offload_min_batch", (int)o->offload_min_batch,
                  "threads", (int)o->threads, "n_prompt", (int)o->n_prompt);
    return json_pack("{s:s, s:o, s:o, s:s, s:o}", "version", VR_VERSION, "machine", vr_json_machine(in), "context",
                     context, "flash_attn", o->flash_attn, "options", rest);
}

static void file_key(const struct vr_listed *x, char *out, size_t n)
{
    snprintf(out, n, "%" PRIx64 ":%" PRIx64 ":%" PRIx64 ":%" PRIx64 ":%u:%s", (uint64_t)x->dev, (uint64_t)x->ino,
             (uint64_t)x->when, x->bytes, x->n_found, x->mmproj ? x->mmproj : "");
}

/* --- one answer --- */

struct job {
    const struct vr_options *o;
    const struct vr_input *in;
    const struct vr_speeds *speeds;
    const struct vr_listed *x;
};

static void set_plan(json_t *row, const struct vr_fit_ask *ask, const struct vr_outcome *p, uint32_t largest)
{
    const struct vr_verdict *v = &p->verdict;
    json_t *devices = json_array();
    for (size_t d = 0; d < ask->machine->n_devices; d++)
        for (size_t i = 0; i < v->n_devices; i++)
            if (v->devices[i].device == d && vr_use_bytes(&v->devices[i].use))
                json_array_append_new(devices, json_string(ask->machine->devices[d].id));
    uint64_t always = ask->model->input_bytes, host = v->host.model_bytes; /* token embeddings are never on a device */
    json_object_update_new(row, json_pack("{s:b, s:o, s:I, s:f, s:f, s:I}", "fits", 1, "devices", devices, "host_bytes",
                                          (json_int_t)(host > always + VR_MIB ? host - always : 0), "decode_tok_s",
                                          v->price.decode_tok_s, "prefill_tok_s", v->price.prefill_tok_s,
                                          "largest_n_ctx", (json_int_t)largest));
}

static bool answer(const struct job *j, json_t *row, struct vr_err *err)
{
    struct vr_options o = *j->o;
    o.model = j->x->path;
    o.mmproj = j->x->mmproj;
    VR_AUTO_MODELS models;
    if (!vr_models_open(&o, &models, err)) return false;
    const struct vr_model *m = models.main;
    json_object_update_new(row, vr_json_model(m));
    struct vr_fit_ask ask = vr_placement_ask(&o, j->in, &models, j->speeds);
    struct vr_goal goal = { .optimize = vr_placement_optimize(&o) };
    VR_AUTO_OUTCOME planned = { 0 };
    VR_AUTO_OUTCOME largest = { 0 };
    struct vr_err why = { 0 };
    if (!vr_fit_plan(&ask, &goal, &planned, &why)) {
        if (why.code != VR_ENOFIT) return vr_fail(err, why.code, "%s", why.msg);
        json_object_update_new(row, json_pack("{s:b, s:s}", "fits", 0, "reason", why.msg));
        return true;
    }
    bool found = vr_fit_largest(&ask, &goal, &largest, NULL);
    set_plan(row, &ask, &planned, found ? largest.verdict.n_ctx : planned.verdict.n_ctx);
    return true;
}

static int work(void *ctx)
{
    json_t *row = json_object();
    struct vr_err why = { 0 };
    if (!answer(ctx, row, &why)) json_object_set_new(row, "error", vr_json_text(why.msg));
    char *text = json_dumps(row, JSON_COMPACT);
    return text && vr_fd_write(STDOUT_FILENO, text, strlen(text)) ? 0 : 1;
}

/* --- all of them, some at a time --- */

struct side {
    struct vr_child child;
    struct vr_child_live live;
    struct vr_child_end end;
    struct job job;
    size_t i;
    uint64_t until_ms;
    bool busy;
};

static void end_side(struct side *s, json_t *rows)
{
    struct vr_err err = { 0 };
    char how[128];
    bool over = vr_now_ms() >= s->until_ms;
    if (over) vr_child_kill(&s->live);
    bool known = vr_child_finish(&s->live, &s->end, &err);
    s->end.timed_out = over;
    json_t *row = known ? json_loadb(vr_buf_str(&s->end.out), s->end.out.n, 0, NULL) : NULL;
    if (!row)
        row = json_pack("{s:s+}", "error",
                        "planning failed: ", known ? vr_child_how(&s->child, &s->end, how, sizeof how) : err.msg);
    json_array_set_new(rows, s->i, row);
    vr_child_end_done(&s->end);
    s->busy = false;
}

static bool begin_side(struct side *s, const struct job *job, size_t i, struct vr_err *err)
{
    *s = (struct side){ .job = *job, .i = i, .until_ms = vr_now_ms() + LIMIT_MS };
    s->child = (struct vr_child){ .main = work, .ctx = &s->job, .timeout_ms = LIMIT_MS };
    vr_child_end_init(&s->end, &s->child);
    s->busy = vr_child_start(&s->child, &s->live, err);
    return s->busy;
}

/* Waits until one of them has something to say, and listens. */
static void listen_to(struct side *sides, size_t n, json_t *rows)
{
    struct pollfd fds[2 * MAX_SIDE];
    for (size_t k = 0; k < 2 * n; k++) /* poll(2) passes over -1 */
        fds[k] = (struct pollfd){ sides[k / 2].busy ? sides[k / 2].live.fds[k % 2 ? VR_CHILD_ERR : VR_CHILD_OUT] : -1,
                                  POLLIN, 0 };
    poll(fds, 2 * n, 200);
    for (size_t k = 0; k < n; k++) {
        struct side *s = &sides[k];
        if (!s->busy) continue;
        bool ok = true;
        if (fds[2 * k].revents) ok &= vr_child_take(&s->live, VR_CHILD_OUT, &s->end.out);
        if (fds[2 * k + 1].revents) ok &= vr_child_take(&s->live, VR_CHILD_ERR, &s->end.err);
        bool closed = s->live.fds[VR_CHILD_OUT] < 0 && s->live.fds[VR_CHILD_ERR] < 0;
        if (!ok) vr_child_kill(&s->live);
        if (!ok || closed || vr_now_ms() >= s->until_ms) end_side(s, rows);
    }
}

/* Fills the entries of `rows` that are null. */
static bool answer_all(const struct job *shared, const struct vr_catalog *c, json_t *rows, struct vr_err *err)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = cores < 1 ? 1 : cores > MAX_SIDE ? MAX_SIDE : (size_t)cores, next = 0, busy = 0;
    struct side sides[MAX_SIDE] = { 0 };
    bool ok = true;
    do {
        for (size_t k = 0; k < n && ok; k++) {
            struct job job = *shared;
            while (next < c->n_items && !json_is_null(json_array_get(rows, next))) next++;
            if (sides[k].busy || next == c->n_items) continue;
            job.x = &c->items[next];
            ok = begin_side(&sides[k], &job, next++, err);
        }
        listen_to(sides, n, rows);
        busy = 0;
        for (size_t k = 0; k < n; k++) busy += sides[k].busy;
    } while (busy || (ok && next < c->n_items));
    return ok;
}

/* --- what was answered before --- */

/* The rows of an earlier time by their files' keys, if the question is the same. */
static json_t *remembered(const char *path, const json_t *asked)
{
    VR_AUTO_BUF text = { 0 };
    json_t *all = vr_file_read(path, MAX_REMEMBER, &text, NULL) ? json_loadb(vr_buf_str(&text), text.n, 0, NULL) : NULL;
    json_t *rows = json_equal(json_object_get(all, "question"), asked) ? json_object_get(all, "rows") : NULL;
    rows = json_is_object(rows) ? json_incref(rows) : json_object();
    json_decref(all);
    return rows;
}

/* Best effort: a disk that is full costs time, no more. */
static void remember(const char *path, json_t *asked, const struct vr_catalog *c, const json_t *rows)
{
    json_t *kept = json_object();
    for (uint32_t i = 0; i < c->n_items; i++) {
        char key[1200];
        json_t *row = json_array_get(rows, i);
        if (json_object_get(row, "error")) continue; /* a time limit on a busy machine: not the file's fault for good */
        file_key(&c->items[i], key, sizeof key);
        json_object_set(kept, key, row);
    }
    json_t *all = json_pack("{s:O, s:o}", "question", asked, "rows", kept);
    char *text = json_dumps(all, JSON_COMPACT);
    if (text && vr_file_make_parents(path, NULL) && !vr_file_write(path, text, strlen(text), NULL)) unlink(path);
    free(text);
    json_decref(all);
}

static void describe(json_t *row, const struct vr_listed *x)
{
    json_object_update_new(row, json_pack("{s:s, s:s, s:o, s:s, s:I, s:i, s:i, s:o, s:o}", "name", x->name, "id", x->id,
                                          "path", vr_json_text(x->path), "source", vr_keeper_name(x->keeper), "bytes",
                                          (json_int_t)x->bytes, "parts", (int)x->n_parts, "missing_parts",
                                          (int)(x->n_parts - x->n_found), "mmproj", vr_json_text(x->mmproj),
                                          "draft_head", vr_json_text(x->head)));
}

json_t *vr_model_rows(const struct vr_options *o, struct vr_input *in, const struct vr_catalog *c, const char *kept,
                      struct vr_err *err)
{
    round_budgets(in);
    VR_AUTO_FREE struct vr_speeds *speeds = vr_input_speeds(o, in, err);
    if (!speeds) return NULL;
    char path[512];
    bool keeps = vr_file_own_path("XDG_CACHE_HOME", ".cache", kept, path, sizeof path);
    json_t *asked = question(o, in), *before = keeps ? remembered(path, asked) : json_object(), *rows = json_array();
    for (uint32_t i = 0; i < c->n_items; i++) {
        const struct vr_listed *x = &c->items[i];
        char key[1200];
        file_key(x, key, sizeof key);
        json_t *known = json_object_get(before, key);
        json_array_append_new(rows, x->n_found < x->n_parts ? json_object() : known ? json_incref(known) : json_null());
    }
    struct job shared = { .o = o, .in = in, .speeds = speeds };
    bool ok = answer_all(&shared, c, rows, err);
    if (ok && keeps) remember(path, asked, c, rows);
    for (uint32_t i = 0; i < c->n_items; i++) describe(json_array_get(rows, i), &c->items[i]);
    json_decref(asked);
    json_decref(before);
    if (!ok) json_decref(rows);
    return ok ? rows : NULL;
}
