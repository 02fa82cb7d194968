#include "server/api/calls.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "server/front.h"
#include "server/api/render.h" /* vr_merge_tool */

#define MAX_WHOLE      (64 << 20) /* bytes of what is answered whole, all choices together */
#define PING_MS        15000
#define PROGRESS_MS    1000  /* between two comments of a stream whose model is loading */
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

/* What it holds until it is sent. */
static void drop_request(struct vr_front *f, struct vr_call *call)
{
    if (!call->request) return;
    vr_client_release(&f->clients, call->line->client, call->n_request);
    free(VR_TAKE(call->request));
}

static void call_free(struct vr_front *f, struct vr_call *call)
{
    struct vr_calls *all = &f->calls;
    struct vr_served *m = call->model;
    vr_queue_leave(call);
    drop_request(f, call);
    vr_client_release(&f->clients, call->line->client, call->n_memo);
    vr_client_unref(call->line->client);
    uint16_t entry = (uint16_t)(call->id & 0xffff);
    all->entries[entry] = NULL;
    all->generations[entry]++;
    all->unused[all->n_unused++] = entry;
    all->n--;
    all->n_texts -= call->n_choices;
    m->n_texts -= call->n_choices;
    m->stay.used_ms = vr_now_ms();
    if (--m->n_calls == 0) vr_fleet_freed(f);
    if (all->scratch_of == call) {
        all->scratch_of = NULL;
        vr_buf_clear(&all->scratch);
    }
    for (size_t i = 0; i < call->n_choices; i++) {
        struct vr_call_choice *c = &call->choices[i];
        vr_buf_done(&c->text);
        vr_buf_done(&c->held);
        vr_buf_done(&c->reasoning);
        vr_buf_done(&c->logprobs);
        vr_buf_done(&c->timings);
        for (size_t k = 0; k < VR_MOST_COLUMNS; k++) vr_buf_done(&c->columns[k]);
        json_decref(c->tools);
    }
    vr_buf_done(&call->body);
    json_decref(call->memo);
    free(call->blocks.id);
    free(call->blocks.name);
    if (call->conn) call->conn->call = NULL;
    free(call);
}

void vr_calls_done(struct vr_front *f)
{
    struct vr_calls *c = &f->calls;
    for (size_t i = 0; c->entries && i < VR_MAX_CALLS; i++)
        if (c->entries[i]) call_free(f, c->entries[i]);
    free(c->entries);
    free(c->generations);
    free(c->unused);
    vr_buf_done(&c->scratch);
    *c = (struct vr_calls){ 0 };
}

struct vr_call *vr_call_new(struct vr_served *m, struct vr_conn *conn, const struct vr_dialect *d, size_t n_choices)
{
    struct vr_calls *all = &m->front->calls;
    struct vr_client_line *line = vr_client_line(conn->client, m);
    if (all->n_unused == 0 || !line) return NULL;
    struct vr_call *call = calloc(1, sizeof *call + n_choices * sizeof *call->choices);
    if (!call) return NULL;
    uint16_t entry = all->unused[--all->n_unused];
    all->entries[entry] = call;
    all->n++;
    all->n_texts += (unsigned)n_choices;
    call->id = (uint32_t)all->generations[entry] << 16 | entry;
    m->n_calls++;
    m->n_texts += (unsigned)n_choices;
    m->stay.used_ms = vr_now_ms();
    call->model = m;
    call->line = line;
    call->conn = conn;
    vr_client_ref(call->line->client);
    call->dialect = d;
    call->n_choices = (uint16_t)n_choices;
    call->n_open = (uint16_t)n_choices;
    call->created = time(NULL);
    call->from_us = conn->from_us;
    call->heard_ms = vr_now_ms();
    conn->call = call;
    return call;
}

void vr_call_submit(struct vr_front *f, struct vr_call *call, char *json, size_t n)
{
    call->request = json;
    call->n_request = n;
    call->queued_us = vr_now_us();
    vr_client_hold(&f->clients, call->line->client, n);
    vr_queue_add(call);
    if (call->request && vr_fleet_is_coming(call->model)) vr_fleet_changed(f);
}

