/* Answers of /v1/responses. An item is opened, grows and is closed; each step is an event, or several, and what is
 * closed is kept for the response as a whole, which the last event repeats. */
#include "server/dialect/responses.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "server/api/render.h"
#include "server/dialect/answer_blocks.h"
#include "server/front.h"

#define ADD(out, literal) vr_buf_add(out, literal, sizeof literal - 1)

static const char *memo_text(const struct vr_call *call, const char *key)
{
    const char *s = json_string_value(json_object_get(call->memo, key));
    return s ? s : "";
}

static bool summarizes(const struct vr_call *call)
{
    return json_is_true(json_object_get(call->memo, VR_MEMO_SUMMARY));
}

static bool is_custom(const struct vr_call *call)
{
    const json_t *names = json_object_get(call->memo, VR_MEMO_CUSTOM);
    for (size_t i = 0; i < json_array_size(names); i++)
        if (strcmp(json_string_value(json_array_get(names, i)), call->blocks.name) == 0) return true;
    return false;
}

/* --- pieces of JSON --- */

/* event: X, data: {"type":"X","sequence_number":N */
static void event(struct vr_buf *out, struct vr_call *call, const char *type)
{
    vr_buf_addf(out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%" PRIu32, type, type,
                call->blocks.sequence++);
}

static void end_event(struct vr_buf *out) { ADD(out, "}\n\n"); }

/* How fast it goes, where that was asked for. */
static void add_timings(struct vr_buf *out, const struct vr_call *call)
{
    const struct vr_buf *timings = &call->choices[0].timings;
    if (timings->n) vr_buf_addf(out, ",\"timings\":%s", vr_buf_str(timings));
}

static void add_item_id(struct vr_buf *out, const struct vr_call *call)
{
    static const char *const names[] = { [VR_DELTA_TEXT] = "msg", [VR_DELTA_REASONING] = "rs", [VR_DELTA_TOOL] = "fc" };
    vr_buf_addf(out, "\"%s_%s_%" PRIu32 "\"", names[call->blocks.open - 1], memo_text(call, VR_MEMO_ID),
                call->blocks.index);
}

/* ,"item_id":..,"output_index":N */
static void add_place(struct vr_buf *out, const struct vr_call *call)
{
    ADD(out, ",\"item_id\":");
    add_item_id(out, call);
    vr_buf_addf(out, ",\"output_index\":%" PRIu32, call->blocks.index);
}

static void add_text(struct vr_buf *out, const struct vr_call *call)
{
    vr_json_add_text(out, vr_buf_str(&call->choices[0].text), call->choices[0].text.n);
}

static void add_part(struct vr_buf *out, const struct vr_call *call, bool done)
{
    switch (call->blocks.open - 1) {
    case VR_DELTA_REASONING:
        vr_buf_addf(out, "{\"type\":\"%s\",\"text\":", summarizes(call) ? "summary_text" : "reasoning_text");
        break;
    default: ADD(out, "{\"type\":\"output_text\",\"annotations\":[],\"text\":");
    }
    if (done)
        add_text(out, call);
    else
        ADD(out, "\"\"");
    if (call->blocks.open - 1 == VR_DELTA_TEXT) {
        ADD(out, ",\"logprobs\":[");
        if (done) vr_buf_add(out, vr_buf_str(&call->choices[0].logprobs), call->choices[0].logprobs.n);
        ADD(out, "]");
    }
    ADD(out, "}");
}

/* {"input":"..."} -> the text; what is not that as it is. */
static void add_custom_input(struct vr_buf *out, const struct vr_call *call)
{
    const struct vr_buf *text = &call->choices[0].text;
    json_t *arguments = json_loadb(vr_buf_str(text), text->n, JSON_ALLOW_NUL, NULL);
    const json_t *input = json_object_get(arguments, "input");
    if (json_is_string(input))
        vr_json_add_text(out, json_string_value(input), json_string_length(input));
    else
        add_text(out, call);
    json_decref(arguments);
}

