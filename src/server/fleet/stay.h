/* Whether a model stays where several share the devices: what the fleet (fleet.h) remembers of each, and the rules that
 * need nothing else; pure.
 *
 * A model is wanted while a request waits for it or runs, while it is pinned, and from when it was asked for until it
 * is up. Who is wanted first is loaded first. An idle one leaves when its time without use is over, or when its memory
 * is needed; a busy one is given its time (vr_stay_term_ms) and then sent nothing more, so that it becomes idle: two
 * models that are asked for without end take turns, and most of the time is not spent on loading them. */
#ifndef VR_SERVER_FLEET_STAY_H
#define VR_SERVER_FLEET_STAY_H

#include <stdbool.h>
#include <stdint.h>

struct vr_served;

struct vr_stay {
    bool pinned;
    bool asked;                 /* for, without a request: at the start, or by the API */
    bool leaves;                /* nothing more is sent to it, and it ends when what runs has ended */
    struct vr_served *newcomer; /* for whom it leaves; NULL: for nobody */
    bool insists;               /* its plan may count on busy models that have had their time */
    bool blocked;               /* busy models are in its way: it is planned again when memory was freed, or later */
    uint64_t blocked_at, blocked_ms, blocked_until_ms; /* the fleet's n_freed and the time then; when it is later */
    struct vr_served *behind; /* which is being loaded, where it would go as well; NULL: it waits for no load */
    uint64_t told_at;         /* n_freed when its plan was begun */
    uint64_t told_planned;    /* n_planned then */
    uint64_t wanted_ms;       /* since when it is wanted and not up; 0: it is not */
    uint64_t used_ms;         /* when a request for it came or ended last; 0: never */
    int64_t ttl_ms;           /* it leaves after so long without use; negative: it stays */
    int64_t usual_ttl_ms;     /* the same the next time that it is loaded */
    unsigned n_evictions;
};

/* How long a model that took so many seconds to load may keep others waiting once it is up. */
uint64_t vr_stay_term_ms(double load_s);
/* Has it been idle for too long? `ready_ms`: when it came up. */
bool vr_stay_expired(const struct vr_stay *s, uint64_t ready_ms, uint64_t now_ms);
/* May it be planned now? */
bool vr_stay_due(const struct vr_stay *s, uint64_t n_freed, uint64_t now_ms);

#endif
