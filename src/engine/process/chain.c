#include "engine/process/chain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/wire/limits.h"

#define MOST_CANDIDATES 4096 /* the likeliest: sorting 150,000 took 30 ms of everybody's step */
#define MIROSTAT_M      100  /* tokens that mirostat 1 estimates by, as in its paper */

struct vr_chain {
    struct llama_sampler *steps;
    llama_token_data *row;
    struct vr_candidate *gated; /* made when a gate refuses the first choice */
    size_t n, fed;              /* tokens of the history that the steps have seen */
    size_t look_back;           /* of which they look at so many at the most */
    size_t n_left;              /* of row: what the last choice was made from */
};

/* Breakers as C strings, which live as long as the call. */
static struct llama_sampler *new_dry(const struct vr_chain_spec *c, const struct llama_vocab *vocab, int32_t last_n)
{
    char *texts[VR_MOST_BREAKERS] = { 0 };
    size_t n = 0;
    for (; n < c->n_breakers && (texts[n] = strndup(c->breakers[n].data, c->breakers[n].n)); n++) {}
    struct llama_sampler *dry = n < c->n_breakers
                                    ? NULL
                                    : llama_sampler_init_dry(vocab, c->dry_multiplier, c->dry_base,
                                                             c->dry_allowed_length, last_n, (const char **)texts, n);
    for (size_t i = 0; i < n; i++) free(texts[i]);
    return dry;
}

bool vr_chain_prepare(struct vr_sampling *how, const struct llama_vocab *vocab, uint32_t n_ctx,
                      struct llama_sampler **dry)
{
    struct vr_chain_spec *c = &how->chain;
    bool wanted = false, ok = true;
    for (uint32_t i = 0; i < c->n_steps; i++) wanted |= c->steps[i] == VR_SAMPLER_DRY;
    if (c->dry_last_n < 0 || (uint32_t)c->dry_last_n > n_ctx) c->dry_last_n = (int32_t)n_ctx;
    if (c->on && (how->repeat_last_n < 0 || (uint32_t)how->repeat_last_n > n_ctx)) how->repeat_last_n = (int32_t)n_ctx;
    if (c->on && wanted && c->dry_multiplier > 0) {
        *dry = new_dry(c, vocab, c->dry_last_n);
        ok = *dry != NULL;
    }
    c->breakers = NULL;
    c->n_breakers = 0;
    return ok;
}

static struct llama_sampler *new_step(enum vr_sampler_step step, const struct vr_sampling *how,
                                      const struct llama_sampler *dry, const struct llama_vocab *vocab, uint32_t seed)
{
    const struct vr_chain_spec *c = &how->chain;
    int32_t n_vocab = llama_vocab_n_tokens(vocab);
    size_t keep = (size_t)c->min_keep;
    switch (step) {
    case VR_SAMPLER_PENALTIES:
        return llama_sampler_init_penalties(n_vocab, how->repeat_last_n, how->repeat, how->frequency, how->presence);
    case VR_SAMPLER_DRY: return dry ? llama_sampler_clone(dry) : NULL;
    case VR_SAMPLER_TOP_N_SIGMA: return llama_sampler_init_top_n_sigma(c->top_n_sigma);
    case VR_SAMPLER_TOP_K: return llama_sampler_init_top_k(how->top_k);
    case VR_SAMPLER_TYPICAL_P: return llama_sampler_init_typical(c->typical_p, keep);
    case VR_SAMPLER_TOP_P: return llama_sampler_init_top_p(how->top_p, keep);
    case VR_SAMPLER_MIN_P: return llama_sampler_init_min_p(how->min_p, keep);
    case VR_SAMPLER_XTC: return llama_sampler_init_xtc(c->xtc_probability, c->xtc_threshold, keep, seed);
    case VR_SAMPLER_TEMPERATURE:
        return llama_sampler_init_temp_ext(how->temperature, c->dynatemp_range, c->dynatemp_exponent);
    case VR_SAMPLER_INFILL: return llama_sampler_init_infill(vocab);
    default: return NULL;
    }
}

/* With mirostat, which chooses by itself, only penalties come before it, as in llama.cpp. */
static void add_steps(struct llama_sampler *chain, const struct vr_sampling *how, const struct llama_sampler *dry,
                      const struct llama_vocab *vocab, uint32_t seed)
{
    const struct vr_chain_spec *c = &how->chain;
    int32_t n_vocab = llama_vocab_n_tokens(vocab);
    bool greedy = how->temperature <= 0, cut = false;
    for (uint32_t i = 0; i < c->n_steps; i++) {
        bool weighs = c->steps[i] <= VR_SAMPLER_DRY; /* the others choose, and sort what they choose from */
        if (c->mirostat && !weighs) continue;
        if (!weighs && !cut) llama_sampler_chain_add(chain, llama_sampler_init_top_k(MOST_CANDIDATES));
        cut |= !weighs;
        struct llama_sampler *step = new_step((enum vr_sampler_step)c->steps[i], how, dry, vocab, seed);
        if (step) llama_sampler_chain_add(chain, step);
    }
    if (c->mirostat) llama_sampler_chain_add(chain, llama_sampler_init_top_k(MOST_CANDIDATES));
    if (c->mirostat) llama_sampler_chain_add(chain, llama_sampler_init_temp(how->temperature));
    if (greedy)
        llama_sampler_chain_add(chain, llama_sampler_init_greedy());
    else if (c->mirostat == 1)
        llama_sampler_chain_add(
            chain, llama_sampler_init_mirostat(n_vocab, seed, c->mirostat_tau, c->mirostat_eta, MIROSTAT_M));
    else if (c->mirostat == 2)
        llama_sampler_chain_add(chain, llama_sampler_init_mirostat_v2(seed, c->mirostat_tau, c->mirostat_eta));
    else
        llama_sampler_chain_add(chain, llama_sampler_init_dist(seed));
}

