/* A dialect: how one API asks, and how it is answered. Whatever the API, the engine gets one kind of request
 * (engine/wire): OpenAI's chats, completions and embeddings as they are, all others translated to those.
 *
 * `translate` runs in any thread, on a body that is valid JSON and within the caps; what it makes is checked as if a
 * client had sent it. The others write, in the loop. What a client wants that cannot be done is refused by its name;
 * what is left out because it changes no answer is noted (vr_note), and the reply names it in a header. */
#ifndef VR_SERVER_API_DIALECT_H
#define VR_SERVER_API_DIALECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"
#include "engine/wire/request_check.h"
#include "engine/wire/wire.h"

struct vr_front;
struct vr_call;
struct vr_call_choice;
struct vr_conn;
struct vr_served;
struct vr_told;
struct vr_responses;

/* One body on its way to the engine. */
struct vr_translation {
    enum vr_request_kind kind; /* the dialect's, unless the body says otherwise */
    struct vr_whose whose;
    unsigned key;                   /* the number of the API key; 0: none */
    struct vr_responses *responses; /* that were stored; safe in any thread */
    size_t n_stored;                /* bytes of them that were read */
    bool may_keep;                  /* say how long the model stays */
    json_t *memo;                   /* what the answer will need to know of the request; the caller owns it */
    size_t n_memo;                  /* bytes that it takes, about */
    struct vr_notes notes;          /* what has no effect */
    bool nomem;                     /* something could not be made */
    const char *look;               /* NULL, or what is wanted instead of an answer (wire.h) */
    bool special, unparsed;         /* of tokens that are looked at: with the model's own; special texts are text */
    bool keep;                      /* the model's time without use is set: keep_ms; negative: it stays */
    int64_t keep_ms;
    bool unload;       /* that is all that is wanted, and it leaves at once: it is not loaded for that */
    json_t *text_bias; /* {"text": bias}, of the tokens that a text has; NULL: none; the caller owns it */
    bool ids;          /* the ids of tokens come with the answer, as logprobs do */
    const char *asr;   /* "ask", "asked": it came as a file of speech (wire.h); NULL: it did not */
    struct vr_refusal *why;
};

/* Something that has no effect here, by its name. */
void vr_note(struct vr_translation *t, const char *fmt, ...) VR_PRINTF(2, 3);

struct vr_said_piece { /* of one choice */
    size_t choice;
    enum vr_delta what;
    const char *text;
    size_t n;
    const char *logprobs; /* entries that belong to it, with commas between them; NULL: none */
    size_t n_logprobs;
};

struct vr_dialect {
    enum vr_request_kind kind; /* of the request that the engine gets; translate() may choose another */
    const char *stream_type;   /* Content-Type of a stream; NULL: server-sent events */
    const char *ping;          /* what a silent stream gets; NULL: nothing */
    /* Whole answers, too, are given to `delta` piece by piece, with out == NULL; otherwise they are collected in the
     * call's choices. */
    bool in_pieces;

    /* The body as a tree, where it is no JSON; `boundary` is a form's, "" if it is none. No function: it is JSON. */
    json_t *(*parse)(const char *data, size_t n, const char *boundary, struct vr_refusal *why);
    /* The request in OpenAI's form, which the caller owns; NULL: t->why. No function: it has that form. */
    json_t *(*translate)(json_t *body, struct vr_translation *t);
    /* The first events of a stream. No function: none. */
    void (*begin)(struct vr_buf *out, struct vr_front *f, struct vr_call *call);
    void (*delta)(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_said_piece *p);
    const struct vr_block_ops *blocks; /* of one that answers in blocks (dialect/answer_blocks.h) */
    /* Keeps logprobs of a whole answer as they come, in the form that it will have: to turn all of them around in the
     * end would hold the loop up. No function: they are kept as they are (the choice's logprobs). */
    void (*keep)(struct vr_call *call, struct vr_call_choice *c, const char *entries, size_t n);
    /* How far the prompt of a stream is, as JSON. No function: nobody can ask for it. */
    void (*progress)(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_said_piece *p);
    /* A choice has ended: its reason is in the call. No function: nothing is to be said. */
    void (*finish)(struct vr_buf *out, struct vr_front *f, struct vr_call *call, size_t choice);
    /* All have: the last events of a stream. */
    void (*done)(struct vr_buf *out, struct vr_front *f, struct vr_call *call);
    void (*whole)(struct vr_buf *out, struct vr_front *f, struct vr_call *call);
    /* The answer where a model that is not loaded was to be unloaded. No function: nobody can ask for it. */
    void (*unloaded)(struct vr_buf *out, const struct vr_dialect *d, const struct vr_served *m);
    /* A row of an embedding. */
    void (*result)(struct vr_call *call, const struct vr_wire_result *r);
    /* The last event of a stream that failed. */
    void (*error)(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_told *e);
};

/* OpenAI's own (render.c). */
extern const struct vr_dialect vr_openai_chat, vr_openai_completion, vr_openai_embedding;

#endif
