/* A machine meets what was measured on it earlier: some cards may be others by now, or sit elsewhere. */
#include <string.h>

#include "base/file.h"
#include "hw/profile.h"

#define DISTURBED 1.25 /* times as long as the other time */

bool vr_profile_own_path(char *out, size_t n)
{
    return vr_file_own_path("XDG_DATA_HOME", ".local/share", "machine.json", out, n);
}

/* The size a driver reports moves by a few MiB from version to version. */
static bool about(uint64_t a, uint64_t b) { return (a > b ? a - b : b - a) <= b / 32; }

static bool same_make(const struct vr_device *a, const struct vr_device *b)
{
    return !strcmp(a->name, b->name) && !strcmp(a->backend, b->backend) && about(a->total_bytes, b->total_bytes);
}

/* The device of `saved` that tells most about `d`; -1: none. */
static int counterpart(const struct vr_device *d, const struct vr_machine *saved)
{
    int found = -1;
    for (size_t i = 0; i < saved->n_devices; i++) {
        const struct vr_device *s = &saved->devices[i];
        if (!s->measured.when[0] || !same_make(d, s)) continue;
        if (d->uuid[0] && !strcmp(d->uuid, s->uuid)) return (int)i;
        if (found < 0) found = (int)i;
    }
    return found;
}

static void take_links(struct vr_machine *m, const struct vr_machine *saved, const int *of)
{
    for (size_t i = 0; i < m->n_links; i++) {
        struct vr_link *l = &m->links[i];
        int a = of[l->a], b = of[l->b];
        const struct vr_link *s = a >= 0 && b >= 0 && a != b ? vr_machine_link(saved, (size_t)a, (size_t)b) : NULL;
        if (!s) continue;
        l->measured_gbs = s->measured_gbs;
        l->measured_us = s->measured_us;
    }
}

/* The devices that were measured together, as they are called now. */
static void take_reductions(struct vr_machine *m, const struct vr_machine *saved, const int *of)
{
    for (size_t i = 0; i < saved->n_reductions; i++) {
        struct vr_measured_reduction r = saved->reductions[i];
        uint64_t left = r.devices;
        r.devices = 0;
        for (size_t k = 0; k < m->n_devices; k++) {
            if (of[k] < 0 || !(left >> of[k] & 1)) continue;
            left &= ~(UINT64_C(1) << of[k]);
            r.devices |= UINT64_C(1) << k;
        }
        if (!left) vr_machine_keep_reduction(m, &r);
    }
}

size_t vr_machine_calibrate(struct vr_machine *m, const struct vr_machine *saved, const char *engine)
{
    int of[VR_MAX_DEVICES];
    size_t n = 0;
    for (size_t i = 0; i < m->n_devices; i++) {
        struct vr_device *d = &m->devices[i];
        of[i] = counterpart(d, saved);
        if (of[i] < 0) continue;
        d->measured = saved->devices[of[i]].measured;
        n++;
        const char *other = strcmp(d->measured.driver, m->driver) ? "driver" : "engine";
        if (!strcmp(d->measured.driver, m->driver) && !strcmp(d->measured.engine, engine)) continue;
        d->measured.runtime_bytes = d->measured.blas_bytes = 0;
        vr_machine_note(m, "%s was calibrated with another %s: run 'vram-llm bench' again.", d->id, other);
    }
    const struct vr_host *h = &saved->host;
    if (h->measured.when[0] && !strcmp(m->host.cpu, h->cpu) && m->host.cores == h->cores &&
        about(m->host.ram_total_bytes, h->ram_total_bytes)) {
        m->host.measured = !m->n_devices && h->alone.when[0] ? h->alone : h->measured;
        m->host.alone = h->alone;
        if (!(m->host.bandwidth_gbs > 0)) {
            m->host.bandwidth_gbs = h->bandwidth_gbs;
            m->host.bandwidth_from = VR_FROM_BENCH;
        }
    }
    take_links(m, saved, of);
    take_reductions(m, saved, of);
    return n;
}

void vr_rate_again(double *rate, double again, double *row_ns, double row_ns_again)
{
    double none = 0, *row = row_ns ? row_ns : &none;
    if (!(again > 0) || *rate > DISTURBED * again) return;
    bool steady = again <= DISTURBED * *rate;
    *row = steady ? (*row + row_ns_again) / 2 : row_ns_again;
    *rate = steady ? 2 / (1 / *rate + 1 / again) : again;
}
