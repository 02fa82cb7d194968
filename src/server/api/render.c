#include "server/api/render.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/json.h"
#include "server/front.h"

#define MAX_TOOL_CALLS 128

static void add_number(struct vr_buf *out, uint64_t n)
{
    char digits[24], *at = digits + sizeof digits;
    do *--at = (char)('0' + n % 10);
    while (n /= 10);
    vr_buf_add(out, at, (size_t)(digits + sizeof digits - at));
}

#define ADD(out, literal) vr_buf_add(out, literal, sizeof literal - 1)

/* --- what all answers begin with --- */

static const struct shape {
    const char *id, *chunk, *whole;
} shapes[] = {
    [VR_CHAT] = { "chatcmpl", "chat.completion.chunk", "chat.completion" },
    [VR_COMPLETION] = { "cmpl", "text_completion", "text_completion" },
    [VR_EMBEDDING] = { "embd", "list", "list" },
    [VR_RERANK] = { "rerank", "list", "list" },
};

static void add_envelope(struct vr_buf *out, const struct vr_call *call, const char *object)
{
    vr_buf_addf(
        out, "{\"id\":\"%s-%s\",\"object\":\"%s\",\"created\":%" PRId64 ",\"model\":%s,\"system_fingerprint\":\"%s\",",
        shapes[call->dialect->kind].id, call->conn->id, object, call->created, vr_buf_str(&call->model->id_json),
        call->model->fingerprint);
}

static void add_usage(struct vr_buf *out, const struct vr_call *call)
{
    vr_buf_addf(out,
                "\"usage\":{\"prompt_tokens\":%" PRIu32 ",\"completion_tokens\":%" PRIu32 ",\"total_tokens\":%" PRIu64
                ",\"prompt_tokens_details\":{\"cached_tokens\":%" PRIu32
                "},\"completion_tokens_details\":{\"reasoning_tokens\":%" PRIu32,
                call->prompt_tokens, call->text_tokens, (uint64_t)call->prompt_tokens + call->text_tokens,
                call->cached_tokens, call->reasoning_tokens);
    if (call->drafted_tokens)
        vr_buf_addf(out, ",\"accepted_prediction_tokens\":%" PRIu32 ",\"rejected_prediction_tokens\":%" PRIu32,
                    call->accepted_tokens, call->drafted_tokens - call->accepted_tokens);
    vr_buf_adds(out, "}}");
}

static double per(double a, double b) { return b > 0 ? a / b : 0; }

void vr_render_timings(struct vr_buf *out, const struct vr_call *call)
{
    uint32_t cached = call->cached_tokens < call->prompt_tokens ? call->cached_tokens : call->prompt_tokens;
    double prompt = call->prompt_tokens - cached, text = call->text_tokens;
    double prompt_ms = (double)call->prompt_ms, text_ms = (double)call->text_ms;
    vr_buf_addf(out,
                ",\"timings\":{\"cache_n\":%" PRIu32
                ",\"prompt_n\":%.0f,\"prompt_ms\":%.3f,\"prompt_per_token_ms\":%.3f,"
                "\"prompt_per_second\":%.3f,\"predicted_n\":%.0f,\"predicted_ms\":%.3f,\"predicted_per_token_ms\":%.3f,"
                "\"predicted_per_second\":%.3f",
                cached, prompt, prompt_ms, per(prompt_ms, prompt), per(prompt * 1e3, prompt_ms), text, text_ms,
                per(text_ms, text), per(text * 1e3, text_ms));
    if (call->drafted_tokens)
        vr_buf_addf(out, ",\"draft_n\":%" PRIu32 ",\"draft_n_accepted\":%" PRIu32, call->drafted_tokens,
                    call->accepted_tokens);
    ADD(out, "}");
}

/* Who wished for a slot is told which it was. */
static void add_slot(struct vr_buf *out, const struct vr_call *call)
{
    if (call->slot) vr_buf_addf(out, ",\"id_slot\":%d", (int)call->choices[0].slot - 1);
}

/* --- logprobs --- */

static size_t count_characters(const char *s, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) k += ((unsigned char)s[i] & 0xC0) != 0x80;
    return k;
}