bool vr_call_send(struct vr_call *call)
{
    struct vr_front *f = call->model->front;
    if (!vr_worker_send(&call->model->engine, VR_WIRE_REQUEST, call->id, call->request, call->n_request)) return false;
    vr_histogram_add(&f->metrics.queue_s, (double)(vr_now_us() - call->queued_us) / 1e6);
    drop_request(f, call);
    return true;
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
    else if (last) {
        call->conn->keep_alive = false; /* no memory: without its end, what comes next would be taken for more of it */
        vr_conn_done(call->conn);
    }
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

static void open_stream(struct vr_call *call)
{
    const char *type = call->dialect->stream_type;
    if (call->conn->state == VR_CONN_STREAM) return;
    vr_stream_begin(call->conn, type ? type : "text/event-stream; charset=utf-8");
}

/* The first events tell how long the prompt is: they come when the engine has begun. */
static void begin_stream(struct vr_front *f, struct vr_call *call)
{
    if (call->opened) return;
    call->opened = true;
    open_stream(call);
    if (call->dialect->begin) call->dialect->begin(events_of(f, call), f, call);
}

static void say(struct vr_front *f, struct vr_call *call, const struct vr_said_piece *p)
{
    call->dialect->delta(call->stream ? events_of(f, call) : NULL, f, call, p);
}

/* In a stream with logprobs, text waits until its own have come. */
static void send_held(struct vr_front *f, struct vr_call *call, size_t choice, const char *logprobs, size_t n)
{
    struct vr_call_choice *c = &call->choices[choice];
    if (c->held.n == 0 && n == 0) return;
    say(f, call,
        &(struct vr_said_piece){ choice, VR_DELTA_TEXT, vr_buf_str(&c->held), c->held.n, logprobs, logprobs ? n : 0 });
    vr_buf_clear(&c->held);
}

/* A model that is on its way is waited for, a while. A load that goes on is no reason to end a stream, which hears of
 * it; and who comes back later finds it. */
static bool waited_too_long(struct vr_front *f, struct vr_call *call, uint64_t now)
{
    struct vr_served *m = call->model;
    bool loads = m->engine.state == VR_WORKER_LOADING;
    if (!f->config->on_demand || !call->request || !vr_fleet_is_coming(m) || (loads && call->stream)) return false;
    if (now - call->queued_us / 1000 < f->config->limits.load_wait_seconds * UINT64_C(1000)) return false;
    VR_AUTO_BUF why = { 0 };
    vr_buf_addf(&why, "model '%s' is not loaded yet (%s)%s%s", m->config->id, vr_fleet_state(m),
                *m->engine.trouble ? ": " : "", m->engine.trouble);
    m->stay.asked |= loads || m->engine.state == VR_WORKER_PLANNING;
    vr_call_fail(f, call, 503, "model_loading", vr_buf_str(&why));
    return true;
}

static void add_progress(struct vr_buf *out, const struct vr_served *m)
{
    if (m->engine.state == VR_WORKER_LOADING)
        vr_buf_addf(out, ": loading %d %%\n\n", m->engine.percent);
    else
        vr_buf_addf(out, ": %s\n\n", vr_fleet_state(m));
}

void vr_call_tick(struct vr_front *f, struct vr_call *call, uint64_t now)
{
    bool begun = call->conn->state == VR_CONN_STREAM;
    if (waited_too_long(f, call, now)) return;
    bool coming = f->config->on_demand && call->request && vr_fleet_is_coming(call->model);
    if (begun && coming && !call->dialect->stream_type) {
        if (now - call->heard_ms < PROGRESS_MS) return;
        call->heard_ms = now;
        add_progress(events_of(f, call), call->model);
        vr_calls_flush(f);
        return;
    }
    if (!call->stream || now - call->heard_ms < (begun ? PING_MS : EARLY_MS)) return;
    call->heard_ms = now;
    open_stream(call);
    if (!call->dialect->ping) return;
    vr_buf_adds(events_of(f, call), call->dialect->ping);
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
    call->model->counts.requests++;
    call->model->counts.prompt_tokens += call->prompt_tokens;
    call->model->counts.cached_tokens += call->cached_tokens;
    call->model->counts.text_tokens += call->text_tokens;
    f->metrics.drafted_tokens += call->drafted_tokens;
    f->metrics.accepted_tokens += call->accepted_tokens;
    vr_histogram_add(&f->metrics.request_s, ms / 1e3);
}

static void finish(struct vr_front *f, struct vr_call *call)
{
    count(f, call);
    if (call->stream) {
        begin_stream(f, call);
        call->dialect->done(events_of(f, call), f, call);
        send_scratch(&f->calls, true);
    } else {
        VR_AUTO_BUF out = { 0 };
        call->dialect->whole(&out, f, call);
        vr_reply_buf(call->conn, 200, call->type ? call->type : "application/json", &out);
    }
    call_free(f, call);
}

void vr_call_cancel(struct vr_front *f, struct vr_call *call)
{
    f->metrics.cancelled++;
    if (!call->request && !vr_worker_send(&call->model->engine, VR_WIRE_CANCEL, call->id, NULL, 0))
        vr_log(VR_DEBUG, "a client disconnected while no engine is running");
    call_free(f, call);
}

static void fail_with(struct vr_front *f, struct vr_call *call, const struct vr_told *e)
{
    struct vr_conn *c = call->conn;
    if (c->state == VR_CONN_STREAM) {
        c->status = (uint16_t)e->status; /* for the log; the client got 200 long ago */
        call->dialect->error(events_of(f, call), f, call, e);
        send_scratch(&f->calls, true);
    } else {
        char later[40] = "";
        if (e->status == 429 || e->status == 503)
            snprintf(later, sizeof later, "Retry-After: %u\r\n", vr_worker_retry_s(&call->model->engine));
        vr_reply_told(c, e, *later ? later : NULL);
    }
    call_free(f, call);
}

void vr_call_fail(struct vr_front *f, struct vr_call *call, int status, const char *code, const char *message)
{
    fail_with(f, call, &(struct vr_told){ .status = status, .code = code, .message = message });
}

void vr_calls_fail(struct vr_served *m, enum vr_calls_which which, int status, const char *code, const char *message)
{
    struct vr_call **entries = m->front->calls.entries;
    for (size_t i = 0; i < VR_MAX_CALLS && m->n_calls; i++)
        if (entries[i] && entries[i]->model == m && (which == VR_CALLS_ALL || !entries[i]->request))
            vr_call_fail(m->front, entries[i], status, code, message);
}

void vr_calls_fail_all(struct vr_front *f, int status, const char *code, const char *message)
{
    for (size_t i = 0; i < VR_MAX_CALLS && f->calls.n; i++)
        if (f->calls.entries[i]) vr_call_fail(f, f->calls.entries[i], status, code, message);
}

void vr_calls_fail_waiting(struct vr_front *f, int status, const char *code, const char *message)
{
    for (size_t i = 0; i < VR_MAX_CALLS && f->calls.n; i++)
        if (f->calls.entries[i] && f->calls.entries[i]->request)
            vr_call_fail(f, f->calls.entries[i], status, code, message);
}

size_t vr_calls_waiting(const struct vr_front *f)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n_models; i++) n += f->models[i].queue.turns.n;
    return n;
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
    call->choices[0].slot = b.slot;
    if (call->stream) begin_stream(f, call);
    return true;
}

