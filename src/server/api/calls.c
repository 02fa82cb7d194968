#include "server/api/calls.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "server/front.h"
#include "server/api/render.h"

#define MAX_WHOLE      (64 << 20) /* bytes of one choice that is answered whole */
#define PING_MS        15000
#define EARLY_MS       5000  /* a stream that waits longer for its turn begins without it */
#define SCRATCH_SEND   16384 /* pieces for one stream are joined up to this */
#define SCRATCH_KEEP   (256 << 10)
#define MEASURE_TOKENS 8 /* fewer tell nothing about speed */

bool vr_calls_init(struct vr_calls *c)
{
    c->entries = calloc(VR_MAX_CALLS, sizeof *c->entries);
    c->generations = calloc(VR_MAX_CALLS, sizeof *c->generations);
    c->unused = calloc(VR_MAX_CALLS, sizeof *c->unused);
    if (!c->entries || !c->generations || !c->unused) return false;
    for (size_t i = 0; i < VR_MAX_CALLS; i++) c->unused[c->n_unused++] = (uint16_t)(VR_MAX_CALLS - 1 - i);
    return true;
}

static void call_free(struct vr_calls *all, struct vr_call *call)
{
    uint16_t entry = (uint16_t)(call->id & 0xffff);
    all->entries[entry] = NULL;
    all->generations[entry]++;
    all->unused[all->n_unused++] = entry;
    all->n--;
    all->n_texts -= call->n_choices;
    if (all->scratch_of == call) {
        all->scratch_of = NULL;
        vr_buf_clear(&all->scratch);
    }
    for (size_t i = 0; i < call->n_choices; i++) {
        struct vr_call_choice *c = &call->choices[i];
        vr_buf_done(&c->text);
        vr_buf_done(&c->reasoning);
        vr_buf_done(&c->logprobs);
        json_decref(c->tools);
    }
    vr_buf_done(&call->body);
    if (call->conn) call->conn->call = NULL;
    free(call);
}

void vr_calls_done(struct vr_calls *c)
{
    for (size_t i = 0; c->entries && i < VR_MAX_CALLS; i++)
        if (c->entries[i]) call_free(c, c->entries[i]);
    free(c->entries);
    free(c->generations);
    free(c->unused);
    vr_buf_done(&c->scratch);
    *c = (struct vr_calls){ 0 };
}

struct vr_call *vr_call_new(struct vr_front *f, struct vr_conn *conn, enum vr_request_kind kind, size_t n_choices)
{
    struct vr_calls *all = &f->calls;
    if (all->n_unused == 0) return NULL;
    struct vr_call *call = calloc(1, sizeof *call + n_choices * sizeof *call->choices);
    if (!call) return NULL;
    uint16_t entry = all->unused[--all->n_unused];
    all->entries[entry] = call;
    all->n++;
    all->n_texts += (unsigned)n_choices;
    call->id = (uint32_t)all->generations[entry] << 16 | entry;
    call->conn = conn;
    call->kind = (uint8_t)kind;
    call->n_choices = (uint16_t)n_choices;
    call->n_open = (uint16_t)n_choices;
    call->created = time(NULL);
    call->from_us = conn->from_us;
    call->heard_ms = vr_now_ms();
    conn->call = call;
    return call;
}

bool vr_call_send(struct vr_front *f, struct vr_call *call, const char *json, size_t n)
{
    if (vr_worker_send(f, VR_WIRE_REQUEST, call->id, json, n)) return true;
    call_free(&f->calls, call);
    return false;
}

static struct vr_call *find(struct vr_calls *all, uint32_t id)
{
    uint16_t entry = (uint16_t)(id & 0xffff);
    struct vr_call *call = entry < VR_MAX_CALLS ? all->entries[entry] : NULL;
    return call && call->id == id ? call : NULL;
}

/* --- streams --- */