/* An entry tells a probability instead where that after sampling was asked for. */
static json_t *logprob_of(const json_t *entry)
{
    const json_t *prob = json_object_get(entry, "prob");
    double p = json_number_value(prob);
    return prob ? json_real(p > 0 ? log(p) : -9999) : json_incref(json_object_get(entry, "logprob"));
}

static const json_t *top_of(const json_t *entry)
{
    const json_t *top = json_object_get(entry, "top_probs");
    return top ? top : json_object_get(entry, "top_logprobs");
}

/* The older form of /v1/completions, from the newer one's entries: four arrays side by side. */
static json_t *old_logprobs(struct vr_call_choice *c, const char *entries, size_t n)
{
    VR_AUTO_BUF text = { 0 };
    ADD(&text, "[");
    vr_buf_add(&text, entries, n);
    ADD(&text, "]");
    json_t *list = text.failed ? NULL : json_loadb(text.data, text.n, JSON_ALLOW_NUL, NULL), *entry, *top;
    json_t *tokens = json_array(), *values = json_array(), *tops = json_array(), *offsets = json_array();
    size_t i, k;
    json_array_foreach(list, i, entry)
    {
        json_t *token = json_object_get(entry, "token"), *best = json_object();
        json_array_append(tokens, token);
        json_array_append_new(values, logprob_of(entry));
        json_array_append_new(offsets, json_integer(c->text_offset));
        c->text_offset += (uint32_t)count_characters(json_string_value(token), json_string_length(token));
        json_array_foreach(top_of(entry), k, top)
        {
            const char *key = json_string_value(json_object_get(top, "token"));
            if (key) json_object_set_new(best, key, logprob_of(top));
        }
        json_array_append_new(tops, best);
    }
    json_decref(list);
    return json_pack("{s:o,s:o,s:o,s:o}", "tokens", tokens, "token_logprobs", values, "top_logprobs", tops,
                     "text_offset", offsets);
}

static int add_piece(const char *data, size_t n, void *out)
{
    vr_buf_add(out, data, n);
    return ((struct vr_buf *)out)->failed ? -1 : 0;
}

static const char *const old_names[] = { "tokens", "token_logprobs", "top_logprobs", "text_offset" };
_Static_assert(VR_COUNT(old_names) <= VR_MOST_COLUMNS, "a column for each array");

/* The arrays of a whole completion grow as its logprobs come. */
static void keep_old(struct vr_call *call, struct vr_call_choice *c, const char *entries, size_t n)
{
    (void)call;
    json_t *old = old_logprobs(c, entries, n);
    for (size_t k = 0; k < VR_COUNT(old_names); k++) {
        struct vr_buf *column = &c->columns[k];
        VR_AUTO_BUF list = { 0 };
        if (!old || json_dump_callback(json_object_get(old, old_names[k]), add_piece, &list, JSON_COMPACT) != 0)
            column->failed = true;
        if (list.n <= 2) continue;
        if (column->n) ADD(column, ",");
        vr_buf_add(column, list.data + 1, list.n - 2); /* without its brackets */
    }
    json_decref(old);
}

static void add_columns(struct vr_buf *out, const struct vr_call_choice *c)
{
    ADD(out, "\"logprobs\":");
    if (c->columns[0].n == 0) return ADD(out, "null");
    for (size_t k = 0; k < VR_COUNT(old_names); k++) {
        vr_buf_addf(out, "%s\"%s\":[", k ? "," : "{", old_names[k]);
        vr_buf_add(out, vr_buf_str(&c->columns[k]), c->columns[k].n);
        ADD(out, "]");
        if (c->columns[k].failed) out->failed = true;
    }
    ADD(out, "}");
}

static void add_logprobs(struct vr_buf *out, struct vr_call *call, struct vr_call_choice *c, const char *entries,
                         size_t n)
{
    ADD(out, "\"logprobs\":");
    if (n == 0) {
        ADD(out, "null");
    } else if (call->dialect->kind == VR_CHAT) {
        ADD(out, "{\"content\":[");
        vr_buf_add(out, entries, n);
        ADD(out, "],\"refusal\":null}");
    } else {
        json_t *tree = old_logprobs(c, entries, n);
        if (!tree || json_dump_callback(tree, add_piece, out, JSON_COMPACT) != 0) out->failed = true;
        json_decref(tree);
    }
}

