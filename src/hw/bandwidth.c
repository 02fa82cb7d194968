/* A pass is timed from the first thread's first byte to the last one's last. Whether others disturbed it is told by the
 * threads' processor time, which must be about the time that went by: half a rate would be kept for good. On a computer
 * that is busy anyway none is begun. Pages are small ones: making huge ones costs five times as much as all of it.
 *
 * What is measured is what a loop that does nothing else reads, four fifths or so of what memory modules promise;
 * plan/speed.c knows the difference. */
#include "hw/bandwidth.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "hw/sysfs.h"

#define MAX_THREADS  256
#define LEAST_BYTES  (256 * VR_MIB)
#define MOST_OF_FREE 4   /* at most one part of so many of the memory that is free */
#define N_PASSES     5   /* at most */
#define ENOUGH_MS    100 /* after which no other pass begins */
#define UNDISTURBED  0.9 /* of the time, all threads together */
#define MIN_GBS      0.1
#define MAX_GBS      1e5
#define MAX_FILE     4096

/* --- measuring --- */

#define LINE      64 /* bytes that come together; memory is as busy with one word of them as with all */
#define N_STREAMS 4  /* that a core reads side by side: with one it waits, and gets half of what memory has */

struct reader {
    struct passes *all;
    const uint64_t *from;
    double begin_us, end_us, cpu_us;
    volatile uint64_t sum; /* so that the compiler cannot leave it out */
    pthread_t thread;
};

struct passes {
    pthread_mutex_t gate; /* closed until all threads are there */
    pthread_barrier_t together;
    struct reader *readers;
    unsigned n;
    size_t n_lines; /* that each of them reads */
    double started_us, best_gbs;
    bool last; /* set by the first reader between two barriers */
};

static void read_all(struct reader *r)
{
    const size_t step = LINE / sizeof *r->from, stream = r->all->n_lines / N_STREAMS * step;
    uint64_t a = 0, b = 0, c = 0, d = 0;
    double cpu = vr_thread_us();
    r->begin_us = vr_now_fine_us();
    for (const uint64_t *at = r->from, *end = at + stream; at < end; at += step) {
        a += at[0];
        b += at[stream];
        c += at[2 * stream];
        d += at[3 * stream];
    }
    r->sum = a + b + c + d;
    r->end_us = vr_now_fine_us();
    r->cpu_us = vr_thread_us() - cpu;
}

static void judge(struct passes *p, unsigned n_passes)
{
    double begin = p->readers[0].begin_us, end = begin, cpu = 0;
    for (unsigned i = 0; i < p->n; i++) {
        const struct reader *r = &p->readers[i];
        if (r->begin_us < begin) begin = r->begin_us;
        if (r->end_us > end) end = r->end_us;
        cpu += r->cpu_us;
    }
    double us = end - begin, gbs = us > 0 ? (double)p->n_lines * LINE * p->n / us / 1e3 : 0;
    if (cpu >= UNDISTURBED * us * p->n && gbs > p->best_gbs) p->best_gbs = gbs;
    p->last = n_passes == N_PASSES || end - p->started_us > ENOUGH_MS * 1e3;
}

static void *work(void *ctx)
{
    struct reader *r = ctx;
    struct passes *p = r->all;
    pthread_mutex_lock(&p->gate);
    pthread_mutex_unlock(&p->gate);
    /* written by the thread that reads it, so that it lies near to it; other than zeros, which may have no memory */
    memset((void *)(uintptr_t)r->from, 1, p->n_lines * LINE);
    if (r == p->readers) p->started_us = vr_now_fine_us();
    for (unsigned k = 1; !p->last; k++) {
        pthread_barrier_wait(&p->together);
        read_all(r);
        pthread_barrier_wait(&p->together);
        if (r == p->readers) judge(p, k);
        pthread_barrier_wait(&p->together);
    }
    return NULL;
}

double vr_bandwidth_measure(unsigned n_threads, uint64_t bytes)
{
    struct passes p = { .gate = PTHREAD_MUTEX_INITIALIZER };
    if (n_threads > MAX_THREADS) n_threads = MAX_THREADS;
    if (!n_threads || bytes > SIZE_MAX / 2) return 0;
    p.n_lines = (size_t)bytes / n_threads / LINE / N_STREAMS * N_STREAMS;
    size_t whole = p.n_lines * n_threads * LINE;
    VR_AUTO_FREE struct reader *readers = calloc(n_threads, sizeof *readers);
    if (!readers || !whole) return 0;
    char *memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 0;
    p.readers = readers;
    pthread_mutex_lock(&p.gate);
    for (; p.n < n_threads; p.n++) {
        readers[p.n] =
            (struct reader){ .all = &p, .from = (const uint64_t *)(void *)(memory + p.n * p.n_lines * LINE) };
        if (pthread_create(&readers[p.n].thread, NULL, work, &readers[p.n]) != 0) break;
    }
    p.last = p.n < n_threads; /* fewer would tell something else */
    if (p.n) pthread_barrier_init(&p.together, NULL, p.n);
    pthread_mutex_unlock(&p.gate);
    for (unsigned i = 0; i < p.n; i++) pthread_join(readers[i].thread, NULL);
    if (p.n) pthread_barrier_destroy(&p.together);
    munmap(memory, whole);
    return p.best_gbs;
}

