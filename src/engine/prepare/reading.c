/* The settings of a request: numbers, biases, samplers, stop strings, adapters. */
#include "engine/prepare/reading.h"

#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/text.h"

bool vr_reading_refuse(struct vr_reading *g, const char *param, const struct vr_err *err)
{
    return err->code == VR_ENOMEM ? vr_refuse_nomem(g->why) : vr_refuse(g->why, param, NULL, "%s", err->msg);
}

bool vr_reading_has_tokenizer(struct vr_reading *g, const char *param)
{
    return llama_vocab_type(g->e->vocab) != LLAMA_VOCAB_TYPE_NONE ||
           vr_refuse(g->why, param, "unsupported_model",
                     "this model's file has no tokenizer, so it can neither read nor write text");
}

static void read_numbers(struct vr_reading *g)
{
    struct vr_prepared *r = g->p;
    const json_t *v;
    r->sampling = g->e->defaults;
    r->n = 1;
    r->cache = true;
    r->max_tokens = r->kind == VR_COMPLETION ? 16 : INT32_MAX; /* OpenAI's defaults */
    if (getrandom(&r->seed, sizeof r->seed, 0) != sizeof r->seed) r->seed = vr_now_us();
#define NUMBER(field, member)                                                                                          \
    if ((v = GET(g, field))) r->member = (float)json_number_value(v);
#define WHOLE(field, member)                                                                                           \
    if ((v = GET(g, field))) r->member = (__typeof__(r->member))json_integer_value(v);
#define FLAG(field, member)                                                                                            \
    if ((v = GET(g, field))) r->member = json_is_true(v);
#include "engine/prepare/prepare.def"
#undef NUMBER
#undef WHOLE
#undef FLAG
}

/* A chat asks for them with a flag and a number beside it, a completion with the number. */
static void read_logprobs(struct vr_reading *g)
{
    const json_t *top = g->p->kind == VR_CHAT ? GET(g, top_logprobs) : GET(g, top_logprobs_of_completion);
    g->p->ids = json_is_true(json_object_get(g->body, "ids"));
    g->p->logprobs = g->p->kind == VR_CHAT ? json_is_true(GET(g, logprobs)) : top != NULL;
    g->p->top_logprobs = (uint32_t)json_integer_value(top);
}

static struct vr_bias bias_of(llama_token token, double bias)
{
    return (struct vr_bias){ token, bias <= -100 ? -1e9f : (float)bias };
}

/* The tokens of a text, wherever they stand. */
static bool read_text_biases(struct vr_reading *g, json_t *map, struct vr_bias *out, size_t *have)
{
    const char *text;
    json_t *bias;
    size_t n = 0;
    json_object_foreach(map, text, bias)
    {
        VR_AUTO_FREE llama_token *tokens = NULL;
        struct vr_err err = { 0 };
        int count = vr_bridge_tokenize_as(g->e->vocab, text, strlen(text), false, false, &tokens, &err);
        if (count < 0) return vr_reading_refuse(g, "logit_bias", &err);
        if ((n += (size_t)count) > VR_MOST_BIASES)
            return vr_refuse(g->why, "logit_bias", "too_many", "the texts of 'logit_bias' have more than %d tokens",
                             VR_MOST_BIASES);
        for (int i = 0; i < count; i++) out[(*have)++] = bias_of(tokens[i], json_number_value(bias));
    }
    return true;
}

/* The request's biases, and what the model must never say. */
static bool read_biases(struct vr_reading *g)
{
    json_t *map = GET(g, logit_bias), *texts = json_object_get(g->body, "text_bias"), *v;
    const char *key;
    int32_t n_never = 0;
    const llama_token *never = llama_vocab_get_suppress_tokens(g->e->vocab, &n_never);
    size_t n = json_object_size(map) + (texts ? VR_MOST_BIASES : 0), have = 0;
    struct vr_bias *b = vr_arena_alloc(&g->arena, n + (size_t)(n_never > 0 ? n_never : 0) + 1, sizeof *b);
    if (!b) return vr_refuse_nomem(g->why);
    json_object_foreach(map, key, v)
    {
        uint64_t token;
        if (!vr_parse_u64(key, 0, g->e->n_vocab - 1, &token))
            return vr_refuse(g->why, "logit_bias", NULL, "'%.40s' in 'logit_bias' is no token of this model (0 to %u)",
                             key, g->e->n_vocab - 1);
        b[have++] = bias_of((llama_token)token, json_number_value(v));
    }
    if (texts && (!vr_reading_has_tokenizer(g, "logit_bias") || !read_text_biases(g, texts, b, &have))) return false;
    for (int32_t i = 0; i < n_never; i++) b[have++] = (struct vr_bias){ never[i], -1e9f };
    g->p->sampling.bias = b;
    g->p->sampling.n_bias = have;
    return true;
}

