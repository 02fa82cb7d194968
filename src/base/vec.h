/* Room for one more element in an array that grows: `what`, `n_what` and `cap_what` of a struct.
 *
 *     if (!VR_ROOM(g, rules)) return vr_fail_nomem(err, "reading a grammar");
 *     g->rules[g->n_rules++] = ... */
#ifndef VR_BASE_VEC_H
#define VR_BASE_VEC_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static inline bool vr_vec_room(void *array, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap) return true;
    if (*cap > UINT32_MAX / 2) return false;
    uint32_t more = *cap ? *cap * 2 : 64;
    void *p = realloc(*(void **)array, more * size);
    if (!p) return false;
    *(void **)array = p;
    *cap = more;
    return true;
}
#define VR_ROOM(owner, what) vr_vec_room(&(owner)->what, (owner)->n_##what, &(owner)->cap_##what, sizeof *(owner)->what)

#endif
