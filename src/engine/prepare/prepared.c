/* The layout is walked once, by functions that write or read: both sides are the same lines. Writing never fails at the
 * call, as a vr_buf does not; a read that fails makes all further ones fail. Numbers are this machine's, since both
 * processes are of one program; arrays of numbers begin at a multiple of eight. */
#include "engine/prepare/prepared.h"

#include <math.h>
#include <string.h>

#define MAGIC 0x70726570u /* "prep" */

struct io {
    struct vr_buf *out; /* writing, or NULL: */
    const char *at, *end;
    const char *start;
    struct vr_arena *arena;
    bool bad;
};

static bool fail(struct io *io)
{
    io->bad = true;
    return false;
}

/* --- bytes --- */

static void raw(struct io *io, void *v, size_t n)
{
    if (io->out)
        vr_buf_add(io->out, v, n);
    else if (io->bad || n > (size_t)(io->end - io->at))
        memset(v, 0, n), fail(io);
    else
        memcpy(v, io->at, n), io->at += n;
}

static void align(struct io *io)
{
    static const char zero[8];
    size_t have = io->out ? io->out->n : (size_t)(io->at - io->start), more = -have & 7;
    char skipped[8];
    if (io->out)
        vr_buf_add(io->out, zero, more);
    else
        raw(io, skipped, more);
}

/* n items of `size` bytes where they are: *v points to them when reading. */
static void block(struct io *io, const void **v, size_t n, size_t size)
{
    align(io);
    if (io->out) return vr_buf_add(io->out, *v, n * size);
    *v = io->at;
    if (io->bad || n > (size_t)(io->end - io->at) / size) {
        fail(io);
        return;
    }
    io->at += n * size;
}

/* --- numbers --- */

static void u32(struct io *io, uint32_t *v, uint32_t most)
{
    raw(io, v, sizeof *v);
    if (*v > most) *v = 0, fail(io);
}

static void f32(struct io *io, float *v)
{
    raw(io, v, sizeof *v);
    if (!isfinite(*v)) *v = 0, fail(io);
}

static void flag(struct io *io, bool *v)
{
    uint32_t n = *v;
    u32(io, &n, 1);
    *v = n;
}

/* A count of at most `most`. */
static void count(struct io *io, size_t *v, size_t most)
{
    uint64_t n = *v;
    raw(io, &n, sizeof n);
    if (n > most) n = 0, fail(io);
    *v = (size_t)n;
}

/* --- pieces --- */

static void bytes(struct io *io, struct vr_span *v, size_t most)
{
    const void *data = v->data;
    count(io, &v->n, most);
    block(io, &data, v->n, 1);
    v->data = data;
    if (io->bad) *v = (struct vr_span){ "", 0 };
}

static void ids(struct io *io, struct vr_ids *v, size_t most, uint32_t n_vocab)
{
    const void *data = v->ids;
    count(io, &v->n, most);
    block(io, &data, v->n, sizeof *v->ids);
    v->ids = data;
    if (io->bad) v->n = 0;
    for (size_t i = 0; i < v->n; i++)
        if (v->ids[i] < 0 || (uint32_t)v->ids[i] >= n_vocab) fail(io);
}

/* Room for the n items that follow, when reading. False: none. */
static bool room(struct io *io, void *list, size_t *n, size_t most, size_t size)
{
    count(io, n, most);
    if (io->out || io->bad) return !io->bad;
    void *made = vr_arena_alloc(io->arena, *n + 1, size);
    memcpy(list, &made, sizeof made);
    return made || fail(io);
}

enum {
    MOST_TOKENS = 1 << 28,
    MOST_TRIGGERS = 4096,
    MOST_PATTERN = 65536,
    MOST_KEPT = 4096,
    MOST_TEXT = 256 << 20,
};

