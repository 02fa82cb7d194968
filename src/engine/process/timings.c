/* What llama.cpp's server tells of a request that asks for it: timings with each token, and the progress of a prompt.
 */
#include "engine/process/choice.h"

static double per(double a, double b) { return b > 0 ? a / b : 0; }

void vr_choice_say_timings(struct vr_batcher *b, const struct vr_choice *c)
{
    const struct vr_request *r = c->job->request;
    if (!r->timings) return;
    double now = vr_now_fine_ms(), n = c->n_prompt > c->n_cached ? c->n_prompt - c->n_cached : 0, n_text = c->n_text;
    double prompt_ms = c->start_ms ? (c->first_ms ? c->first_ms : now) - c->start_ms : 0;
    double text_ms = c->first_ms ? now - c->first_ms : 0;
    VR_AUTO_BUF json = { 0 };
    vr_buf_addf(&json,
                "{\"cache_n\":%u,\"prompt_n\":%.0f,\"prompt_ms\":%.3f,\"prompt_per_token_ms\":%.3f,"
                "\"prompt_per_second\":%.3f,\"predicted_n\":%.0f,\"predicted_ms\":%.3f,"
                "\"predicted_per_token_ms\":%.3f,\"predicted_per_second\":%.3f}",
                c->n_cached, n, prompt_ms, per(prompt_ms, n), per(n * 1e3, prompt_ms), n_text, text_ms,
                per(text_ms, n_text), per(n_text * 1e3, text_ms));
    if (!json.failed) vr_wire_add_delta(b->out, r->id, c->reply.choice, VR_DELTA_TIMINGS, json.data, json.n);
}

/* Choices that share a prompt wait for the one that computes it. */
void vr_choice_say_progress(struct vr_batcher *b, const struct vr_choice *c)
{
    const struct vr_request *r = c->job->request;
    if (!r->progress || !r->stream || c->leader != c || c->own) return;
    VR_AUTO_BUF json = { 0 };
    vr_buf_addf(&json, "{\"total\":%u,\"cache\":%u,\"processed\":%u,\"time_ms\":%.0f}", c->n_prompt, c->n_cached,
                c->slot->n, vr_now_fine_ms() - c->start_ms);
    if (!json.failed) vr_wire_add_delta(b->out, r->id, c->reply.choice, VR_DELTA_PROGRESS, json.data, json.n);
}
