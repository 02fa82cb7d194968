/* The models that `serve` was given, when it is more than one that stays: words of the command line, a preset file, all
 * of a directory. */
#ifndef VR_CLI_SERVED_LIST_H
#define VR_CLI_SERVED_LIST_H

#include "base/arena.h"
#include "cli/options.h"
#include "server/server.h"

struct vr_served_list {
    struct vr_served_config *models; /* the default first */
    size_t n;
    struct vr_arena arena; /* all texts */
};

/* Are models loaded on demand? Else there is one, which stays. */
bool vr_served_on_demand(const struct vr_options *o);
/* Every model's header is read and checked: one that was named must be right, one that only lies in the directory is
 * left out with a warning. `out` is zeroed, and needs vr_served_list_done(), also after a failure. */
bool vr_served_list(const struct vr_options *o, struct vr_served_list *out, struct vr_err *err) VR_MUST_CHECK;
void vr_served_list_done(struct vr_served_list *l);

/* The file's name without directories, ".gguf" and the number of its part. */
void vr_served_name(const char *path, char *out, size_t n);
/* Can a request name a model so? */
bool vr_served_name_check(const char *name, struct vr_err *err) VR_MUST_CHECK;

#endif