static void add_call_item(struct vr_buf *out, const struct vr_call *call, bool done)
{
    bool custom = is_custom(call);
    vr_buf_addf(out, "\"type\":\"%s\",\"call_id\":", custom ? "custom_tool_call" : "function_call");
    vr_json_add_string(out, call->blocks.id);
    ADD(out, ",\"name\":");
    vr_json_add_string(out, call->blocks.name);
    vr_buf_addf(out, ",\"%s\":", custom ? "input" : "arguments");
    if (!done)
        ADD(out, "\"\"");
    else if (custom)
        add_custom_input(out, call);
    else
        add_text(out, call);
}

static void add_item(struct vr_buf *out, const struct vr_call *call, bool done)
{
    const char *status = !done ? "in_progress" : call->choices[0].reason == VR_END_LENGTH ? "incomplete" : "completed";
    ADD(out, "{\"id\":");
    add_item_id(out, call);
    vr_buf_addf(out, ",\"status\":\"%s\",", status);
    switch (call->blocks.open - 1) {
    case VR_DELTA_TOOL: add_call_item(out, call, done); break;
    case VR_DELTA_REASONING:
        vr_buf_addf(out, "\"type\":\"reasoning\",\"%s\":[],\"%s\":[", summarizes(call) ? "content" : "summary",
                    summarizes(call) ? "summary" : "content");
        if (done) add_part(out, call, true);
        ADD(out, "],\"encrypted_content\":null");
        break;
    default:
        ADD(out, "\"type\":\"message\",\"role\":\"assistant\",\"content\":[");
        if (done) add_part(out, call, true);
        ADD(out, "]");
    }
    ADD(out, "}");
}

/* --- the steps of an item --- */

/* The names of a kind's events. */
static const struct names {
    const char *part_added, *part_done, *delta, *text_done, *index;
} all_names[] = {
    { "response.content_part.added", "response.content_part.done", "response.output_text.delta",
      "response.output_text.done", "content_index" },
    { "response.content_part.added", "response.content_part.done", "response.reasoning_text.delta",
      "response.reasoning_text.done", "content_index" },
    { "response.reasoning_summary_part.added", "response.reasoning_summary_part.done",
      "response.reasoning_summary_text.delta", "response.reasoning_summary_text.done", "summary_index" },
};

static const struct names *names_of(const struct vr_call *call)
{
    if (call->blocks.open - 1 == VR_DELTA_TEXT) return &all_names[0];
    return summarizes(call) ? &all_names[2] : &all_names[1];
}

static void open_item(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    if (!out) return;
    event(out, call, "response.output_item.added");
    vr_buf_addf(out, ",\"output_index\":%" PRIu32 ",\"item\":", call->blocks.index);
    add_item(out, call, false);
    end_event(out);
    if (call->blocks.open - 1 == VR_DELTA_TOOL) return;
    event(out, call, names_of(call)->part_added);
    add_place(out, call);
    vr_buf_addf(out, ",\"%s\":0,\"part\":", names_of(call)->index);
    add_part(out, call, false);
    end_event(out);
}

static void grow_item(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_said_piece *p)
{
    (void)f;
    bool tool = call->blocks.open - 1 == VR_DELTA_TOOL;
    if (!out || (tool && is_custom(call))) return;
    event(out, call, tool ? "response.function_call_arguments.delta" : names_of(call)->delta);
    add_place(out, call);
    if (!tool) vr_buf_addf(out, ",\"%s\":0", names_of(call)->index);
    ADD(out, ",\"delta\":");
    vr_json_add_text(out, p->text, p->n);
    if (p->what == VR_DELTA_TEXT) {
        ADD(out, ",\"logprobs\":[");
        vr_buf_add(out, p->logprobs, p->n_logprobs);
        ADD(out, "]");
    }
    add_timings(out, call);
    end_event(out);
}