static void send_scratch(struct vr_calls *all, bool last)
{
    struct vr_call *call = all->scratch_of;
    struct vr_buf *b = &all->scratch;
    vr_buf_addc(b, ' ', VR_CHUNK_TAIL); /* room behind */
    if (!b->failed)
        vr_stream_piece(call->conn, b->data + VR_CHUNK_ROOM, b->n - VR_CHUNK_ROOM - VR_CHUNK_TAIL, last);
    else if (last)
        vr_conn_done(call->conn);
    if (b->cap > SCRATCH_KEEP)
        vr_buf_done(b);
    else
        vr_buf_clear(b);
    all->scratch_of = NULL;
}

void vr_calls_flush(struct vr_front *f)
{
    if (f->calls.scratch_of) send_scratch(&f->calls, false);
}

/* The shared buffer, for further events of this call. */
static struct vr_buf *events_of(struct vr_front *f, struct vr_call *call)
{
    struct vr_calls *all = &f->calls;
    if (all->scratch_of && (all->scratch_of != call || all->scratch.n > SCRATCH_SEND)) send_scratch(all, false);
    if (!all->scratch_of) {
        all->scratch_of = call;
        vr_buf_addc(&all->scratch, ' ', VR_CHUNK_ROOM);
    }
    return &all->scratch;
}

static void begin_stream(struct vr_front *f, struct vr_call *call)
{
    if (call->conn->state == VR_CONN_STREAM) return;
    vr_render_prefix(&call->body, f, call);
    vr_stream_begin(call->conn, "text/event-stream; charset=utf-8");
}

/* In a stream with logprobs, text waits until its own have come. */
static void send_held(struct vr_front *f, struct vr_call *call, size_t choice, const char *logprobs, size_t n)
{
    struct vr_call_choice *c = &call->choices[choice];
    if (c->text.n == 0 && n == 0) return;
    vr_render_delta(events_of(f, call), call, choice, VR_DELTA_TEXT, vr_buf_str(&c->text), c->text.n, logprobs, n);
    vr_buf_clear(&c->text);
}

void vr_call_tick(struct vr_front *f, struct vr_call *call, uint64_t now)
{
    bool begun = call->conn->state == VR_CONN_STREAM;
    if (!call->stream || now - call->heard_ms < (begun ? PING_MS : EARLY_MS)) return;
    call->heard_ms = now;
    begin_stream(f, call);
    vr_buf_adds(events_of(f, call), ": still here\n\n");
    vr_calls_flush(f);
}

/* --- the end of a call --- */

static void count(struct vr_front *f, const struct vr_call *call)
{
    double ms = (double)(vr_now_us() - call->from_us) / 1e3;
    f->calls.average_ms += (ms - f->calls.average_ms) * (f->calls.average_ms > 0 ? 0.1 : 1);
    f->metrics.prompt_tokens += call->prompt_tokens;
    f->metrics.cached_tokens += call->cached_tokens;
    f->metrics.text_tokens += call->text_tokens;
    f->metrics.drafted_tokens += call->drafted_tokens;
    f->metrics.accepted_tokens += call->accepted_tokens;
    vr_histogram_add(&f->metrics.request_s, ms / 1e3);
}

static void finish(struct vr_front *f, struct vr_call *call)
{
    count(f, call);
    if (call->stream) {
        vr_render_done(events_of(f, call), f, call);
        send_scratch(&f->calls, true);
    } else {
        VR_AUTO_BUF out = { 0 };
        if (call->kind == VR_EMBEDDING)
            vr_render_embeddings(&out, f, call);
        else
            vr_render_whole(&out, f, call);
        vr_reply_buf(call->conn, 200, "application/json", &out);
    }
    call_free(&f->calls, call);
}

void vr_call_cancel(struct vr_front *f, struct vr_call *call)
{
    f->metrics.cancelled++;
    if (!vr_worker_send(f, VR_WIRE_CANCEL, call->id, NULL, 0))
        vr_log(VR_DEBUG, "a client disconnected while no engine is running");
    call_free(&f->calls, call);
}

