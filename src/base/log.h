/* The log: lines for a person on a terminal, JSON lines for a machine.
 *
 * Only cli/, server/ and node/ log; the rooms below return errors instead. One log per process, set up once in main; a
 * line is one write(2), so lines of several processes do not mix. A log that cannot be written (full disk, closed pipe)
 * is dropped and counted, never waited for. vr_log_init makes the process ignore SIGPIPE, so that a reader that went
 * away is such a line and not our end; children get the default back (base/child.h). */
#ifndef VR_BASE_LOG_H
#define VR_BASE_LOG_H

#include <stdint.h>

#include "base/own.h"

enum vr_level { VR_DEBUG, VR_INFO, VR_WARN, VR_ERROR };
enum vr_log_format { VR_LOG_TEXT, VR_LOG_JSON };

struct vr_field {
    const char *key;
    const char *value; /* NULL ends the list of fields */
};

void vr_log_init(int fd, enum vr_log_format format, enum vr_level min_level);
void vr_log(enum vr_level level, const char *fmt, ...) VR_PRINTF(2, 3);
/* With fields: "loaded model  id=abc ms=12" or {"ts":…,"level":…,"msg":…,"id":"abc","ms":"12"} */
void vr_log_fields(enum vr_level level, const struct vr_field *fields, const char *fmt, ...) VR_PRINTF(3, 4);
/* NULL, or called with each line as its JSON text, for whoever keeps the last ones. It must not log. */
void vr_log_tap(void (*tap)(void *ctx, const char *json, size_t n), void *ctx);
/* Lines lost since vr_log_init. */
uint64_t vr_log_dropped(void);

#endif
