/* AMD and Intel cards from sysfs.
 *
 * /sys/class/drm/cardN/device is the PCI device of card N. amdgpu puts total and used VRAM there; Intel's drivers do so
 * only in some versions, and a card whose memory nobody tells cannot be planned with, so it is left out with a note.
 *
 * Bandwidth comes from the table of known cards: amdgpu tells the memory clock (pp_dpm_mclk) but not the width of the
 * bus, and its clock counts transfers differently for HBM, GDDR6 and DDR, so the product would be a guess.
 *
 * Integrated graphics are left out: their "VRAM" is a slice of host memory set aside by the firmware, usually 0.5 GiB,
 * and planning it as a card would count the same memory twice. A slice of at least 4 GiB was set by a person who wants
 * to run models in it (Strix Halo), and the kernel takes it off MemTotal, so that one is a device like any other. */
#include "hw/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "hw/gpus.h"

#define VENDOR_AMD    0x1002
#define VENDOR_INTEL  0x8086
#define VENDOR_NVIDIA 0x10de
#define OWN_VRAM_MIN  (4 * VR_GIB)

#define MAX_CARDS 64

static bool VR_PRINTF(3, 0) read_text(char *out, size_t n, const char *fmt, va_list ap)
{
    char path[PATH_MAX];
    int len = vsnprintf(path, sizeof path, fmt, ap);
    if (len < 0 || (size_t)len >= sizeof path) return false;
    VR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t got = 0;
    while (got < n - 1) {
        ssize_t r = read(fd, out + got, n - 1 - got);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) return false;
        if (r == 0) break;
        got += (size_t)r;
    }
    while (got && strchr(" \t\r\n", out[got - 1])) got--;
    out[got] = '\0';
    return true;
}

bool vr_sysfs_text(char *out, size_t n, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    bool ok = read_text(out, n, fmt, ap);
    va_end(ap);
    return ok;
}

bool vr_sysfs_u64(uint64_t *out, const char *fmt, ...)
{
    char text[64];
    va_list ap;
    va_start(ap, fmt);
    bool ok = read_text(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!ok) return false;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        char *end;
        errno = 0;
        unsigned long long v = strtoull(text + 2, &end, 16);
        if (errno || end == text + 2 || *end || text[2] == '-' || text[2] == '+') return false;
        *out = v;
        return true;
    }
    return vr_parse_u64(text, 0, UINT64_MAX, out);
}

static const struct {
    unsigned vendor, device;
    int revision;
    const char *name;
} ids[] = {
#define ANY                                 (-1)
#define PCI(vendor, device, revision, name) { vendor, device, revision, name },
#include "hw/pci.def"
#undef PCI
#undef ANY
};

struct card {
    unsigned number;
    char dir[PATH_MAX]; /* .../class/drm/cardN */
    char pci[32];
    uint64_t vendor, device, revision;
};

static void name_card(const struct card *c, struct vr_device *d)
{
    const char *vendor = c->vendor == VENDOR_AMD ? "AMD" : "Intel";
    snprintf(d->name, sizeof d->name, "%s GPU %04x:%02x", vendor, (unsigned)c->device, (unsigned)c->revision);
    for (size_t i = 0; i < VR_COUNT(ids); i++) {
        if (ids[i].vendor != c->vendor || ids[i].device != c->device) continue;
        if (ids[i].revision >= 0 && (uint64_t)ids[i].revision != c->revision) continue;
        snprintf(d->name, sizeof d->name, "%s", ids[i].name);
        return;
    }
    char product[64];
    if (!vr_sysfs_text(product, sizeof product, "%s/device/product_name", c->dir) || !*product) return;
    for (char *p = product; *p; p++)
        if ((unsigned char)*p < ' ' || (unsigned char)*p > '~') *p = '?';
    bool says_vendor = !strncmp(product, vendor, strlen(vendor));
    snprintf(d->name, sizeof d->name, "%s%s%s", says_vendor ? "" : vendor, says_vendor ? "" : " ", product);
}

/* "16.0 GT/s PCIe" -> 4 */
static uint16_t speed_gen(const char *text)
{
    static const double speeds[] = { 2.5, 5, 8, 16, 32, 64 };
    double gts = strtod(text, NULL);
    uint16_t gen = 0;
    while (gen < VR_COUNT(speeds) && gts >= speeds[gen] - 0.1) gen++;
    return gen;
}