static void chain(struct io *io, struct vr_chain_spec *c)
{
    float *const numbers[] = { &c->typical_p,      &c->top_n_sigma, &c->xtc_probability, &c->xtc_threshold,
                               &c->dry_multiplier, &c->dry_base,    &c->dynatemp_range,  &c->dynatemp_exponent,
                               &c->mirostat_tau,   &c->mirostat_eta };
    flag(io, &c->on);
    flag(io, &c->tells);
    for (size_t i = 0; i < VR_COUNT(numbers); i++) f32(io, numbers[i]);
    raw(io, &c->dry_allowed_length, sizeof c->dry_allowed_length);
    raw(io, &c->dry_last_n, sizeof c->dry_last_n);
    raw(io, &c->mirostat, sizeof c->mirostat);
    raw(io, &c->min_keep, sizeof c->min_keep);
    u32(io, &c->n_steps, VR_MOST_STEPS);
    for (uint32_t i = 0; i < c->n_steps; i++) u32(io, &c->steps[i], VR_N_SAMPLERS - 1);
    if (room(io, &c->breakers, &c->n_breakers, VR_MOST_BREAKERS, sizeof *c->breakers))
        for (size_t i = 0; i < c->n_breakers; i++) bytes(io, &c->breakers[i], VR_MOST_STOP_BYTES);
    if (c->min_keep < 0 || c->dry_allowed_length < 0) fail(io);
}

static void sampling(struct io *io, struct vr_sampling *s, uint32_t n_vocab)
{
    f32(io, &s->temperature);
    f32(io, &s->top_p);
    f32(io, &s->min_p);
    f32(io, &s->presence);
    f32(io, &s->frequency);
    f32(io, &s->repeat);
    raw(io, &s->top_k, sizeof s->top_k);
    raw(io, &s->repeat_last_n, sizeof s->repeat_last_n);
    chain(io, &s->chain);
    const void *bias = s->bias;
    count(io, &s->n_bias, 2 * (size_t)VR_MOST_BIASES + n_vocab); /* of ids and of texts, and what it never says */
    block(io, &bias, s->n_bias, sizeof *s->bias);
    s->bias = bias;
    if (io->bad) s->n_bias = 0;
    for (size_t i = 0; i < s->n_bias; i++)
        if (s->bias[i].token < 0 || (uint32_t)s->bias[i].token >= n_vocab || isnan(s->bias[i].bias)) fail(io);
}

static void grammar(struct io *io, struct vr_grammar_spec *g, uint32_t n_vocab)
{
    bytes(io, &g->gbnf, MOST_TEXT); /* how large it may be is the grammar's reader's to say, in words */
    flag(io, &g->lazy);
    if (room(io, &g->triggers, &g->n_triggers, MOST_TRIGGERS, sizeof *g->triggers))
        for (size_t i = 0; i < g->n_triggers; i++) {
            flag(io, &g->triggers[i].pattern);
            bytes(io, &g->triggers[i].text, MOST_PATTERN);
        }
    ids(io, &g->trigger_tokens, MOST_TRIGGERS, n_vocab);
    ids(io, &g->begun, MOST_TRIGGERS, n_vocab);
    ids(io, &g->think, MOST_TRIGGERS, n_vocab);
    if (room(io, &g->think_ends, &g->n_think_ends, MOST_TRIGGERS, sizeof *g->think_ends))
        for (size_t i = 0; i < g->n_think_ends; i++) ids(io, &g->think_ends[i], MOST_TRIGGERS, n_vocab);
    if (io->bad) *g = (struct vr_grammar_spec){ 0 };
}

static void chat(struct io *io, struct vr_chat_form *c, uint32_t n_vocab)
{
    u32(io, &c->format, UINT32_MAX);
    u32(io, &c->reasoning_format, UINT32_MAX);
    flag(io, &c->parse_tool_calls);
    bytes(io, &c->generation_prompt, MOST_TEXT);
    bytes(io, &c->parser, VR_MOST_PARSER_BYTES);
    ids(io, &c->kept, MOST_KEPT, n_vocab);
    flag(io, &c->plain);
    flag(io, &c->tools);
    flag(io, &c->one_call);
    flag(io, &c->schema);
    flag(io, &c->thinks);
    flag(io, &c->continues);
}

