/* Ollama's paths. What they tell about models is those that are served; what would fetch, copy or delete one is
 * refused with a word about why. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/text.h"
#include "server/api/body.h"
#include "server/api/generate.h"
#include "server/dialect/fields.h"
#include "server/dialect/ollama.h"
#include "server/front.h"
#include "server/http/routes.h"

#define OLLAMA_VERSION "0.12.0" /* whose API this is; clients look for one that is new enough */

void vr_answer_ollama_chat(struct vr_conn *c, const struct vr_incoming *r) { vr_generate(c, r, &vr_ollama_chat); }
void vr_answer_ollama_generate(struct vr_conn *c, const struct vr_incoming *r)
{
    vr_generate(c, r, &vr_ollama_generate);
}
void vr_answer_ollama_embed(struct vr_conn *c, const struct vr_incoming *r) { vr_generate(c, r, &vr_ollama_embed); }
void vr_answer_ollama_embeddings(struct vr_conn *c, const struct vr_incoming *r)
{
    vr_generate(c, r, &vr_ollama_embeddings);
}

void vr_answer_ollama_version(struct vr_conn *c, const struct vr_incoming *r)
{
    (void)r;
    VR_AUTO_BUF out = { 0 };
    vr_buf_addf(&out, "{\"version\":\"%s\",\"server\":\"vram-llm %s\"}\n", OLLAMA_VERSION, VR_VERSION);
    vr_reply_buf(c, 200, "application/json", &out);
}

static const char *fact(const struct vr_served *m, const char *key)
{
    const char *s = vr_get_text(m->engine.ready, key);
    return s ? s : "";
}

static json_int_t number(const struct vr_served *m, const char *key)
{
    return json_integer_value(json_object_get(m->engine.ready, key));
}

/* The quantization is what "llama 7B Q4_K - Medium" ends with; the size is written as Ollama does, "7.61M". */
static json_t *details_of(const struct vr_served *m)
{
    struct vr_num size;
    const char *rest = fact(m, "desc");
    for (int i = 0; i < 2 && rest; i++) {
        const char *space = strchr(rest, ' ');
        rest = space ? space + 1 : NULL;
    }
    vr_fmt_short(&size, (double)number(m, "n_params"));
    char *unit = strchr(size.s, ' ');
    if (unit) memmove(unit, unit + 1, strlen(unit));
    return json_pack("{s:s,s:s,s:s,s:[s],s:s,s:s}", "parent_model", "", "format", "gguf", "family", fact(m, "arch"),
                     "families", fact(m, "arch"), "parameter_size", size.s, "quantization_level", rest ? rest : "");
}

static void write_time(int64_t at, char *out, size_t n)
{
    struct tm tm;
    time_t t = at;
    if (!gmtime_r(&t, &tm) || !strftime(out, n, "%Y-%m-%dT%H:%M:%SZ", &tm)) *out = '\0';
}

/* When it leaves if nobody uses it. */
static void expires_at(const struct vr_served *m, char *out, size_t n)
{
    if (!m->front->config->on_demand || m->stay.pinned || m->stay.ttl_ms < 0)
        snprintf(out, n, "2318-01-01T00:00:00Z"); /* never */
    else
        write_time(time(NULL) + m->stay.ttl_ms / 1000, out, n);
}

/* The digest says which program and model it is, not what bytes the file has. */
static json_t *model_of(const struct vr_served *m, bool running)
{
    char when[40], digest[65];
    write_time(m->front->started_unix, when, sizeof when);
    memset(digest, '0', sizeof digest - 1);
    digest[sizeof digest - 1] = '\0';
    const char *hex = strchr(m->fingerprint, '_');
    if (hex) memcpy(digest, hex + 1, strlen(hex + 1));
    json_int_t size = m->engine.ready ? number(m, "model_bytes") : (json_int_t)m->config->bytes;
    json_t *j = json_pack("{s:s,s:s,s:s,s:I,s:s,s:o}", "name", m->config->id, "model", m->config->id, "modified_at",
                          when, "size", size, "digest", digest, "details", details_of(m));
    if (!running || !j) return j;
    json_int_t on_devices = 0;
    size_t i;
    json_t *d;
    json_array_foreach(json_object_get(m->engine.ready, "devices"), i, d) on_devices +=
        json_integer_value(json_object_get(d, "model_bytes")) +
        json_integer_value(json_object_get(d, "context_bytes")) +
        json_integer_value(json_object_get(d, "compute_bytes"));
    expires_at(m, when, sizeof when);
    json_object_set_new(j, "expires_at", json_string(when));
    json_object_set_new(j, "size_vram", json_integer(on_devices));
    json_object_set_new(j, "context_length", json_integer(number(m, "n_ctx_seq")));
    return j;
}