/* "32768K" */
static uint64_t cache_size(const char *text)
{
    char *end;
    unsigned long long n = strtoull(text, &end, 10);
    return n > UINT32_MAX ? 0 : (uint64_t)n << (*end == 'K' ? 10 : *end == 'M' ? 20 : 0);
}

uint64_t vr_bandwidth_cache_bytes(const char *sysfs)
{
    uint64_t bytes = 0;
    char text[64];
    for (unsigned cpu = 0; cpu < 4096; cpu++) {
        int index = 4; /* the last level is the third, if not the fourth or the second */
        while (index >= 0 &&
               !vr_sysfs_text(text, sizeof text, "%s/devices/system/cpu/cpu%u/cache/index%d/size", sysfs, cpu, index))
            index--;
        if (index < 0) break;
        uint64_t size = cache_size(text);
        if (!vr_sysfs_text(text, sizeof text, "%s/devices/system/cpu/cpu%u/cache/index%d/shared_cpu_list", sysfs, cpu,
                           index))
            break;
        if (strtoul(text, NULL, 10) == cpu) bytes += size; /* each counts with the first of those that share it */
    }
    return bytes;
}

/* --- keeping it --- */

static bool path_of(const struct vr_host *h, char *out, size_t n)
{
    char text[256], name[64];
    snprintf(text, sizeof text, "%s %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu64, h->cpu, h->cores, h->threads,
             h->numa_nodes, h->ram_total_bytes);
    snprintf(name, sizeof name, "host-%016" PRIx64 ".json", vr_hash(text, strlen(text), 0));
    return vr_file_own_path("XDG_CACHE_HOME", ".cache", name, out, n);
}

static double read_kept(const char *path)
{
    VR_AUTO_BUF text = { 0 };
    struct vr_err none;
    if (!vr_file_read(path, MAX_FILE, &text, &none)) return 0;
    json_t *o = json_loadb(text.data ? text.data : "", text.n, 0, NULL);
    double gbs = json_number_value(json_object_get(o, "gbs"));
    json_decref(o);
    return gbs >= MIN_GBS && gbs <= MAX_GBS ? gbs : 0;
}

static bool keep(const char *path, const struct vr_host *h, double gbs)
{
    struct vr_err none;
    VR_AUTO_BUF text = { 0 };
    vr_buf_adds(&text, "{\"cpu\":");
    vr_json_add_string(&text, h->cpu);
    vr_buf_addf(&text, ",\"cores\":%" PRIu32 ",\"ram_mib\":%" PRIu64 ",\"gbs\":%.1f}\n", h->cores,
                h->ram_total_bytes / (uint64_t)VR_MIB, gbs);
    return !text.failed && vr_file_write(path, text.data, text.n, &none);
}

/* Do others run now, on more than a quarter of the cores? "0.20 0.18 0.12 1/80 11206": one runs, which is this one. */
static bool is_busy(const char *proc, uint32_t cores)
{
    char text[128];
    unsigned running;
    if (!vr_sysfs_text(text, sizeof text, "%s/loadavg", proc)) return false;
    return sscanf(text, "%*s %*s %*s %u/", &running) == 1 && running > 1 + cores / 4;
}

static double measure(const struct vr_bandwidth *how, const struct vr_host *h)
{
    if (is_busy(how && how->proc ? how->proc : "/proc", h->cores)) return 0;
    uint64_t bytes = 2 * vr_bandwidth_cache_bytes(how && how->sysfs ? how->sysfs : "/sys");
    if (bytes < LEAST_BYTES) bytes = LEAST_BYTES;
    if (bytes > h->ram_free_bytes / MOST_OF_FREE) return 0;
    return (how && how->measure ? how->measure : vr_bandwidth_measure)(h->cores ? h->cores : h->threads, bytes);
}

bool vr_bandwidth_find(const struct vr_bandwidth *how, struct vr_host *h, struct vr_err *err)
{
    const char *given = getenv(VR_BANDWIDTH_VAR);
    bool off = given && strcmp(given, "off") == 0;
    double gbs = 0;
    char path[512];
    struct vr_err none;
    if (given && *given && !off) {
        if (!vr_parse_double(given, &gbs) || !(gbs >= MIN_GBS && gbs <= MAX_GBS))
            return vr_fail(err, VR_EUSAGE, VR_BANDWIDTH_VAR ": '%.40s' is neither a number of GB/s nor 'off'", given);
        h->bandwidth_gbs = gbs;
        h->bandwidth_from = VR_FROM_USER;
        return true;
    }
    if (h->bandwidth_gbs > 0 || off || !path_of(h, path, sizeof path)) return true;
    gbs = read_kept(path);
    if (!(gbs > 0) && vr_file_make_parents(path, &none)) {
        gbs = measure(how, h);
        if (gbs > 0 && !keep(path, h, gbs)) gbs = 0;
    }
    if (!(gbs > 0)) return true;
    h->bandwidth_gbs = gbs;
    h->bandwidth_from = VR_FROM_READING;
    return true;
}
