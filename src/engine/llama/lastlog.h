/* What llama.cpp logs, kept instead of printed: the last lines, and what they say about memory.
 *
 * One per process, as llama.cpp's log is; lines may come from any thread. */
#ifndef VR_ENGINE_LLAMA_LASTLOG_H
#define VR_ENGINE_LLAMA_LASTLOG_H

#include <stdbool.h>
#include <stdint.h>

#include <ggml.h>

#include "base/buf.h"

/* Takes over the engine's log. */
void vr_lastlog_start(void);
/* For parts of the engine that have a log of their own. */
void vr_lastlog_hear(enum ggml_log_level level, const char *text, void *ctx);
/* Adds a line of our own (also what an abort says). */
void vr_lastlog_add(const char *line);
/* Forgets what was said about memory, so that the next shortage is a new one. */
void vr_lastlog_forget(void);

struct vr_shortage {
    bool any;             /* something could not be allocated */
    char device[32];      /* "CUDA1"; "" when the engine did not say */
    uint64_t asked_bytes; /* 0 when it did not say */
    bool mlock;           /* memory could not be locked */
};
struct vr_shortage vr_lastlog_shortage(void);

/* What one line says about memory; `into` keeps what it knew. Pure, for tests. */
void vr_lastlog_read(const char *line, struct vr_shortage *into);

/* The last lines, oldest first, as a JSON array of strings; warnings and errors only when `bad_only`. */
void vr_lastlog_json(struct vr_buf *out, bool bad_only);
/* The last error line that says why, "" when there is none. */
void vr_lastlog_reason(char *out, size_t n);

#endif