static void picture(struct io *io, struct vr_rgb *p)
{
    flag(io, &p->sound);
    u32(io, &p->width, VR_MOST_PICTURE_SIDE);
    u32(io, &p->height, VR_MOST_PICTURE_SIDE);
    bytes(io, &p->pixels, (size_t)VR_MOST_PICTURE_PIXELS * 3);
    raw(io, p->id, sizeof p->id);
    p->id[VR_RGB_ID] = '\0';
    if (p->pixels.n == 0 || (p->sound ? p->pixels.n % sizeof(float) : p->pixels.n != (size_t)p->width * p->height * 3))
        fail(io);
}

/* --- all of it --- */

static void numbers(struct io *io, struct vr_prepared *p)
{
    u32(io, &p->kind, VR_N_REQUEST_KINDS - 1);
    u32(io, &p->look, VR_N_LOOKS - 1);
    bytes(io, &p->reply, MOST_TEXT);
    u32(io, &p->n, VR_MOST_CHOICES);
    raw(io, &p->seed, sizeof p->seed);
    u32(io, &p->max_tokens, INT32_MAX);
    u32(io, &p->top_logprobs, VR_MOST_TOP_LOGPROBS);
    u32(io, &p->n_indent, INT32_MAX);
    raw(io, &p->max_ms, sizeof p->max_ms);
    u32(io, &p->slot, INT32_MAX);
    flag(io, &p->stream);
    flag(io, &p->ignore_eos);
    flag(io, &p->cache);
    flag(io, &p->echo);
    flag(io, &p->logprobs);
    flag(io, &p->ids);
    flag(io, &p->timings);
    flag(io, &p->progress);
    flag(io, &p->has_lora);
    for (size_t i = 0; p->has_lora && i < VR_MOST_LORAS; i++) f32(io, &p->lora[i]);
}

static void walk(struct io *io, struct vr_prepared *p, uint32_t n_vocab)
{
    numbers(io, p);
    sampling(io, &p->sampling, n_vocab);
    if (room(io, &p->prompts, &p->n_prompts, VR_MOST_INPUTS, sizeof *p->prompts))
        for (size_t i = 0; i < p->n_prompts; i++) ids(io, &p->prompts[i], MOST_TOKENS, n_vocab);
    if (room(io, &p->boundaries, &p->n_boundaries, VR_MOST_BOUNDARIES, sizeof *p->boundaries))
        for (size_t i = 0; i < p->n_boundaries; i++) u32(io, &p->boundaries[i], MOST_TOKENS);
    if (room(io, &p->stops, &p->n_stops, 2 * (size_t)VR_MOST_STOPS, sizeof *p->stops))
        for (size_t i = 0; i < p->n_stops; i++) bytes(io, &p->stops[i], MOST_PATTERN);
    u32(io, &p->n_own_stops, VR_MOST_STOPS);
    grammar(io, &p->grammar, n_vocab);
    bytes(io, &p->grammar_param, 96);
    flag(io, &p->is_chat);
    if (p->is_chat) chat(io, &p->chat, n_vocab);
    bytes(io, &p->scene, MOST_TEXT);
    bytes(io, &p->cut, 4);
    if (room(io, &p->pictures, &p->n_pictures, VR_MOST_PICTURES, sizeof *p->pictures))
        for (size_t i = 0; i < p->n_pictures; i++) picture(io, &p->pictures[i]);
}

/* What the numbers mean together. */
static bool makes_sense(const struct vr_prepared *p)
{
    if (p->look >= VR_LOOK_TOKENS) return p->n_prompts == 0 && p->n_pictures == 0;
    bool seen = p->n_pictures && p->scene.n && p->kind == VR_CHAT && p->n_prompts == 0;
    if (p->n_own_stops > p->n_stops || (p->kind == VR_CHAT) != p->is_chat) return false;
    for (size_t i = 0; i < p->n_stops; i++)
        if (p->stops[i].n == 0) return false;
    for (size_t i = 0; i < p->n_prompts; i++)
        if (p->prompts[i].n == 0) return false;
    if (p->n_boundaries && p->n_prompts != 1) return false;
    for (size_t i = 0; i < p->n_boundaries; i++)
        if (p->boundaries[i] >= p->prompts[0].n || p->boundaries[i] <= (i ? p->boundaries[i - 1] : 0)) return false;
    for (size_t i = 0; i < p->grammar.n_think_ends; i++)
        if (p->grammar.think_ends[i].n == 0) return false;
    if (vr_request_is_pooled((enum vr_request_kind)p->kind))
        return p->n_prompts > 0 && p->n_pictures == 0 && p->grammar.gbnf.n == 0;
    if (p->n == 0 || p->n_prompts * p->n > VR_MOST_TEXTS) return false;
    return seen || (p->n_prompts > 0 && p->n_pictures == 0 && p->scene.n == 0);
}

