/* Calls: requests to the model, and what becomes of the engine's frames.
 *
 * A call belongs to one connection. It waits in the queue (queue.h) until it is sent. The engine's frames find it by
 * their id (an entry of the table and its generation, so that a frame of a call that is over finds nothing). Streams
 * are written by hand into one shared buffer and sent when the next frame belongs to somebody else, so a token costs
 * one system call and no allocation. */
#ifndef VR_SERVER_API_CALLS_H
#define VR_SERVER_API_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"
#include "engine/wire/wire.h"
#include "server/api/dialect.h"
#include "server/http/turns.h"

struct vr_front;
struct vr_conn;
struct vr_client;
struct vr_client_line;
struct vr_served;

#define VR_MAX_CALLS 16384

enum { VR_MOST_COLUMNS = 4 };

struct vr_call_choice {
    bool role_sent, ended;
    uint8_t reason;                         /* enum vr_end */
    uint8_t stop;                           /* which of the request's stop strings ended it; VR_NO_STOP: none */
    uint32_t slot;                          /* of the engine, and 1; 0: not known */
    uint32_t text_tokens;                   /* what it has, when it has ended */
    uint32_t text_offset;                   /* in characters, for the logprobs of /v1/completions */
    struct vr_buf text;                     /* whole answers, or the piece of one that a dialect is at */
    struct vr_buf held;                     /* in a stream with logprobs, the text that waits for its own */
    struct vr_buf reasoning;                /* whole answers */
    struct vr_buf logprobs;                 /* whole answers: entries separated by commas */
    struct vr_buf columns[VR_MOST_COLUMNS]; /* or what the dialect keeps of them, values separated by commas */
    struct vr_buf timings;                  /* JSON, the last that came; where they were asked for */
    json_t *tools;                          /* whole answers: what vr_merge_tool() made, or NULL */
};

struct vr_call {
    struct vr_conn *conn;
    struct vr_served *model;
    struct vr_client_line *line; /* of the client whose turn it takes */
    struct vr_turn turn;
    char *request; /* the payload of REQUEST until it is sent, n_request bytes, which its client holds */
    size_t n_request;
    size_t n_whole; /* bytes of a whole answer so far */
    size_t n_memo;  /* bytes of memo, which its client holds, too */
    uint32_t id;
    const struct vr_dialect *dialect;
    json_t *memo; /* the dialect's: what its answer needs to know of the request */
    struct vr_blocks {
        uint32_t sequence, index; /* of events; of the block that is open, or comes next */
        uint32_t tool;            /* of the call that is open */
        uint8_t open;             /* an enum vr_delta and 1; 0: none */
        char *id, *name;          /* of that call */
    } blocks;                     /* where a dialect is that answers in blocks (dialect/answer_blocks.h) */
    bool stream, usage, logprobs, base64;
    bool slot;   /* it wished for one, and is told which it had */
    bool opened; /* the first events of its stream were sent */
    bool begun;  /* the engine works on it */
    uint16_t n_choices, n_open;
    uint16_t n_running; /* choices that the engine has; 0 before it is sent */
    uint16_t n_most;    /* as how many of them it counts at the most: the slots that the engine had then */
    uint32_t prompt_tokens, cached_tokens, text_tokens, reasoning_tokens;
    uint32_t drafted_tokens, accepted_tokens;
    int64_t created;
    float prompt_ms, text_ms; /* of the choices together */
    uint64_t from_us, queued_us, heard_ms;
    uint64_t first_us;  /* the first piece of text; 0: none yet */
    struct vr_buf body; /* the dialect's: how each event begins, or what is complete of a whole answer */
    const char *type;   /* of a whole answer, which may set it; NULL: JSON */
    struct vr_call_choice choices[];
};

struct vr_calls {
    struct vr_call **entries; /* VR_MAX_CALLS; NULL: free */
    uint16_t *generations;
    uint16_t *unused; /* a stack of free entries */
    size_t n_unused;
    unsigned n, n_texts;   /* calls, waiting ones too; choices that they are made of */
    double average_ms;     /* of recent calls */
    struct vr_buf scratch; /* pieces of scratch_of's stream that were not sent yet */
    struct vr_call *scratch_of;
};

bool vr_calls_init(struct vr_calls *c) VR_MUST_CHECK;
void vr_calls_done(struct vr_front *f);

/* A call for a model, of that connection and its client, which is answered when the engine answers. NULL: no room (the
 * caller replies). */
struct vr_call *vr_call_new(struct vr_served *m, struct vr_conn *c, const struct vr_dialect *d,
                            size_t n_choices) VR_MUST_CHECK;
/* Takes its payload over; it is sent when its turn comes. */
void vr_call_submit(struct vr_front *f, struct vr_call *call, char *json, size_t n);
/* False: the engine takes nothing now. */
bool vr_call_send(struct vr_call *call) VR_MUST_CHECK;
/* The client is gone: the engine is told if it has it, and nothing is sent any more. */
void vr_call_cancel(struct vr_front *f, struct vr_call *call);
/* Ends it with an error: as the reply where none was begun, as an event in a stream. */
void vr_call_fail(struct vr_front *f, struct vr_call *call, int status, const char *code, const char *message);
/* Those of a model: all, or those alone that its engine has. */
enum vr_calls_which { VR_CALLS_ALL, VR_CALLS_SENT };
void vr_calls_fail(struct vr_served *m, enum vr_calls_which which, int status, const char *code, const char *message);
void vr_calls_fail_all(struct vr_front *f, int status, const char *code, const char *message);
/* Those alone that were not sent. */
void vr_calls_fail_waiting(struct vr_front *f, int status, const char *code, const char *message);

/* A frame of that model's engine. False: it is malformed. */
bool vr_calls_frame(struct vr_served *m, const struct vr_frame *frame) VR_MUST_CHECK;
/* Calls that were not sent, of all models. */
size_t vr_calls_waiting(const struct vr_front *f);
/* Sends what waits in the shared buffer. */
void vr_calls_flush(struct vr_front *f);
/* Called by the sweep: a comment to a stream that has been silent, so that proxies keep it open; the end of a call that
 * has waited too long for its model to come up. */
void vr_call_tick(struct vr_front *f, struct vr_call *call, uint64_t now_ms);

#endif
