/* What a worker wrote was checked for its form when it is read (prepared.h). Here it is held against what only this
 * process knows: the context's size, and what llama.cpp makes of the grammar and of the pictures. */
#include <inttypes.h>
#include <string.h>

#include "engine/process/chain.h"
#include "engine/process/request.h"
#include "engine/wire/wire.h"

struct accepting {
    struct vr_request *r;
    const struct vr_engine *e;
    struct vr_refusal *why;
    struct vr_prepared p;
};

struct vr_request *vr_request_new(uint32_t id, char *json, size_t n, double now_ms)
{
    struct vr_request *r = calloc(1, sizeof *r);
    if (!r) return free(json), NULL;
    r->id = id;
    r->job.body = json;
    r->job.n_body = n;
    r->whose = vr_wire_whose(json, n);
    r->job.client = r->whose.client;
    r->arrived_ms = now_ms;
    return r;
}

static void drop_body(struct vr_request *r)
{
    free((void *)(uintptr_t)r->job.body);
    r->job.body = NULL;
}

void vr_request_free(struct vr_request *r)
{
    if (!r) return;
    for (uint32_t i = 0; r->prompts && i < r->n_prompts; i++) {
        free(r->prompts[i].tokens);
        vr_bridge_media_free(r->prompts[i].scene);
    }
    vr_grammar_free(r->grammar);
    if (r->dry) llama_sampler_free(r->dry);
    vr_bridge_patterns_free(r->patterns);
    vr_bridge_chat_free(r->chat);
    vr_arena_done(&r->arena);
    vr_buf_done(&r->answer);
    vr_buf_done(&r->reply);
    drop_body(r);
    free(r);
}

struct vr_request *vr_request_of(struct vr_prepare_job *job)
{
    return (struct vr_request *)(void *)((char *)job - offsetof(struct vr_request, job));
}

bool vr_request_is_large(const struct vr_request *r) { return r->answer.n > 8 << 20; }

static bool refuse_err(struct accepting *a, const char *param, const struct vr_err *err)
{
    return err->code == VR_ENOMEM ? vr_refuse_nomem(a->why) : vr_refuse(a->why, param, NULL, "%s", err->msg);
}

static bool distrust(struct accepting *a)
{
    vr_refuse(a->why, NULL, "prepare_failed", "the request could not be prepared: its process answered nonsense");
    a->why->status = 500;
    return false;
}

/* --- numbers and strings --- */

static bool take_settings(struct accepting *a)
{
    struct vr_request *r = a->r;
    const struct vr_prepared *p = &a->p;
    struct vr_bias *bias = vr_arena_alloc(&r->arena, p->sampling.n_bias + 1, sizeof *bias);
    r->kind = (enum vr_request_kind)p->kind;
    r->n = p->n;
    r->sampling = p->sampling;
    r->sampling.bias = bias;
    r->seed = p->seed;
    r->max_tokens = p->max_tokens;
    r->n_indent = p->n_indent;
    r->max_ms = p->max_ms;
    r->stream = p->stream;
    r->ignore_eos = p->ignore_eos;
    r->cache = p->cache;
    r->echo = p->echo;
    r->logprobs = p->logprobs;
    r->ids = p->ids;
    r->timings = p->timings;
    r->progress = p->progress;
    r->top_logprobs = p->top_logprobs;
    r->slot = p->slot <= a->e->n_seq ? p->slot : 0;
    if (p->has_lora) memcpy(r->lora.of, p->lora, sizeof r->lora.of);
    vr_lora_key(a->e, &r->lora);
    r->whose.tenant ^= r->lora.key; /* what was computed with other adapters is of no use */
    r->stops = vr_arena_alloc(&r->arena, p->n_stops + 1, sizeof *r->stops);
    if (!bias || !r->stops) return vr_refuse_nomem(a->why);
    if (p->sampling.n_bias) memcpy(bias, p->sampling.bias, p->sampling.n_bias * sizeof *bias);
    for (size_t i = 0; i < p->n_stops; i++) {
        r->stops[i] = vr_arena_strndup(&r->arena, p->stops[i].data, p->stops[i].n);
        if (!r->stops[i]) return vr_refuse_nomem(a->why);
    }
    r->n_stops = p->n_stops;
    r->n_own_stops = p->n_own_stops;
    return vr_chain_prepare(&r->sampling, a->e->vocab, a->e->n_ctx_seq, &r->dry) || vr_refuse_nomem(a->why);
}

