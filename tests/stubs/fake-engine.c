/* An engine that holds no model: it speaks the wire (engine/wire/wire.h) and does what it is told, so that the front
 * can be tested alone.
 *
 * Started as the front starts an engine: `fake-engine engine-process FD`. The environment says how it loads:
 *   FAKE_ENGINE={"held":true,"n_seq":4,"log":"FILE","count":"FILE","control":"FIFO","deaf":true,"ready":{more of
 * READY}, "starts":[null,{"crash":9},{"failed":{...}}],
 * "tensor":{"crash":8}} `log` gets a line for each frame ("microseconds KIND id") and
 * for the first BEGIN and TEXT of a request, `count` counts the starts, and entry k of `starts` is what the k-th start
 * does, `tensor` what any does in split mode tensor; a deaf one does not end when its front does; with "words":false
 * requests cannot say what becomes of them, and get five tokens or a call; "calls":{"tool":{arguments}} are the calls
 * that are made, each in conversations that have its tool and no tool's answer yet. "models":{"NAME":{...}} has what is
 * different for the model whose file is called NAME.gguf. Each request says what becomes of it with words in its last
 * message or prompt: tokens=N held delay=MS size=BYTES hang stall crash=N error=STATUS error_after=N failed_after=N
 * malformed_after=N think cached=N dump unicode stuck; one that only looks (wire.h) gets 5 tokens, or its dump;
 * "say:TEXT" at its end is said, in pieces.
 *
 * Its clock is the test's: lines in the pipe `control` say how far it may go, and it is there until the next one comes.
 *   load N      an engine that is "held" has loaded N percent; at 100 it goes on as `starts` says
 *   tokens N    requests that are "held" have said up to N tokens; without a number, all of them
 *   end         requests have said enough, whatever is left of their tokens
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "base/json.h"
#include "engine/wire/wire.h"

#define MAX_WORK  20000
#define SAY_BYTES 12
#define MAX_OUT   (8 << 20) /* a real engine would hold a request back as well */

struct work {
    uint32_t id;
    bool chat, embedding, stream, logprobs;
    unsigned n_choices, n_prompts;
    unsigned tokens, at, size, delay_us, error, error_after, crash, failed_after, malformed_after, cached,
        prompt_tokens;
    bool hang, stall, held, think, unicode, tool, begun, look;
    unsigned max_tokens;
    char *text; /* what to say instead of "token k" */
    char *say;  /* the same in pieces of SAY_BYTES or so */
    char *tool_name, *arguments;
    json_t *inputs;
    uint64_t due_us, arrived_us;
};

static struct {
    int fd;
    struct vr_buf in, out;
    struct work *work[MAX_WORK];
    size_t n_work;
    uint64_t status_us, stop_us, n_requests, n_cancelled, n_tokens;
    int control;               /* the test's lines; -1: none */
    char line[128];            /* what came of the next one */
    unsigned loaded, released; /* how far the test lets it go: percent, tokens of what is held */
    bool enough;
    uint64_t stuck_us; /* since then nothing is computed, as it says; 0: not stuck */
    json_t *config;
    FILE *log;
} the;

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void note(const char *kind, uint32_t id, const char *more, size_t n)
{
    if (!the.log) return;
    fprintf(the.log, "%llu %s %u %.*s\n", (unsigned long long)now_us(), kind, id, (int)n, more ? more : "");
    fflush(the.log);
}

static void drain(void)
{
    size_t at = 0;
    if (the.out.n == 0) return;
    while (at < the.out.n) {
        ssize_t n = send(the.fd, the.out.data + at, the.out.n - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno != EAGAIN) exit(0);
        if (n < 0) break;
        at += (size_t)n;
    }
    the.out.n -= at;
    memmove(the.out.data, the.out.data + at, the.out.n);
}

static void drain_all(void)
{
    while (the.out.n) {
        drain();
        struct pollfd p = { the.fd, POLLOUT, 0 };
        if (the.out.n) poll(&p, 1, 100);
    }
}

static void send_json(enum vr_wire_kind kind, json_t *j)
{
    char *text = json_dumps(j, JSON_COMPACT);
    vr_wire_add(&the.out, kind, 0, text, strlen(text));
    free(text);
    json_decref(j);
}