/* --- events --- */

/* How every event of a call begins, up to the number of the choice, is made once. */
static void begin(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    (void)out;
    ADD(&call->body, "data: ");
    add_envelope(&call->body, call, shapes[call->dialect->kind].chunk);
    ADD(&call->body, "\"choices\":[{\"index\":");
}

/* `aside` is JSON that stands beside the choices, under a name; n == 0: none. */
static void end_event_with(struct vr_buf *out, const struct vr_call *call, const char *name, const char *aside,
                           size_t n)
{
    ADD(out, "}]");
    if (n) {
        vr_buf_addf(out, ",\"%s\":", name);
        vr_buf_add(out, aside, n);
    }
    if (call->usage)
        ADD(out, ",\"usage\":null}\n\n");
    else
        ADD(out, "}\n\n");
}

static void end_event(struct vr_buf *out, const struct vr_call *call, size_t choice)
{
    const struct vr_buf *timings = &call->choices[choice].timings;
    end_event_with(out, call, "timings", vr_buf_str(timings), timings->n);
}

static void add_role(struct vr_buf *out, struct vr_call *call, size_t choice)
{
    vr_buf_add(out, call->body.data, call->body.n);
    add_number(out, choice);
    ADD(out, ",\"delta\":{\"role\":\"assistant\",\"content\":null},\"logprobs\":null,\"finish_reason\":null");
    end_event_with(out, call, NULL, NULL, 0);
}

/* The first one of a choice tells the role before. */
static void delta(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_said_piece *p)
{
    (void)f;
    struct vr_call_choice *c = &call->choices[p->choice];
    if (call->dialect->kind == VR_CHAT && !c->role_sent) {
        add_role(out, call, p->choice);
        c->role_sent = true;
    }
    vr_buf_add(out, call->body.data, call->body.n);
    add_number(out, p->choice);
    if (call->dialect->kind == VR_COMPLETION) {
        ADD(out, ",\"text\":");
        vr_json_add_text(out, p->text, p->n);
        ADD(out, ",");
    } else if (p->what == VR_DELTA_TOOL) {
        ADD(out, ",\"delta\":{\"tool_calls\":[");
        vr_buf_add(out, p->text, p->n);
        ADD(out, "]},");
    } else {
        if (p->what == VR_DELTA_REASONING)
            ADD(out, ",\"delta\":{\"reasoning_content\":");
        else
            ADD(out, ",\"delta\":{\"content\":");
        vr_json_add_text(out, p->text, p->n);
        ADD(out, "},");
    }
    /* half a character that an answer ends with: its tokens were told when they came, with no text */
    if (call->logprobs && call->dialect->kind == VR_CHAT && p->what == VR_DELTA_TEXT && p->n_logprobs == 0)
        ADD(out, "\"logprobs\":{\"content\":[],\"refusal\":null}");
    else
        add_logprobs(out, call, c, p->logprobs, p->n_logprobs);
    ADD(out, ",\"finish_reason\":null");
    end_event(out, call, p->choice);
}

static void progress(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_said_piece *p)
{
    (void)f;
    struct vr_call_choice *c = &call->choices[p->choice];
    if (call->dialect->kind == VR_CHAT && !c->role_sent) add_role(out, call, p->choice);
    c->role_sent = true;
    vr_buf_add(out, call->body.data, call->body.n);
    add_number(out, p->choice);
    if (call->dialect->kind == VR_CHAT)
        ADD(out, ",\"delta\":{},");
    else
        ADD(out, ",\"text\":\"\",");
    ADD(out, "\"logprobs\":null,\"finish_reason\":null");
    end_event_with(out, call, "prompt_progress", p->text, p->n);
}

static void finish(struct vr_buf *out, struct vr_front *f, struct vr_call *call, size_t choice)
{
    (void)f;
    struct vr_call_choice *c = &call->choices[choice];
    if (call->dialect->kind == VR_CHAT && !c->role_sent) add_role(out, call, choice);
    c->role_sent = true;
    vr_buf_add(out, call->body.data, call->body.n);
    add_number(out, choice);
    if (call->dialect->kind == VR_CHAT)
        ADD(out, ",\"delta\":{},");
    else
        ADD(out, ",\"text\":\"\",");
    vr_buf_addf(out, "\"logprobs\":null,\"finish_reason\":\"%s\"", vr_end_name(c->reason));
    end_event(out, call, choice);
}

