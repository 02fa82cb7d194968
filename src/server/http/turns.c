#include "server/http/turns.h"

void vr_turns_add(struct vr_turns *all, struct vr_line *line, struct vr_turn *turn, uint64_t cost)
{
    if (!line->first) {
        if (line->clock < all->clock) line->clock = all->clock;
        line->next = NULL;
        line->prev = all->last;
        *(all->last ? &all->last->next : &all->first) = line;
        all->last = line;
    }
    *turn = (struct vr_turn){ .prev = line->last, .line = line, .cost = cost };
    *(line->last ? &line->last->next : &line->first) = turn;
    line->last = turn;
    line->waiting += cost;
    all->waiting += cost;
    all->n++;
}

struct vr_turn *vr_turns_next(const struct vr_turns *all)
{
    const struct vr_line *best = all->first;
    for (const struct vr_line *l = best; l; l = l->next)
        if (l->clock < best->clock) best = l;
    return best ? best->first : NULL;
}

void vr_turns_take(struct vr_turns *all, struct vr_turn *turn)
{
    struct vr_line *line = turn->line;
    all->clock = line->clock;
    line->clock += turn->cost;
    vr_turns_remove(all, turn);
}

void vr_turns_remove(struct vr_turns *all, struct vr_turn *turn)
{
    struct vr_line *line = turn->line;
    if (!line) return;
    *(turn->prev ? &turn->prev->next : &line->first) = turn->next;
    *(turn->next ? &turn->next->prev : &line->last) = turn->prev;
    turn->line = NULL;
    line->waiting -= turn->cost;
    all->waiting -= turn->cost;
    all->n--;
    if (line->first) return;
    *(line->prev ? &line->prev->next : &all->first) = line->next;
    *(line->next ? &line->next->prev : &all->last) = line->prev;
}
