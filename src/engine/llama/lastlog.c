/* A ring of lines behind a lock. llama.cpp ends a line with '\n' and continues one with GGML_LOG_LEVEL_CONT, so a line
 * is collected until its end. Nothing here allocates: it is also called while the process dies. */
#include "engine/llama/lastlog.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <llama.h>

#include "base/json.h"
#include "base/text.h"

enum { N_LINES = 64, WIDTH = 400 };

static struct {
    pthread_mutex_t lock;
    char lines[N_LINES][WIDTH];
    bool bad[N_LINES];
    uint64_t n;  /* lines ever */
    size_t fill; /* of the line that is being written */
    struct vr_shortage shortage;
} ring = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Each is a sentence of llama.cpp's, as scanf reads it. */
void vr_lastlog_read(const char *line, struct vr_shortage *into)
{
    double mib;
    int device;
    char name[32];
    unsigned long long bytes;
    const char *at;
    if (strstr(line, "failed to mlock") || (strstr(line, "mlock") && strstr(line, "failed"))) into->mlock = true;
    if ((at = strstr(line, "allocating ")) && strstr(line, "failed: out of memory") &&
        sscanf(at, "allocating %lf MiB on device %d:", &mib, &device) == 2) {
        into->any = true;
        into->asked_bytes = (uint64_t)(mib * (double)VR_MIB);
        snprintf(into->device, sizeof into->device, "CUDA%d", device);
    } else if ((at = strstr(line, "failed to allocate ")) &&
               sscanf(at, "failed to allocate %31s buffer of size %llu", name, &bytes) == 2) {
        into->any = true;
        if (into->asked_bytes == 0) into->asked_bytes = bytes;
        if (!into->device[0]) snprintf(into->device, sizeof into->device, "%s", name);
    } else if ((at = strstr(line, "unable to allocate ")) && sscanf(at, "unable to allocate %31s buffer", name) == 1) {
        into->any = true;
        if (!into->device[0]) snprintf(into->device, sizeof into->device, "%s", name);
    } else if ((at = strstr(line, "current device: ")) && sscanf(at, "current device: %d", &device) == 1 && into->any) {
        if (!into->device[0]) snprintf(into->device, sizeof into->device, "CUDA%d", device);
    } else if (strstr(line, "out of memory") || strstr(line, "OutOfDeviceMemory") ||
               strstr(line, "CUBLAS_STATUS_ALLOC_FAILED")) {
        into->any = true;
    }
}

/* One finished line; the lock is held. */
static void finish(bool bad)
{
    char *line = ring.lines[ring.n % N_LINES];
    line[ring.fill] = '\0';
    if (ring.fill == 0) return;
    ring.bad[ring.n % N_LINES] = bad;
    if (bad) vr_lastlog_read(line, &ring.shortage);
    ring.n++;
    ring.fill = 0;
}

void vr_lastlog_hear(enum ggml_log_level level, const char *text, void *ctx)
{
    (void)ctx;
    static bool bad;
    if (level == GGML_LOG_LEVEL_DEBUG || level == GGML_LOG_LEVEL_NONE) return;
    pthread_mutex_lock(&ring.lock);
    if (level != GGML_LOG_LEVEL_CONT) bad = level >= GGML_LOG_LEVEL_WARN;
    for (; *text; text++) {
        if (*text == '\n')
            finish(bad);
        else if (ring.fill < WIDTH - 1)
            ring.lines[ring.n % N_LINES][ring.fill++] = *text;
    }
    pthread_mutex_unlock(&ring.lock);
}

void vr_lastlog_start(void) { llama_log_set(vr_lastlog_hear, NULL); }

void vr_lastlog_add(const char *line)
{
    vr_lastlog_hear(GGML_LOG_LEVEL_ERROR, line, NULL);
    vr_lastlog_hear(GGML_LOG_LEVEL_CONT, "\n", NULL);
}

void vr_lastlog_forget(void)
{
    pthread_mutex_lock(&ring.lock);
    ring.shortage = (struct vr_shortage){ 0 };
    pthread_mutex_unlock(&ring.lock);
}

struct vr_shortage vr_lastlog_shortage(void)
{
    pthread_mutex_lock(&ring.lock);
    struct vr_shortage s = ring.shortage;
    pthread_mutex_unlock(&ring.lock);
    return s;
}

void vr_lastlog_json(struct vr_buf *out, bool bad_only)
{
    pthread_mutex_lock(&ring.lock);
    bool first = true;
    vr_buf_addc(out, '[', 1);
    for (uint64_t i = ring.n > N_LINES - 1 ? ring.n - (N_LINES - 1) : 0; i < ring.n; i++) {
        if (bad_only && !ring.bad[i % N_LINES]) continue;
        if (!first) vr_buf_addc(out, ',', 1);
        first = false;
        vr_json_add_string(out, ring.lines[i % N_LINES]);
    }
    vr_buf_addc(out, ']', 1);
    pthread_mutex_unlock(&ring.lock);
}

void vr_lastlog_reason(char *out, size_t n)
{
    out[0] = '\0';
    pthread_mutex_lock(&ring.lock);
    for (uint64_t i = ring.n; i-- > 0 && i + N_LINES > ring.n + 1;) {
        const char *line = ring.lines[i % N_LINES];
        if (!ring.bad[i % N_LINES] || strstr(line, "failed to load model") || strstr(line, "failed to create context"))
            continue;
        /* a CUDA error takes four lines, of which the first says what it is */
        size_t len = strlen(line);
        bool where = strstr(line, "current device: ") || (len > 10 && strcmp(line + len - 10, "CUDA error") == 0) ||
                     strncmp(line, "  ", 2) == 0;
        if (where && i > 0) continue;
        const char *colon = strstr(line, ": ");
        snprintf(out, n, "%s", colon ? colon + 2 : line); /* without the function's name */
        break;
    }
    pthread_mutex_unlock(&ring.lock);
}