/* The usage, where it was asked for, and [DONE]. */
static void done(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    if (call->usage) {
        ADD(out, "data: ");
        add_envelope(out, call, shapes[call->dialect->kind].chunk);
        ADD(out, "\"choices\":[],");
        add_usage(out, call);
        vr_render_timings(out, call);
        add_slot(out, call);
        ADD(out, "}\n\n");
    }
    ADD(out, "data: [DONE]\n\n");
}

void vr_render_error(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_told *e)
{
    (void)f;
    (void)call;
    ADD(out, "data: {\"error\":");
    vr_error_json(out, e);
    ADD(out, "}\n\n");
}

void vr_render_count(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    vr_buf_addf(out, "{\"object\":\"response.input_tokens\",\"input_tokens\":%" PRIu32 "}\n", call->prompt_tokens);
}

/* --- whole answers --- */

static void add_message(struct vr_buf *out, struct vr_call_choice *c)
{
    ADD(out, "\"message\":{\"role\":\"assistant\",\"content\":");
    if (c->text.n || !c->tools)
        vr_json_add_text(out, vr_buf_str(&c->text), c->text.n);
    else
        ADD(out, "null");
    ADD(out, ",\"refusal\":null");
    if (c->reasoning.n) {
        ADD(out, ",\"reasoning_content\":");
        vr_json_add_text(out, c->reasoning.data, c->reasoning.n);
    }
    if (c->tools) {
        ADD(out, ",\"tool_calls\":");
        vr_render_tools(out, c);
    }
    ADD(out, "},");
}

static void whole(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    add_envelope(out, call, shapes[call->dialect->kind].whole);
    ADD(out, "\"choices\":[");
    for (size_t i = 0; i < call->n_choices; i++) {
        struct vr_call_choice *c = &call->choices[i];
        if (i) ADD(out, ",");
        ADD(out, "{\"index\":");
        add_number(out, i);
        ADD(out, ",");
        if (call->dialect->kind == VR_CHAT) {
            add_message(out, c);
        } else {
            ADD(out, "\"text\":");
            vr_json_add_text(out, vr_buf_str(&c->text), c->text.n);
            ADD(out, ",");
        }
        if (call->dialect->keep)
            add_columns(out, c);
        else
            add_logprobs(out, call, c, vr_buf_str(&c->logprobs), c->logprobs.n);
        vr_buf_addf(out, ",\"finish_reason\":\"%s\"}", vr_end_name(c->reason));
        if (c->text.failed || c->reasoning.failed || c->logprobs.failed) out->failed = true;
    }
    ADD(out, "],");
    add_usage(out, call);
    vr_render_timings(out, call);
    add_slot(out, call);
    ADD(out, "}\n");
}

/* --- tool calls --- */

/* Each string of a call is an array of its pieces until it is sent: an argument may be as long as the context, and
 * copying all of it for each piece would cost the square of that. */
static bool append_string(json_t *into, const json_t *from, const char *key)
{
    json_t *piece = json_object_get(from, key);
    if (!piece) return true;
    return json_is_string(piece) && json_array_append(json_object_get(into, key), piece) == 0;
}

bool vr_merge_tool(struct vr_call_choice *c, const char *json, size_t n)
{
    json_t *delta = json_loadb(json, n, JSON_ALLOW_NUL, NULL), *function = json_object_get(delta, "function");
    json_t *index = json_object_get(delta, "index");
    size_t i = (size_t)json_integer_value(index);
    if (!c->tools) c->tools = json_array();
    bool ok = json_is_integer(index) && i <= json_array_size(c->tools) && i < MAX_TOOL_CALLS;
    if (ok && i == json_array_size(c->tools))
        ok = json_array_append_new(c->tools, json_pack("{s:[],s:[],s:[]}", "id", "name", "arguments")) == 0;
    json_t *call = ok ? json_array_get(c->tools, i) : NULL;
    ok = ok && append_string(call, delta, "id") &&
         (!function || (append_string(call, function, "name") && append_string(call, function, "arguments")));
    json_decref(delta);
    return ok;
}

