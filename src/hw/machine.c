/* Small facts about machines that every source of one needs: ids, links, notes. */
#include "hw/machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

struct vr_machine *vr_machine_new(struct vr_err *err)
{
    struct vr_machine *m = calloc(1, sizeof *m);
    if (!m) vr_fail_nomem(err, "describing a machine");
    return m;
}

void vr_machine_free(struct vr_machine *m) { free(m); }

struct vr_device *vr_machine_add(struct vr_machine *m)
{
    if (m->n_devices == VR_MAX_DEVICES) return NULL;
    struct vr_device *d = &m->devices[m->n_devices++];
    *d = (struct vr_device){ .numa = -1 };
    return d;
}

void vr_machine_number(struct vr_machine *m)
{
    for (size_t i = 0; i < m->n_devices; i++) {
        struct vr_device *d = &m->devices[i];
        unsigned before = 0;
        for (size_t j = 0; j < i; j++)
            before += !strcmp(m->devices[j].backend, d->backend) && !strcmp(m->devices[j].node, d->node);
        char own[24];
        snprintf(own, sizeof own, "%.15s%u", d->backend, before);
        if (d->node[0])
            snprintf(d->id, sizeof d->id, "%.13s/%.9s", d->node, own);
        else
            snprintf(d->id, sizeof d->id, "%s", own);
    }
}

size_t vr_machine_borrow(struct vr_machine *m, const struct vr_machine *lender, const char *node, double net_gbs,
                         double net_us)
{
    size_t first = m->n_devices, n = 0;
    for (; n < lender->n_devices; n++) {
        struct vr_device *d = vr_machine_add(m);
        if (!d) break;
        *d = lender->devices[n];
        snprintf(d->node, sizeof d->node, "%.13s", node);
        snprintf(d->id, sizeof d->id, "%.13s/%.9s", node, lender->devices[n].id);
        d->net_gbs = net_gbs;
        d->net_us = net_us;
    }
    for (size_t i = 0; i < lender->n_links && m->n_links < VR_COUNT(m->links); i++) {
        struct vr_link l = lender->links[i];
        if (l.a >= n || l.b >= n) continue;
        l.a = (uint16_t)(l.a + first);
        l.b = (uint16_t)(l.b + first);
        m->links[m->n_links++] = l;
    }
    return n;
}

bool vr_machine_add_cpu(struct vr_machine *m, uint64_t most_bytes)
{
    const struct vr_host *h = &m->host;
    struct vr_device *d = vr_machine_add(m);
    if (!d) return false;
    snprintf(d->name, sizeof d->name, "%s", h->cpu[0] ? h->cpu : "CPU");
    snprintf(d->backend, sizeof d->backend, "CPU");
    d->total_bytes = h->ram_total_bytes;
    d->free_bytes = h->ram_free_bytes < most_bytes ? h->ram_free_bytes : most_bytes;
    d->bandwidth_gbs = h->bandwidth_gbs;
    d->fp16_tflops = 0.05 * (h->cores ? h->cores : 4); /* what plan/speed.c takes a core for */
    d->measured = h->measured;
    vr_machine_number(m);
    return true;
}

const char *vr_device_own_id(const struct vr_device *d)
{
    size_t n = strlen(d->node);
    return n ? d->id + n + 1 : d->id;
}

void vr_machine_note(struct vr_machine *m, const char *fmt, ...)
{
    size_t n = strlen(m->note);
    if (n && n + 1 < sizeof m->note) {
        m->note[n++] = '\n';
        m->note[n] = '\0';
    }
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(m->note + n, sizeof m->note - n, fmt, ap);
    va_end(ap);
}

bool vr_device_same_card(const struct vr_device *a, const struct vr_device *b)
{
    return a->pci[0] && !strcmp(a->pci, b->pci) && !strcmp(a->backend, b->backend) && !strcmp(a->node, b->node);
}

const struct vr_link *vr_machine_link(const struct vr_machine *m, size_t i, size_t j)
{
    for (size_t k = 0; k < m->n_links; k++) {
        const struct vr_link *l = &m->links[k];
        if ((l->a == i && l->b == j) || (l->a == j && l->b == i)) return l;
    }
    return NULL;
}

static const char *const kinds[] = {
    [VR_LINK_UNKNOWN] = "unknown", [VR_LINK_NVLINK] = "nvlink", [VR_LINK_SWITCH] = "switch",
    [VR_LINK_BRIDGE] = "bridge",   [VR_LINK_NODE] = "node",     [VR_LINK_SYSTEM] = "system",
};

const char *vr_link_kind_name(enum vr_link_kind kind)
{
    return (size_t)kind < VR_COUNT(kinds) ? kinds[kind] : kinds[0];
}

static size_t find_name(const char *const *names, size_t n, const char *name)
{
    size_t i = 0;
    while (i < n && strcmp(names[i], name) != 0) i++;
    return i;
}

bool vr_link_kind_parse(const char *name, enum vr_link_kind *out)
{
    size_t i = find_name(kinds, VR_COUNT(kinds), name);
    if (i < VR_COUNT(kinds)) *out = (enum vr_link_kind)i;
    return i < VR_COUNT(kinds);
}

static const char *const froms[] = {
    [VR_FROM_NOBODY] = "unknown", [VR_FROM_MODULES] = "modules", [VR_FROM_READING] = "measured",
    [VR_FROM_BENCH] = "bench",    [VR_FROM_USER] = "given",
};

const char *vr_bandwidth_from_name(enum vr_bandwidth_from from)
{
    return (size_t)from < VR_COUNT(froms) ? froms[from] : froms[0];
}

bool vr_bandwidth_from_parse(const char *name, enum vr_bandwidth_from *out)
{
    size_t i = find_name(froms, VR_COUNT(froms), name);
    if (i < VR_COUNT(froms)) *out = (enum vr_bandwidth_from)i;
    return i < VR_COUNT(froms);
}

double vr_pcie_gbs(unsigned gen, unsigned lanes)
{
    /* transfers per second, times what the line code leaves (8b/10b, 128b/130b, gen 6: 242 of 256 bytes), over 8 */
    static const double per_lane[] = { 0,
                                       2.5 * 0.8 / 8,
                                       5.0 * 0.8 / 8,
                                       8.0 * 128 / 130 / 8,
                                       16.0 * 128 / 130 / 8,
                                       32.0 * 128 / 130 / 8,
                                       64.0 * 242 / 256 / 8 };
    return gen < VR_COUNT(per_lane) ? per_lane[gen] * lanes : 0;
}

double vr_device_link_gbs(const struct vr_device *d)
{
    unsigned gen = d->pcie_gen_max > d->pcie_gen ? d->pcie_gen_max : d->pcie_gen;
    unsigned lanes = d->pcie_lanes ? d->pcie_lanes : d->pcie_lanes_max;
    return vr_pcie_gbs(gen, lanes);
}

uint64_t vr_device_free_guess(uint64_t total_bytes)
{
    uint64_t taken = total_bytes / 50 + 256 * VR_MIB;
    return taken < total_bytes ? total_bytes - taken : 0;
}