static void refusal(struct io *io, struct vr_refusal *why, struct vr_span *code)
{
    struct vr_span param = { why->param, strlen(why->param) }, message = { why->message, strlen(why->message) };
    uint32_t status = (uint32_t)why->status;
    u32(io, &status, 599);
    bytes(io, code, 64);
    bytes(io, &param, sizeof why->param - 1);
    bytes(io, &message, sizeof why->message - 1);
    u32(io, &why->n_prompt, INT32_MAX);
    u32(io, &why->n_ctx, INT32_MAX);
    if (io->out) return;
    why->status = (int)status;
    snprintf(why->param, sizeof why->param, "%.*s", (int)param.n, param.data);
    snprintf(why->message, sizeof why->message, "%.*s", (int)message.n, message.data);
    if (status < 400) fail(io);
}

static void head(struct io *io, uint32_t *what)
{
    uint32_t magic = MAGIC;
    u32(io, &magic, UINT32_MAX);
    u32(io, what, VR_REFUSED);
    if (magic != MAGIC) fail(io);
}

void vr_prepared_write(const struct vr_prepared *p, struct vr_buf *out)
{
    struct vr_prepared copy = *p;
    struct io io = { .out = out };
    uint32_t what = VR_PREPARED;
    head(&io, &what);
    walk(&io, &copy, UINT32_MAX);
    if (io.bad) out->failed = true; /* more than a request may be: the reader would not take it */
}

void vr_refusal_write(const struct vr_refusal *why, struct vr_buf *out)
{
    struct vr_refusal copy = *why;
    struct vr_span code = { why->code ? why->code : "", why->code ? strlen(why->code) : 0 };
    struct io io = { .out = out };
    uint32_t what = VR_REFUSED;
    head(&io, &what);
    refusal(&io, &copy, &code);
}

bool vr_refuse_too_long(struct vr_refusal *why, const char *param, uint64_t n, uint64_t most, uint32_t n_ctx)
{
    vr_refuse(why, param, "context_length_exceeded",
              "'%s' has %llu tokens, which exceeds the available context size of %llu tokens for one request: %llu "
              "too many. Shorten it, or start the server with a larger --n-ctx",
              param, (unsigned long long)n, (unsigned long long)most, (unsigned long long)(n - most));
    why->n_prompt = n < INT32_MAX ? (uint32_t)n : INT32_MAX;
    why->n_ctx = n_ctx;
    return false;
}

static bool read_refusal(struct io *io, struct vr_refusal *why)
{
    struct vr_span code = { 0 };
    *why = (struct vr_refusal){ 0 };
    refusal(io, why, &code);
    if (!io->bad && code.n && !(why->code = vr_arena_strndup(io->arena, code.data, code.n))) fail(io);
    return !io->bad && io->at == io->end;
}

enum vr_prepared_what vr_prepared_read(const char *data, size_t n, uint32_t n_vocab, struct vr_arena *arena,
                                       struct vr_prepared *out, struct vr_refusal *why)
{
    struct io io = { .at = data, .start = data, .end = data + n, .arena = arena };
    uint32_t what = VR_REFUSED;
    *out = (struct vr_prepared){ 0 };
    head(&io, &what);
    if (io.bad) return VR_MALFORMED;
    if (what == VR_REFUSED) return read_refusal(&io, why) ? VR_REFUSED : VR_MALFORMED;
    walk(&io, out, n_vocab);
    return !io.bad && io.at == io.end && makes_sense(out) ? VR_PREPARED : VR_MALFORMED;
}