bool vr_read_lora(struct vr_reading *g)
{
    const json_t *list = GET(g, lora);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t id = json_integer_value(json_object_get(v, "id"));
        if (id >= (json_int_t)g->is->n_loras)
            return vr_refuse(g->why, "lora", "invalid_value",
                             g->is->n_loras ? "there is no LoRA adapter %lld; GET /lora-adapters lists them"
                                            : "there is no LoRA adapter %lld: the server was started without --lora",
                             (long long)id);
        g->p->lora[id] = (float)json_number_value(json_object_get(v, "scale"));
        g->p->has_lora = true;
    }
    return true;
}

/* Whether llama.cpp's chain of samplers is needed, and what its steps are. */
static bool read_chain(struct vr_reading *g)
{
    static const char *const usual[] = { "\n", ":", "\"", "*" }; /* llama.cpp's */
    struct vr_chain_spec *c = &g->p->sampling.chain;
    const json_t *steps = GET(g, samplers), *breakers = GET(g, dry_sequence_breakers);
    int n = vr_samplers_read(steps, c->steps);
    c->tells = g->p->logprobs && json_is_true(GET(g, post_sampling_probs));
    c->on = n >= 0 || c->typical_p < 1 || c->top_n_sigma > 0 || c->xtc_probability > 0 || c->dry_multiplier > 0 ||
            c->dynatemp_range > 0 || c->mirostat > 0 || c->min_keep > 0 || c->tells;
    for (n = n < 0 ? 0 : n; !steps && n < VR_SAMPLER_INFILL; n++) c->steps[n] = (uint32_t)n;
    c->n_steps = (uint32_t)n;
    c->n_breakers = breakers ? json_array_size(breakers) : VR_COUNT(usual);
    c->breakers = vr_arena_alloc(&g->arena, c->n_breakers, sizeof *c->breakers);
    if (!c->breakers) return vr_refuse_nomem(g->why);
    for (size_t i = 0; i < c->n_breakers; i++) {
        const json_t *v = json_array_get(breakers, i);
        c->breakers[i] = v ? (struct vr_span){ json_string_value(v), json_string_length(v) }
                           : (struct vr_span){ usual[i], strlen(usual[i]) };
    }
    return true;
}

static bool read_stops(struct vr_reading *g)
{
    const json_t *v = GET(g, stop);
    size_t n = json_is_array(v) ? json_array_size(v) : v ? 1 : 0;
    g->p->stops = vr_arena_alloc(&g->arena, n + VR_MOST_STOPS, sizeof *g->p->stops);
    if (!g->p->stops) return vr_refuse_nomem(g->why);
    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_is_array(v) ? json_array_get(v, i) : v;
        g->p->stops[i] = (struct vr_span){ json_string_value(s), json_string_length(s) };
    }
    g->p->n_stops = n;
    g->p->n_own_stops = (uint32_t)n;
    return true;
}

static bool read_slot(struct vr_reading *g)
{
    const json_t *v = GET(g, id_slot);
    json_int_t i = v ? json_integer_value(v) : -1;
    if (i >= (json_int_t)g->is->n_seq)
        return vr_refuse(g->why, "id_slot", "invalid_value",
                         "'id_slot' must be one of this model's slots (0 to %u), or -1", g->is->n_seq - 1);
    g->p->slot = (uint32_t)(i + 1);
    return true;
}

bool vr_read_settings(struct vr_reading *g)
{
    read_numbers(g);
    read_logprobs(g);
    return read_slot(g) && read_biases(g) && read_chain(g) && read_stops(g);
}
