/* POST /api/plan: the plan for other cards, another context, another model: `plan --json` as a job beside the loop.
 *
 * Each field becomes one argument "--option=value", never a word of its own and never a shell's. A client that goes
 * away takes its job with it, so a page that asks again while it types has one plan in the making. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "server/api/body.h"
#include "server/front.h"
#include "server/http/routes.h"
#include "server/api/model_list.h"

#define MAX_TEXT   1000
#define TIMEOUT_MS 30000
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

static bool add_field(struct arguments *a, const char *name, const json_t *v, struct vr_body_error *p)
{
    for (size_t i = 0; i < VR_COUNT(fields); i++) {
        if (strcmp(name, fields[i].field) != 0) continue;
        if (json_is_null(v)) return true;
        if (fields[i].type == INT) {
            json_int_t n = json_integer_value(v);
            if (!json_is_integer(v) || n < 0 || n > 1 << 30)
                return vr_body_error_set(p, name, "invalid_value", "'%s' must be a non-negative integer", name);
            vr_buf_addf(&a->words, "--%s=%" JSON_INTEGER_FORMAT, fields[i].option, n);
        } else {
            const char *s = json_string_value(v);
            if (!s || !*s || strlen(s) > MAX_TEXT || strlen(s) != json_string_length(v))
                return vr_body_error_set(p, name, "invalid_value", "'%s' must be a string of 1 to %d bytes", name,
                                         MAX_TEXT);
            vr_buf_addf(&a->words, "--%s=%s", fields[i].option, s);
        }
        vr_buf_addc(&a->words, '\0', 1);
        return true;
    }
    return vr_body_error_set(p, name, "unknown_field", "unknown field '%s'; docs/api.md lists the fields", name);
}

/* The file that "model" names: the one that is loaded, or one of --models-dir. */
static bool add_model(struct arguments *a, const struct vr_front *f, const char *id, struct vr_body_error *p)
{
    const struct vr_server_config *c = f->config;
    if (!id || vr_front_is_model(f, id)) {
        vr_buf_addf(&a->words, "--model=%s", c->model_path);
        vr_buf_addc(&a->words, '\0', 1);
        return true;
    }
    struct vr_model_list list = { 0 };
    struct vr_err err;
    bool found = c->models_dir && vr_model_list_read(c->models_dir, &list, &err) && vr_model_list_find(&list, id);
    vr_model_list_done(&list);
    if (found) {
        vr_buf_addf(&a->words, "--model=%s/%s", c->models_dir, id);
        vr_buf_addc(&a->words, '\0', 1);
        return true;
    }
    vr_body_error_set(p, "model", "model_not_found", "model '%.200s' not found; GET /api/models lists the models", id);
    p->status = 404;
    return false;
}

static bool read_ask(struct arguments *a, const struct vr_front *f, json_t *body, struct vr_body_error *p)
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
            return vr_body_error_set(p, "model", "invalid_value", "'model' must be a string");
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

/* What the program said on its standard error, without its name and the end of the line. */
static void reason_of(const struct vr_child_end *end, char *out, size_t n)
{
    const char *text = vr_buf_str(&end->err), *line = text;
    for (const char *at = text; (at = strstr(at, "vram-llm: ")); at += 10) line = at + 10; /* the last one */
    snprintf(out, n, "%.*s", (int)strcspn(line, "\n"), line);
    if (!*out) snprintf(out, n, "planning failed");
}

static int http_status(int exit_status)
{
    static const struct {
        int exit, http;
    } map[] = {
#define ERROR(code, exit, http, kind) { exit, http },
#include "base/errors.def"
#undef ERROR
    };
    for (size_t i = 0; i < VR_COUNT(map); i++)
        if (map[i].exit == exit_status) return map[i].http;
    return 500;
}

static void on_done(void *ctx, const struct vr_child_end *end, const struct vr_err *err)
{
    struct vr_conn *c = ctx;
    c->gone = NULL;
    c->work = NULL;
    char why[900];
    if (!end) return vr_reply_error(c, 500, NULL, "plan_failed", "%s", err->msg);
    bool no_fit = end->exit_status == 4; /* an answer, too */
    if ((end->exit_status == 0 || no_fit) && end->out.n && !end->too_much)
        return vr_reply(c, 200, "application/json", NULL, end->out.data, end->out.n);
    reason_of(end, why, sizeof why);
    if (no_fit) {
        VR_AUTO_BUF out = { 0 };
        vr_buf_adds(&out, "{\"fits\":false,\"reason\":");
        vr_json_add_string(&out, why);
        vr_buf_adds(&out, "}\n");
        return vr_reply_buf(c, 200, "application/json", &out);
    }
    if (end->exit_status > 0 && !end->too_much) {
        int status = http_status(end->exit_status);
        return vr_reply_error(c, status, NULL, "plan_failed", "%s", why);
    }
    struct vr_task_ask ask = { .timeout_ms = TIMEOUT_MS };
    vr_reply_error(c, 500, NULL, "plan_failed", "planning %s", vr_task_how(&ask, end, why, sizeof why));
}

static void on_gone(struct vr_conn *c) { vr_task_cancel(c->work); }

void vr_answer_api_what_if(struct vr_conn *c, const struct vr_incoming *r)
{
    struct vr_front *f = c->front;
    struct vr_body_error p = { 0 };
    struct arguments a = { 0 };
    struct vr_err err = { 0 };
    json_t *body = vr_body_parse(vr_buf_str(&r->body), r->body.n, &p);
    bool ok = body && read_ask(&a, f, body, &p) && !a.words.failed;
    json_decref(body);
    struct vr_task *job = NULL;
    if (ok)
        job = vr_task_start(
            f->tasks,
            &(struct vr_task_ask){
                .argv = a.argv, .timeout_ms = TIMEOUT_MS, .max_output = MAX_OUTPUT, .done = on_done, .ctx = c },
            &err);
    vr_buf_done(&a.words);
    if (job) {
        c->work = job;
        c->gone = on_gone;
    } else if (ok) {
        vr_reply_later(c, 503, 1, "busy", "%s", err.msg);
    } else {
        vr_reply_error(c, p.status ? p.status : 503, *p.param ? p.param : NULL, p.code, "%s", p.message);
    }
}