static void close_text(struct vr_buf *out, struct vr_call *call)
{
    event(out, call, names_of(call)->text_done);
    add_place(out, call);
    vr_buf_addf(out, ",\"%s\":0,\"text\":", names_of(call)->index);
    add_text(out, call);
    if (call->blocks.open - 1 == VR_DELTA_TEXT) {
        ADD(out, ",\"logprobs\":[");
        vr_buf_add(out, vr_buf_str(&call->choices[0].logprobs), call->choices[0].logprobs.n);
        ADD(out, "]");
    }
    end_event(out);
    event(out, call, names_of(call)->part_done);
    add_place(out, call);
    vr_buf_addf(out, ",\"%s\":0,\"part\":", names_of(call)->index);
    add_part(out, call, true);
    end_event(out);
}

static void close_call(struct vr_buf *out, struct vr_call *call)
{
    bool custom = is_custom(call);
    if (custom) { /* its text is JSON until it is whole */
        event(out, call, "response.custom_tool_call_input.delta");
        add_place(out, call);
        ADD(out, ",\"delta\":");
        add_custom_input(out, call);
        end_event(out);
    }
    event(out, call, custom ? "response.custom_tool_call_input.done" : "response.function_call_arguments.done");
    add_place(out, call);
    ADD(out, ",\"name\":");
    vr_json_add_string(out, call->blocks.name);
    vr_buf_addf(out, ",\"%s\":", custom ? "input" : "arguments");
    if (custom)
        add_custom_input(out, call);
    else
        add_text(out, call);
    end_event(out);
}

static void close_item(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    if (call->body.n) vr_buf_addc(&call->body, ',', 1);
    size_t from = call->body.n;
    add_item(&call->body, call, true);
    if (call->choices[0].text.failed) call->body.failed = true;
    if (!out) return;
    if (call->blocks.open - 1 == VR_DELTA_TOOL)
        close_call(out, call);
    else
        close_text(out, call);
    event(out, call, "response.output_item.done");
    vr_buf_addf(out, ",\"output_index\":%" PRIu32 ",\"item\":", call->blocks.index);
    if (!call->body.failed) vr_buf_add(out, call->body.data + from, call->body.n - from);
    end_event(out);
}

static const struct vr_block_ops ops = { open_item, grow_item, close_item };

/* --- the response --- */

static void add_usage(struct vr_buf *out, const struct vr_call *call)
{
    vr_buf_addf(out,
                "{\"input_tokens\":%" PRIu32 ",\"input_tokens_details\":{\"cached_tokens\":%" PRIu32
                "},\"output_tokens\":%" PRIu32 ",\"output_tokens_details\":{\"reasoning_tokens\":%" PRIu32
                "},\"total_tokens\":%" PRIu64 "}",
                call->prompt_tokens, call->cached_tokens, call->text_tokens, call->reasoning_tokens,
                (uint64_t)call->prompt_tokens + call->text_tokens);
}

/* `e`: why it failed; NULL: it did not. */
static void add_response(struct vr_buf *out, const struct vr_call *call, const char *status, const struct vr_told *e)
{
    bool ended = strcmp(status, "in_progress") != 0;
    vr_buf_addf(out,
                "{\"id\":\"resp_%s\",\"object\":\"response\",\"created_at\":%" PRId64 ",\"status\":\"%s\",\"error\":",
                memo_text(call, VR_MEMO_ID), call->created, status);
    if (e) {
        vr_buf_addf(out, "{\"code\":\"%s\",\"message\":", e->code ? e->code : "server_error");
        vr_json_add_string(out, e->message);
        ADD(out, "}");
    } else {
        ADD(out, "null");
    }
    vr_buf_addf(out, ",\"incomplete_details\":%s,\"model\":%s,\"output\":[",
                strcmp(status, "incomplete") == 0 ? "{\"reason\":\"max_output_tokens\"}" : "null",
                vr_buf_str(&call->model->id_json));
    if (ended) vr_buf_add(out, vr_buf_str(&call->body), call->body.n);
    ADD(out, "],\"usage\":");
    if (ended && !e)
        add_usage(out, call);
    else
        ADD(out, "null");
    vr_buf_addf(out, ",\"store\":%s,%s}", json_object_get(call->memo, VR_MEMO_ITEMS) ? "true" : "false",
                memo_text(call, VR_MEMO_ECHO));
    if (call->body.failed) out->failed = true;
}

