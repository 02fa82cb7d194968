#include "server/fleet/stay.h"

#define REST_MS    250   /* between two plans that busy models are in the way of, however often one is idle */
#define TERM_LOADS 2.0   /* times as long as its load took */
#define LEAST_MS   500   /* for one that loads in no time */
#define MOST_MS    60000 /* for one that takes minutes */

uint64_t vr_stay_term_ms(double load_s)
{
    double ms = load_s * 1e3 * TERM_LOADS;
    return ms > MOST_MS ? MOST_MS : ms > LEAST_MS ? (uint64_t)ms : LEAST_MS;
}

bool vr_stay_expired(const struct vr_stay *s, uint64_t ready_ms, uint64_t now_ms)
{
    uint64_t since = s->used_ms > ready_ms ? s->used_ms : ready_ms;
    return !s->pinned && s->ttl_ms >= 0 && now_ms >= since && now_ms - since >= (uint64_t)s->ttl_ms;
}

bool vr_stay_due(const struct vr_stay *s, uint64_t n_freed, uint64_t now_ms)
{
    if (!s->wanted_ms) return false;
    if (!s->blocked || now_ms >= s->blocked_until_ms) return true;
    return s->blocked_at != n_freed && now_ms >= s->blocked_ms + REST_MS;
}
