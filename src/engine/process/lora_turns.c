/* Whose adapters the next batch is computed with.
 *
 * Another set of scales is another graph, which the engine reserves buffers for, so it is not changed for every token:
 * those who are at it go on for TURN_MS, then the next slot with another set is served, round and round. */
#include "engine/process/choice.h"

#define TURN_MS 50.0

int vr_lora_use(struct vr_batcher *b, const struct vr_request *r, struct vr_err *err)
{
    if (vr_lora_fits(b, r)) return 0;
    if (!vr_bridge_loras_set(b->e->loras, b->e->ctx, r->lora.of, err)) return -3;
    b->lora_key = r->lora.key;
    b->lora_ms = vr_now_fine_ms();
    return 0;
}

int vr_lora_turn(struct vr_batcher *b, struct vr_err *err)
{
    const struct vr_choice *other = NULL;
    bool here = false;
    uint32_t n = b->slots.n, at = 0;
    if (!b->e->loras) return 0;
    if (b->looking) return vr_lora_use(b, b->looking->request, err); /* a picture is not interrupted by others' */
    for (uint32_t k = 1; k <= n; k++) {
        uint32_t i = (b->lora_slot + k) % n;
        const struct vr_choice *c = b->slots.slot[i].choice;
        if (!c) continue;
        here |= vr_lora_fits(b, c->job->request);
        if (other || vr_lora_fits(b, c->job->request)) continue;
        other = c;
        at = i;
    }
    if (!other || (here && vr_now_fine_ms() - b->lora_ms < TURN_MS)) return 0;
    b->lora_slot = at;
    return vr_lora_use(b, other->job->request, err);
}
