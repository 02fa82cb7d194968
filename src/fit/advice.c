/* What to do when the engine fails at a trial for reasons of its own: an assertion, a graph with more nodes than it has
 * room for. The user cannot do anything with its last words, but with the nearest setting that works: the settings
 * that are not the usual ones are changed one at a time, and a dry run says which change helps. */
#include <inttypes.h>
#include <string.h>

#include "fit/outcome.h"
#include "gguf/type.h"

#define USUAL_UBATCH 512

/* A change makes the trial more usual, and says what was unusual and the option that changes it. False: it is usual. */
struct change {
    char was[64], option[64];
};
typedef bool change_fn(struct vr_load_params *p, struct change *c);

static bool plain_cache(struct vr_load_params *p, struct change *c)
{
    uint32_t *k = &p->context.type_k, *v = &p->context.type_v;
    if (!vr_type_is_quantized(*k) && !vr_type_is_quantized(*v)) return false;
    const char *name = vr_type(vr_type_is_quantized(*k) ? *k : *v)->name;
    snprintf(c->was, sizeof c->was, "a%s %s KV cache", *name == 'i' ? "n" : "", name);
    snprintf(c->option, sizeof c->option, "--cache-type-k f16 --cache-type-v f16");
    *k = *v = VR_TYPE_F16;
    return true;
}

static bool one_sequence(struct vr_load_params *p, struct change *c)
{
    if (p->context.n_seq < 2) return false;
    snprintf(c->was, sizeof c->was, "%" PRIu32 " sequences", p->context.n_seq);
    snprintf(c->option, sizeof c->option, "--n-seq 1");
    p->context.n_seq = 1;
    return true;
}

static bool usual_micro_batch(struct vr_load_params *p, struct change *c)
{
    if (p->context.n_ubatch == USUAL_UBATCH || p->embedding_model) return false;
    snprintf(c->was, sizeof c->was, "micro-batches of %" PRIu32, p->context.n_ubatch);
    snprintf(c->option, sizeof c->option, "--n-batch %d --n-ubatch %d", USUAL_UBATCH, USUAL_UBATCH);
    p->context.n_batch = p->context.n_ubatch = USUAL_UBATCH;
    return true;
}

static bool engines_flash(struct vr_load_params *p, struct change *c)
{
    if (p->flash_auto) return false;
    snprintf(c->was, sizeof c->was, "flash attention %s", p->context.flash_attn ? "on" : "off");
    snprintf(c->option, sizeof c->option, "--flash-attn auto");
    return p->flash_auto = true;
}

static bool whole_layers(struct vr_load_params *p, struct change *c)
{
    if (p->split_mode != VR_SPLIT_TENSOR) return false;
    snprintf(c->was, sizeof c->was, "split mode tensor");
    snprintf(c->option, sizeof c->option, "--split-mode layer");
    p->split_mode = VR_SPLIT_LAYER;
    p->has_split = false;
    return true;
}

bool vr_advise(const struct vr_prober *prober, const struct vr_load_params *failed, struct vr_err *err)
{
    static change_fn *const changes[] = { plain_cache, one_sequence, usual_micro_batch, engines_flash,
                                          whole_layers }; /* nearest first */
    struct change works[VR_COUNT(changes)];
    size_t n = 0;
    if (err->code != VR_EENGINE && err->code != VR_ESPLIT) return false;
    for (size_t i = 0; i < VR_COUNT(changes); i++) {
        struct vr_trial t = vr_trial_default();
        struct vr_proof proof = { 0 };
        struct vr_err no = { 0 };
        t.load = *failed;
        t.load.n_outputs = 0;
        if (!changes[i](&t.load, &works[n])) continue;
        if (vr_probe(prober, &t, &proof, &no)) n++;
        vr_proof_done(&proof);
    }
    if (n == 0) return false;
    vr_fail(err, err->code, "%s: the engine cannot run it with", prober->name);
    for (size_t i = 0; i < n; i++) vr_fail_more(err, "%s %s", i ? " and" : "", works[i].was);
    vr_fail_more(err, " (a limit of its own, not of memory)");
    for (size_t i = 0; i < n; i++) vr_fail_more(err, "%s %s", i == 0 ? ";" : " or", works[i].option);
    return vr_fail_more(err, " works");
}