struct vr_chain *vr_chain_new(const struct vr_sampling *how, const struct llama_sampler *dry,
                              const struct llama_vocab *vocab, uint64_t seed)
{
    struct vr_chain *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->n = (size_t)llama_vocab_n_tokens(vocab);
    c->row = malloc(c->n * sizeof *c->row);
    c->steps = llama_sampler_chain_init(llama_sampler_chain_default_params());
    if (!c->row || !c->steps) return vr_chain_free(c), NULL;
    add_steps(c->steps, how, dry, vocab, (uint32_t)(seed ^ seed >> 32));
    int32_t most = how->repeat_last_n > how->chain.dry_last_n ? how->repeat_last_n : how->chain.dry_last_n;
    c->look_back = most > 0 ? (size_t)most : 0;
    return c;
}

void vr_chain_free(struct vr_chain *c)
{
    if (!c) return;
    if (c->steps) llama_sampler_free(c->steps);
    free(c->row);
    free(c->gated);
    free(c);
}

static void feed(struct vr_chain *c, const struct vr_history *said)
{
    if (said->n > c->look_back && c->fed < said->n - c->look_back) c->fed = said->n - c->look_back;
    for (; c->fed < said->n; c->fed++)
        if (said->tokens[c->fed] >= 0) llama_sampler_accept(c->steps, said->tokens[c->fed]);
}

static void fill(struct vr_chain *c, const struct vr_sampling *how, const float *logits)
{
    for (size_t i = 0; i < c->n; i++) c->row[i] = (llama_token_data){ (llama_token)i, logits[i], 0 };
    for (size_t i = 0; i < how->n_bias; i++)
        if (how->bias[i].token >= 0 && (size_t)how->bias[i].token < c->n)
            c->row[how->bias[i].token].logit += how->bias[i].bias;
}

/* What the gate lets through, in c->row; how many. 0: nothing, or it failed. */
static size_t filter(struct vr_chain *c, const struct vr_gate *gate)
{
    size_t n = 0;
    if (!c->gated) c->gated = malloc(c->n * sizeof *c->gated);
    if (!c->gated) return 0;
    for (size_t i = 0; i < c->n; i++) c->gated[i] = (struct vr_candidate){ c->row[i].id, c->row[i].logit };
    if (!gate->filter(gate->ctx, c->gated, c->n)) return 0;
    for (size_t i = 0; i < c->n; i++)
        if (c->gated[i].logit > -INFINITY) c->row[n++] = (llama_token_data){ c->gated[i].id, c->gated[i].logit, 0 };
    return n;
}

static int32_t apply(struct vr_chain *c, const struct vr_sampling *how, size_t n)
{
    llama_token_data_array all = { .data = c->row, .size = n, .selected = -1, .sorted = false };
    llama_sampler_apply(c->steps, &all);
    c->n_left = 0;
    if (all.selected < 0 || (size_t)all.selected >= all.size) return -1;
    c->n_left = all.size;
    llama_token_data chosen = all.data[all.selected];
    if (how->temperature > 0) return chosen.id;
    c->row[0] = (llama_token_data){ chosen.id, chosen.logit, 1 }; /* the greedy one draws from no others */
    c->n_left = 1;
    return chosen.id;
}

float vr_chain_probs(const struct vr_chain *c, int32_t token, struct vr_candidate *top, size_t n)
{
    float prob = 0;
    for (size_t i = 0; i < n; i++) top[i] = (struct vr_candidate){ -1, 0 };
    for (size_t i = 0; i < c->n_left; i++) {
        struct vr_candidate x = { c->row[i].id, c->row[i].p };
        if (x.id == token) prob = x.logit;
        for (size_t k = 0; k < n && x.logit > 0; k++) {
            if (x.logit <= top[k].logit) continue;
            struct vr_candidate less = top[k];
            top[k] = x;
            x = less;
        }
    }
    return prob;
}

int32_t vr_chain_sample(struct vr_chain *c, const struct vr_sampling *how, const float *logits,
                        const struct vr_history *said, const struct vr_gate *gate)
{
    bool yes = false;
    feed(c, said);
    fill(c, how, logits);
    if (!gate || !how->chain.tells) { /* what it tells of has passed the gate */
        int32_t token = apply(c, how, c->n);
        if (token < 0 || !gate) return token;
        if (!gate->allows(gate->ctx, token, &yes)) return -1;
        if (yes) return token;
        fill(c, how, logits);
    }
    size_t n = filter(c, gate);
    return n ? apply(c, how, n) : -1;
}
