/* Answers of llama.cpp's own API. */
#include "server/dialect/native.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "server/api/render.h"
#include "server/front.h"

#define ADD(out, literal) vr_buf_add(out, literal, sizeof literal - 1)

static bool wants(const struct vr_call *call, const char *what)
{
    return json_is_true(json_object_get(call->memo, what));
}

/* Ids of the tokens that entries ({"id":1,...},...) are about, with a comma before each but the first of all. */
static void add_ids(struct vr_buf *out, bool first, const char *entries, size_t n)
{
    VR_AUTO_BUF list = { 0 };
    vr_buf_addc(&list, '[', 1);
    vr_buf_add(&list, entries, n);
    vr_buf_addc(&list, ']', 1);
    json_t *all = list.failed ? NULL : json_loadb(list.data, list.n, JSON_ALLOW_NUL, NULL), *e;
    size_t i;
    json_array_foreach(all, i, e) vr_buf_addf(out, "%s%" JSON_INTEGER_FORMAT, first && i == 0 ? "" : ",",
                                              json_integer_value(json_object_get(e, "id")));
    json_decref(all);
}

enum { IDS, PROBS, N_COLUMNS };
_Static_assert((int)N_COLUMNS <= (int)VR_MOST_COLUMNS, "a column for each");

static void keep(struct vr_call *call, struct vr_call_choice *c, const char *entries, size_t n)
{
    struct vr_buf *ids = &c->columns[IDS], *probs = &c->columns[PROBS];
    if (n == 0) return;
    if (wants(call, VR_MEMO_TOKENS)) add_ids(ids, ids->n == 0, entries, n);
    if (!wants(call, VR_MEMO_PROBS)) return;
    if (probs->n) ADD(probs, ",");
    vr_buf_add(probs, entries, n);
}

static void add_piece_head(struct vr_buf *out, const struct vr_call *call, size_t choice, const char *text, size_t n)
{
    vr_buf_addf(out, "{\"index\":%zu,\"content\":", choice);
    vr_json_add_text(out, text, n);
    vr_buf_addf(out,
                ",\"id_slot\":%d,\"tokens_evaluated\":%" PRIu32 ",\"tokens\":", (int)call->choices[choice].slot - 1,
                call->prompt_tokens);
}

static void add_probs(struct vr_buf *out, const char *entries, size_t n)
{
    ADD(out, ",\"completion_probabilities\":[");
    vr_buf_add(out, entries, n);
    ADD(out, "]");
}

static void add_text_of(struct vr_buf *out, const json_t *v)
{
    if (json_is_string(v))
        vr_json_add_text(out, json_string_value(v), json_string_length(v));
    else
        ADD(out, "\"\"");
}

/* What the last piece, or a whole answer, tells beside the text. */
static void add_end(struct vr_buf *out, const struct vr_call *call, size_t choice, bool lines)
{
    const struct vr_call_choice *c = &call->choices[choice];
    const char *settings = json_string_value(json_object_get(call->memo, VR_MEMO_SETTINGS));
    const json_t *word = json_array_get(json_object_get(call->memo, VR_MEMO_NSTOPS), c->stop);
    vr_buf_addf(out,
                ",\"stop\":true,\"model\":%s,\"tokens_predicted\":%" PRIu32
                ",\"generation_settings\":%s,\"has_new_line\":%s,\"truncated\":false,\"stop_type\":\"%s\","
                "\"stopping_word\":",
                vr_buf_str(&call->model->id_json), c->text_tokens, settings ? settings : "{}", lines ? "true" : "false",
                c->reason == VR_END_LENGTH ? "limit"
                : c->stop != VR_NO_STOP    ? "word"
                                           : "eos");
    add_text_of(out, word);
    ADD(out, ",\"prompt\":");
    add_text_of(out, json_object_get(call->memo, VR_MEMO_PROMPT));
    vr_buf_addf(out, ",\"tokens_cached\":%" PRIu32, call->cached_tokens);
    vr_render_timings(out, call);
    ADD(out, "}");
}

/* What "timings/predicted_n" names in an answer; NULL: it is not there. */
static json_t *field_at(json_t *answer, const char *path)
{
    for (const char *end;; path = end + 1) {
        end = strchrnul(path, '/');
        answer = json_object_getn(answer, path, (size_t)(end - path));
        if (!answer || !*end) return answer;
    }
}

/* An answer; where only some fields of it are wanted, these, each under the name by which it was wanted. */
static void add_answer(struct vr_buf *out, const struct vr_call *call, const struct vr_buf *answer)
{
    const json_t *fields = json_object_get(call->memo, VR_MEMO_FIELDS), *name;
    if (answer->failed) out->failed = true;
    if (!fields || answer->failed) return vr_buf_add(out, vr_buf_str(answer), answer->n);
    json_t *all = json_loadb(answer->data, answer->n, JSON_ALLOW_NUL, NULL), *some = json_object(), *v;
    size_t i;
    json_array_foreach(fields, i, name)
    {
        const char *path = json_string_value(name);
        if ((v = field_at(all, path))) json_object_set(some, path, v);
    }
    VR_AUTO_FREE char *text = json_dumps(some, JSON_COMPACT);
    if (!all || !text) out->failed = true;
    if (text) vr_buf_adds(out, text);
    json_decref(all);
    json_decref(some);
}