/* A piece of a whole answer. */
static bool collect(struct vr_call *call, struct vr_call_choice *c, const struct vr_wire_delta *d)
{
    switch (d->what) {
    case VR_DELTA_TEXT: vr_buf_add(&c->text, d->text, d->n); return true;
    case VR_DELTA_REASONING: vr_buf_add(&c->reasoning, d->text, d->n); return true;
    case VR_DELTA_TOOL: return vr_merge_tool(c, d->text, d->n);
    case VR_DELTA_LOGPROBS:
        if (call->dialect->keep) return call->dialect->keep(call, c, d->text, d->n), true;
        if (c->logprobs.n && d->n) vr_buf_addc(&c->logprobs, ',', 1);
        vr_buf_add(&c->logprobs, d->text, d->n);
        return true;
    default: return false;
    }
}

static bool too_large(struct vr_front *f, struct vr_call *call)
{
    if (!vr_worker_send(&call->model->engine, VR_WIRE_CANCEL, call->id, NULL, 0)) return false;
    vr_call_fail(
        f, call, 400, "answer_too_large",
        "the answer has more than 64 MiB, the limit for one that is sent whole: set 'stream', or ask for fewer "
        "tokens, choices or logprobs");
    return true;
}

static void on_first(struct vr_front *f, struct vr_call *call)
{
    call->first_us = vr_now_us();
    vr_histogram_add(&f->metrics.first_token_s, (double)(call->first_us - call->from_us) / 1e6);
}

/* What is said about an answer, and is none of it. */
static bool on_aside(struct vr_front *f, struct vr_call *call, const struct vr_wire_delta *d)
{
    struct vr_buf *timings = &call->choices[d->choice].timings;
    if (d->what == VR_DELTA_TIMINGS) {
        vr_buf_clear(timings);
        vr_buf_add(timings, d->text, d->n);
    } else if (call->stream && call->dialect->progress) {
        begin_stream(f, call);
        call->dialect->progress(events_of(f, call), f, call,
                                &(struct vr_said_piece){ d->choice, d->what, d->text, d->n, NULL, 0 });
    }
    return true;
}

