/* Answers of Ollama's API: a line of JSON for each piece, the last one with the figures; or that line alone. Calls of
 * tools come whole, with their arguments as an object. */
#include "server/dialect/ollama.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "server/api/render.h"
#include "server/dialect/answer_blocks.h"
#include "server/front.h"

#define ADD(out, literal) vr_buf_add(out, literal, sizeof literal - 1)

static bool is_chat(const struct vr_call *call) { return call->dialect == &vr_ollama_chat; }

static void begin_line(struct vr_buf *out, const struct vr_served *m)
{
    struct timespec now;
    struct tm tm;
    char when[40] = "1970-01-01T00:00:00";
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &tm)) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &tm);
    vr_buf_addf(out, "{\"model\":%s,\"created_at\":\"%s.%06ldZ\",", vr_buf_str(&m->id_json), when, now.tv_nsec / 1000);
}

/* Arguments as an object, which is what they are unless the model was stopped in the middle. */
static void add_arguments(struct vr_buf *out, const char *text, size_t n)
{
    json_t *v = json_loadb(text, n, JSON_ALLOW_NUL, NULL);
    VR_AUTO_FREE char *again = json_is_object(v) ? json_dumps(v, JSON_COMPACT) : NULL;
    json_decref(v);
    vr_buf_adds(out, again ? again : "{}");
}

static void add_call(struct vr_buf *out, size_t index, const char *id, const char *name, const char *arguments,
                     size_t n)
{
    ADD(out, "{\"id\":");
    vr_json_add_string(out, id);
    vr_buf_addf(out, ",\"function\":{\"index\":%zu,\"name\":", index);
    vr_json_add_string(out, name);
    ADD(out, ",\"arguments\":");
    add_arguments(out, arguments, n);
    ADD(out, "}}");
}

/* The calls of a whole answer. */
static void add_calls(struct vr_buf *out, const json_t *tools)
{
    ADD(out, ",\"tool_calls\":[");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *call = json_array_get(tools, i);
        VR_AUTO_BUF id = { 0 };
        VR_AUTO_BUF name = { 0 };
        VR_AUTO_BUF arguments = { 0 };
        vr_join_pieces(&id, json_object_get(call, "id"));
        vr_join_pieces(&name, json_object_get(call, "name"));
        vr_join_pieces(&arguments, json_object_get(call, "arguments"));
        if (i) ADD(out, ",");
        add_call(out, i, vr_buf_str(&id), vr_buf_str(&name), vr_buf_str(&arguments), arguments.n);
    }
    ADD(out, "]");
}

/* "message":{...}, or "response":"..." */
static void add_said(struct vr_buf *out, const struct vr_call *call, const char *text, size_t n, const char *thinking,
                     size_t n_thinking, const json_t *tools)
{
    if (is_chat(call))
        ADD(out, "\"message\":{\"role\":\"assistant\",\"content\":");
    else
        ADD(out, "\"response\":");
    vr_json_add_text(out, text, n);
    if (n_thinking) {
        ADD(out, ",\"thinking\":");
        vr_json_add_text(out, thinking, n_thinking);
    }
    if (tools) add_calls(out, tools);
    if (is_chat(call)) ADD(out, "}");
}

static void add_logprobs(struct vr_buf *out, const char *entries, size_t n)
{
    if (n == 0) return;
    ADD(out, ",\"logprobs\":[");
    vr_buf_add(out, entries, n);
    ADD(out, "]");
}

static void add_figures(struct vr_buf *out, const struct vr_call *call)
{
    const char *asked = json_string_value(json_object_get(call->memo, VR_MEMO_LOAD));
    const char *reason = asked ? asked : call->choices[0].reason == VR_END_LENGTH ? "length" : "stop";
    vr_buf_addf(out,
                ",\"done\":true,\"done_reason\":\"%s\",\"total_duration\":%" PRIu64
                ",\"load_duration\":0,\"prompt_eval_count\":%" PRIu32 ",\"prompt_eval_duration\":%.0f,"
                "\"eval_count\":%" PRIu32 ",\"eval_duration\":%.0f}\n",
                reason, (vr_now_us() - call->from_us) * 1000, call->prompt_tokens, (double)call->prompt_ms * 1e6,
                call->text_tokens, (double)call->text_ms * 1e6);
}

