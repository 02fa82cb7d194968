/* A model that is elsewhere (remote/hub.h says how it is called): which files it consists of, their headers here, all
 * of them here.
 *
 *     headers     $XDG_CACHE_HOME/vram-llm/headers/HOST/OWNER--NAME/COMMIT/FILE, or headers/HOST/HASH OF THE URL/FILE
 *     downloads   the hub's cache (remote/hub_cache.h), or $XDG_DATA_HOME/vram-llm/models/HOST/HASH OF THE URL/FILE */
#ifndef VR_REMOTE_ELSEWHERE_H
#define VR_REMOTE_ELSEWHERE_H

#include "catalog/catalog.h"
#include "remote/fetch.h"
#include "remote/hub.h"

struct vr_elsewhere {
    struct vr_net_setup setup;
    struct vr_remote remote;
    char name[320];            /* "hf:OWNER/NAME", or the URL's file */
    char host[256];            /* who is asked */
    struct vr_net *net;        /* NULL: nobody was asked yet */
    struct vr_repo repo;       /* its files; a URL is a repository of one model */
    struct vr_catalog catalog; /* the models among them, with paths of their headers */
    char heads[1024];          /* the folder of headers */
    const char **urls;         /* of each file */
};

/* What a command works with; the texts are of the struct vr_elsewhere or the catalog that they came from. */
struct vr_found {
    const char *path;   /* of the model, or its first part */
    const char *mmproj; /* NULL: none */
    const char *name;   /* as catalog/ would call it */
};

/* Nothing is asked yet. `e` needs vr_elsewhere_done(), also after a failure. */
bool vr_elsewhere_open(struct vr_elsewhere *e, const char *text, bool allow_http, struct vr_err *err) VR_MUST_CHECK;
void vr_elsewhere_done(struct vr_elsewhere *e);
#define VR_AUTO_ELSEWHERE VR_CLEANUP(vr_elsewhere_done) struct vr_elsewhere

/* Whether it was downloaded before and lies here complete; `local` is all that lies here. Nobody is asked. `file`: as
 * below. */
bool vr_elsewhere_is_here(const struct vr_elsewhere *e, const struct vr_catalog *local, bool file,
                          struct vr_found *out);

/* Asks what there is. */
bool vr_elsewhere_ask(struct vr_elsewhere *e, struct vr_err *err) VR_MUST_CHECK;
/* Of that the one model which the name means; `file`: it may be any file, such as an mmproj. */
bool vr_elsewhere_pick(struct vr_elsewhere *e, bool file, struct vr_found *out, struct vr_err *err) VR_MUST_CHECK;
/* Fetches the headers of what was picked, or of all models (NULL). They are where `found` says then. */
bool vr_elsewhere_heads(struct vr_elsewhere *e, const struct vr_found *found, struct vr_err *err) VR_MUST_CHECK;
/* Fetches all of what was picked; `found` says then where it is. */
bool vr_elsewhere_fetch(struct vr_elsewhere *e, struct vr_found *found, unsigned n_connections,
                        void (*tell)(void *ctx, const struct vr_progress *p), void *ctx,
                        struct vr_err *err) VR_MUST_CHECK;

#endif
