/* Devices keep the ids and names of the first look. NVIDIA's are found again by UUID (a card that was lost does not
 * shift those behind it), the others by their PCI address in sysfs, where the kernel counts used memory but no load. */
#include "hw/gauge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hw/host.h"
#include "hw/nvml.h"
#include "hw/sysfs.h"

#define BUSY_NS 300000000

struct vr_gauge {
    struct vr_machine first, again; /* again: sysfs, read anew each time */
    struct vr_nvml *nvml;
    const char *sysfs, *proc;
    uint64_t busy, ticks; /* of all cores, at the last reading */
};

struct vr_gauge *vr_gauge_new(const struct vr_detect *opts, const struct vr_machine *m, struct vr_err *err)
{
    struct vr_gauge *g = calloc(1, sizeof *g);
    if (!g) {
        vr_fail_nomem(err, "watching the devices");
        return NULL;
    }
    g->first = *m;
    g->nvml = vr_nvml_open(opts ? opts->nvml : NULL);
    g->sysfs = opts && opts->sysfs ? opts->sysfs : "/sys";
    g->proc = opts && opts->proc ? opts->proc : "/proc";
    return g;
}

void vr_gauge_free(struct vr_gauge *g)
{
    if (!g) return;
    vr_nvml_close(g->nvml);
    free(g);
}

/* The first line of /proc/stat: jiffies of all cores by what they did; the fourth and fifth are idle. */
static int cpu_percent(struct vr_gauge *g)
{
    char text[512];
    unsigned long long v[8] = { 0 };
    if (!vr_sysfs_text(text, sizeof text, "%s/stat", g->proc) ||
        sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6],
               &v[7]) < 5)
        return -1;
    uint64_t all = 0, idle = v[3] + v[4];
    for (size_t i = 0; i < 8; i++) all += v[i];
    uint64_t ticks = all - g->ticks, busy = all - idle - g->busy;
    bool first = g->ticks == 0;
    g->ticks = all;
    g->busy = all - idle;
    return first || ticks == 0 || busy > ticks ? -1 : (int)(100 * busy / ticks);
}

bool vr_gauge_read(struct vr_gauge *g, struct vr_gauge_reading *out, struct vr_err *err)
{
    *out = (struct vr_gauge_reading){ 0 };
    struct vr_host host;
    if (!vr_host_read(g->sysfs, g->proc, &host, err)) return false;
    out->ram_total_bytes = host.ram_total_bytes;
    out->ram_free_bytes = host.ram_free_bytes;
    out->cpu_percent = cpu_percent(g);
    struct vr_card_use cards[VR_MAX_DEVICES];
    size_t n_cards = g->nvml ? vr_nvml_use(g->nvml, cards, VR_COUNT(cards)) : 0;
    memset(&g->again, 0, sizeof g->again);
    vr_sysfs_read(g->sysfs, &g->again);
    for (size_t i = 0; i < g->first.n_devices; i++) {
        const struct vr_device *d = &g->first.devices[i];
        bool found = false;
        __typeof__(&out->devices[0]) r = &out->devices[out->n_devices];
        r->load_percent = r->temperature_c = r->power_w = -1;
        for (size_t k = 0; k < n_cards && !found; k++) {
            if (!*d->uuid || strcmp(cards[k].uuid, d->uuid) != 0) continue;
            found = true;
            r->total_bytes = cards[k].total_bytes;
            r->free_bytes = cards[k].free_bytes;
            r->load_percent = cards[k].load_percent;
            r->temperature_c = cards[k].temperature_c;
            r->power_w = cards[k].power_w;
        }
        for (size_t k = 0; k < g->again.n_devices && !found; k++) {
            if (!*d->pci || strcmp(g->again.devices[k].pci, d->pci) != 0) continue;
            found = true;
            r->total_bytes = g->again.devices[k].total_bytes;
            r->free_bytes = g->again.devices[k].free_bytes;
        }
        if (!found) continue;
        memcpy(r->id, d->id, sizeof r->id);
        memcpy(r->name, d->name, sizeof r->name);
        out->n_devices++;
    }
    return true;
}

int vr_cpu_busy_percent(const struct vr_machine *m)
{
    VR_AUTO_FREE struct vr_gauge_reading *r = calloc(1, sizeof *r);
    struct vr_err none;
    struct vr_gauge *g = r ? vr_gauge_new(NULL, m, &none) : NULL;
    bool read = g && vr_gauge_read(g, r, &none);
    if (read) nanosleep(&(struct timespec){ .tv_nsec = BUSY_NS }, NULL);
    read = read && vr_gauge_read(g, r, &none);
    vr_gauge_free(g);
    return read ? r->cpu_percent : -1;
}