/* --- answers --- */

/* Something that fits a schema. */
static json_t *example(const json_t *schema, const json_t *root)
{
    const char *type = json_string_value(json_object_get(schema, "type")), *name;
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    json_t *v, *any = json_object_get(schema, "anyOf");
    if (ref) {
        const char *slash = strrchr(ref, '/');
        json_t *defs = json_object_get(root, strstr(ref, "$defs") ? "$defs" : "definitions");
        return example(json_object_get(defs, slash ? slash + 1 : ""), root);
    }
    if (json_array_size(any)) return example(json_array_get(any, 0), root);
    if (json_object_get(schema, "const")) return json_deep_copy(json_object_get(schema, "const"));
    if (json_array_size(json_object_get(schema, "enum")))
        return json_deep_copy(json_array_get(json_object_get(schema, "enum"), 0));
    if (!type) type = json_string_value(json_array_get(json_object_get(schema, "type"), 0));
    if (!type || strcmp(type, "object") == 0) {
        json_t *o = json_object();
        json_object_foreach(json_object_get(schema, "properties"), name, v)
            json_object_set_new(o, name, example(v, root));
        return o;
    }
    if (strcmp(type, "array") == 0) return json_pack("[o]", example(json_object_get(schema, "items"), root));
    if (strcmp(type, "integer") == 0) return json_integer(7);
    if (strcmp(type, "number") == 0) return json_real(1.5);
    if (strcmp(type, "boolean") == 0) return json_true();
    if (strcmp(type, "null") == 0) return json_null();
    return json_string("Paris");
}

static void add_logprobs(struct work *w, unsigned choice, const char *token, size_t n)
{
    VR_AUTO_BUF b = { 0 };
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)(n < 60 ? n : 60), token);
    for (int i = 0; i < 2; i++) {
        vr_buf_adds(&b, i ? ",\"top_logprobs\":[{\"token\":" : "{\"token\":");
        vr_json_add_string(&b, text);
        vr_buf_addf(&b, ",\"logprob\":-0.25,\"bytes\":[%u]", (unsigned char)text[0]);
    }
    vr_buf_adds(&b, "}]}");
    vr_wire_add_delta(&the.out, w->id, (uint8_t)choice, VR_DELTA_LOGPROBS, b.data, b.n);
}

/* Where piece k of a text begins: never within a character. */
static const char *piece_of(const char *text, unsigned k)
{
    size_t n = strlen(text), at = (size_t)k * SAY_BYTES < n ? (size_t)k * SAY_BYTES : n;
    while (at < n && ((unsigned char)text[at] & 0xC0) == 0x80) at++;
    return text + at;
}

static void add_token(struct work *w, unsigned choice)
{
    char text[64];
    the.n_tokens++;
    if (w->tool) {
        VR_AUTO_BUF b = { 0 };
        if (w->at == 0) {
            vr_buf_addf(&b,
                        "{\"index\":0,\"id\":\"call_%u\",\"type\":\"function\",\"function\":{\"name\":\"%s\","
                        "\"arguments\":\"\"}}",
                        w->id, w->tool_name);
        } else {
            size_t n = strlen(w->arguments), half = n / 2;
            char *piece = w->at == 1 ? strndup(w->arguments, half) : strdup(w->arguments + half);
            vr_buf_adds(&b, "{\"index\":0,\"function\":{\"arguments\":");
            vr_json_add_string(&b, piece);
            vr_buf_adds(&b, "}}");
            free(piece);
        }
        vr_wire_add_delta(&the.out, w->id, (uint8_t)choice, VR_DELTA_TOOL, b.data, b.n);
        return;
    }
    bool thinks = w->think && w->at < 3;
    enum vr_delta what = thinks ? VR_DELTA_REASONING : VR_DELTA_TEXT;
    if (w->text && !thinks) {
        vr_wire_add_delta(&the.out, w->id, (uint8_t)choice, what, w->text, strlen(w->text));
        if (w->logprobs) add_logprobs(w, choice, w->text, strlen(w->text));
        return;
    }
    if (w->say && !thinks) {
        unsigned k = w->at - (w->think ? 3 : 0);
        const char *from = piece_of(w->say, k), *to = piece_of(w->say, k + 1);
        if (to > from) vr_wire_add_delta(&the.out, w->id, (uint8_t)choice, what, from, (size_t)(to - from));
        return;
    }
    snprintf(text, sizeof text, "%s%u ", w->unicode ? "grüße \xF0\x9F\x98\x80 " : thinks ? "think" : "token", w->at);
    VR_AUTO_BUF b = { 0 };
    vr_buf_adds(&b, text);
    if (w->size > b.n) vr_buf_addc(&b, 'x', w->size - b.n);
    vr_wire_add_delta(&the.out, w->id, (uint8_t)choice, what, b.data, b.n);
    if (w->logprobs && !thinks) add_logprobs(w, choice, b.data, b.n);
}