static void hop(const char *dir, const char *which, uint16_t *gen, uint16_t *lanes)
{
    char speed[64];
    uint64_t width;
    if (vr_sysfs_text(speed, sizeof speed, "%s/%s_link_speed", dir, which)) {
        uint16_t g = speed_gen(speed);
        if (g && (!*gen || g < *gen)) *gen = g;
    }
    if (vr_sysfs_u64(&width, "%s/%s_link_width", dir, which) && width > 0 && width <= 32)
        if (!*lanes || width < *lanes) *lanes = (uint16_t)width;
}

/* The narrowest hop between the card and the host. The card's own link is not enough: AMD's cards carry a PCIe switch,
 * and their GPU sits behind it on a link that is always sixteen lanes wide. */
static void read_link(const struct card *c, struct vr_device *d)
{
    char device[PATH_MAX + 16], dir[PATH_MAX];
    snprintf(device, sizeof device, "%s/device", c->dir);
    if (!realpath(device, dir)) return;
    for (int hops = 0; hops < 16; hops++) {
        if (access(dir, R_OK)) return;
        char probe[64];
        if (!vr_sysfs_text(probe, sizeof probe, "%s/current_link_speed", dir)) return;
        hop(dir, "current", &d->pcie_gen, &d->pcie_lanes);
        hop(dir, "max", &d->pcie_gen_max, &d->pcie_lanes_max);
        char *slash = strrchr(dir, '/');
        if (!slash || slash == dir) return;
        *slash = '\0';
    }
}

/* Total and free bytes; false when the driver does not tell. */
static bool read_memory(const struct card *c, struct vr_device *d)
{
    uint64_t used;
    if (c->vendor == VENDOR_AMD) {
        if (!vr_sysfs_u64(&d->total_bytes, "%s/device/mem_info_vram_total", c->dir)) return false;
        if (vr_sysfs_u64(&used, "%s/device/mem_info_vram_used", c->dir))
            d->free_bytes = used < d->total_bytes ? d->total_bytes - used : 0;
        else {
            d->free_bytes = vr_device_free_guess(d->total_bytes);
            snprintf(d->note, sizeof d->note, "the driver does not report used memory");
        }
        return d->total_bytes > 0;
    }
    if (!vr_sysfs_u64(&d->total_bytes, "%s/lmem_total_bytes", c->dir) &&
        !vr_sysfs_u64(&d->total_bytes, "%s/device/tile0/physical_vram_size_bytes", c->dir))
        return false;
    if (!vr_sysfs_u64(&d->free_bytes, "%s/lmem_avail_bytes", c->dir)) {
        d->free_bytes = vr_device_free_guess(d->total_bytes);
        snprintf(d->note, sizeof d->note, "the driver does not report used memory");
    }
    if (d->free_bytes > d->total_bytes) d->free_bytes = d->total_bytes;
    return d->total_bytes > 0;
}

static void add_card(const char *root, const struct card *c, struct vr_machine *m)
{
    struct vr_device d = { .numa = -1 };
    snprintf(d.backend, sizeof d.backend, "%s", c->vendor == VENDOR_AMD ? "ROCm" : "SYCL");
    snprintf(d.pci, sizeof d.pci, "%s", c->pci);
    bool told = read_memory(c, &d);
    name_card(c, &d);
    if (!told) {
        /* an Intel processor's graphics have no memory to tell of; only a card that we know is worth a word */
        if (c->vendor == VENDOR_AMD || vr_gpu_known(d.name, 0))
            vr_machine_note(m, "%s (%s) is left out: its driver does not report its memory size.", d.name, c->pci);
        return;
    }
    const struct vr_gpu *known = vr_gpu_known(d.name, d.total_bytes / VR_MIB);
    bool whole = known && d.total_bytes / VR_MIB > known->mib / 2; /* a small card, all of it */
    if (d.total_bytes < OWN_VRAM_MIN && !whole) {
        struct vr_num mib;
        vr_machine_note(m, "%s (%s) is left out: integrated GPU with %s MiB reserved from host memory.", d.name, c->pci,
                        vr_fmt_mib(&mib, d.total_bytes, 0));
        return;
    }
    char id[24];
    if (vr_sysfs_text(id, sizeof id, "%s/device/unique_id", c->dir) && *id &&
        strspn(id, "0123456789abcdef") == strlen(id))
        snprintf(d.uuid, sizeof d.uuid, "GPU-%s", id); /* as ROCr spells it */
    read_link(c, &d);
    d.numa = vr_sysfs_numa(root, c->pci);
    vr_gpu_fill(&d);
    struct vr_device *slot = vr_machine_add(m);
    if (slot)
        *slot = d;
    else
        vr_machine_note(m, "%s (%s) is left out: more than %d devices.", d.name, c->pci, VR_MAX_DEVICES);
}

