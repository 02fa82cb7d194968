#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/table.h"

/* A line longer than this is cut: one write(2) of at most PIPE_BUF bytes stays whole. */
#define MAX_LINE 4096

static struct {
    int fd;
    enum vr_log_format format;
    enum vr_level min_level;
    bool color;
    uint64_t dropped;
} the_log = { .fd = STDERR_FILENO, .min_level = VR_INFO };

void vr_log_init(int fd, enum vr_log_format format, enum vr_level min_level)
{
    the_log.fd = fd;
    the_log.format = format;
    the_log.min_level = min_level;
    the_log.color = format == VR_LOG_TEXT && isatty(fd);
    the_log.dropped = 0;
}

uint64_t vr_log_dropped(void) { return the_log.dropped; }

static const char *const level_names[] = { "debug", "info", "warn", "error" };
static const enum vr_style level_styles[] = { VR_DIM, VR_GREEN, VR_YELLOW, VR_RED };

static void text_line(struct vr_buf *b, enum vr_level level, const struct vr_field *fields, const char *msg)
{
    bool color = the_log.color;
    time_t now = time(NULL);
    struct tm tm;
    char clock[16] = "";
    if (localtime_r(&now, &tm)) strftime(clock, sizeof clock, "%H:%M:%S", &tm);
    vr_buf_addf(b, "%s%s%s %s%-5s%s %s", vr_style(color, VR_DIM), clock, vr_style(color, VR_PLAIN),
                vr_style(color, level_styles[level]), level_names[level], vr_style(color, VR_PLAIN), msg);
    for (; fields && fields->value; fields++)
        vr_buf_addf(b, "  %s%s=%s%s", vr_style(color, VR_DIM), fields->key, vr_style(color, VR_PLAIN), fields->value);
}

static void json_line(struct vr_buf *b, enum vr_level level, const struct vr_field *fields, const char *msg)
{
    struct timespec ts;
    struct tm tm;
    char stamp[32] = "";
    clock_gettime(CLOCK_REALTIME, &ts);
    if (gmtime_r(&ts.tv_sec, &tm)) strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
    vr_buf_addf(b, "{\"ts\":\"%s.%03ldZ\",\"level\":\"%s\",\"msg\":", stamp, ts.tv_nsec / 1000000, level_names[level]);
    vr_json_add_string(b, msg);
    for (; fields && fields->value; fields++) {
        vr_buf_addc(b, ',', 1);
        vr_json_add_string(b, fields->key);
        vr_buf_addc(b, ':', 1);
        vr_json_add_string(b, fields->value);
    }
    vr_buf_addc(b, '}', 1);
}

/* A message is one line whatever it carries: a request must not be able to forge a second one. */
static void one_line(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 127) *s = ' ';
}

VR_PRINTF(3, 0) static void emit(enum vr_level level, const struct vr_field *fields, const char *fmt, va_list ap)
{
    if (level < the_log.min_level) return;
    char msg[1536];
    vsnprintf(msg, sizeof msg, fmt, ap);
    VR_AUTO_BUF line = { 0 };
    if (the_log.format == VR_LOG_JSON) {
        json_line(&line, level, fields, msg);
    } else {
        one_line(msg);
        text_line(&line, level, fields, msg);
    }
    if (!line.failed && line.n >= MAX_LINE) { /* keep JSON valid: say that the line was too long instead */
        vr_buf_clear(&line);
        msg[256] = '\0';
        if (the_log.format == VR_LOG_JSON)
            json_line(&line, level, (const struct vr_field[]){ { "cut", "true" }, { 0 } }, msg);
        else
            text_line(&line, level, NULL, msg);
    }
    vr_buf_addc(&line, '\n', 1);
    ssize_t n = -1;
    if (!line.failed) do
            n = write(the_log.fd, line.data, line.n);
        while (n < 0 && errno == EINTR);
    if (n < 0) the_log.dropped++;
}

void vr_log(enum vr_level level, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    emit(level, NULL, fmt, ap);
    va_end(ap);
}

void vr_log_fields(enum vr_level level, const struct vr_field *fields, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    emit(level, fields, fmt, ap);
    va_end(ap);
}