/* --- how the answer is constrained and read --- */

static bool take_grammar(struct accepting *a)
{
    const struct vr_grammar_spec *g = &a->p.grammar;
    struct vr_request *r = a->r;
    struct vr_err err = { 0 };
    char param[97];
    if (g->gbnf.n == 0) return true;
    snprintf(param, sizeof param, "%.*s", (int)a->p.grammar_param.n, a->p.grammar_param.data);
    if (g->n_triggers) r->patterns = vr_bridge_patterns_new(g->triggers, g->n_triggers, &err);
    if (!g->n_triggers || r->patterns)
        r->grammar = vr_grammar_new(g, a->e->token_index, vr_bridge_pattern_find, r->patterns, &err);
    return r->grammar || refuse_err(a, param, &err);
}

static bool take_chat(struct accepting *a)
{
    struct vr_err err = { 0 };
    if (!a->p.is_chat) return true;
    a->r->chat = vr_bridge_chat_from(&a->p.chat, &err);
    return a->r->chat || refuse_err(a, "messages", &err);
}

/* --- prompts --- */

/* A text needs room for one token of answer; what is pooled does not. */
static uint64_t room(const struct accepting *a)
{
    bool pooled = vr_request_is_pooled(a->r->kind);
    uint64_t most = a->e->n_ctx_seq - (pooled ? 0 : 1);
    return pooled && !a->e->text && a->e->n_ubatch < most ? a->e->n_ubatch : most;
}

static bool take_prompts(struct accepting *a)
{
    struct vr_request *r = a->r;
    for (uint32_t i = 0; i < r->n_prompts; i++) {
        const struct vr_ids *ids = &a->p.prompts[i];
        if (ids->n > room(a) && !r->look) return distrust(a);
        r->prompts[i].tokens = calloc(ids->n + 1, sizeof *r->prompts[i].tokens);
        if (!r->prompts[i].tokens) return vr_refuse_nomem(a->why);
        memcpy(r->prompts[i].tokens, ids->ids, ids->n * sizeof *ids->ids);
        r->prompts[i].n = (uint32_t)ids->n;
        r->prompts[i].boundaries = a->p.boundaries; /* in the arena */
        r->prompts[i].n_boundaries = (uint32_t)a->p.n_boundaries;
    }
    return true;
}

