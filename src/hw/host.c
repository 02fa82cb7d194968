/* The host from /proc and /sys.
 *
 * Free memory is MemAvailable: what can be had without swapping, page cache given back. Under a cgroup v2 limit (a
 * container, a systemd slice) it is what the tightest group on the way to the root leaves: its limit less what it
 * holds, where inactive file pages count as free, because the kernel drops them before it refuses memory. */
#include "hw/host.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/text.h"
#include "hw/sysfs.h"

/* "MemTotal:       65535 kB" -> bytes */
static bool meminfo(const char *text, const char *key, uint64_t *bytes)
{
    size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, n) || line[n] != ':') continue;
        unsigned long long kb;
        if (sscanf(line + n + 1, " %llu kB", &kb) != 1 || kb > UINT64_MAX / 1024) return false;
        *bytes = (uint64_t)kb * 1024;
        return true;
    }
    return false;
}

static uint64_t stat_value(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        unsigned long long v;
        if (!strncmp(line, key, n) && line[n] == ' ' && sscanf(line + n, " %llu", &v) == 1) return v;
    }
    return 0;
}

static void apply_limit(const char *dir, struct vr_host *h)
{
    uint64_t limit, current;
    if (!vr_sysfs_u64(&limit, "%s/memory.max", dir)) return; /* not there, or "max" */
    if (limit < h->ram_total_bytes) h->ram_total_bytes = limit;
    if (!vr_sysfs_u64(&current, "%s/memory.current", dir)) current = 0;
    char stat[8192];
    uint64_t cache = vr_sysfs_text(stat, sizeof stat, "%s/memory.stat", dir) ? stat_value(stat, "inactive_file") : 0;
    uint64_t held = cache < current ? current - cache : 0;
    uint64_t left = held < limit ? limit - held : 0;
    if (left < h->ram_free_bytes) h->ram_free_bytes = left;
}

/* The group's own limit and those of all groups above it. */
static void read_cgroup(const char *sysfs, const char *proc, struct vr_host *h)
{
    char text[PATH_MAX], dir[2 * PATH_MAX];
    if (!vr_sysfs_text(text, sizeof text, "%s/self/cgroup", proc)) return;
    const char *line = strstr(text, "0::/");
    if (!line || (line != text && line[-1] != '\n')) return;
    int n = snprintf(dir, sizeof dir, "%s/fs/cgroup%.*s", sysfs, (int)strcspn(line + 3, "\n"), line + 3);
    if (n < 0 || (size_t)n >= sizeof dir) return;
    size_t root = strlen(sysfs) + strlen("/fs/cgroup");
    for (size_t at = (size_t)n;; dir[at] = '\0') {
        while (at > root && dir[at - 1] == '/') dir[--at] = '\0';
        apply_limit(dir, h);
        if (at <= root) return;
        while (at > root && dir[at - 1] != '/') at--;
    }
}

static void read_cpu_name(const char *cpuinfo, struct vr_host *h)
{
    const char *line = strstr(cpuinfo, "model name");
    if (!line || (line != cpuinfo && line[-1] != '\n')) return;
    const char *colon = line + strcspn(line, ":\n");
    if (*colon != ':') return;
    colon += 1 + strspn(colon + 1, " \t");
    snprintf(h->cpu, sizeof h->cpu, "%.*s", (int)strcspn(colon, "\n"), colon);
    for (char *p = h->cpu; *p; p++)
        if ((unsigned char)*p < ' ' || (unsigned char)*p > '~') *p = '?';
}

/* Counts the entries "<prefix><number>" of a directory, calling each(number, ctx) to decide which count. */
static uint32_t count_numbered(const char *dir_path, const char *prefix, bool (*each)(uint64_t number, void *ctx),
                               void *ctx)
{
    DIR *dir = opendir(dir_path);
    if (!dir) return 0;
    uint32_t n = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        uint64_t number;
        if (strncmp(e->d_name, prefix, strlen(prefix))) continue;
        if (!vr_parse_u64(e->d_name + strlen(prefix), 0, 1 << 20, &number)) continue;
        n += !each || each(number, ctx);
    }
    closedir(dir);
    return n;
}

struct cpus {
    const char *dir;
    uint32_t cores;
};

/* An offline CPU has no topology. A core is counted at the first of its threads. */
static bool cpu_online(uint64_t number, void *ctx)
{
    struct cpus *c = ctx;
    char list[256];
    if (!vr_sysfs_text(list, sizeof list, "%s/cpu%u/topology/core_cpus_list", c->dir, (unsigned)number) &&
        !vr_sysfs_text(list, sizeof list, "%s/cpu%u/topology/thread_siblings_list", c->dir, (unsigned)number))
        return false;
    list[strcspn(list, ",-")] = '\0';
    uint64_t first;
    c->cores += !vr_parse_u64(list, 0, UINT64_MAX, &first) || first == number;
    return true;
}

bool vr_host_read(const char *sysfs, const char *proc, struct vr_host *out, struct vr_err *err)
{
    *out = (struct vr_host){ 0 };
    char path[PATH_MAX], text[8192];
    if (!vr_sysfs_text(text, sizeof text, "%s/meminfo", proc))
        return vr_fail(err, VR_EIO, "%s/meminfo: %s: cannot determine host memory; is /proc mounted?", proc,
                       strerror(errno));
    if (!meminfo(text, "MemTotal", &out->ram_total_bytes))
        return vr_fail(err, VR_EFORMAT, "%s/meminfo: no MemTotal: cannot determine host memory", proc);
    if (!meminfo(text, "MemAvailable", &out->ram_free_bytes)) meminfo(text, "MemFree", &out->ram_free_bytes);
    if (out->ram_free_bytes > out->ram_total_bytes) out->ram_free_bytes = out->ram_total_bytes;
    read_cgroup(sysfs, proc, out);

    if (vr_sysfs_text(text, sizeof text, "%s/cpuinfo", proc)) read_cpu_name(text, out);
    snprintf(path, sizeof path, "%s/devices/system/cpu", sysfs);
    struct cpus cpus = { .dir = path };
    out->threads = count_numbered(path, "cpu", cpu_online, &cpus);
    out->cores = cpus.cores;
    snprintf(path, sizeof path, "%s/devices/system/node", sysfs);
    out->numa_nodes = count_numbered(path, "node", NULL, NULL);
    return true;
}
