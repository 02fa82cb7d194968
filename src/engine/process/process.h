/* The process that holds one model: what `vram-llm engine-process FD` runs (wire.h says what it speaks). */
#ifndef VR_ENGINE_PROCESS_PROCESS_H
#define VR_ENGINE_PROCESS_PROCESS_H

/* Serves the front at the other end of `fd` (a stream socket, which it owns) until the front says STOP or hangs up.
 * Returns the exit status: 0 after a STOP or a hang-up, 1 when a FAILED frame was sent. The process is its own: it
 * changes signal handlers, standard error and the engine's global state. */
int vr_engine_process(int fd);

#endif
