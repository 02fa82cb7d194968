/* A front for tests: starts an engine process, checks requests as the front does, speaks the wire protocol, collects
 * what comes back. */
#ifndef ENGINE_CLIENT_H
#define ENGINE_CLIENT_H

#include <jansson.h>
#include <sys/types.h>

#include "base/buf.h"
#include "engine/wire/request_check.h"
#include "engine/wire/wire.h"

enum { MAX_CHOICES = 32 };

struct answer {
    uint32_t id;
    struct vr_buf text[MAX_CHOICES], reasoning[MAX_CHOICES], tools[MAX_CHOICES], probs[MAX_CHOICES];
    struct vr_wire_end end[MAX_CHOICES];
    unsigned n_deltas, n_ends, want; /* it is over after so many ENDs */
    struct vr_wire_begin begin;
    bool begun, over;
    uint16_t status; /* of an ERROR, else 0 */
    json_t *error;
    float *vectors;
    uint32_t n_vectors, n_dims;
};

struct client {
    int fd;
    pid_t pid;
    struct vr_buf in;
    json_t *ready, *failed, *status; /* the last of each */
    int n_progress, n_pulses, n_notes;
    struct vr_wire_pulse pulse;
    bool gone;
    struct answer *answers[256];
    size_t n_answers;
    uint32_t next_id;
};

/* Starts $ENGINE_MAIN with a LOAD message (printf; ' stands for "), and waits until it is up or has failed. */
void client_start(struct client *c, const char *fmt, ...) VR_PRINTF(2, 3);
/* Asks it to stop and waits; the exit status, or -signal. */
int client_stop(struct client *c, uint32_t ms);
void client_send(struct client *c, enum vr_wire_kind kind, uint32_t id, const void *data, size_t n);

/* A request (printf; ' stands for "); `want` ENDs belong to it. What the front would refuse never reaches the engine:
 * its error has "by_front". */
void client_ask(struct client *c, struct answer *a, unsigned want, const char *fmt, ...) VR_PRINTF(4, 5);
void client_ask_raw(struct client *c, struct answer *a, unsigned want, const char *json, size_t n);
/* Reads until the answer is over. */
void client_wait(struct client *c, struct answer *a);
/* Reads one frame. False: nothing came within ms, or it hung up. */
bool client_read(struct client *c, int ms);
void answer_done(struct answer *a);

#endif