void vr_join_pieces(struct vr_buf *out, const json_t *pieces)
{
    for (size_t i = 0; i < json_array_size(pieces); i++) {
        const json_t *piece = json_array_get(pieces, i);
        vr_buf_add(out, json_string_value(piece), json_string_length(piece));
    }
}

static void add_joined(struct vr_buf *out, const json_t *pieces)
{
    VR_AUTO_BUF all = { 0 };
    vr_join_pieces(&all, pieces);
    vr_json_add_text(out, vr_buf_str(&all), all.n);
    if (all.failed) out->failed = true;
}

void vr_render_tools(struct vr_buf *out, const struct vr_call_choice *c)
{
    ADD(out, "[");
    for (size_t i = 0; i < json_array_size(c->tools); i++) {
        const json_t *call = json_array_get(c->tools, i);
        if (i) ADD(out, ",");
        ADD(out, "{\"id\":");
        add_joined(out, json_object_get(call, "id"));
        ADD(out, ",\"type\":\"function\",\"function\":{\"name\":");
        add_joined(out, json_object_get(call, "name"));
        ADD(out, ",\"arguments\":");
        add_joined(out, json_object_get(call, "arguments"));
        ADD(out, "}}");
    }
    ADD(out, "]");
}

/* --- embeddings --- */

/* In pieces, since OpenSSL counts in int; 48 bytes have no remainder to pad but the last. */
static void add_base64(struct vr_buf *out, const uint8_t *data, size_t n)
{
    unsigned char text[64 + 1];
    for (size_t i = 0; i < n; i += 48)
        vr_buf_add(out, text, (size_t)EVP_EncodeBlock(text, data + i, n - i < 48 ? (int)(n - i) : 48));
}

void vr_render_floats(struct vr_buf *out, const struct vr_wire_result *r)
{
    ADD(out, "[");
    for (uint32_t i = 0; i < r->n_dims; i++) {
        const uint8_t *p = r->floats + (size_t)i * 4;
        uint32_t bits = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        float x;
        memcpy(&x, &bits, sizeof x);
        char number[32];
        int n = snprintf(number, sizeof number, "%s%.9g", i ? "," : "", isfinite(x) ? (double)x : 0.0);
        vr_buf_add(out, number, (size_t)n);
    }
    ADD(out, "]");
}

void vr_render_embedding(struct vr_call *call, const struct vr_wire_result *r)
{
    struct vr_buf *out = &call->body;
    vr_buf_addf(out, "%s{\"object\":\"embedding\",\"index\":%" PRIu32 ",\"embedding\":", out->n ? "," : "", r->index);
    if (call->base64) { /* little-endian floats, as they came */
        ADD(out, "\"");
        add_base64(out, r->floats, (size_t)r->n_dims * 4);
        ADD(out, "\"}");
        return;
    }
    vr_render_floats(out, r);
    ADD(out, "}");
}

static void embeddings(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    if (call->body.failed) out->failed = true;
    ADD(out, "{\"object\":\"list\",\"data\":[");
    vr_buf_add(out, vr_buf_str(&call->body), call->body.n);
    vr_buf_addf(out, "],\"model\":%s,\"usage\":{\"prompt_tokens\":%" PRIu32 ",\"total_tokens\":%" PRIu32 "}}\n",
                vr_buf_str(&call->model->id_json), call->prompt_tokens, call->prompt_tokens);
}

#define PING ": still here\n\n"
const struct vr_dialect vr_openai_chat = { .kind = VR_CHAT,
                                           .ping = PING,
                                           .begin = begin,
                                           .delta = delta,
                                           .progress = progress,
                                           .finish = finish,
                                           .done = done,
                                           .whole = whole,
                                           .error = vr_render_error };
const struct vr_dialect vr_openai_completion = { .kind = VR_COMPLETION,
                                                 .ping = PING,
                                                 .begin = begin,
                                                 .delta = delta,
                                                 .keep = keep_old,
                                                 .progress = progress,
                                                 .finish = finish,
                                                 .done = done,
                                                 .whole = whole,
                                                 .error = vr_render_error };
const struct vr_dialect vr_openai_embedding = { .kind = VR_EMBEDDING,
                                                .whole = embeddings,
                                                .result = vr_render_embedding };
