/* Encoding and decoding of frames. Pure: bytes in, structs out; sockets are the callers' business. */
#include "engine/wire/wire.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "engine/wire/request_check.h"

static const struct {
    const char *name;
    enum vr_wire_side side;
    uint32_t max;
} kinds[256] = {
#define FRONT                           VR_FROM_FRONT
#define ENGINE                          VR_FROM_ENGINE
#define WIRE(name, number, sender, max) [number] = { #name, sender, max },
#include "engine/wire/wire.def"
#undef WIRE
};

static const char *const ends[VR_N_ENDS] = {
    [VR_END_STOP] = "stop",           [VR_END_LENGTH] = "length", [VR_END_TOOL_CALLS] = "tool_calls",
    [VR_END_CANCELLED] = "cancelled", [VR_END_ERROR] = "error",
};

const char *vr_end_name(enum vr_end reason) { return (unsigned)reason < VR_N_ENDS ? ends[reason] : "?"; }

const char *vr_wire_name(enum vr_wire_kind kind)
{
    return (unsigned)kind < VR_COUNT(kinds) && kinds[kind].name ? kinds[kind].name : "?";
}

/* --- numbers --- */

static void put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void putf(uint8_t *p, float f)
{
    uint32_t v;
    memcpy(&v, &f, sizeof v);
    put32(p, v);
}

static float getf(const uint8_t *p)
{
    uint32_t v = get32(p);
    float f;
    memcpy(&f, &v, sizeof f);
    return f;
}

/* --- frames --- */

bool vr_wire_head(const uint8_t head[VR_WIRE_HEAD], enum vr_wire_side side, struct vr_frame *out)
{
    uint32_t n = get32(head);
    uint8_t kind = head[4];
    if (!kinds[kind].name || kinds[kind].side != side || n > kinds[kind].max) return false;
    *out = (struct vr_frame){ .kind = (enum vr_wire_kind)kind, .id = get32(head + 5), .n = n };
    return true;
}

long vr_wire_parse(const uint8_t *data, size_t n, enum vr_wire_side side, struct vr_frame *out)
{
    if (n < VR_WIRE_HEAD) return 0;
    if (!vr_wire_head(data, side, out)) return -1;
    if (n - VR_WIRE_HEAD < out->n) return 0;
    out->data = data + VR_WIRE_HEAD;
    return (long)(VR_WIRE_HEAD + out->n);
}

static void add_head(struct vr_buf *out, enum vr_wire_kind kind, uint32_t id, size_t n)
{
    uint8_t head[VR_WIRE_HEAD];
    assert(n <= kinds[kind].max);
    put32(head, (uint32_t)n);
    head[4] = (uint8_t)kind;
    put32(head + 5, id);
    vr_buf_add(out, head, sizeof head);
}

void vr_wire_add(struct vr_buf *out, enum vr_wire_kind kind, uint32_t id, const void *payload, size_t n)
{
    add_head(out, kind, id, n);
    vr_buf_add(out, payload, n);
}

size_t vr_wire_open(struct vr_buf *out, enum vr_wire_kind kind, uint32_t id)
{
    size_t at = out->n;
    add_head(out, kind, id, 0);
    return at;
}

void vr_wire_close(struct vr_buf *out, size_t at)
{
    if (out->failed) return;
    size_t n = out->n - at - VR_WIRE_HEAD;
    uint8_t *head = (uint8_t *)out->data + at;
    assert(n <= kinds[head[4]].max);
    put32(head, (uint32_t)n);
}

/* --- payloads --- */

enum { BEGIN_BYTES = 12, DELTA_HEAD = 2, END_BYTES = 40, RESULT_HEAD = 12, ERROR_HEAD = 2, PULSE_BYTES = 16 };

void vr_wire_add_begin(struct vr_buf *out, uint32_t id, const struct vr_wire_begin *b)
{
    uint8_t p[BEGIN_BYTES];
    put32(p, b->prompt_tokens);
    put32(p + 4, b->cached_tokens);
    put32(p + 8, b->slot);
    vr_wire_add(out, VR_WIRE_BEGIN, id, p, sizeof p);
}

bool vr_wire_get_begin(const struct vr_frame *f, struct vr_wire_begin *out)
{
    if (f->kind != VR_WIRE_BEGIN || f->n != BEGIN_BYTES) return false;
    *out = (struct vr_wire_begin){ get32(f->data), get32(f->data + 4), get32(f->data + 8) };
    return true;
}

