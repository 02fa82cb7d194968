/* Ownership that can be seen at the declaration.
 *
 *     VR_AUTO(vr_model) m = vr_model_new();      freed on every path out of the block
 *     return VR_TAKE(m);                          handed to the caller, no longer freed
 *
 * A type takes part by writing VR_DEFINE_AUTO(vr_model) after the prototype of vr_model_free(), which accepts NULL
 * and half-built objects. */
#ifndef VR_BASE_OWN_H
#define VR_BASE_OWN_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define VR_MUST_CHECK        __attribute__((warn_unused_result))
#define VR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define VR_CLEANUP(fn)       __attribute__((cleanup(fn)))
#define VR_COUNT(array)      (sizeof(array) / sizeof((array)[0]))

#define VR_AUTO(type) VR_CLEANUP(type##_freep) struct type *
#define VR_DEFINE_AUTO(type)                                                                                           \
    static inline void type##_freep(struct type **p) { type##_free(*p); }                                              \
    struct type /* swallows the semicolon */

/* The value of `p`, which is set to NULL so that no cleanup sees it. */
#define VR_TAKE(p)                                                                                                     \
    ({                                                                                                                 \
        __auto_type vr_taken = (p);                                                                                    \
        (p) = NULL;                                                                                                    \
        vr_taken;                                                                                                      \
    })

static inline void vr_freep(void *p) { free(*(void **)p); }
static inline void vr_closep(const int *fd)
{
    if (*fd >= 0) close(*fd);
}
static inline void vr_fclosep(FILE **f)
{
    if (*f) fclose(*f);
}

#define VR_AUTO_FREE   VR_CLEANUP(vr_freep)   /* any malloc'd pointer */
#define VR_AUTO_CLOSE  VR_CLEANUP(vr_closep)  /* an int fd, -1 for none */
#define VR_AUTO_FCLOSE VR_CLEANUP(vr_fclosep) /* a FILE * */

#endif
