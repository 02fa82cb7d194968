/* Answers of transcriptions: {"text", "usage"}, the text alone, or events. What a model thinks is not what was said. */
#include <inttypes.h>

#include "base/json.h"
#include "server/api/render.h"
#include "server/dialect/transcription.h"
#include "server/front.h"

#define ADD(out, literal) vr_buf_add(out, literal, sizeof literal - 1)

static void add_logprobs(struct vr_buf *out, const char *entries, size_t n)
{
    ADD(out, ",\"logprobs\":[");
    vr_buf_add(out, entries, n);
    ADD(out, "]");
}

static void add_usage(struct vr_buf *out, const struct vr_call *call)
{
    vr_buf_addf(out,
                ",\"usage\":{\"type\":\"tokens\",\"input_tokens\":%" PRIu32 ",\"output_tokens\":%" PRIu32
                ",\"total_tokens\":%" PRIu64 ",\"input_token_details\":{\"cached_tokens\":%" PRIu32 "}}",
                call->prompt_tokens, call->text_tokens, (uint64_t)call->prompt_tokens + call->text_tokens,
                call->cached_tokens);
}

/* The last event has all of the text once more. */
static void delta(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_said_piece *p)
{
    (void)f;
    if (p->what != VR_DELTA_TEXT) return;
    vr_buf_add(&call->choices[0].text, p->text, p->n);
    ADD(out, "data: {\"type\":\"transcript.text.delta\",\"delta\":");
    vr_json_add_text(out, p->text, p->n);
    if (call->logprobs) add_logprobs(out, p->logprobs, p->n_logprobs);
    ADD(out, "}\n\n");
}

static void done(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    const struct vr_buf *text = &call->choices[0].text;
    ADD(out, "data: {\"type\":\"transcript.text.done\",\"text\":");
    vr_json_add_text(out, vr_buf_str(text), text->n);
    add_usage(out, call);
    ADD(out, "}\n\ndata: [DONE]\n\n");
    if (text->failed) out->failed = true;
}

static void whole(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    const struct vr_call_choice *c = &call->choices[0];
    if (c->text.failed || c->logprobs.failed) out->failed = true;
    if (json_is_true(json_object_get(call->memo, VR_MEMO_PLAIN))) {
        call->type = "text/plain; charset=utf-8";
        vr_buf_add(out, vr_buf_str(&c->text), c->text.n);
        ADD(out, "\n");
        return;
    }
    ADD(out, "{\"text\":");
    vr_json_add_text(out, vr_buf_str(&c->text), c->text.n);
    if (call->logprobs) add_logprobs(out, vr_buf_str(&c->logprobs), c->logprobs.n);
    add_usage(out, call);
    ADD(out, "}\n");
}

#define SPEECH(translator)                                                                                             \
    {                                                                                                                  \
        .kind = VR_CHAT, .ping = ": still here\n\n", .parse = vr_form_parse, .translate = (translator),                \
        .delta = delta, .done = done, .whole = whole, .error = vr_render_error                                         \
    }
const struct vr_dialect vr_transcription = SPEECH(vr_transcription_translate);
const struct vr_dialect vr_audio_translation = SPEECH(vr_audio_translation_translate);