static void free_work(size_t i)
{
    struct work *w = the.work[i];
    json_decref(w->inputs);
    free(w->text);
    free(w->say);
    free(w->tool_name);
    free(w->arguments);
    free(w);
    the.work[i] = the.work[--the.n_work];
}

static void end_all(struct work *w, enum vr_end reason)
{
    for (unsigned c = 0; c < w->n_choices; c++) {
        struct vr_wire_end e = { .choice = (uint8_t)c,
                                 .reason = reason,
                                 .stop = VR_NO_STOP,
                                 .completion_tokens = w->at,
                                 .reasoning_tokens = w->think ? 3 : 0,
                                 .cached_tokens = c ? 0 : w->cached,
                                 .text_ms = (float)(now_us() - w->arrived_us) / 1e3f };
        vr_wire_add_end(&the.out, w->id, &e);
    }
}

static void send_failed(json_t *failed)
{
    json_t *j =
        json_pack("{s:s,s:b,s:s?,s:i,s:i,s:i,s:s,s:[],s:[]}", "stage", "load", "out_of_memory", 0, "device", NULL,
                  "asked_bytes", 0, "free_bytes", 0, "missing_bytes", 0, "message", "it failed", "left", "log");
    json_object_update(j, failed);
    send_json(VR_WIRE_FAILED, j);
    drain_all();
    exit(1);
}

static bool embed(struct work *w)
{
    size_t n = json_is_array(w->inputs) ? json_array_size(w->inputs) : 1;
    for (size_t i = 0; i < n; i++) {
        float v[8];
        for (int k = 0; k < 8; k++) v[k] = (float)((int)i + k) / 8.0f - 0.3f;
        vr_wire_add_result(&the.out, w->id, (uint32_t)i, 3, v, 8);
    }
    w->n_choices = 1;
    end_all(w, VR_END_STOP);
    return false;
}

/* One step of a request. False: it is over. */
static bool step(struct work *w)
{
    if (!w->begun) {
        if (w->error) {
            vr_wire_add_error(&the.out, w->id, (uint16_t)w->error, "messages", "context_length_exceeded",
                              "the prompt is too long by 12 tokens");
            return false;
        }
        vr_wire_add_begin(&the.out, w->id, &(struct vr_wire_begin){ w->prompt_tokens, w->cached, 1 });
        w->begun = true;
        note("BEGIN", w->id, NULL, 0);
        if (w->stall) w->due_us = UINT64_MAX;
        if (w->look) {
            if (w->text) vr_wire_add_delta(&the.out, w->id, 0, VR_DELTA_TEXT, w->text, strlen(w->text));
            end_all(w, VR_END_STOP);
            return false;
        }
        return w->embedding ? embed(w) : true;
    }
    if (w->crash && w->at >= w->crash) {
        drain_all();
        raise(SIGKILL);
    }
    if (w->malformed_after && w->at >= w->malformed_after) {
        vr_buf_add(&the.out, "\xff\xff\xff\xff\xff\xff\xff\xff\xff", 9);
        return false;
    }
    if (w->error_after && w->at >= w->error_after) {
        vr_wire_add_error(&the.out, w->id, 500, NULL, NULL, "the engine lost its way");
        return false;
    }
    if (w->failed_after && w->at >= w->failed_after)
        send_failed(json_pack("{s:s,s:b,s:s,s:i,s:s}", "stage", "decode", "out_of_memory", 1, "device", "CUDA0",
                              "missing_bytes", 1000000, "message", "CUDA0 is out of memory while decoding"));
    if (w->at < w->tokens && w->at < w->max_tokens && !the.enough) {
        if (w->at == 0) note("TEXT", w->id, NULL, 0);
        for (unsigned c = 0; c < w->n_choices; c++) add_token(w, c);
        w->at++;
        return true;
    }
    end_all(w, w->tool ? VR_END_TOOL_CALLS : w->at < w->tokens && !the.enough ? VR_END_LENGTH : VR_END_STOP);
    return false;
}

