#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
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
    void (*tap)(void *ctx, const char *json, size_t n);
    void *tap_ctx;
} the_log = { .fd = STDERR_FILENO, .min_level = VR_INFO };

void vr_log_init(int fd, enum vr_log_format format, enum vr_level min_level)
{
    the_log.fd = fd;
    the_log.format = format;
    the_log.min_level = min_level;
    the_log.color = format == VR_LOG_TEXT && isatty(fd);
    the_log.dropped = 0;
    signal(SIGPIPE, SIG_IGN);
}

uint64_t vr_log_dropped(void) { return the_log.dropped; }

void vr_log_tap(void (*tap)(void *ctx, const char *json, size_t n), void *ctx)
{
    the_log.tap = tap;
    the_log.tap_ctx = ctx;
}

static const char *const level_names[] = { "debug", "info", "warn", "error" };
static const enum vr_style level_styles[] = { VR_DIM, VR_GREEN, VR_YELLOW, VR_RED };

/* A message is one line of text whatever it carries: a request must not be able to forge a second line, nor to send
 * commands to the terminal. */
static void add_clean(struct vr_buf *b, const char *s)
{
    const unsigned char *at = (const unsigned char *)s;
    for (size_t left = strlen(s), len; left; at += len, left -= len) {
        len = vr_utf8_len(at, left);
        if (len == 0) {
            vr_buf_adds(b, "\xEF\xBF\xBD");
            len = 1;
        } else if (vr_utf8_is_control(at, len)) {
            vr_buf_addc(b, ' ', 1);
        } else {
            vr_buf_add(b, at, len);
        }
    }
}

static void text_line(struct vr_buf *b, enum vr_level level, const struct vr_field *fields, const char *msg)
{
    bool color = the_log.color;
    time_t now = time(NULL);
    struct tm tm;
    char clock[16] = "";
    if (localtime_r(&now, &tm)) strftime(clock, sizeof clock, "%H:%M:%S", &tm);
    vr_buf_addf(b, "%s%s%s %s%-5s%s ", vr_style(color, VR_DIM), clock, vr_style(color, VR_PLAIN),
                vr_style(color, level_styles[level]), level_names[level], vr_style(color, VR_PLAIN));
    add_clean(b, msg);
    for (; fields && fields->value; fields++) {
        vr_buf_addf(b, "  %s%s=%s", vr_style(color, VR_DIM), fields->key, vr_style(color, VR_PLAIN));
        add_clean(b, fields->value);
    }
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

typedef void write_line(struct vr_buf *b, enum vr_level level, const struct vr_field *fields, const char *msg);

/* A line in a format, cut where it is too long. */
static void add_line(struct vr_buf *b, write_line *line, enum vr_level level, const struct vr_field *fields,
                     const char *msg)
{
    line(b, level, fields, msg);
    if (b->failed || b->n < MAX_LINE) return;
    static const struct vr_field cut[] = { { "cut", "true" }, { 0 } };
    char start[257]; /* cut what goes in, so that JSON stays JSON */
    snprintf(start, sizeof start, "%.256s", msg);
    vr_buf_clear(b);
    line(b, level, cut, start);
}

/* One write or none: a reader that is slow or gone costs the line, not our time. A pipe that poll(2) calls writable has
 * room for PIPE_BUF bytes. */
static bool put(const struct vr_buf *line)
{
    struct pollfd p = { the_log.fd, POLLOUT, 0 };
    if (line->failed || poll(&p, 1, 0) <= 0 || !(p.revents & POLLOUT)) return false;
    ssize_t n;
    do n = write(the_log.fd, line->data, line->n);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)line->n;
}

VR_PRINTF(3, 0) static void emit(enum vr_level level, const struct vr_field *fields, const char *fmt, va_list ap)
{
    if (level < the_log.min_level) return;
    char msg[1536];
    vsnprintf(msg, sizeof msg, fmt, ap);
    VR_AUTO_BUF line = { 0 };
    if (the_log.tap) {
        add_line(&line, json_line, level, fields, msg);
        if (!line.failed) the_log.tap(the_log.tap_ctx, line.data, line.n);
        vr_buf_clear(&line);
    }
    add_line(&line, the_log.format == VR_LOG_JSON ? json_line : text_line, level, fields, msg);
    vr_buf_addc(&line, '\n', 1);
    if (!put(&line)) the_log.dropped++;
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