static bool on_delta(struct vr_front *f, struct vr_call *call, const struct vr_frame *frame)
{
    struct vr_wire_delta d;
    if (!vr_wire_get_delta(frame, &d)) return false;
    if (!call) return true;
    if (d.choice >= call->n_choices) return false;
    struct vr_call_choice *c = &call->choices[d.choice];
    if (d.what == VR_DELTA_TIMINGS || d.what == VR_DELTA_PROGRESS) return on_aside(f, call, &d);
    if (!call->first_us) on_first(f, call);
    if (!call->stream && (call->n_whole += d.n) > MAX_WHOLE) return too_large(f, call);
    if (!call->stream && !call->dialect->in_pieces) return collect(call, c, &d);
    if (call->stream) begin_stream(f, call);
    bool logprobs = d.what == VR_DELTA_LOGPROBS;
    if (call->logprobs && d.what != VR_DELTA_TEXT)
        send_held(f, call, d.choice, logprobs ? d.text : NULL, logprobs ? d.n : 0);
    if (call->logprobs && d.what == VR_DELTA_TEXT)
        vr_buf_add(&c->held, d.text, d.n);
    else if (!logprobs)
        say(f, call, &(struct vr_said_piece){ d.choice, d.what, d.text, d.n, NULL, 0 });
    return true;
}

/* How fast one stream gets its text. The first token belongs to the prompt's time. */
static void measure(struct vr_served *m, const struct vr_wire_end *e)
{
    if (e->completion_tokens < MEASURE_TOKENS || !(e->text_ms > 0)) return;
    double tok_s = (e->completion_tokens - 1) / (double)e->text_ms * 1e3, *average = &m->counts.text_tok_s;
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
    c->stop = e.stop;
    c->text_tokens = e.completion_tokens;
    c->slot = e.slot;
    call->prompt_ms += e.prompt_ms;
    call->text_ms += e.text_ms;
    vr_queue_ended(call, 1);
    measure(call->model, &e);
    call->text_tokens += e.completion_tokens;
    call->reasoning_tokens += e.reasoning_tokens;
    call->drafted_tokens += e.drafted_tokens;
    call->accepted_tokens += e.accepted_tokens;
    call->cached_tokens = (first ? 0 : call->cached_tokens) + e.cached_tokens;
    if (call->stream) begin_stream(f, call);
    send_held(f, call, e.choice, NULL, 0);
    if (call->dialect->finish && (call->stream || call->dialect->in_pieces))
        call->dialect->finish(call->stream ? events_of(f, call) : NULL, f, call, e.choice);
    if (--call->n_open == 0) finish(f, call);
    return true;
}

static bool on_result(struct vr_call *call, const struct vr_frame *frame)
{
    struct vr_wire_result r;
    if (!vr_wire_get_result(frame, &r)) return false;
    if (!call) return true;
    if (!call->dialect->result) return false;
    call->dialect->result(call, &r);
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
    const char *code = json_string_value(json_object_get(tree, "code"));
    fail_with(f, call,
              &(struct vr_told){ .status = status,
                                 .param = json_string_value(json_object_get(tree, "param")),
                                 .code = code ? code : (status < 500 ? "invalid_value" : "engine_error"),
                                 .message = message ? message : "unknown engine error",
                                 .n_prompt = (uint32_t)json_integer_value(json_object_get(tree, "n_prompt_tokens")),
                                 .n_ctx = (uint32_t)json_integer_value(json_object_get(tree, "n_ctx")),
                                 .llama = call->conn->route->errors == VR_ERRORS_LLAMA });
    json_decref(tree);
    return true;
}

bool vr_calls_frame(struct vr_served *m, const struct vr_frame *frame)
{
    struct vr_front *f = m->front;
    struct vr_call *call = find(&f->calls, frame->id);
    if (call && call->model != m) call = NULL; /* an engine answers for its own model */
    if (call) call->heard_ms = m->engine.heard_ms;
    switch (frame->kind) {
    case VR_WIRE_BEGIN: return on_begin(f, call, frame);
    case VR_WIRE_DELTA: return on_delta(f, call, frame);
    case VR_WIRE_END: return on_end(f, call, frame);
    case VR_WIRE_RESULT: return on_result(call, frame);
    case VR_WIRE_ERROR: return on_error(f, call, frame);
    default: return false;
    }
}
