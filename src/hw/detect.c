/* Detection puts the sources together: NVML for NVIDIA, sysfs for the others, /proc and /sys for the host. */
#include "hw/detect.h"

#include <string.h>

#include "hw/host.h"
#include "hw/nvml.h"
#include "hw/sysfs.h"

static const char *sysfs_root(const struct vr_detect *o) { return o && o->sysfs ? o->sysfs : "/sys"; }
static const char *proc_root(const struct vr_detect *o) { return o && o->proc ? o->proc : "/proc"; }

bool vr_host_detect(const struct vr_detect *opts, struct vr_host *out, struct vr_err *err)
{
    return vr_host_read(sysfs_root(opts), proc_root(opts), out, err);
}

bool vr_machine_detect(const struct vr_detect *opts, struct vr_machine *out, struct vr_err *err)
{
    memset(out, 0, sizeof *out);
    if (!vr_host_detect(opts, &out->host, err)) return false;
    const char *sysfs = sysfs_root(opts);
    vr_nvml_read(opts ? opts->nvml : NULL, out);
    for (size_t i = 0; i < out->n_devices; i++) out->devices[i].numa = vr_sysfs_numa(sysfs, out->devices[i].pci);

    char slot[32] = "";
    unsigned cards = out->n_devices ? 0 : vr_sysfs_count_nvidia(sysfs, slot, sizeof slot);
    if (cards && !out->note[0])
        vr_machine_note(out, "%u NVIDIA card%s on the bus (%s), but no driver answers: install NVIDIA's.", cards,
                        cards == 1 ? " is" : "s are", slot);
    vr_sysfs_read(sysfs, out);
    vr_machine_number(out);
    return true;
}
