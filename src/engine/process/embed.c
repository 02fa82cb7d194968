/* Embeddings. A model made for them takes several whole texts per batch, each a sequence of its own, and pools them
 * itself; so does one made for reranking, of which each text gets a score. A model made for text gives a vector per
 * token: texts go through in chunks, and their mean is taken here. Vectors have length 1; scores are as they are. */
#include "engine/process/choice.h"

#include <math.h>
#include <string.h>

static void say(struct vr_batcher *b, struct vr_job *j, uint32_t index, float *v, uint32_t n)
{
    double sum = 0;
    if (j->request->kind == VR_RERANK)
        return vr_wire_add_result(b->out, j->request->id, index, j->request->prompts[index].n, v, 1);
    for (uint32_t i = 0; i < n; i++) sum += (double)v[i] * (double)v[i];
    float scale = sum > 0 && isfinite(sum) ? (float)(1 / sqrt(sum)) : 0;
    for (uint32_t i = 0; i < n; i++) v[i] = isfinite(v[i]) ? v[i] * scale : 0;
    vr_wire_add_result(b->out, j->request->id, index, j->request->prompts[index].n, v, n);
}

static void finish(struct vr_batcher *b, struct vr_job *j)
{
    struct vr_wire_end end = { .reason = VR_END_STOP, .stop = VR_NO_STOP };
    end.prompt_ms = (float)(vr_now_fine_ms() - j->request->arrived_ms);
    vr_wire_add_end(b->out, j->request->id, &end);
    j->n_left = 0;
}

static void begin(struct vr_batcher *b, struct vr_job *j)
{
    struct vr_wire_begin w = { 0 };
    for (uint32_t i = 0; i < j->request->n_prompts; i++) w.prompt_tokens += j->request->prompts[i].n;
    vr_wire_add_begin(b->out, j->request->id, &w);
    j->begun = true;
}

static void put(struct vr_batcher *b, struct vr_job *j, llama_seq_id seq, uint32_t from, uint32_t n)
{
    const struct vr_prompt *p = &j->request->prompts[j->at];
    struct llama_batch *t = &b->batch;
    for (uint32_t k = 0; k < n; k++) {
        int32_t i = t->n_tokens++;
        t->token[i] = p->tokens[from + k];
        t->pos[i] = (llama_pos)(from + k);
        t->n_seq_id[i] = 1;
        t->seq_id[i][0] = seq;
        t->logits[i] = 1;
        b->in_batch[i] = j->request;
    }
}

static int compute(struct vr_batcher *b, struct vr_err *err)
{
    vr_in_flight_begin(b->live, b->in_batch, (size_t)b->batch.n_tokens);
    int rc = vr_bridge_decode(b->e->ctx, b->batch, err);
    if (rc == 0) llama_synchronize(b->e->ctx);
    vr_in_flight_end(b->live, b->in_batch, (size_t)b->batch.n_tokens);
    b->totals.batches++;
    if (rc == 0) b->totals.prompt_tokens += (uint64_t)b->batch.n_tokens;
    return rc;
}

/* The vector of sequence s, whose tokens are rows [first, first + n) of the batch. */
static bool read_vector(struct vr_batcher *b, llama_seq_id s, int32_t first, int32_t n, float *out)
{
    if (b->e->pooling != LLAMA_POOLING_TYPE_NONE) {
        const float *v = llama_get_embeddings_seq(b->e->ctx, s);
        if (v) memcpy(out, v, (b->e->ranks ? 1 : b->e->n_embd) * sizeof *out); /* the first class: relevant */
        return v != NULL;
    }
    memset(out, 0, b->e->n_embd * sizeof *out);
    for (int32_t i = 0; i < n; i++) {
        const float *v = llama_get_embeddings_ith(b->e->ctx, first + i);
        if (!v) return false;
        for (uint32_t k = 0; k < b->e->n_embd; k++) out[k] += v[k] / (float)n;
    }
    return true;
}