static void unloaded(struct vr_buf *out, const struct vr_dialect *d, const struct vr_served *m)
{
    begin_line(out, m);
    vr_buf_addf(out, "%s,\"done\":true,\"done_reason\":\"unload\"}\n",
                d == &vr_ollama_chat ? "\"message\":{\"role\":\"assistant\",\"content\":\"\"}" : "\"response\":\"\"");
}

/* --- streams --- */

static void open_block(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)out;
    (void)f;
    (void)call;
}

static void grow_block(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_said_piece *p)
{
    (void)f;
    if (p->what == VR_DELTA_TOOL) return;
    bool thinks = p->what == VR_DELTA_REASONING;
    begin_line(out, call->model);
    add_said(out, call, thinks ? "" : p->text, thinks ? 0 : p->n, thinks ? p->text : "", thinks ? p->n : 0, NULL);
    add_logprobs(out, p->logprobs, p->n_logprobs);
    ADD(out, ",\"done\":false}\n");
    vr_buf_clear(&call->choices[0].text);
}

static void close_block(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    const struct vr_buf *text = &call->choices[0].text;
    if (call->blocks.open - 1 != VR_DELTA_TOOL) return;
    begin_line(out, call->model);
    ADD(out, "\"message\":{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[");
    add_call(out, call->blocks.tool, call->blocks.id, call->blocks.name, vr_buf_str(text), text->n);
    ADD(out, "]},\"done\":false}\n");
}

static const struct vr_block_ops ops = { open_block, grow_block, close_block };

static void done(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    begin_line(out, call->model);
    add_said(out, call, "", 0, "", 0, NULL);
    add_figures(out, call);
}

static void error(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_told *e)
{
    (void)f;
    (void)call;
    ADD(out, "{\"error\":");
    vr_json_add_string(out, e->message);
    ADD(out, "}\n");
}

/* --- whole answers --- */

static void whole(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    struct vr_call_choice *c = &call->choices[0];
    begin_line(out, call->model);
    add_said(out, call, vr_buf_str(&c->text), c->text.n, vr_buf_str(&c->reasoning), c->reasoning.n, c->tools);
    add_logprobs(out, vr_buf_str(&c->logprobs), c->logprobs.n);
    add_figures(out, call);
    if (c->text.failed || c->reasoning.failed || c->logprobs.failed) out->failed = true;
}

static void add_result(struct vr_call *call, const struct vr_wire_result *r)
{
    if (call->body.n) ADD(&call->body, ",");
    vr_render_floats(&call->body, r);
}

static void add_only_result(struct vr_call *call, const struct vr_wire_result *r)
{
    if (call->body.n == 0) vr_render_floats(&call->body, r);
}

static void embed(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    vr_buf_addf(out, "{\"model\":%s,\"embeddings\":[", vr_buf_str(&call->model->id_json));
    vr_buf_add(out, vr_buf_str(&call->body), call->body.n);
    vr_buf_addf(out, "],\"total_duration\":%" PRIu64 ",\"load_duration\":0,\"prompt_eval_count\":%" PRIu32 "}\n",
                (vr_now_us() - call->from_us) * 1000, call->prompt_tokens);
    if (call->body.failed) out->failed = true;
}

static void embeddings(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    vr_buf_addf(out, "{\"embedding\":%s}\n", vr_buf_str(&call->body));
    if (call->body.failed) out->failed = true;
}

#define GENERATES(translator)                                                                                          \
    {                                                                                                                  \
        .kind = VR_CHAT, .stream_type = "application/x-ndjson", .unloaded = unloaded, .translate = (translator),       \
        .blocks = &ops, .delta = vr_blocks_delta, .finish = vr_blocks_finish, .done = done, .whole = whole,            \
        .error = error                                                                                                 \
    }
const struct vr_dialect vr_ollama_chat = GENERATES(vr_ollama_translate_chat);
const struct vr_dialect vr_ollama_generate = GENERATES(vr_ollama_translate_generate);
const struct vr_dialect vr_ollama_embed = {
    .kind = VR_EMBEDDING, .translate = vr_ollama_translate_embed, .whole = embed, .result = add_result
};
const struct vr_dialect vr_ollama_embeddings = {
    .kind = VR_EMBEDDING, .translate = vr_ollama_translate_embed, .whole = embeddings, .result = add_only_result
};
