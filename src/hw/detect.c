/* Detection puts the sources together: NVML for NVIDIA, sysfs for the others, /proc, /sys and /run for the host. */
#include "hw/detect.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "hw/dimms.h"
#include "hw/host.h"
#include "hw/nvml.h"
#include "hw/sysfs.h"

#define ENGINE_MAX_DEVICES 16 /* GGML_CUDA_MAX_DEVICES */

static const char *sysfs_root(const struct vr_detect *o) { return o && o->sysfs ? o->sysfs : "/sys"; }
static const char *proc_root(const struct vr_detect *o) { return o && o->proc ? o->proc : "/proc"; }

bool vr_host_detect(const struct vr_detect *opts, struct vr_host *out, struct vr_err *err)
{
    const char *run = opts && (opts->run || opts->sysfs) ? opts->run : "/run";
    if (!vr_host_read(sysfs_root(opts), proc_root(opts), out, err)) return false;
    out->bandwidth_gbs = vr_dimms_gbs(sysfs_root(opts), run);
    if (out->bandwidth_gbs > 0) out->bandwidth_from = VR_FROM_MODULES;
    return true;
}

/* What the engine does for GGML_CUDA_DEVICES=n, so that several GPUs can be tried on one: its cards in turn until there
 * are n, each with its share of the memory. */
static void show_as_many(struct vr_machine *m, const char *text)
{
    size_t n_cards = m->n_devices;
    uint64_t n;
    if (!text || !n_cards || !vr_parse_u64(text, 1, ENGINE_MAX_DEVICES, &n) || n <= n_cards) return;
    while (m->n_devices < n) {
        struct vr_device *copy = vr_machine_add(m);
        *copy = m->devices[(m->n_devices - 1) % n_cards];
    }
    for (size_t i = 0; i < n; i++) m->devices[i].free_bytes /= n / n_cards + (i % n_cards < n % n_cards);
    for (size_t b = n_cards; b < n; b++) {
        for (size_t a = 0; a < b; a++) {
            size_t of_a = a % n_cards, of_b = b % n_cards;
            const struct vr_link *cards = vr_machine_link(m, of_a, of_b);
            if (of_a != of_b && !cards) continue;
            struct vr_link l = { .kind = VR_LINK_SWITCH, .gbs = m->devices[a].bandwidth_gbs / 2, .p2p = true };
            if (of_a != of_b) l = *cards;
            l.a = (uint16_t)a;
            l.b = (uint16_t)b;
            m->links[m->n_links++] = l;
        }
    }
    vr_machine_note(m, "GGML_CUDA_DEVICES shows %zu GPU%s as %zu.", n_cards, n_cards == 1 ? "" : "s", m->n_devices);
}

bool vr_machine_detect(const struct vr_detect *opts, struct vr_machine *out, struct vr_err *err)
{
    memset(out, 0, sizeof *out);
    if (!vr_host_detect(opts, &out->host, err)) return false;
    const char *sysfs = sysfs_root(opts);
    vr_nvml_read(opts ? opts->nvml : NULL, out);
    show_as_many(out, opts && opts->shown ? opts->shown : getenv("GGML_CUDA_DEVICES"));
    for (size_t i = 0; i < out->n_devices; i++) out->devices[i].numa = vr_sysfs_numa(sysfs, out->devices[i].pci);

    char slot[32] = "";
    unsigned cards = out->n_devices ? 0 : vr_sysfs_count_nvidia(sysfs, slot, sizeof slot);
    if (cards && !out->note[0])
        vr_machine_note(out, "%u NVIDIA GPU%s on the bus (%s), but the NVIDIA driver is not loaded: install it.", cards,
                        cards == 1 ? " is" : "s are", slot);
    vr_sysfs_read(sysfs, out);
    vr_machine_number(out);
    return true;
}
