/* Turns: who is next where many wait and some ask for much more than others.
 *
 * Each client has a line, first come, first served within it; between lines turns go round. A turn has a cost (the
 * choices of a request, the bytes of a body), and a line that was just given a turn of cost 16 waits until every other
 * one that is not empty has had as much. This is start-time fair queueing: a line's clock goes forward by what it was
 * given, the line whose clock is behind all others is next, and one that was empty cannot save up: it begins at the
 * clock of the last turn. Pure; nothing is allocated. */
#ifndef VR_SERVER_HTTP_TURNS_H
#define VR_SERVER_HTTP_TURNS_H

#include <stddef.h>
#include <stdint.h>

struct vr_line;

/* Part of whatever waits. */
struct vr_turn {
    struct vr_turn *prev, *next; /* in its line */
    struct vr_line *line;        /* NULL: it does not wait */
    uint64_t cost;
};

/* What one client has waiting. Zero it once; it remembers what it was given. */
struct vr_line {
    struct vr_turn *first, *last; /* the oldest and the newest */
    struct vr_line *prev, *next;  /* among the lines that are not empty */
    uint64_t waiting;             /* cost of all in it */
    uint64_t clock;
};

struct vr_turns {
    struct vr_line *first, *last; /* those that are not empty */
    uint64_t clock;
    uint64_t waiting; /* cost of all in all lines */
    size_t n;
};

/* At the end of a line. */
void vr_turns_add(struct vr_turns *all, struct vr_line *line, struct vr_turn *turn, uint64_t cost);
/* Who is next, without taking it; NULL: nobody waits. Looks at every line that is not empty. */
struct vr_turn *vr_turns_next(const struct vr_turns *all);
/* Takes one whose turn it is: its line pays. */
void vr_turns_take(struct vr_turns *all, struct vr_turn *turn);
/* One that no longer waits, for whatever reason; its line pays nothing. Accepts one that does not wait. */
void vr_turns_remove(struct vr_turns *all, struct vr_turn *turn);

#endif