/* `error` is the object inside {"error": }. */
static void fail_with(struct vr_front *f, struct vr_call *call, int status, const struct vr_buf *error)
{
    struct vr_conn *c = call->conn;
    if (c->state == VR_CONN_STREAM) {
        struct vr_buf *out = events_of(f, call);
        c->status = (uint16_t)status; /* for the log; the client got 200 long ago */
        vr_buf_addf(out, "data: {\"error\":%s}\n\n", vr_buf_str(error));
        send_scratch(&f->calls, true);
    } else {
        char later[40] = "";
        if (status == 429 || status == 503) snprintf(later, sizeof later, "Retry-After: %u\r\n", vr_worker_retry_s(f));
        VR_AUTO_BUF body = { 0 };
        vr_buf_addf(&body, "{\"error\":%s}\n", vr_buf_str(error));
        vr_reply(c, status, "application/json", *later ? later : NULL, vr_buf_str(&body), body.n);
    }
    call_free(&f->calls, call);
}

void vr_call_fail(struct vr_front *f, struct vr_call *call, int status, const char *code, const char *message)
{
    VR_AUTO_BUF error = { 0 };
    vr_error_json(&error, vr_error_type(status), NULL, code, message);
    fail_with(f, call, status, &error);
}

void vr_calls_fail_all(struct vr_front *f, int status, const char *code, const char *message)
{
    for (size_t i = 0; i < VR_MAX_CALLS && f->calls.n; i++)
        if (f->calls.entries[i]) vr_call_fail(f, f->calls.entries[i], status, code, message);
}

/* --- frames --- */

static bool on_begin(struct vr_front *f, struct vr_call *call, const struct vr_frame *frame)
{
    struct vr_wire_begin b;
    if (!vr_wire_get_begin(frame, &b)) return false;
    if (!call) return true;
    call->begun = true;
    call->prompt_tokens = b.prompt_tokens;
    call->cached_tokens = b.cached_tokens;
    if (call->stream) begin_stream(f, call);
    return true;
}

/* A piece of a whole answer. */
static bool collect(struct vr_call_choice *c, const struct vr_wire_delta *d)
{
    switch (d->what) {
    case VR_DELTA_TEXT: vr_buf_add(&c->text, d->text, d->n); return true;
    case VR_DELTA_REASONING: vr_buf_add(&c->reasoning, d->text, d->n); return true;
    case VR_DELTA_TOOL: return vr_merge_tool(c, d->text, d->n);
    case VR_DELTA_LOGPROBS:
        if (c->logprobs.n && d->n) vr_buf_addc(&c->logprobs, ',', 1);
        vr_buf_add(&c->logprobs, d->text, d->n);
        return true;
    default: return false;
    }
}

static void on_first(struct vr_front *f, struct vr_call *call)
{
    call->first_us = vr_now_us();
    vr_histogram_add(&f->metrics.first_token_s, (double)(call->first_us - call->from_us) / 1e6);
}

static bool on_delta(struct vr_front *f, struct vr_call *call, const struct vr_frame *frame)
{
    struct vr_wire_delta d;
    if (!vr_wire_get_delta(frame, &d)) return false;
    if (!call) return true;
    if (d.choice >= call->n_choices) return false;
    struct vr_call_choice *c = &call->choices[d.choice];
    if (!call->first_us) on_first(f, call);
    if (!call->stream) {
        c->text.max = c->reasoning.max = c->logprobs.max = MAX_WHOLE;
        return collect(c, &d);
    }
    begin_stream(f, call);
    if (!call->logprobs) {
        if (d.what != VR_DELTA_LOGPROBS)
            vr_render_delta(events_of(f, call), call, d.choice, d.what, d.text, d.n, NULL, 0);
        return true;
    }
    send_held(f, call, d.choice, d.text, d.what == VR_DELTA_LOGPROBS ? d.n : 0);
    if (d.what == VR_DELTA_TEXT)
        vr_buf_add(&c->text, d.text, d.n);
    else if (d.what != VR_DELTA_LOGPROBS)
        vr_render_delta(events_of(f, call), call, d.choice, d.what, d.text, d.n, NULL, 0);
    return true;
}