/* A batch of whole texts. */
static int step_whole(struct vr_batcher *b, struct vr_job *j, struct vr_err *err)
{
    uint32_t first = j->at, n_seq = 0;
    int32_t starts[257];
    b->batch.n_tokens = 0;
    for (; j->at < j->request->n_prompts && n_seq < b->e->n_seq && n_seq < 256; j->at++, n_seq++) {
        uint32_t n = j->request->prompts[j->at].n;
        if ((uint32_t)b->batch.n_tokens + n > b->e->n_ubatch) break;
        starts[n_seq] = b->batch.n_tokens;
        put(b, j, (llama_seq_id)n_seq, 0, n);
    }
    starts[n_seq] = b->batch.n_tokens;
    if (b->e->memory) llama_memory_clear(b->e->memory, false);
    int rc = compute(b, err);
    if (rc != 0) return rc;
    VR_AUTO_FREE float *v = calloc(b->e->n_embd + 1, sizeof *v);
    for (uint32_t s = 0; s < n_seq; s++) {
        if (!v || !read_vector(b, (llama_seq_id)s, starts[s], starts[s + 1] - starts[s], v))
            return vr_job_fail(b, j, 500, "the engine returned nothing for a text"), 0;
        say(b, j, first + s, v, b->e->n_embd);
    }
    if (j->at == j->request->n_prompts) finish(b, j);
    return 0;
}

/* A chunk of one text, in a slot that is held until the text is done. */
static int step_chunk(struct vr_batcher *b, struct vr_job *j, struct vr_err *err)
{
    const struct vr_prompt *p = &j->request->prompts[j->at];
    uint32_t n = p->n - j->done < b->e->n_outputs ? p->n - j->done : b->e->n_outputs;
    if (!j->sum) j->sum = calloc(b->e->n_embd + 1, sizeof *j->sum);
    if (!j->sum) return vr_job_fail(b, j, 503, "out of memory while computing embeddings"), 0;
    b->batch.n_tokens = 0;
    put(b, j, j->slot->seq, j->done, n);
    llama_set_embeddings(b->e->ctx, true);
    int rc = compute(b, err);
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        const float *v = llama_get_embeddings_ith(b->e->ctx, (int32_t)i);
        for (uint32_t k = 0; v && k < b->e->n_embd; k++) j->sum[k] += (double)v[k] / p->n;
    }
    llama_set_embeddings(b->e->ctx, false);
    if (rc != 0 || (j->done += n) < p->n) return rc;
    VR_AUTO_FREE float *v = calloc(b->e->n_embd + 1, sizeof *v);
    if (!v) return vr_job_fail(b, j, 503, "out of memory while computing embeddings"), 0;
    for (uint32_t k = 0; k < b->e->n_embd; k++) v[k] = (float)j->sum[k];
    say(b, j, j->at, v, b->e->n_embd);
    memset(j->sum, 0, b->e->n_embd * sizeof *j->sum);
    j->done = 0;
    vr_slots_let(&b->slots, j->slot);
    j->slot = NULL;
    if (++j->at == j->request->n_prompts) finish(b, j);
    return 0;
}

bool vr_embed_step(struct vr_batcher *b, int *rc, struct vr_err *err)
{
    struct vr_job *j = b->jobs;
    while (j && (j->n || !j->n_left)) j = j->next;
    if (!j || (b->looking && !vr_lora_fits(b, j->request))) return false;
    if (!j->begun) begin(b, j);
    if ((*rc = vr_lora_use(b, j->request, err)) != 0) return true;
    if (!b->e->text) {
        *rc = step_whole(b, j, err);
    } else {
        if (!j->slot) j->slot = vr_slots_hold(&b->slots);
        if (!j->slot) return false;
        *rc = step_chunk(b, j, err);
        while (*rc == 1 && vr_slots_evict(&b->slots)) *rc = step_chunk(b, j, err);
    }
    if (*rc == 1) {
        vr_job_fail(b, j, 503, "this input does not fit into the context");
        *rc = 0;
    }
    if (*rc == 2) *rc = 0; /* broken off: it was cancelled */
    return true;
}