void vr_wire_add_delta(struct vr_buf *out, uint32_t id, uint8_t choice, enum vr_delta what, const char *text, size_t n)
{
    const uint8_t p[DELTA_HEAD] = { choice, (uint8_t)what };
    add_head(out, VR_WIRE_DELTA, id, sizeof p + n);
    vr_buf_add(out, p, sizeof p);
    vr_buf_add(out, text, n);
}

bool vr_wire_get_delta(const struct vr_frame *f, struct vr_wire_delta *out)
{
    if (f->kind != VR_WIRE_DELTA || f->n < DELTA_HEAD || f->data[1] >= VR_N_DELTAS) return false;
    *out = (struct vr_wire_delta){ f->data[0], (enum vr_delta)f->data[1], (const char *)f->data + DELTA_HEAD,
                                   f->n - DELTA_HEAD };
    return true;
}

void vr_wire_add_end(struct vr_buf *out, uint32_t id, const struct vr_wire_end *e)
{
    uint8_t p[END_BYTES] = { e->choice, (uint8_t)e->reason, e->stop, 0 };
    put32(p + 4, e->completion_tokens);
    put32(p + 8, e->reasoning_tokens);
    put32(p + 12, e->cached_tokens);
    put32(p + 16, e->drafted_tokens);
    put32(p + 20, e->accepted_tokens);
    put32(p + 24, e->slot);
    putf(p + 28, e->queue_ms);
    putf(p + 32, e->prompt_ms);
    putf(p + 36, e->text_ms);
    vr_wire_add(out, VR_WIRE_END, id, p, sizeof p);
}

bool vr_wire_get_end(const struct vr_frame *f, struct vr_wire_end *out)
{
    if (f->kind != VR_WIRE_END || f->n != END_BYTES || f->data[1] >= VR_N_ENDS) return false;
    const uint8_t *p = f->data;
    *out = (struct vr_wire_end){ .choice = p[0],
                                 .reason = (enum vr_end)p[1],
                                 .stop = p[2],
                                 .completion_tokens = get32(p + 4),
                                 .reasoning_tokens = get32(p + 8),
                                 .cached_tokens = get32(p + 12),
                                 .drafted_tokens = get32(p + 16),
                                 .accepted_tokens = get32(p + 20),
                                 .slot = get32(p + 24),
                                 .queue_ms = getf(p + 28),
                                 .prompt_ms = getf(p + 32),
                                 .text_ms = getf(p + 36) };
    return true;
}

void vr_wire_add_result(struct vr_buf *out, uint32_t id, uint32_t index, uint32_t n_tokens, const float *v, uint32_t n)
{
    uint8_t p[RESULT_HEAD];
    put32(p, index);
    put32(p + 4, n_tokens);
    put32(p + 8, n);
    add_head(out, VR_WIRE_RESULT, id, sizeof p + (size_t)n * 4);
    vr_buf_add(out, p, sizeof p);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t f[4];
        putf(f, v[i]);
        vr_buf_add(out, f, sizeof f);
    }
}

bool vr_wire_get_result(const struct vr_frame *f, struct vr_wire_result *out)
{
    if (f->kind != VR_WIRE_RESULT || f->n < RESULT_HEAD) return false;
    const uint8_t *p = f->data;
    *out = (struct vr_wire_result){ get32(p), get32(p + 4), get32(p + 8), p + RESULT_HEAD };
    return (f->n - RESULT_HEAD) / 4 == out->n_dims && (f->n - RESULT_HEAD) % 4 == 0;
}

static void add_string_or_null(struct vr_buf *out, const char *s)
{
    if (s)
        vr_json_add_string(out, s);
    else
        vr_buf_adds(out, "null");
}

static size_t open_error(struct vr_buf *out, uint32_t id, uint16_t status, const char *param, const char *code,
                         const char *message)
{
    const uint8_t p[ERROR_HEAD] = { (uint8_t)status, (uint8_t)(status >> 8) };
    size_t at = vr_wire_open(out, VR_WIRE_ERROR, id);
    vr_buf_add(out, p, sizeof p);
    vr_buf_adds(out, "{\"message\":");
    vr_json_add_string(out, message);
    vr_buf_adds(out, ",\"param\":");
    add_string_or_null(out, param);
    vr_buf_adds(out, ",\"code\":");
    add_string_or_null(out, code);
    return at;
}