/* --- requests --- */

static unsigned word(const char *text, const char *name, unsigned otherwise)
{
    const char *at = strstr(text, name);
    if (!at) return otherwise;
    at += strlen(name);
    return *at == '=' ? (unsigned)strtoul(at + 1, NULL, 10) : 1;
}

static const char *text_of(const json_t *body)
{
    json_t *messages = json_object_get(body, "messages"), *prompt = json_object_get(body, "prompt");
    if (json_is_array(prompt)) prompt = json_array_get(prompt, 0);
    json_t *content =
        messages ? json_object_get(json_array_get(messages, json_array_size(messages) - 1), "content") : prompt;
    if (json_is_array(content)) content = json_object_get(json_array_get(content, 0), "text");
    const char *s = json_string_value(content);
    return s ? s : "";
}

static void call_tool(struct work *w, const char *name, json_t *args)
{
    w->tool = true;
    w->tokens = 3;
    w->tool_name = strdup(name);
    w->arguments = json_dumps(args, JSON_COMPACT);
}

static bool has_result(const json_t *messages)
{
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const char *role = json_string_value(json_object_get(json_array_get(messages, i), "role"));
        if (role && strcmp(role, "tool") == 0) return true;
    }
    return false;
}

/* The call that the test has for one of these tools, once in a conversation. */
static void choose_call(struct work *w, const json_t *calls, const json_t *body)
{
    const json_t *tools = json_object_get(body, "tools");
    for (size_t i = 0; i < json_array_size(tools) && !has_result(json_object_get(body, "messages")); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        const char *name = json_string_value(json_object_get(function, "name"));
        json_t *args = name ? json_object_get(calls, name) : NULL;
        if (args) return call_tool(w, name, args);
    }
}

/* A tool is called when there are tools and the user spoke last. */
static void choose_tool(struct work *w, const json_t *body)
{
    json_t *messages = json_object_get(body, "messages"),
           *last = json_array_get(messages, json_array_size(messages) - 1);
    json_t *tool = json_object_get(json_array_get(json_object_get(body, "tools"), 0), "function");
    const char *choice = json_string_value(json_object_get(body, "tool_choice"));
    const char *role = json_string_value(json_object_get(last, "role"));
    json_t *calls = json_object_get(the.config, "calls");
    if (!tool || (choice && strcmp(choice, "none") == 0)) return;
    if (calls) return choose_call(w, calls, body);
    if (strcmp(role, "user") != 0) return;
    json_t *args = example(json_object_get(tool, "parameters"), json_object_get(tool, "parameters"));
    call_tool(w, json_string_value(json_object_get(tool, "name")), args);
    json_decref(args);
}

static void choose_format(struct work *w, const json_t *body)
{
    json_t *format = json_object_get(body, "response_format");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!type || strcmp(type, "text") == 0) return;
    json_t *schema = json_object_get(json_object_get(format, "json_schema"), "schema");
    json_t *v = example(schema, schema);
    w->text = json_dumps(v, JSON_COMPACT);
    w->tokens = 1;
    json_decref(v);
}

