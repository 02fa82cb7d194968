/* Answers of /v1/messages: content blocks, each begun, grown and ended by events; a whole answer keeps those that are
 * ended. */
#include "server/dialect/messages.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "server/dialect/answer_blocks.h"
#include "server/front.h"

#define ADD(out, literal) vr_buf_add(out, literal, sizeof literal - 1)

static void event(struct vr_buf *out, const char *type)
{
    vr_buf_addf(out, "event: %s\ndata: {\"type\":\"%s\"", type, type);
}

static void end_event(struct vr_buf *out) { ADD(out, "}\n\n"); }

static void add_usage(struct vr_buf *out, const struct vr_call *call)
{
    uint32_t cached = call->cached_tokens < call->prompt_tokens ? call->cached_tokens : call->prompt_tokens;
    vr_buf_addf(out,
                "\"usage\":{\"input_tokens\":%" PRIu32 ",\"cache_creation_input_tokens\":0,"
                "\"cache_read_input_tokens\":%" PRIu32 ",\"output_tokens\":%" PRIu32 "}",
                call->prompt_tokens - cached, cached, call->text_tokens);
}

/* "stop_reason":"end_turn","stop_sequence":null */
static void add_reason(struct vr_buf *out, const struct vr_call *call)
{
    const struct vr_call_choice *c = &call->choices[0];
    const json_t *stop = json_array_get(json_object_get(call->memo, VR_MEMO_STOPS), c->stop);
    const char *reason = c->reason == VR_END_LENGTH       ? "max_tokens"
                         : c->reason == VR_END_TOOL_CALLS ? "tool_use"
                         : json_is_string(stop)           ? "stop_sequence"
                                                          : "end_turn";
    vr_buf_addf(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", reason);
    if (strcmp(reason, "stop_sequence") == 0)
        vr_json_add_text(out, json_string_value(stop), json_string_length(stop));
    else
        ADD(out, "null");
}

static void add_message_head(struct vr_buf *out, const struct vr_call *call)
{
    vr_buf_addf(out, "{\"id\":\"msg_%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":%s,\"content\":[",
                call->conn->id, vr_buf_str(&call->model->id_json));
}

/* A call's arguments are an object; what the model wrote instead is one with its text. */
static void add_input(struct vr_buf *out, const struct vr_buf *text)
{
    json_t *input = json_loadb(vr_buf_str(text), text->n, JSON_ALLOW_NUL, NULL);
    VR_AUTO_FREE char *again = json_is_object(input) ? json_dumps(input, JSON_COMPACT) : NULL;
    json_decref(input);
    if (again) return vr_buf_adds(out, again);
    if (text->n == 0) return ADD(out, "{}");
    ADD(out, "{\"text\":");
    vr_json_add_text(out, text->data, text->n);
    ADD(out, "}");
}

/* The block that is open; `text` is what it holds, NULL: nothing yet. */
static void add_block(struct vr_buf *out, const struct vr_call *call, const struct vr_buf *text)
{
    const char *s = text ? vr_buf_str(text) : "";
    size_t n = text ? text->n : 0;
    switch (call->blocks.open - 1) {
    case VR_DELTA_TOOL:
        ADD(out, "{\"type\":\"tool_use\",\"id\":");
        vr_json_add_string(out, call->blocks.id);
        ADD(out, ",\"name\":");
        vr_json_add_string(out, call->blocks.name);
        ADD(out, ",\"input\":");
        if (text)
            add_input(out, text);
        else
            ADD(out, "{}");
        ADD(out, "}");
        break;
    case VR_DELTA_REASONING:
        ADD(out, "{\"type\":\"thinking\",\"thinking\":");
        vr_json_add_text(out, s, n);
        ADD(out, ",\"signature\":\"\"}");
        break;
    default:
        ADD(out, "{\"type\":\"text\",\"text\":");
        vr_json_add_text(out, s, n);
        ADD(out, "}");
    }
}

static void open_block(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    if (!out) return;
    event(out, "content_block_start");
    vr_buf_addf(out, ",\"index\":%" PRIu32 ",\"content_block\":", call->blocks.index);
    add_block(out, call, NULL);
    end_event(out);
}

static void add_delta(struct vr_buf *out, const struct vr_call *call, const char *type, const char *key,
                      const char *text, size_t n)
{
    event(out, "content_block_delta");
    vr_buf_addf(out, ",\"index\":%" PRIu32 ",\"delta\":{\"type\":\"%s\",\"%s\":", call->blocks.index, type, key);
    vr_json_add_text(out, text, n);
    ADD(out, "}");
    end_event(out);
}

static void grow_block(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_said_piece *p)
{
    (void)f;
    if (!out) return;
    switch (call->blocks.open - 1) {
    case VR_DELTA_TOOL: add_delta(out, call, "input_json_delta", "partial_json", p->text, p->n); break;
    case VR_DELTA_REASONING: add_delta(out, call, "thinking_delta", "thinking", p->text, p->n); break;
    default: add_delta(out, call, "text_delta", "text", p->text, p->n);
    }
    vr_buf_clear(&call->choices[0].text); /* nobody asks for it again */
}

static void close_block(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    if (!out) {
        if (call->body.n) vr_buf_addc(&call->body, ',', 1);
        add_block(&call->body, call, &call->choices[0].text);
        if (call->choices[0].text.failed) call->body.failed = true;
        return;
    }
    if (call->blocks.open - 1 == VR_DELTA_REASONING) add_delta(out, call, "signature_delta", "signature", "", 0);
    event(out, "content_block_stop");
    vr_buf_addf(out, ",\"index\":%" PRIu32, call->blocks.index);
    end_event(out);
}

static const struct vr_block_ops ops = { open_block, grow_block, close_block };

static void begin(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    event(out, "message_start");
    ADD(out, ",\"message\":");
    add_message_head(out, call);
    ADD(out, "],\"stop_reason\":null,\"stop_sequence\":null,");
    add_usage(out, call);
    ADD(out, "}");
    end_event(out);
}

static void done(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    event(out, "message_delta");
    ADD(out, ",\"delta\":{");
    add_reason(out, call);
    ADD(out, "},");
    add_usage(out, call);
    end_event(out);
    event(out, "message_stop");
    end_event(out);
}

static void whole(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    add_message_head(out, call);
    vr_buf_add(out, vr_buf_str(&call->body), call->body.n);
    ADD(out, "],");
    add_reason(out, call);
    ADD(out, ",");
    add_usage(out, call);
    ADD(out, "}\n");
    if (call->body.failed) out->failed = true;
}

static void error(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_told *e)
{
    (void)f;
    event(out, "error");
    vr_buf_addf(out, ",\"error\":{\"type\":\"%s\",\"message\":", vr_error_type_anthropic(e->status));
    vr_json_add_string(out, e->message);
    vr_buf_addf(out, "},\"request_id\":\"%s\"", call->conn->id);
    end_event(out);
}

static void count(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    vr_buf_addf(out, "{\"input_tokens\":%" PRIu32 "}\n", call->prompt_tokens);
}

const struct vr_dialect vr_messages_create = { .kind = VR_CHAT,
                                               .ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
                                               .in_pieces = true,
                                               .translate = vr_messages_translate,
                                               .begin = begin,
                                               .blocks = &ops,
                                               .delta = vr_blocks_delta,
                                               .finish = vr_blocks_finish,
                                               .done = done,
                                               .whole = whole,
                                               .error = error };
const struct vr_dialect vr_messages_count = { .kind = VR_CHAT,
                                              .translate = vr_messages_translate_count,
                                              .whole = count };