/* The PCI address from the device's uevent: the link's target has it too, but a bind mount may hide that. */
static bool read_card(const char *root, unsigned number, struct card *c)
{
    c->number = number;
    int n = snprintf(c->dir, sizeof c->dir, "%s/class/drm/card%u", root, number);
    if (n < 0 || (size_t)n >= sizeof c->dir - 64) return false;
    if (!vr_sysfs_u64(&c->vendor, "%s/device/vendor", c->dir)) return false;
    if (c->vendor != VENDOR_AMD && c->vendor != VENDOR_INTEL) return false;
    if (!vr_sysfs_u64(&c->device, "%s/device/device", c->dir)) c->device = 0;
    if (!vr_sysfs_u64(&c->revision, "%s/device/revision", c->dir)) c->revision = 0;
    char uevent[2048];
    if (vr_sysfs_text(uevent, sizeof uevent, "%s/device/uevent", c->dir)) {
        const char *slot = strstr(uevent, "PCI_SLOT_NAME=");
        if (slot) snprintf(c->pci, sizeof c->pci, "%.*s", (int)strcspn(slot + 14, "\n"), slot + 14);
    }
    return true;
}

static int by_pci(const void *a, const void *b)
{
    const struct card *x = a, *y = b;
    int c = strcmp(x->pci, y->pci);
    return c ? c : (x->number > y->number) - (x->number < y->number);
}

void vr_sysfs_read(const char *root, struct vr_machine *m)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/class/drm", root);
    DIR *dir = opendir(path);
    if (!dir) return;
    VR_AUTO_FREE struct card *cards = calloc(MAX_CARDS, sizeof *cards);
    size_t n = 0;
    for (struct dirent *e; cards && n < MAX_CARDS && (e = readdir(dir));) {
        uint64_t number;
        /* card0, not its outputs (card0-DP-1) and not renderD128 */
        if (strncmp(e->d_name, "card", 4) || !vr_parse_u64(e->d_name + 4, 0, 9999, &number)) continue;
        n += read_card(root, (unsigned)number, &cards[n]);
    }
    closedir(dir);
    /* the runtimes count by PCI address; readdir and driver loading order mean nothing */
    if (n) qsort(cards, n, sizeof *cards, by_pci);
    for (size_t i = 0; i < n; i++) add_card(root, &cards[i], m);
}

unsigned vr_sysfs_count_nvidia(const char *root, char *slot, size_t n)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/bus/pci/devices", root);
    DIR *dir = opendir(path);
    if (!dir) return 0;
    unsigned count = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        uint64_t vendor, class;
        if (e->d_name[0] == '.' || !vr_sysfs_u64(&vendor, "%s/%s/vendor", path, e->d_name)) continue;
        if (vendor != VENDOR_NVIDIA || !vr_sysfs_u64(&class, "%s/%s/class", path, e->d_name)) continue;
        if (class >> 16 != 0x03) continue; /* its sound and USB functions are not cards */
        if (count == 0 || strcmp(e->d_name, slot) < 0) snprintf(slot, n, "%s", e->d_name);
        count++;
    }
    closedir(dir);
    return count;
}

int vr_sysfs_numa(const char *root, const char *pci)
{
    char text[16];
    if (!*pci || !vr_sysfs_text(text, sizeof text, "%s/bus/pci/devices/%s/numa_node", root, pci)) return -1;
    uint64_t node;
    return vr_parse_u64(text, 0, 1023, &node) ? (int)node : -1;
}
