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
        for (size_t j = 0; j < i; j++) before += !strcmp(m->devices[j].backend, d->backend);
        snprintf(d->id, sizeof d->id, "%s%u", d->backend, before);
    }
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
    return a->pci[0] && !strcmp(a->pci, b->pci) && !strcmp(a->backend, b->backend);
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

bool vr_link_kind_parse(const char *name, enum vr_link_kind *out)
{
    for (size_t i = 0; i < VR_COUNT(kinds); i++) {
        if (strcmp(kinds[i], name)) continue;
        *out = (enum vr_link_kind)i;
        return true;
    }
    return false;
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
