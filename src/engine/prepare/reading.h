/* A request that is being read, and what is made of it; private to prepare/. */
#ifndef VR_ENGINE_PREPARE_READING_H
#define VR_ENGINE_PREPARE_READING_H

#include "engine/prepare/prepare.h"
#include "engine/wire/picture.h"

struct vr_reading {
    struct vr_prepared *p;
    const struct vr_preparer *e;
    const struct vr_prepare_facts *is;
    struct vr_refusal *why;
    json_t *body;
    bool speech;          /* it came as a file to be transcribed: errors are about that */
    struct vr_chat *chat; /* what the result points to: */
    struct vr_chat_prompt prompt;
    char *gbnf;
    struct vr_buf reply;
    json_t *numbers;        /* rules of the schema's numbers that have limits; NULL: it has no schema */
    struct vr_buf numbered; /* the grammar with those */
    struct vr_arena arena;
    struct vr_picture_file files[VR_MOST_PICTURES];
    size_t n_files;
};

#define GET(g, field) vr_request_get((g)->body, VR_FIELD_##field)

/* An error of ours or of the engine about `param`. */
bool vr_reading_refuse(struct vr_reading *g, const char *param, const struct vr_err *err);
/* A file may come without one: then there are numbers, and no text. */
bool vr_reading_has_tokenizer(struct vr_reading *g, const char *param);

/* How tokens are chosen, what ends an answer, what is told besides. */
bool vr_read_settings(struct vr_reading *g);
/* An empty list says nothing; one that says something turns all others off. */
bool vr_read_lora(struct vr_reading *g);

#endif
