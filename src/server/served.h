/* One of the models that this server has: its engine process, its queue, its figures, and whether it stays. */
#ifndef VR_SERVER_SERVED_H
#define VR_SERVER_SERVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "server/api/queue.h"
#include "server/fleet/stay.h"
#include "server/server.h"
#include "server/supervise/supervise.h"

struct vr_front;

/* What /metrics tells of one model. */
struct vr_served_counts {
    uint64_t requests, prompt_tokens, cached_tokens, text_tokens;
    double text_tok_s; /* of one stream, over recent answers; 0: none yet */
};

struct vr_served {
    const struct vr_served_config *config;
    struct vr_front *front;
    struct vr_worker engine;
    struct vr_queue queue;
    struct vr_stay stay;
    struct vr_served_counts counts;
    unsigned n_calls, n_texts;                     /* of its own, waiting ones too; choices that they are made of */
    uint64_t seen_text_tokens, seen_prompt_tokens; /* of its engine's totals, by the live feed */
    char fingerprint[40];                          /* system_fingerprint: changes with the program and the model */
    struct vr_buf id_json;                         /* its id as a JSON string */
};

bool vr_served_open(struct vr_served *m, struct vr_front *f, const struct vr_served_config *c,
                    struct vr_err *err) VR_MUST_CHECK;
void vr_served_close(struct vr_served *m); /* after its engine */
/* It is loaded: its file may be another than the last time. */
void vr_served_loads(struct vr_served *m);

/* Clients name a model by its id, an alias, or the file's name with or without ".gguf". NULL: none is called so. */
struct vr_served *vr_served_find(struct vr_front *f, const char *name);
/* What is meant where a request names none: the default; for those who look (`up`) the first that is up, if it is not.
 */
struct vr_served *vr_served_default(struct vr_front *f, bool up);
/* "model 'X' not found; ...": the nearest names, or the only one. */
void vr_served_unknown(struct vr_front *f, const char *name, struct vr_buf *out);

#endif
