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
};

static void add_envelope(struct vr_buf *out, const struct vr_front *f, const struct vr_call *call, const char *object)
{
    vr_buf_addf(
        out, "{\"id\":\"%s-%s\",\"object\":\"%s\",\"created\":%" PRId64 ",\"model\":%s,\"system_fingerprint\":\"%s\",",
        shapes[call->kind].id, call->conn->id, object, call->created, vr_buf_str(&f->model_json), f->fingerprint);
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

/* --- logprobs --- */

static size_t count_characters(const char *s, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) k += ((unsigned char)s[i] & 0xC0) != 0x80;
    return k;
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
        json_array_append(values, json_object_get(entry, "logprob"));
        json_array_append_new(offsets, json_integer(c->text_offset));
        c->text_offset += (uint32_t)count_characters(json_string_value(token), json_string_length(token));
        json_array_foreach(json_object_get(entry, "top_logprobs"), k, top)
        {
            const char *key = json_string_value(json_object_get(top, "token"));
            if (key) json_object_set(best, key, json_object_get(top, "logprob"));
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

static void add_logprobs(struct vr_buf *out, struct vr_call *call, struct vr_call_choice *c, const char *entries,
                         size_t n)
{
    ADD(out, "\"logprobs\":");
    if (n == 0) {
        ADD(out, "null");
    } else if (call->kind == VR_CHAT) {
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

void vr_render_prefix(struct vr_buf *out, const struct vr_front *f, const struct vr_call *call)
{
    ADD(out, "data: ");
    add_envelope(out, f, call, shapes[call->kind].chunk);
    ADD(out, "\"choices\":[{\"index\":");
}

static void end_event(struct vr_buf *out, const struct vr_call *call)
{
    if (call->usage)
        ADD(out, "}],\"usage\":null}\n\n");
    else
        ADD(out, "}]}\n\n");
}

static void add_role(struct vr_buf *out, struct vr_call *call, size_t choice)
{
    vr_buf_add(out, call->body.data, call->body.n);
    add_number(out, choice);
    ADD(out, ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null");
    end_event(out, call);
}

void vr_render_delta(struct vr_buf *out, struct vr_call *call, size_t choice, enum vr_delta what, const char *text,
                     size_t n, const char *logprobs, size_t n_logprobs)
{
    struct vr_call_choice *c = &call->choices[choice];
    if (call->kind == VR_CHAT && !c->role_sent) {
        add_role(out, call, choice);
        c->role_sent = true;
    }
    vr_buf_add(out, call->body.data, call->body.n);
    add_number(out, choice);
    if (call->kind == VR_COMPLETION) {
        ADD(out, ",\"text\":");
        vr_json_add_text(out, text, n);
        ADD(out, ",");
    } else if (what == VR_DELTA_TOOL) {
        ADD(out, ",\"delta\":{\"tool_calls\":[");
        vr_buf_add(out, text, n);
        ADD(out, "]},");
    } else {
        if (what == VR_DELTA_REASONING)
            ADD(out, ",\"delta\":{\"reasoning_content\":");
        else
            ADD(out, ",\"delta\":{\"content\":");
        vr_json_add_text(out, text, n);
        ADD(out, "},");
    }
    add_logprobs(out, call, c, logprobs, n_logprobs);
    ADD(out, ",\"finish_reason\":null");
    end_event(out, call);
}

void vr_render_finish(struct vr_buf *out, struct vr_call *call, size_t choice)
{
    struct vr_call_choice *c = &call->choices[choice];
    if (call->kind == VR_CHAT && !c->role_sent) add_role(out, call, choice);
    c->role_sent = true;
    vr_buf_add(out, call->body.data, call->body.n);
    add_number(out, choice);
    if (call->kind == VR_CHAT)
        ADD(out, ",\"delta\":{},");
    else
        ADD(out, ",\"text\":\"\",");
    vr_buf_addf(out, "\"logprobs\":null,\"finish_reason\":\"%s\"", vr_end_name(c->reason));
    end_event(out, call);
}

void vr_render_done(struct vr_buf *out, const struct vr_front *f, const struct vr_call *call)
{
    if (call->usage) {
        ADD(out, "data: ");
        add_envelope(out, f, call, shapes[call->kind].chunk);
        ADD(out, "\"choices\":[],");
        add_usage(out, call);
        ADD(out, "}\n\n");
    }
    ADD(out, "data: [DONE]\n\n");
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
        if (json_dump_callback(c->tools, add_piece, out, JSON_COMPACT) != 0) out->failed = true;
    }
    ADD(out, "},");
}

void vr_render_whole(struct vr_buf *out, const struct vr_front *f, struct vr_call *call)
{
    add_envelope(out, f, call, shapes[call->kind].whole);
    ADD(out, "\"choices\":[");
    for (size_t i = 0; i < call->n_choices; i++) {
        struct vr_call_choice *c = &call->choices[i];
        if (i) ADD(out, ",");
        ADD(out, "{\"index\":");
        add_number(out, i);
        ADD(out, ",");
        if (call->kind == VR_CHAT) {
            add_message(out, c);
        } else {
            ADD(out, "\"text\":");
            vr_json_add_text(out, vr_buf_str(&c->text), c->text.n);
            ADD(out, ",");
        }
        add_logprobs(out, call, c, vr_buf_str(&c->logprobs), c->logprobs.n);
        vr_buf_addf(out, ",\"finish_reason\":\"%s\"}", vr_end_name(c->reason));
        if (c->text.failed || c->reasoning.failed || c->logprobs.failed) out->failed = true;
    }
    ADD(out, "],");
    add_usage(out, call);
    ADD(out, "}\n");
}

/* --- tool calls --- */

/* Appends the delta's piece to the string `key` of the call so far. */
static bool append_string(json_t *into, const json_t *from, const char *key)
{
    json_t *piece = json_object_get(from, key), *old = json_object_get(into, key);
    if (!piece) return true;
    if (!json_is_string(piece)) return false;
    VR_AUTO_BUF all = { 0 };
    if (old) vr_buf_add(&all, json_string_value(old), json_string_length(old));
    vr_buf_add(&all, json_string_value(piece), json_string_length(piece));
    return !all.failed && json_object_set_new(into, key, json_stringn(vr_buf_str(&all), all.n)) == 0;
}

bool vr_merge_tool(struct vr_call_choice *c, const char *json, size_t n)
{
    json_t *delta = json_loadb(json, n, JSON_ALLOW_NUL, NULL), *function = json_object_get(delta, "function");
    json_t *index = json_object_get(delta, "index");
    size_t i = (size_t)json_integer_value(index);
    if (!c->tools) c->tools = json_array();
    bool ok = json_is_integer(index) && i <= json_array_size(c->tools) && i < MAX_TOOL_CALLS;
    if (ok && i == json_array_size(c->tools))
        ok = json_array_append_new(c->tools, json_pack("{s:s,s:s,s:{s:s,s:s}}", "id", "", "type", "function",
                                                       "function", "name", "", "arguments", "")) == 0;
    json_t *call = ok ? json_array_get(c->tools, i) : NULL, *into = json_object_get(call, "function");
    ok = ok && append_string(call, delta, "id") &&
         (!function || (append_string(into, function, "name") && append_string(into, function, "arguments")));
    json_decref(delta);
    return ok;
}

/* --- embeddings --- */

/* In pieces, since OpenSSL counts in int; 48 bytes have no remainder to pad but the last. */
static void add_base64(struct vr_buf *out, const uint8_t *data, size_t n)
{
    unsigned char text[64 + 1];
    for (size_t i = 0; i < n; i += 48)
        vr_buf_add(out, text, (size_t)EVP_EncodeBlock(text, data + i, n - i < 48 ? (int)(n - i) : 48));
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
    ADD(out, "]}");
}

void vr_render_embeddings(struct vr_buf *out, const struct vr_front *f, struct vr_call *call)
{
    if (call->body.failed) out->failed = true;
    ADD(out, "{\"object\":\"list\",\"data\":[");
    vr_buf_add(out, vr_buf_str(&call->body), call->body.n);
    vr_buf_addf(out, "],\"model\":%s,\"usage\":{\"prompt_tokens\":%" PRIu32 ",\"total_tokens\":%" PRIu32 "}}\n",
                vr_buf_str(&f->model_json), call->prompt_tokens, call->prompt_tokens);
}
