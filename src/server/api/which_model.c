#include "server/api/which_model.h"

#include <string.h>

#include "server/front.h"

#define MAX_NAME 300

static struct vr_served *unknown(struct vr_conn *c, const char *name)
{
    VR_AUTO_BUF why = { 0 };
    vr_served_unknown(c->front, name, &why);
    vr_reply_error(c, 404, "model", "model_not_found", "%s", vr_buf_str(&why));
    return NULL;
}

struct vr_served *vr_which_model(struct vr_conn *c, const char *name)
{
    struct vr_front *f = c->front;
    struct vr_served *m = *name ? vr_served_find(f, name) : vr_served_default(f, false);
    if (!m && f->config->any_model) m = vr_served_default(f, false);
    return m ? m : unknown(c, name);
}

struct vr_served *vr_which_named(struct vr_conn *c, const char *name)
{
    struct vr_served *m = vr_served_find(c->front, name);
    return m ? m : unknown(c, name);
}

struct vr_served *vr_which_queried(struct vr_conn *c, const struct vr_incoming *r)
{
    static const char key[] = "model=";
    const char *at = r->head.query.p, *end = at ? at + r->head.query.n : NULL;
    char name[MAX_NAME];
    for (const char *next; at && at < end; at = next) {
        const char *amp = memchr(at, '&', (size_t)(end - at));
        size_t n = (size_t)((amp ? amp : end) - at), skip = sizeof key - 1;
        next = at + n + (amp != NULL);
        if (n <= skip || memcmp(at, key, skip) != 0) continue;
        if (!vr_percent_decode((struct vr_slice){ at + skip, n - skip }, name, sizeof name)) return unknown(c, "?");
        return vr_which_named(c, name);
    }
    return vr_served_default(c->front, true);
}