static void on_request(const struct vr_frame *f)
{
    json_t *body = json_loadb((const char *)f->data, f->n, 0, NULL);
    const char *kind = json_string_value(json_object_get(body, "kind"));
    struct work *w = calloc(1, sizeof *w);
    if (!body || !kind || !w || the.n_work == MAX_WORK) exit(3);
    const char *text = json_is_false(json_object_get(the.config, "words")) ? "tokens=5" : text_of(body);
    json_t *max = json_object_get(body, "max_tokens"), *n = json_object_get(body, "n"),
           *prompt = json_object_get(body, "prompt");
    if (!max) max = json_object_get(body, "max_completion_tokens");
    w->id = f->id;
    w->chat = strcmp(kind, "chat") == 0;
    w->embedding = strcmp(kind, "embedding") == 0 || strcmp(kind, "rerank") == 0;
    w->stream = json_is_true(json_object_get(body, "stream"));
    w->logprobs = json_is_true(json_object_get(body, "logprobs")) || json_is_integer(json_object_get(body, "logprobs"));
    w->n_prompts =
        json_is_array(prompt) && !json_is_integer(json_array_get(prompt, 0)) ? (unsigned)json_array_size(prompt) : 1;
    w->n_choices = w->n_prompts * (n ? (unsigned)json_integer_value(n) : 1);
    w->max_tokens = max ? (unsigned)json_integer_value(max) : 1u << 30;
    w->tokens = word(text, "tokens", 8);
    w->delay_us = word(text, "delay", 0) * 1000;
    w->size = word(text, "size", 0);
    w->error = word(text, "error", 0);
    w->error_after = word(text, "error_after", 0);
    if (w->error_after) w->error = 0;
    w->crash = word(text, "crash", 0);
    w->failed_after = word(text, "failed_after", 0);
    w->malformed_after = word(text, "malformed_after", 0);
    w->cached = word(text, "cached", 0);
    w->look = json_object_get(body, "look") != NULL;
    w->hang = word(text, "hang", 0);
    w->stall = word(text, "stall", 0);
    if (word(text, "stuck", 0)) the.stuck_us = now_us(), w->hang = true;
    w->held = word(text, "held", 0);
    w->think = word(text, "think", 0);
    w->unicode = word(text, "unicode", 0);
    w->prompt_tokens = 5;
    w->inputs = json_incref(json_object_get(body, strcmp(kind, "rerank") == 0 ? "documents" : "input"));
    w->arrived_us = now_us();
    w->due_us = w->hang ? UINT64_MAX : w->arrived_us;
    const char *say = strstr(text, "say:");
    if (say) {
        w->say = strdup(say + 4);
        w->tokens = (unsigned)(strlen(w->say) / SAY_BYTES) + 1 + (w->think ? 3 : 0);
    }
    if (word(text, "dump", 0)) {
        w->text = strndup((const char *)f->data, f->n);
        w->tokens = 1;
    } else if (w->chat) {
        choose_format(w, body);
        choose_tool(w, body);
    }
    json_decref(body);
    the.work[the.n_work++] = w;
    the.n_requests++;
}

static void on_cancel(uint32_t id)
{
    for (size_t i = 0; i < the.n_work; i++)
        if (the.work[i]->id == id) {
            end_all(the.work[i], VR_END_CANCELLED);
            free_work(i);
            the.n_cancelled++;
            return;
        }
}

static void send_status(void)
{
    json_t *slots = json_array();
    for (size_t i = 0; i < 4; i++) {
        const struct work *w = i < the.n_work ? the.work[i] : NULL;
        json_array_append_new(slots, json_pack("{s:i,s:s,s:i,s:i,s:i}", "id", (int)i, "state", w ? "text" : "idle",
                                               "n_cached", 0, "n_prompt", w ? 5 : 0, "n_text", w ? (int)w->at : 0));
    }
    vr_wire_add_pulse(&the.out, &(struct vr_wire_pulse){
                                    .stalled_ms = the.stuck_us ? (uint32_t)((now_us() - the.stuck_us) / 1000) : 0 });
    send_json(VR_WIRE_STATUS,
              json_pack("{s:o,s:i,s:I,s:i,s:I,s:I,s:I,s:I}", "slots", slots, "n_ctx_seq", 1024, "running",
                        (json_int_t)the.n_work, "queued", 0, "begun", (json_int_t)the.n_requests, "cancelled",
                        (json_int_t)the.n_cancelled, "text_tokens", (json_int_t)the.n_tokens, "prompt_tokens",
                        (json_int_t)(5 * the.n_requests)));
}