static void delta(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_said_piece *p)
{
    (void)f;
    if (memchr(p->text, '\n', p->n)) call->choices[p->choice].role_sent = true; /* has_new_line */
    ADD(out, "data: ");
    add_piece_head(out, call, p->choice, p->text, p->n);
    ADD(out, "[");
    add_ids(out, true, p->logprobs, p->n_logprobs);
    ADD(out, "]");
    if (wants(call, VR_MEMO_PROBS)) add_probs(out, p->logprobs, p->n_logprobs);
    const struct vr_buf *timings = &call->choices[p->choice].timings;
    if (timings->n) vr_buf_addf(out, ",\"timings\":%s", vr_buf_str(timings));
    ADD(out, ",\"stop\":false}\n\n");
}

static void progress(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_said_piece *p)
{
    (void)f;
    ADD(out, "data: ");
    add_piece_head(out, call, p->choice, "", 0);
    ADD(out, "[],\"stop\":false,\"prompt_progress\":");
    vr_buf_add(out, p->text, p->n);
    ADD(out, "}\n\n");
}

static void finish(struct vr_buf *out, struct vr_front *f, struct vr_call *call, size_t choice)
{
    (void)f;
    VR_AUTO_BUF answer = { 0 };
    add_piece_head(&answer, call, choice, "", 0);
    ADD(&answer, "[]");
    add_end(&answer, call, choice, call->choices[choice].role_sent);
    ADD(out, "data: ");
    add_answer(out, call, &answer);
    ADD(out, "\n\n");
}

static void done(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)out;
    (void)f;
    (void)call;
}

static void whole(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    bool several = call->n_choices > 1;
    if (several) ADD(out, "[");
    for (size_t i = 0; i < call->n_choices; i++) {
        struct vr_call_choice *c = &call->choices[i];
        VR_AUTO_BUF answer = { 0 };
        if (i) ADD(out, ",");
        add_piece_head(&answer, call, i, vr_buf_str(&c->text), c->text.n);
        vr_buf_addf(&answer, "[%s]", vr_buf_str(&c->columns[IDS]));
        if (wants(call, VR_MEMO_PROBS)) add_probs(&answer, vr_buf_str(&c->columns[PROBS]), c->columns[PROBS].n);
        add_end(&answer, call, i, memchr(vr_buf_str(&c->text), '\n', c->text.n) != NULL);
        add_answer(out, call, &answer);
        if (c->text.failed || c->columns[IDS].failed || c->columns[PROBS].failed) out->failed = true;
    }
    if (several) ADD(out, "]");
    ADD(out, "\n");
}

/* --- the others --- */

static void add_row(struct vr_call *call, const struct vr_wire_result *r)
{
    vr_buf_addf(&call->body, "%s{\"index\":%" PRIu32 ",\"embedding\":[", call->body.n ? "," : "", r->index);
    vr_render_floats(&call->body, r);
    ADD(&call->body, "]}");
}

static void rows(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    vr_buf_addf(out, "[%s]\n", vr_buf_str(&call->body));
    if (call->body.failed) out->failed = true;
}

static void tokens(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    vr_buf_addf(out, "{\"tokens\":%s}\n", vr_buf_str(&call->choices[0].text)); /* JSON already */
    if (call->choices[0].text.failed) out->failed = true;
}

static void add_said(struct vr_buf *out, const struct vr_call *call, const char *key)
{
    vr_buf_addf(out, "{\"%s\":", key);
    vr_json_add_text(out, vr_buf_str(&call->choices[0].text), call->choices[0].text.n);
    ADD(out, "}\n");
    if (call->choices[0].text.failed) out->failed = true;
}

static void content(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    add_said(out, call, "content");
}

static void prompt(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    add_said(out, call, "prompt");
}

#define GENERATES(translator)                                                                                          \
    {                                                                                                                  \
        .kind = VR_COMPLETION, .ping = ": still here\n\n", .translate = (translator), .delta = delta,                  \
        .progress = progress, .finish = finish, .done = done, .whole = whole, .keep = keep, .error = vr_render_error   \
    }
const struct vr_dialect vr_native_completion = GENERATES(vr_native_translate_completion);
const struct vr_dialect vr_native_infill = GENERATES(vr_native_translate_infill);
const struct vr_dialect vr_native_embedding = {
    .kind = VR_EMBEDDING, .translate = vr_native_translate_embedding, .whole = rows, .result = add_row
};
const struct vr_dialect vr_native_tokenize = { .kind = VR_COMPLETION,
                                               .translate = vr_native_translate_tokenize,
                                               .whole = tokens };
const struct vr_dialect vr_native_detokenize = { .kind = VR_COMPLETION,
                                                 .translate = vr_native_translate_detokenize,
                                                 .whole = content };
const struct vr_dialect vr_native_template = { .kind = VR_CHAT,
                                               .translate = vr_native_translate_template,
                                               .whole = prompt };
const struct vr_dialect vr_native_count = { .kind = VR_CHAT,
                                            .translate = vr_native_translate_count,
                                            .whole = vr_render_count };