/* All of them, or those that run. */
static void reply_models(struct vr_conn *c, bool running)
{
    const struct vr_front *f = c->front;
    json_t *list = json_array();
    for (size_t i = 0; i < f->n_models; i++)
        if (!running || f->models[i].engine.state == VR_WORKER_READY)
            json_array_append_new(list, model_of(&f->models[i], running));
    vr_reply_json(c, 200, json_pack("{s:o}", "models", list));
}

void vr_answer_ollama_tags(struct vr_conn *c, const struct vr_incoming *r)
{
    (void)r;
    reply_models(c, false);
}

void vr_answer_ollama_ps(struct vr_conn *c, const struct vr_incoming *r)
{
    (void)r;
    reply_models(c, true);
}

/* The body's model. NULL: it was answered. */
static struct vr_served *named_model(struct vr_conn *c, const struct vr_incoming *r)
{
    struct vr_refusal why;
    char name[257];
    json_t *body = vr_body_parse(vr_buf_str(&r->body), r->body.n, &why);
    if (!body) return vr_reply_error(c, why.status, NULL, why.code, "%s", why.message), NULL;
    const char *given = vr_get_text(body, "model");
    if (!given) given = vr_get_text(body, "name");
    snprintf(name, sizeof name, "%s", given ? given : "");
    json_decref(body);
    char *latest = strstr(name, ":latest");
    if (latest && !latest[7]) *latest = '\0';
    struct vr_served *m = vr_served_find(c->front, name);
    VR_AUTO_BUF unknown = { 0 };
    if (m) return m;
    vr_served_unknown(c->front, name, &unknown);
    vr_reply_error(c, 404, "model", "model_not_found", "%s; this server does not pull models", vr_buf_str(&unknown));
    return NULL;
}

void vr_answer_ollama_show(struct vr_conn *c, const struct vr_incoming *r)
{
    const struct vr_served *m = named_model(c, r);
    if (!m) return;
    const json_t *ready = m->engine.ready, *chat = json_object_get(ready, "chat");
    const char *arch = fact(m, "arch");
    json_t *can = json_array(), *info = json_pack("{s:s,s:I}", "general.architecture", arch, "general.parameter_count",
                                                  number(m, "n_params"));
    static const char *const facts[][2] = { { "n_ctx_train", "context_length" },
                                            { "n_embd", "embedding_length" },
                                            { "n_layers", "block_count" },
                                            { "n_vocab", "vocab_size" } };
    for (size_t i = 0; i < VR_COUNT(facts); i++) {
        char key[96];
        snprintf(key, sizeof key, "%.60s.%s", arch, facts[i][1]);
        json_object_set_new(info, key, json_integer(number(m, facts[i][0])));
    }
    if (strcmp(fact(m, "kind"), "text") == 0) { /* tools are for every model */
        json_array_append_new(can, json_string("completion"));
        json_array_append_new(can, json_string("tools"));
    }
    if (json_is_true(json_object_get(ready, "vision"))) json_array_append_new(can, json_string("vision"));
    if (json_is_true(json_object_get(chat, "reasoning"))) json_array_append_new(can, json_string("thinking"));
    if (json_is_true(json_object_get(ready, "embeddings"))) json_array_append_new(can, json_string("embedding"));
    vr_reply_json(c, 200,
                  json_pack("{s:s,s:s,s:s,s:s,s:o,s:o,s:o}", "modelfile", "", "parameters", "", "template", "",
                            "license", "", "details", details_of(m), "model_info", info, "capabilities", can));
}

/* What is asked for is here already, or cannot be had. */
void vr_answer_ollama_pull(struct vr_conn *c, const struct vr_incoming *r)
{
    if (named_model(c, r)) vr_reply(c, 200, "application/x-ndjson", NULL, "{\"status\":\"success\"}\n", 21);
}

void vr_answer_ollama_refused(struct vr_conn *c, const struct vr_incoming *r)
{
    (void)r;
    vr_reply_error(c, 400, NULL, "unsupported_endpoint",
                   "this server serves the models it was started with: it cannot create, copy, push or delete any");
}