/* Numbers that stand for the tokens of a picture where prompts are compared: negative, and others for another one. */
static llama_token picture_token(uint64_t id, uint32_t i)
{
    uint64_t z = id + (i + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return -2 - (llama_token)((z ^ (z >> 31)) & 0x3FFFFFFF);
}

/* The parts of a scene, in a row. */
static bool list_parts(struct accepting *a, struct vr_prompt *p, size_t n_parts)
{
    uint32_t at = 0;
    for (size_t i = 0; i < n_parts; i++) {
        struct vr_media_part part = vr_bridge_media_part(p->scene, i);
        if (part.whole && part.n_tokens > a->e->n_ubatch)
            return vr_refuse(a->why, "messages", NULL,
                             "an image or a sound takes %u tokens, which must be in one micro-batch: start the "
                             "server with --n-ubatch and --n-batch of as many",
                             part.n_tokens);
        if (!part.tokens)
            p->pictures[p->n_pictures++] = (struct vr_picture){ at, part.n_tokens, part.n_pos, (uint32_t)i };
        for (uint32_t k = 0; k < part.n_tokens; k++)
            p->tokens[at++] = part.tokens ? part.tokens[k] : picture_token(part.id, k);
    }
    p->n = at;
    if (at && p->tokens[at - 1] < 0)
        return vr_refuse(a->why, "messages", NULL,
                         "this model's chat template ends with an image or a sound, so there is nothing to answer");
    return at > 0 || vr_refuse(a->why, "messages", NULL, "'messages' is empty");
}

/* Making parts of ten minutes of sound takes seconds: what cannot fit is refused before. */
static bool sounds_fit(struct accepting *a)
{
    uint64_t n = 0;
    for (size_t i = 0; i < a->p.n_pictures; i++)
        if (a->p.pictures[i].sound) n += vr_bridge_sound_least(a->e->vision, a->p.pictures[i].pixels.n / sizeof(float));
    return n <= room(a) || a->r->look ||
           vr_refuse(a->why, "messages", "context_length_exceeded",
                     "the sounds of 'messages' have at least %" PRIu64 " tokens, which exceeds the available context "
                     "size of %" PRIu64 " tokens for one request. Shorten them, or start the server with a larger "
                     "--n-ctx",
                     n, room(a));
}

/* A prompt with pictures, as tokens. */
static bool take_scene(struct accepting *a)
{
    struct vr_err err = { 0 };
    struct vr_prompt *p = &a->r->prompts[0];
    if (!a->e->vision) return distrust(a);
    if (!sounds_fit(a)) return false;
    p->scene = vr_bridge_media_new(a->e->vision, a->p.scene, a->p.cut, a->p.pictures, a->p.n_pictures, &err);
    if (!p->scene) return refuse_err(a, "messages", &err);
    uint64_t n = 0;
    size_t n_parts = vr_bridge_media_parts(p->scene);
    for (size_t i = 0; i < n_parts; i++) n += vr_bridge_media_part(p->scene, i).n_tokens;
    if (n > room(a) && !a->r->look) return vr_refuse_too_long(a->why, "messages", n, room(a), a->e->n_ctx_seq);
    p->tokens = calloc((size_t)n + 1, sizeof *p->tokens);
    p->pictures = vr_arena_alloc(&a->r->arena, n_parts, sizeof *p->pictures);
    if (!p->tokens || !p->pictures) return vr_refuse_nomem(a->why);
    return list_parts(a, p, n_parts);
}

static bool does(const struct vr_engine *e, enum vr_request_kind kind)
{
    return kind == VR_EMBEDDING ? e->embeddings : kind == VR_RERANK ? e->ranks : e->text;
}

static bool take_all(struct accepting *a)
{
    struct vr_request *r = a->r;
    bool seen = a->p.n_pictures > 0;
    if (!take_settings(a)) return false;
    r->look = (enum vr_look)a->p.look;
    vr_buf_add(&r->reply, a->p.reply.data, a->p.reply.n);
    if (r->reply.failed) return vr_refuse_nomem(a->why);
    if (r->look >= VR_LOOK_TOKENS) return true;
    r->prompts = vr_arena_alloc(&r->arena, a->p.n_prompts + 1, sizeof *r->prompts);
    if (!r->prompts) return vr_refuse_nomem(a->why);
    r->n_prompts = seen ? 1 : (uint32_t)a->p.n_prompts;
    if (!does(a->e, r->kind)) return distrust(a);
    return take_chat(a) && take_grammar(a) && (seen ? take_scene(a) : take_prompts(a));
}

bool vr_request_accept(struct vr_request *r, const struct vr_engine *e, struct vr_refusal *why)
{
    struct accepting a = { .r = r, .e = e, .why = why };
    drop_body(r);
    bool ok = false;
    switch (vr_prepared_read(r->answer.data, r->answer.n, e->n_vocab, &r->arena, &a.p, why)) {
    case VR_PREPARED: ok = take_all(&a); break;
    case VR_REFUSED: break;
    case VR_MALFORMED: distrust(&a); break;
    }
    vr_buf_done(&r->answer);
    return ok;
}