void vr_wire_add_error(struct vr_buf *out, uint32_t id, uint16_t status, const char *param, const char *code,
                       const char *message)
{
    size_t at = open_error(out, id, status, param, code, message);
    vr_buf_adds(out, "}");
    vr_wire_close(out, at);
}

void vr_wire_add_refusal(struct vr_buf *out, uint32_t id, const struct vr_refusal *why)
{
    size_t at = open_error(out, id, (uint16_t)why->status, why->param[0] ? why->param : NULL, why->code, why->message);
    if (why->n_ctx) vr_buf_addf(out, ",\"n_prompt_tokens\":%u,\"n_ctx\":%u", why->n_prompt, why->n_ctx);
    vr_buf_adds(out, "}");
    vr_wire_close(out, at);
}

bool vr_wire_get_error(const struct vr_frame *f, struct vr_wire_error *out)
{
    if (f->kind != VR_WIRE_ERROR || f->n < ERROR_HEAD) return false;
    *out = (struct vr_wire_error){ (uint16_t)(f->data[0] | f->data[1] << 8), (const char *)f->data + ERROR_HEAD,
                                   f->n - ERROR_HEAD };
    return true;
}

void vr_wire_add_stop(struct vr_buf *out, uint32_t ms)
{
    uint8_t p[4];
    put32(p, ms);
    vr_wire_add(out, VR_WIRE_STOP, 0, p, sizeof p);
}

bool vr_wire_get_stop(const struct vr_frame *f, uint32_t *ms)
{
    if (f->kind != VR_WIRE_STOP || f->n != 4) return false;
    *ms = get32(f->data);
    return true;
}

void vr_wire_add_lora(struct vr_buf *out, const float *scales, size_t n)
{
    size_t at = vr_wire_open(out, VR_WIRE_LORA, 0);
    for (size_t i = 0; i < n; i++) {
        uint8_t p[4];
        putf(p, scales[i]);
        vr_buf_add(out, p, sizeof p);
    }
    vr_wire_close(out, at);
}

bool vr_wire_get_lora(const struct vr_frame *f, float *scales, size_t n)
{
    if (f->kind != VR_WIRE_LORA || f->n != 4 * n) return false;
    for (size_t i = 0; i < n; i++) {
        scales[i] = getf(f->data + 4 * i);
        if (!isfinite(scales[i])) return false;
    }
    return true;
}

void vr_wire_add_pulse(struct vr_buf *out, const struct vr_wire_pulse *v)
{
    uint8_t p[PULSE_BYTES];
    put32(p, v->stalled_ms);
    put32(p + 4, v->preparing);
    put32(p + 8, v->oldest_ms);
    put32(p + 12, v->killed);
    vr_wire_add(out, VR_WIRE_PULSE, 0, p, sizeof p);
}

bool vr_wire_get_pulse(const struct vr_frame *f, struct vr_wire_pulse *out)
{
    if (f->kind != VR_WIRE_PULSE || f->n != PULSE_BYTES) return false;
    *out = (struct vr_wire_pulse){ get32(f->data), get32(f->data + 4), get32(f->data + 8), get32(f->data + 12) };
    return true;
}

/* The number that ends before *end, behind `name`; *end is then before that. False: it is something else. */
static bool number_before(const char *json, size_t *end, const char *name, uint64_t *out)
{
    const uint64_t most = UINT64_C(1000000000000000000); /* nineteen digits */
    size_t at = *end, n_name = strlen(name);
    uint64_t value = 0, unit = 1;
    for (; at > 0 && json[at - 1] >= '0' && json[at - 1] <= '9' && unit <= most; unit *= 10)
        value += unit * (uint64_t)(json[--at] - '0');
    if (unit == 1 || at < n_name || memcmp(json + at - n_name, name, n_name) != 0) return false;
    *end = at - n_name;
    *out = value;
    return true;
}

struct vr_whose vr_wire_whose(const char *json, size_t n)
{
    struct vr_whose w;
    if (n == 0 || json[--n] != '}' || !number_before(json, &n, ",\"tenant\":", &w.tenant) ||
        !number_before(json, &n, ",\"client\":", &w.client))
        return (struct vr_whose){ 0 };
    return w;
}