static const char *status_of(const struct vr_call *call)
{
    return call->choices[0].reason == VR_END_LENGTH ? "incomplete" : "completed";
}

static void keep(struct vr_front *f, struct vr_call *call, const char *response, size_t n)
{
    const json_t *items = json_object_get(call->memo, VR_MEMO_ITEMS);
    char id[64];
    if (!items) return;
    VR_AUTO_BUF all = { 0 };
    snprintf(id, sizeof id, "resp_%s", memo_text(call, VR_MEMO_ID));
    vr_buf_add(&all, json_string_value(items), json_string_length(items));
    if (all.n && call->body.n) vr_buf_addc(&all, ',', 1);
    vr_buf_add(&all, vr_buf_str(&call->body), call->body.n);
    struct vr_stored_owner owner = { (unsigned)json_integer_value(json_object_get(call->memo, VR_MEMO_KEY)),
                                     (uint64_t)json_integer_value(json_object_get(call->memo, VR_MEMO_CLIENT)) };
    if (all.failed || !vr_responses_put(f->responses, &owner, id, vr_buf_str(&all), all.n, response, n))
        vr_log(VR_DEBUG, "a response was not stored: there is no room for it");
}

static void add_step(struct vr_buf *out, struct vr_call *call, const char *type)
{
    event(out, call, type);
    ADD(out, ",\"response\":");
    add_response(out, call, "in_progress", NULL);
}

static void begin(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    add_step(out, call, "response.created");
    end_event(out);
    add_step(out, call, "response.in_progress");
    end_event(out);
}

static void progress(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_said_piece *p)
{
    (void)f;
    add_step(out, call, "response.in_progress");
    ADD(out, ",\"prompt_progress\":");
    vr_buf_add(out, p->text, p->n);
    end_event(out);
}

static void whole(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    add_response(out, call, status_of(call), NULL);
    if (!out->failed) keep(f, call, vr_buf_str(out), out->n);
    ADD(out, "\n");
}

static void done(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    char type[40];
    snprintf(type, sizeof type, "response.%s", status_of(call));
    event(out, call, type);
    ADD(out, ",\"response\":");
    size_t from = out->n;
    add_response(out, call, status_of(call), NULL);
    if (!out->failed) keep(f, call, out->data + from, out->n - from);
    add_timings(out, call);
    end_event(out);
}

static void error(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_told *e)
{
    (void)f;
    event(out, call, "error");
    vr_buf_addf(out, ",\"code\":\"%s\",\"param\":null,\"message\":", e->code ? e->code : "server_error");
    vr_json_add_string(out, e->message);
    end_event(out);
    event(out, call, "response.failed");
    ADD(out, ",\"response\":");
    add_response(out, call, "failed", e);
    end_event(out);
}

const struct vr_dialect vr_responses_create = { .kind = VR_CHAT,
                                                .ping = ": still here\n\n",
                                                .in_pieces = true,
                                                .translate = vr_responses_translate,
                                                .begin = begin,
                                                .blocks = &ops,
                                                .delta = vr_blocks_delta,
                                                .progress = progress,
                                                .finish = vr_blocks_finish,
                                                .done = done,
                                                .whole = whole,
                                                .error = error };
/* The tokens of a request; whether it would be a stream does not matter. */
const struct vr_dialect vr_responses_count = { .kind = VR_CHAT,
                                               .translate = vr_responses_translate_count,
                                               .whole = vr_render_count };