/* How fast one stream gets its text. The first token belongs to the prompt's time. */
static void measure(struct vr_front *f, const struct vr_wire_end *e)
{
    if (e->completion_tokens < MEASURE_TOKENS || !(e->text_ms > 0)) return;
    double tok_s = (e->completion_tokens - 1) / (double)e->text_ms * 1e3, *average = &f->metrics.text_tok_s;
    *average += (tok_s - *average) * (*average > 0 ? 0.3 : 1);
}

static bool on_end(struct vr_front *f, struct vr_call *call, const struct vr_frame *frame)
{
    struct vr_wire_end e;
    if (!vr_wire_get_end(frame, &e)) return false;
    if (!call) return true;
    if (e.choice >= call->n_choices || call->n_open == 0 || call->choices[e.choice].ended) return false;
    struct vr_call_choice *c = &call->choices[e.choice];
    if (e.reason == VR_END_CANCELLED || e.reason == VR_END_ERROR) {
        bool stopped = e.reason == VR_END_CANCELLED;
        vr_call_fail(f, call, stopped ? 503 : 500, stopped ? "stopped" : "engine_error",
                     stopped ? "the request was ended because the server is stopping"
                             : "the engine could not complete this request");
        return true;
    }
    bool first = call->n_open == call->n_choices;
    c->ended = true;
    c->reason = (uint8_t)e.reason;
    measure(f, &e);
    call->text_tokens += e.completion_tokens;
    call->reasoning_tokens += e.reasoning_tokens;
    call->drafted_tokens += e.drafted_tokens;
    call->accepted_tokens += e.accepted_tokens;
    call->cached_tokens = (first ? 0 : call->cached_tokens) + e.cached_tokens;
    if (call->stream) {
        begin_stream(f, call);
        send_held(f, call, e.choice, NULL, 0);
        vr_render_finish(events_of(f, call), call, e.choice);
    }
    if (--call->n_open == 0) finish(f, call);
    return true;
}

static bool on_result(struct vr_call *call, const struct vr_frame *frame)
{
    struct vr_wire_result r;
    if (!vr_wire_get_result(frame, &r)) return false;
    if (!call) return true;
    if (call->kind != VR_EMBEDDING) return false;
    vr_render_embedding(call, &r);
    return true;
}

static bool on_error(struct vr_front *f, struct vr_call *call, const struct vr_frame *frame)
{
    struct vr_wire_error e;
    if (!vr_wire_get_error(frame, &e)) return false;
    if (!call) return true;
    json_t *tree = json_loadb(e.json, e.n, 0, NULL);
    const char *message = json_string_value(json_object_get(tree, "message"));
    int status = e.status >= 400 && e.status <= 599 ? e.status : 500;
    VR_AUTO_BUF error = { 0 };
    vr_error_json(&error, vr_error_type(status), json_string_value(json_object_get(tree, "param")),
                  json_string_value(json_object_get(tree, "code")), message ? message : "unknown engine error");
    json_decref(tree);
    fail_with(f, call, status, &error);
    return true;
}

bool vr_calls_frame(struct vr_front *f, const struct vr_frame *frame)
{
    struct vr_call *call = find(&f->calls, frame->id);
    if (call) call->heard_ms = f->engine.heard_ms;
    switch (frame->kind) {
    case VR_WIRE_BEGIN: return on_begin(f, call, frame);
    case VR_WIRE_DELTA: return on_delta(f, call, frame);
    case VR_WIRE_END: return on_end(f, call, frame);
    case VR_WIRE_RESULT: return on_result(call, frame);
    case VR_WIRE_ERROR: return on_error(f, call, frame);
    default: return false;
    }
}
