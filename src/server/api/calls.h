/* Calls: requests that the engine works on, and what becomes of its frames.
 *
 * A call belongs to one connection. The engine's frames find it by their id (an entry of the table and its generation,
 * so that a frame of a call that is over finds nothing). Streams are written by hand into one shared buffer and sent
 * when the next frame belongs to somebody else, so a token costs one system call and no allocation. */
#ifndef VR_SERVER_API_CALLS_H
#define VR_SERVER_API_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"
#include "engine/wire/request_check.h"
#include "engine/wire/wire.h"

struct vr_front;
struct vr_conn;

#define VR_MAX_CALLS 16384

struct vr_call_choice {
    bool role_sent, ended;
    uint8_t reason;          /* enum vr_end */
    uint32_t text_offset;    /* in characters, for the logprobs of /v1/completions */
    struct vr_buf text;      /* whole answers; in a stream with logprobs, the text that waits for its own */
    struct vr_buf reasoning; /* whole answers */
    struct vr_buf logprobs;  /* whole answers: entries separated by commas */
    json_t *tools;           /* whole answers: the merged array, or NULL */
};

struct vr_call {
    struct vr_conn *conn;
    uint32_t id;
    uint8_t kind; /* enum vr_request_kind */
    bool stream, usage, logprobs, base64;
    bool begun; /* the engine works on it */
    uint16_t n_choices, n_open;
    uint32_t prompt_tokens, cached_tokens, text_tokens, reasoning_tokens;
    uint32_t drafted_tokens, accepted_tokens;
    int64_t created;
    uint64_t from_us, heard_ms;
    uint64_t first_us;  /* the first piece of text; 0: none yet */
    struct vr_buf body; /* embeddings as JSON; of a stream, how each event begins */
    struct vr_call_choice choices[];
};

struct vr_calls {
    struct vr_call **entries; /* VR_MAX_CALLS; NULL: free */
    uint16_t *generations;
    uint16_t *unused; /* a stack of free entries */
    size_t n_unused;
    unsigned n, n_texts;   /* calls; choices that they are made of */
    double average_ms;     /* of recent calls */
    struct vr_buf scratch; /* pieces of scratch_of's stream that were not sent yet */
    struct vr_call *scratch_of;
};

bool vr_calls_init(struct vr_calls *c) VR_MUST_CHECK;
void vr_calls_done(struct vr_calls *c);

/* A call of that connection, which is answered when the engine answers. NULL: no room (the caller replies). */
struct vr_call *vr_call_new(struct vr_front *f, struct vr_conn *c, enum vr_request_kind kind,
                            size_t n_choices) VR_MUST_CHECK;
bool vr_call_send(struct vr_front *f, struct vr_call *call, const char *json, size_t n) VR_MUST_CHECK;
/* The client is gone: the engine is told, and nothing is sent any more. */
void vr_call_cancel(struct vr_front *f, struct vr_call *call);
/* Ends it with an error: as the reply where none was begun, as an event in a stream. */
void vr_call_fail(struct vr_front *f, struct vr_call *call, int status, const char *code, const char *message);
void vr_calls_fail_all(struct vr_front *f, int status, const char *code, const char *message);

/* False: the frame is malformed. */
bool vr_calls_frame(struct vr_front *f, const struct vr_frame *frame) VR_MUST_CHECK;
/* Sends what waits in the shared buffer. */
void vr_calls_flush(struct vr_front *f);
/* A comment to a stream that has been silent, so that proxies keep it open; called by the sweep. */
void vr_call_tick(struct vr_front *f, struct vr_call *call, uint64_t now_ms);

#endif
