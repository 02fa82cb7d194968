/* Routes: routes.def as a table. A route's file is named after it. */
#ifndef VR_SERVER_HTTP_ROUTES_H
#define VR_SERVER_HTTP_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

#include "server/http/conn.h"

/* For the metrics. What is for the model comes before MODELS. */
enum vr_family {
    VR_FAMILY_NONE,
    VR_FAMILY_CHAT,
    VR_FAMILY_COMPLETIONS,
    VR_FAMILY_EMBEDDINGS,
    VR_FAMILY_RERANK,
    VR_FAMILY_RESPONSES,
    VR_FAMILY_MESSAGES,
    VR_FAMILY_AUDIO,
    VR_FAMILY_MODELS,
    VR_FAMILY_OTHER,
    VR_N_FAMILIES
};

/* How errors look: {"error":{"message",...}}, {"type":"error","error":{"type","message"}}, {"error":"message"}.
 * llama.cpp's are OpenAI's, with a type of its own for a prompt that exceeds the context. */
enum vr_error_form { VR_ERRORS_OPENAI, VR_ERRORS_ANTHROPIC, VR_ERRORS_OLLAMA, VR_ERRORS_LLAMA };

struct vr_route {
    enum vr_method method;
    const char *path; /* one that ends in "/" takes what follows */
    enum vr_family family;
    enum vr_error_form errors;
    bool open;  /* needs no key */
    bool quiet; /* polled: logged at debug level */
    void (*answer)(struct vr_conn *c, const struct vr_incoming *r);
};

/* NULL: there is none. `allow` then lists the methods of that path ("GET, HEAD"), "" when there is no such path. */
const struct vr_route *vr_route_find(enum vr_method method, struct vr_slice path, char *allow, size_t n);
const char *vr_family_name(enum vr_family f);

/* A function may stand in several rows. */
#define ROUTE(method, path, name, ...) void vr_answer_##name(struct vr_conn *c, const struct vr_incoming *r);
#include "server/http/routes.def"
#undef ROUTE

#endif
