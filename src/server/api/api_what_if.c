/* POST /api/plan: the plan for other cards, another context, another model, also one on the hub: `plan --json` as a
 * task beside the loop.
 *
 * Each field becomes one argument "--option=value", never a word of its own and never a shell's. A client that goes
 * away takes its task with it, so a page that asks again while it types has one plan in the making. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "server/api/body.h"
#include "server/front.h"
#include "server/http/routes.h"

#define MAX_TEXT   1000
#define TIMEOUT_MS 60000
#define MAX_OUTPUT (4 << 20)

static const struct {
    const char *field, *option;
    enum { TEXT, INT } type;
} fields[] = {
#define ASK(field, option, type) { field, option, type },
#include "server/api/what_if.def"
#undef ASK
};

struct arguments {
    struct vr_buf words; /* each with its NUL */
    const char *argv[VR_COUNT(fields) + 6];
};

static bool add_field(struct arguments *a, const char *name, const json_t *v, struct vr_refusal *p)
{
    for (size_t i = 0; i < VR_COUNT(fields); i++) {
        if (strcmp(name, fields[i].field) != 0) continue;
        if (json_is_null(v)) return true;
        if (fields[i].type == INT) {
            json_int_t n = json_integer_value(v);
            if (!json_is_integer(v) || n < 0 || n > 1 << 30)
                return vr_refuse(p, name, "invalid_value", "'%s' must be a non-negative integer", name);
            vr_buf_addf(&a->words, "--%s=%" JSON_INTEGER_FORMAT, fields[i].option, n);
        } else {
            const char *s = json_string_value(v);
            if (!s || !*s || strlen(s) > MAX_TEXT || strlen(s) != json_string_length(v))
                return vr_refuse(p, name, "invalid_value", "'%s' must be a string of 1 to %d bytes", name, MAX_TEXT);
            vr_buf_addf(&a->words, "--%s=%s", fields[i].option, s);
        }
        vr_buf_addc(&a->words, '\0', 1);
        return true;
    }
    return vr_refuse(p, name, "unknown_field", "unknown field '%s'; docs/api.md lists the fields", name);
}

static bool add_path(struct arguments *a, const char *path)
{
    vr_buf_addf(&a->words, "--model=%s", path);
    vr_buf_addc(&a->words, '\0', 1);
    return true;
}

/* "hf:OWNER/NAME:QUANT" asks the hub that the server's environment names, and nobody else: no URL of a client's is ever
 * fetched. */
static bool add_hub_model(struct arguments *a, const struct vr_front *f, const char *id, struct vr_refusal *p)
{
    if (strlen(id) > MAX_TEXT)
        return vr_refuse(p, "model", "invalid_value", "'model' must be a string of at most %d bytes", MAX_TEXT);
    if (f->config->hub_plans) return add_path(a, id);
    vr_refuse(p, "model", "hub_plans_off",
              "models on Hugging Face can be planned for only if the server listens on this computer alone, or was "
              "started with --hub-plans");
    p->status = 403;
    return false;
}

/* The file that "model" names: one that is served, or one of --models-dir; or a model on the hub. */
static bool add_model(struct arguments *a, struct vr_front *f, const char *id, struct vr_refusal *p)
{
    const struct vr_server_config *c = f->config;
    const struct vr_served *served = id ? vr_served_find(f, id) : vr_served_default(f, true);
    if (served) return add_path(a, served->config->path);
    if (strncmp(id, "hf:", 3) == 0) return add_hub_model(a, f, id, p);
    const struct vr_catalog *list = vr_folder_list_get(&f->folder, c->models_dir, NULL);
    const struct vr_listed *found = list ? vr_catalog_find(list, id, NULL) : NULL;
    if (found && found->n_found == found->n_parts) return add_path(a, found->path);
    vr_refuse(p, "model", "model_not_found", "model '%.200s' not found; GET /api/models lists the models", id);
    p->status = 404;
    return false;
}

static bool read_ask(struct arguments *a, struct vr_front *f, json_t *body, struct vr_refusal *p)
{
    const char *name, *model = NULL;
    json_t *v;
    json_object_foreach(body, name, v)
    {
        if (strcmp(name, "model") != 0) {
            if (!add_field(a, name, v, p)) return false;
            continue;
        }
        if (!json_is_string(v) && !json_is_null(v))
            return vr_refuse(p, "model", "invalid_value", "'model' must be a string");
        model = json_string_value(v);
    }
    if (!add_model(a, f, model, p)) return false;
    size_t n = 0;
    a->argv[n++] = VR_SELF;
    a->argv[n++] = "plan";
    a->argv[n++] = "--json";
    for (size_t at = 0; at < a->words.n; at += strlen(a->words.data + at) + 1) a->argv[n++] = a->words.data + at;
    a->argv[n] = NULL;
    return true;
}

/* --- the answer --- */

static void on_done(void *ctx, const struct vr_child_end *end, const struct vr_err *err)
{
    struct vr_conn *c = ctx;
    c->gone = NULL;
    c->work = NULL;
    if (!end && err->code == VR_ENOMEM) return vr_reply_later(c, 503, 1, "busy", "%s", err->msg);
    if (!end) return vr_reply_error(c, 500, NULL, "plan_failed", "%s", err->msg);
    struct vr_err why = { 0 };
    bool planned =
        end->exit_status == 0 || end->exit_status == vr_code_exit(VR_ENOFIT); /* also one that does not fit */
    if (planned && end->out.n && !end->too_much && !vr_task_error(end, &why))
        return vr_reply(c, 200, "application/json", NULL, end->out.data, end->out.n);
    vr_task_failure(end, TIMEOUT_MS, "planning", &why);
    if (why.code != VR_ENOFIT) return vr_reply_error(c, vr_code_http(why.code), NULL, "plan_failed", "%s", why.msg);
    VR_AUTO_BUF out = { 0 }; /* an answer, too */
    vr_buf_adds(&out, "{\"fits\":false,\"reason\":");
    vr_json_add_string(&out, why.msg);
    vr_buf_adds(&out, "}\n");
    vr_reply_buf(c, 200, "application/json", &out);
}

static void on_gone(struct vr_conn *c) { vr_task_cancel(c->work); }

void vr_answer_api_what_if(struct vr_conn *c, const struct vr_incoming *r)
{
    struct vr_front *f = c->front;
    struct vr_refusal p = { 0 };
    struct arguments a = { 0 };
    struct vr_err err = { 0 };
    json_t *body = vr_body_parse(vr_buf_str(&r->body), r->body.n, &p);
    bool ok = body && read_ask(&a, f, body, &p) && !a.words.failed;
    json_decref(body);
    struct vr_task *task = NULL;
    if (ok)
        task = vr_task_start(f->tasks,
                             &(struct vr_task_ask){ .argv = a.argv,
                                                    .timeout_ms = TIMEOUT_MS,
                                                    .max_output = MAX_OUTPUT,
                                                    .whose = c->client,
                                                    .nice = VR_ASIDE_NICE,
                                                    .done = on_done,
                                                    .ctx = c },
                             &err);
    vr_buf_done(&a.words);
    if (task) {
        c->work = task;
        c->gone = on_gone;
    } else if (ok) {
        vr_reply_later(c, 503, 1, "busy", "%s", err.msg);
    } else {
        vr_reply_error(c, p.status ? p.status : 503, *p.param ? p.param : NULL, p.code, "%s", p.message);
    }
}
