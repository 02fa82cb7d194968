/* The GGUF files below a directory, which the page may plan with.
 *
 * Symbolic links, hidden names and names that are not plain text are passed over, so nothing outside the directory is
 * ever named; a request finds a file only by an id that is on the list. */
#ifndef VR_SERVER_API_MODEL_LIST_H
#define VR_SERVER_API_MODEL_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/own.h"

#define VR_MAX_LISTED 512

struct vr_model_list {
    struct vr_listed_model {
        char *id;       /* path of the file, or of its first part, below the directory */
        uint64_t bytes; /* of all parts */
        unsigned n_parts, n_found;
    } items[VR_MAX_LISTED]; /* by id */
    size_t n;
    bool more; /* there are more than fit */
};

bool vr_model_list_read(const char *dir, struct vr_model_list *out, struct vr_err *err) VR_MUST_CHECK;
/* NULL: there is none, or parts of it are missing. */
const struct vr_listed_model *vr_model_list_find(const struct vr_model_list *s, const char *id);
void vr_model_list_done(struct vr_model_list *s);

#endif