/* --- the test's lines --- */

static void obey(const char *line)
{
    unsigned n;
    if (sscanf(line, "load %u", &n) == 1)
        the.loaded = n;
    else if (strncmp(line, "tokens", 6) == 0)
        the.released = sscanf(line + 6, "%u", &n) == 1 ? n : UINT_MAX;
    else if (strcmp(line, "end") == 0)
        the.enough = true;
    else
        exit(3);
}

static void read_control(void)
{
    size_t n = strlen(the.line);
    ssize_t got = read(the.control, the.line + n, sizeof the.line - 1 - n);
    if (got <= 0) return;
    the.line[n + (size_t)got] = '\0';
    for (char *end; (end = strchr(the.line, '\n'));) {
        *end = '\0';
        obey(the.line);
        memmove(the.line, end + 1, strlen(end + 1) + 1);
    }
}

/* Until the test says that more than so much is loaded. A front that hangs up meanwhile ends it. */
static void wait_for_load(unsigned percent)
{
    while (the.loaded <= percent) {
        struct pollfd p[] = { { the.control, POLLIN, 0 }, { the.fd, 0, 0 } };
        poll(p, 2, -1);
        if (p[0].revents) read_control();
        if (p[1].revents) exit(0);
    }
}

/* --- loading --- */

/* How many times an engine was started before. */
static unsigned count_starts(void)
{
    const char *path = json_string_value(json_object_get(the.config, "count"));
    if (!path) return 0;
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND, 0600);
    off_t n = lseek(fd, 0, SEEK_END);
    if (write(fd, "x", 1) != 1) exit(3);
    close(fd);
    return (unsigned)n;
}

static void open_files(void)
{
    const char *log = json_string_value(json_object_get(the.config, "log"));
    const char *control = json_string_value(json_object_get(the.config, "control"));
    if (the.log) fclose(the.log);
    if (the.control > 0) close(the.control);
    the.log = log ? fopen(log, "ae") : NULL;
    the.control = control ? open(control, O_RDWR | O_NONBLOCK | O_CLOEXEC) : -1; /* to write as well: no end of file */
}

/* What is different for this model. */
static void choose_model(const json_t *load)
{
    const char *path = json_string_value(json_object_get(load, "model")), *slash = path ? strrchr(path, '/') : NULL;
    char name[256];
    snprintf(name, sizeof name, "%s", slash ? slash + 1 : "");
    char *end = strstr(name, ".gguf");
    if (end) *end = '\0';
    json_t *own = json_object_get(json_object_get(the.config, "models"), name);
    if (!own) return;
    json_incref(own);
    json_object_update(the.config, own);
    json_decref(own);
    open_files();
}

static void on_load(const struct vr_frame *f)
{
    json_t *load = json_loadb((const char *)f->data, f->n, 0, NULL);
    choose_model(load);
    json_t *start = json_array_get(json_object_get(the.config, "starts"), count_starts());
    json_int_t n_seq = json_integer_value(json_object_get(the.config, "n_seq"));
    bool held = json_is_true(json_object_get(the.config, "held"));
    const char *mode = json_string_value(json_object_get(load, "split_mode"));
    if (!load) exit(3);
    if (mode && strcmp(mode, "tensor") == 0 && !start) start = json_object_get(the.config, "tensor");
    json_decref(load);
    for (unsigned percent = 0; percent < 100;) {
        if (held) wait_for_load(percent);
        percent = held ? the.loaded : percent + 10;
        send_json(VR_WIRE_PROGRESS, json_pack("{s:s,s:i}", "stage", "load", "percent", (int)percent));
        drain();
    }
    if (json_object_get(start, "crash")) raise((int)json_integer_value(json_object_get(start, "crash")));
    if (json_object_get(start, "exit")) exit((int)json_integer_value(json_object_get(start, "exit")));
    if (json_object_get(start, "failed")) send_failed(json_object_get(start, "failed"));
    json_t *ready = json_pack("{s:s,s:s,s:i,s:i,s:I,s:i,s:i,s:s,s:b,s:{s:b,s:b}}", "engine", "fake", "arch", "fake",
                              "n_ctx", 4096, "n_ctx_train", 4096, "n_seq", n_seq ? n_seq : 4, "n_vocab", 1000, "n_embd",
                              8, "kind", "text", "embeddings", 1, "chat", "template", 1, "tools", 1);
    json_object_update(ready, json_object_get(the.config, "ready"));
    send_json(VR_WIRE_READY, ready);
}

static void on_frame(const struct vr_frame *f)
{
    uint32_t ms;
    note(vr_wire_name(f->kind), f->id,
         f->kind == VR_WIRE_LOAD || f->kind == VR_WIRE_REQUEST ? (const char *)f->data : NULL,
         f->n < 4096 ? f->n : 4096);
    switch (f->kind) {
    case VR_WIRE_LOAD: on_load(f); break;
    case VR_WIRE_REQUEST: on_request(f); break;
    case VR_WIRE_CANCEL: on_cancel(f->id); break;
    case VR_WIRE_STATS: send_status(); break;
    case VR_WIRE_STOP:
        if (!vr_wire_get_stop(f, &ms)) exit(3);
        the.stop_us = now_us() + (uint64_t)ms * 1000;
        break;
    default: exit(3);
    }
}

/* --- the loop --- */

static void receive(void)
{
    char buf[65536];
    ssize_t n = recv(the.fd, buf, sizeof buf, MSG_DONTWAIT);
    bool over = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    while (over && json_is_true(json_object_get(the.config, "deaf"))) pause(); /* as one deep in a computation would */
    if (over) exit(0);
    if (n < 0) return;
    vr_buf_add(&the.in, buf, (size_t)n);
    size_t at = 0;
    struct vr_frame f;
    long len;
    while ((len = vr_wire_parse((const uint8_t *)the.in.data + at, the.in.n - at, VR_FROM_FRONT, &f)) > 0) {
        on_frame(&f);
        at += (size_t)len;
    }
    if (len < 0) exit(3);
    the.in.n -= at;
    memmove(the.in.data, the.in.data + at, the.in.n);
}

static int work_once(void)
{
    uint64_t now = now_us(), next = now + 1000000;
    for (size_t i = 0; i < the.n_work;) {
        struct work *w = the.work[i];
        bool goes_on = true;
        if (w->held && w->begun && w->at >= the.released && w->at < w->tokens && !the.enough) {
            i++;
            continue;
        }
        if (w->due_us <= now && the.out.n < MAX_OUT) {
            goes_on = step(w);
            if (w->due_us != UINT64_MAX) w->due_us = w->delay_us ? now + w->delay_us : now;
        }
        if (!goes_on) {
            free_work(i);
            continue;
        }
        if (w->due_us < next) next = w->due_us;
        i++;
    }
    if (the.n_work && now - the.status_us > 250000) {
        the.status_us = now;
        send_status();
    }
    if (the.stop_us && (the.n_work == 0 || now >= the.stop_us)) {
        for (size_t i = 0; i < the.n_work; i++) end_all(the.work[i], VR_END_CANCELLED);
        drain_all();
        exit(0);
    }
    if (the.stop_us && the.stop_us < next) next = the.stop_us;
    now = now_us();
    return next <= now ? 0 : (int)((next - now + 999) / 1000);
}

int main(int argc, char **argv)
{
    const char *env = getenv("FAKE_ENGINE");
    if (argc != 3) return 2;
    the.fd = atoi(argv[2]);
    the.config = json_loads(env ? env : "{}", 0, NULL);
    open_files();
    signal(SIGPIPE, SIG_IGN);
    for (;;) {
        int wait = work_once();
        drain();
        struct pollfd p[] = { { the.fd, (short)(POLLIN | (the.out.n ? POLLOUT : 0)), 0 }, { the.control, POLLIN, 0 } };
        if (the.out.n >= MAX_OUT && wait == 0) wait = 100;
        poll(p, 2, wait);
        if (p[1].revents) read_control();
        if (p[0].revents & (POLLIN | POLLHUP | POLLERR)) receive();
    }
}
