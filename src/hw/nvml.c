/* NVML with prototypes of our own: the only file that names it.
 *
 * The library is opened, asked and closed again within one call, so nothing of the driver stays in this process; only
 * vr_nvml_open keeps it, for a process that does nothing else.
 * Symbols are looked up by a table with their older names; all but four are optional. Structures are declared as the
 * library's ABI has had them since driver 384; where a newer version of a structure exists, it carries its size and
 * version. */
#include "hw/nvml.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "hw/gpus.h"

enum {
    NVML_OK = 0,
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_GPU_IS_LOST = 15,
    NVML_VERSION_MISMATCH = 18,
    NVML_CLOCK_MEM = 2,
    NVML_P2P_READ = 0,
    NVML_REMOTE_SWITCH = 2,
    NVML_FIELD_NVLINK_MBPS = 90, /* MB/s of one link */
    NVML_MAX_LINKS = 36,
};

struct card; /* nvmlDevice_t points to one; the library knows what it is */

struct memory_v1 {
    unsigned long long total, free, used;
};
struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
struct pci_info {
    char legacy_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char id[32];
    char room[64]; /* newer drivers may know more */
};
struct rates { /* percent of the last moment: kernels ran, memory was read or written */
    unsigned gpu, memory;
};
struct field_value {
    unsigned field, scope;
    long long timestamp, latency_us;
    unsigned type; /* 0 double, 1 unsigned, 2 unsigned long, 3 unsigned long long, ... */
    int rc;
    union {
        double d;
        unsigned u;
        unsigned long long ull;
    } value;
};

struct nvml {
    void *lib;
    const char *path;
    /* the four that must be there */
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *);
    int (*by_index)(unsigned, struct card **);
    /* the rest may be NULL */
    const char *(*error_string)(int);
    int (*driver_version)(char *, unsigned);
    int (*cuda_version)(int *);
    int (*name)(struct card *, char *, unsigned);
    int (*uuid)(struct card *, char *, unsigned);
    int (*pci)(struct card *, struct pci_info *);
    int (*memory)(struct card *, struct memory_v1 *);
    int (*memory2)(struct card *, struct memory_v2 *);
    int (*gen)(struct card *, unsigned *);
    int (*lanes)(struct card *, unsigned *);
    int (*max_gen)(struct card *, unsigned *);
    int (*max_lanes)(struct card *, unsigned *);
    int (*bus_width)(struct card *, unsigned *);
    int (*max_clock)(struct card *, int, unsigned *);
    int (*capability)(struct card *, int *, int *);
    int (*link_state)(struct card *, unsigned, int *);
    int (*link_pci)(struct card *, unsigned, struct pci_info *);
    int (*link_remote_type)(struct card *, unsigned, int *);
    int (*link_version)(struct card *, unsigned, unsigned *);
    int (*fields)(struct card *, int, struct field_value *);
    int (*ancestor)(struct card *, struct card *, int *);
    int (*p2p)(struct card *, struct card *, int, int *);
    int (*load)(struct card *, struct rates *);
    int (*temperature)(struct card *, int, unsigned *);
    int (*power)(struct card *, unsigned *);
};

static const struct {
    size_t at; /* of the pointer in struct nvml */
    const char *name, *older;
} symbols[] = {
    { offsetof(struct nvml, init), "nvmlInit_v2", "nvmlInit" },
    { offsetof(struct nvml, shutdown), "nvmlShutdown", NULL },
    { offsetof(struct nvml, count), "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount" },
    { offsetof(struct nvml, by_index), "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex" },
    { offsetof(struct nvml, error_string), "nvmlErrorString", NULL },
    { offsetof(struct nvml, driver_version), "nvmlSystemGetDriverVersion", NULL },
    { offsetof(struct nvml, cuda_version), "nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion" },
    { offsetof(struct nvml, name), "nvmlDeviceGetName", NULL },
    { offsetof(struct nvml, uuid), "nvmlDeviceGetUUID", NULL },
    { offsetof(struct nvml, pci), "nvmlDeviceGetPciInfo_v3", NULL },
    { offsetof(struct nvml, memory), "nvmlDeviceGetMemoryInfo", NULL },
    { offsetof(struct nvml, memory2), "nvmlDeviceGetMemoryInfo_v2", NULL },
    { offsetof(struct nvml, gen), "nvmlDeviceGetCurrPcieLinkGeneration", NULL },
    { offsetof(struct nvml, lanes), "nvmlDeviceGetCurrPcieLinkWidth", NULL },
    { offsetof(struct nvml, max_gen), "nvmlDeviceGetMaxPcieLinkGeneration", NULL },
    { offsetof(struct nvml, max_lanes), "nvmlDeviceGetMaxPcieLinkWidth", NULL },
    { offsetof(struct nvml, bus_width), "nvmlDeviceGetMemoryBusWidth", NULL },
    { offsetof(struct nvml, max_clock), "nvmlDeviceGetMaxClockInfo", NULL },
    { offsetof(struct nvml, capability), "nvmlDeviceGetCudaComputeCapability", NULL },
    { offsetof(struct nvml, link_state), "nvmlDeviceGetNvLinkState", NULL },
    { offsetof(struct nvml, link_pci), "nvmlDeviceGetNvLinkRemotePciInfo_v2", NULL },
    { offsetof(struct nvml, link_remote_type), "nvmlDeviceGetNvLinkRemoteDeviceType", NULL },
    { offsetof(struct nvml, link_version), "nvmlDeviceGetNvLinkVersion", NULL },
    { offsetof(struct nvml, fields), "nvmlDeviceGetFieldValues", NULL },
    { offsetof(struct nvml, ancestor), "nvmlDeviceGetTopologyCommonAncestor", NULL },
    { offsetof(struct nvml, p2p), "nvmlDeviceGetP2PStatus", NULL },
    { offsetof(struct nvml, load), "nvmlDeviceGetUtilizationRates", NULL },
    { offsetof(struct nvml, temperature), "nvmlDeviceGetTemperature", NULL },
    { offsetof(struct nvml, power), "nvmlDeviceGetPowerUsage", NULL },
};

/* True when the question exists and was answered. */
#define ASK(n, question, ...) ((n)->question && (n)->question(__VA_ARGS__) == NVML_OK)

static void load_symbols(struct nvml *n)
{
    for (size_t i = 0; i < VR_COUNT(symbols); i++) {
        void *p = dlsym(n->lib, symbols[i].name);
        if (!p && symbols[i].older) p = dlsym(n->lib, symbols[i].older);
        memcpy((char *)n + symbols[i].at, &p, sizeof p);
    }
}

static const char *why(const struct nvml *n, int rc)
{
    const char *s = n->error_string ? n->error_string(rc) : NULL;
    return s ? s : "no reason given";
}

/* Drivers answer in plain ASCII; what is not must not reach a terminal. */
static void clean(char *s, size_t n)
{
    s[n - 1] = '\0';
    for (; *s; s++)
        if ((unsigned char)*s < ' ' || (unsigned char)*s > '~') *s = '?';
}

/* Opens the library and starts it. False: there is nothing to ask, and a note says why unless it is simply not there.
 */
static bool open_library(struct nvml *n, const char *library, struct vr_machine *m)
{
    const char *named = library ? library : getenv("VRAM_LLM_NVML");
    if (named && !*named) return false;
    n->path = named ? named : "libnvidia-ml.so.1";
    n->lib = dlopen(n->path, RTLD_NOW | RTLD_LOCAL);
    if (!n->lib) {
        if (named) vr_machine_note(m, "%s cannot be loaded: %s.", n->path, dlerror());
        return false;
    }
    load_symbols(n);
    if (!n->init || !n->shutdown || !n->count || !n->by_index) {
        vr_machine_note(m, "%s is not NVIDIA's management library (NVML): required functions are missing.", n->path);
        dlclose(n->lib);
        return false;
    }
    int rc = n->init();
    if (rc == NVML_OK) return true;
    vr_machine_note(m, "The NVIDIA driver does not respond: %s (%d)%s.", why(n, rc), rc,
                    rc == NVML_DRIVER_NOT_LOADED  ? "; load it with modprobe nvidia, or reboot"
                    : rc == NVML_VERSION_MISMATCH ? "; it was updated while in use: reboot"
                                                  : "");
    dlclose(n->lib);
    return false;
}

static void read_driver(const struct nvml *n, struct vr_machine *m)
{
    char version[32] = "";
    if (!ASK(n, driver_version, version, sizeof version)) return;
    clean(version, sizeof version);
    int cuda = 0;
    if (ASK(n, cuda_version, &cuda) && cuda > 0)
        snprintf(m->driver, sizeof m->driver, "NVIDIA %s (CUDA %d.%d)", version, cuda / 1000, cuda % 1000 / 10);
    else
        snprintf(m->driver, sizeof m->driver, "NVIDIA %s", version);
}

/* "00000000:01:00.0" -> "0000:01:00.0", as sysfs names it */
static void copy_pci(char *out, size_t n, struct pci_info *info)
{
    clean(info->id, sizeof info->id);
    const char *id = info->id, *colon = strchr(id, ':');
    if (colon && colon - id > 4) id = colon - 4;
    snprintf(out, n, "%s", id);
    for (char *p = out; *p; p++) *p = (char)tolower((unsigned char)*p);
}

static int read_memory(const struct nvml *n, struct card *h, struct vr_device *d)
{
    struct memory_v2 v2 = { .version = (unsigned)sizeof v2 | 2u << 24 };
    struct memory_v1 v1 = { 0 };
    int rc = n->memory2 ? n->memory2(h, &v2) : -1;
    if (rc == NVML_OK) {
        v1.total = v2.total;
        v1.free = v2.free;
    } else if (n->memory) {
        rc = n->memory(h, &v1);
    }
    if (rc != NVML_OK) return rc;
    d->total_bytes = v1.total;
    d->free_bytes = v1.free < v1.total ? v1.free : v1.total;
    return rc;
}

/* NVML's memory clock ticks once per two transfers on every kind of memory (GDDR5 to GDDR7, HBM): an RTX 3090 says
 * 9,751 MHz and 384 bits, which is 936 GB/s; an H200 3,201 MHz and 6,016 bits, 4,814 GB/s. An answer that no card could
 * have is dropped. */
static void read_bandwidth(const struct nvml *n, struct card *h, struct vr_device *d)
{
    unsigned bits = 0, mhz = 0;
    if (!ASK(n, bus_width, h, &bits) || !ASK(n, max_clock, h, NVML_CLOCK_MEM, &mhz)) return;
    double gbs = (double)mhz * 2 * bits / 8 / 1000;
    if (gbs >= 10 && gbs <= 50000) d->bandwidth_gbs = gbs;
}

static uint16_t small(unsigned v) { return v > 64 ? 0 : (uint16_t)v; }

static void read_link(const struct nvml *n, struct card *h, struct vr_device *d)
{
    unsigned v;
    if (ASK(n, gen, h, &v)) d->pcie_gen = small(v);
    if (ASK(n, lanes, h, &v)) d->pcie_lanes = small(v);
    if (ASK(n, max_gen, h, &v)) d->pcie_gen_max = small(v);
    if (ASK(n, max_lanes, h, &v)) d->pcie_lanes_max = small(v);
}

/* What a card did not tell, in one line, and which of it the table of known cards filled in. */
static void note_gaps(struct vr_device *d)
{
    const struct {
        bool missing;
        const char *what;
    } gaps[] = {
        { !d->total_bytes, "its memory" },
        { !d->uuid[0], "its UUID" },
        { !d->pci[0], "its PCI address" },
        { !d->pcie_gen || !d->pcie_lanes, "its PCIe link" },
        { !(d->bandwidth_gbs > 0), "its memory bandwidth" },
        { !d->cc_major, "its compute capability" },
    };
    size_t n = 0;
    for (size_t i = 0; i < VR_COUNT(gaps); i++) {
        if (!gaps[i].missing || n >= sizeof d->note) continue;
        n += (size_t)snprintf(d->note + n, sizeof d->note - n, "%s%s", n ? ", " : "the driver does not report ",
                              gaps[i].what);
    }
    vr_gpu_fill(d);
}

/* False: the card is gone, and m has a note. */
static bool read_device(const struct nvml *n, unsigned index, struct card **h, struct vr_device *d,
                        struct vr_machine *m)
{
    *d = (struct vr_device){ .backend = "CUDA", .numa = -1 };
    int rc = n->by_index(index, h);
    if (rc == NVML_OK) {
        rc = read_memory(n, *h, d);
        if (rc != NVML_GPU_IS_LOST) rc = NVML_OK;
    }
    if (rc != NVML_OK) {
        vr_machine_note(m, "NVIDIA device %u is left out: %s (%d)%s.", index, why(n, rc), rc,
                        rc == NVML_GPU_IS_LOST ? "; it has fallen off the bus: check its power and seating, then reboot"
                                               : "");
        return false;
    }
    if (ASK(n, name, *h, d->name, sizeof d->name))
        clean(d->name, sizeof d->name);
    else
        snprintf(d->name, sizeof d->name, "NVIDIA device %u", index);
    if (ASK(n, uuid, *h, d->uuid, sizeof d->uuid))
        clean(d->uuid, sizeof d->uuid);
    else
        d->uuid[0] = '\0';
    struct pci_info pci = { 0 };
    if (ASK(n, pci, *h, &pci)) copy_pci(d->pci, sizeof d->pci, &pci);
    read_link(n, *h, d);
    read_bandwidth(n, *h, d);
    int major = 0, minor = 0;
    if (ASK(n, capability, *h, &major, &minor) && major > 0 && major < 100 && minor >= 0 && minor < 100) {
        d->cc_major = (uint16_t)major;
        d->cc_minor = (uint16_t)minor;
    }
    note_gaps(d);
    return true;
}

/* GB/s of one NVLink of this card in one direction. */
static double nvlink_gbs(const struct nvml *n, struct card *h, unsigned link, const struct vr_device *d)
{
    struct field_value f = { .field = NVML_FIELD_NVLINK_MBPS };
    if (ASK(n, fields, h, 1, &f) && f.rc == NVML_OK) {
        double mbps = f.type == 0 ? f.value.d : f.type == 1 ? (double)f.value.u : (double)f.value.ull;
        if (mbps >= 1000 && mbps <= 1e6) return mbps / 1000;
    }
    /* by NVLink version: P100 20, V100 to H100 25, Blackwell 50; the GA102 cards run the third at 14 */
    static const double by_version[] = { 0, 20, 25, 25, 25, 50 };
    unsigned v = 0;
    if (!ASK(n, link_version, h, link, &v) || v >= VR_COUNT(by_version)) return 0;
    return v == 3 && d->cc_minor == 6 ? 14.0625 : by_version[v];
}

struct nvlinks {
    uint16_t to[VR_MAX_DEVICES]; /* links that end at that device */
    uint16_t to_switch;          /* links into an NVSwitch, which reaches everyone on it */
    double gbs;
};

static void read_nvlinks(const struct nvml *n, struct card *h, const struct vr_device *self,
                         const struct vr_device *devices, size_t n_devices, struct nvlinks *out)
{
    *out = (struct nvlinks){ 0 };
    for (unsigned link = 0; link < NVML_MAX_LINKS; link++) {
        int active = 0, type = 0;
        if (!ASK(n, link_state, h, link, &active) || !active) continue;
        if (!(out->gbs > 0)) out->gbs = nvlink_gbs(n, h, link, self);
        if (ASK(n, link_remote_type, h, link, &type) && type == NVML_REMOTE_SWITCH) {
            out->to_switch++;
            continue;
        }
        struct pci_info pci = { 0 };
        char id[32];
        if (!ASK(n, link_pci, h, link, &pci)) continue;
        copy_pci(id, sizeof id, &pci);
        for (size_t i = 0; i < n_devices; i++)
            if (*id && !strcmp(devices[i].pci, id)) out->to[i]++;
    }
}

static enum vr_link_kind ancestor_kind(const struct nvml *n, struct card *a, struct card *b)
{
    int level = -1;
    if (!ASK(n, ancestor, a, b, &level)) return VR_LINK_UNKNOWN;
    switch (level) {
    case 0:  /* two chips on one board */
    case 10: /* one PCIe switch */
    case 20: /* several, without the host bridge */ return VR_LINK_SWITCH;
    case 30: return VR_LINK_BRIDGE;
    case 40: return VR_LINK_NODE;
    case 50: return VR_LINK_SYSTEM;
    default: return VR_LINK_UNKNOWN;
    }
}

static double lesser(double a, double b) { return a < b ? a : b; }

static void read_links(const struct nvml *n, struct card *const *h, size_t first, struct vr_machine *m)
{
    _Static_assert(VR_MAX_DEVICES * sizeof(struct nvlinks) < 8192, "kept on the stack");
    struct nvlinks nv[VR_MAX_DEVICES];
    const struct vr_device *devices = m->devices + first;
    size_t n_devices = m->n_devices - first;
    for (size_t i = 0; i < n_devices; i++) read_nvlinks(n, h[i], &devices[i], devices, n_devices, &nv[i]);
    for (size_t i = 0; i < n_devices; i++) {
        for (size_t j = i + 1; j < n_devices && m->n_links < VR_COUNT(m->links); j++) {
            struct vr_link l = { .a = (uint16_t)(first + i), .b = (uint16_t)(first + j) };
            int status = -1;
            l.p2p = ASK(n, p2p, h[i], h[j], NVML_P2P_READ, &status) && status == 0;
            uint16_t direct = nv[i].to[j] > nv[j].to[i] ? nv[i].to[j] : nv[j].to[i];
            uint16_t switched = nv[i].to_switch < nv[j].to_switch ? nv[i].to_switch : nv[j].to_switch;
            l.n_nvlinks = (uint16_t)(direct + switched);
            if (l.n_nvlinks) {
                l.kind = VR_LINK_NVLINK;
                l.gbs = l.n_nvlinks * lesser(nv[i].gbs, nv[j].gbs);
            } else {
                l.kind = ancestor_kind(n, h[i], h[j]);
                l.gbs = lesser(vr_device_link_gbs(&devices[i]), vr_device_link_gbs(&devices[j]));
            }
            if (l.kind != VR_LINK_UNKNOWN || l.p2p) m->links[m->n_links++] = l;
        }
    }
}

void vr_nvml_read(const char *library, struct vr_machine *m)
{
    struct nvml n = { 0 };
    if (!open_library(&n, library, m)) return;
    read_driver(&n, m);
    size_t first = m->n_devices;
    unsigned count = 0;
    int rc = n.count(&count);
    if (rc != NVML_OK) vr_machine_note(m, "The NVIDIA driver does not list its devices: %s (%d).", why(&n, rc), rc);
    struct card *h[VR_MAX_DEVICES];
    for (unsigned i = 0; rc == NVML_OK && i < count; i++) {
        if (m->n_devices == VR_MAX_DEVICES) {
            vr_machine_note(m, "The NVIDIA driver lists %u devices; those after the first %d are left out.", count,
                            VR_MAX_DEVICES);
            break;
        }
        struct vr_device d;
        struct card *one = NULL;
        if (!read_device(&n, i, &one, &d, m)) continue;
        h[m->n_devices - first] = one;
        *vr_machine_add(m) = d;
    }
    read_links(&n, h, first, m);
    n.shutdown();
    dlclose(n.lib);
}

/* --- kept open --- */

struct vr_nvml {
    struct nvml n;
};

struct vr_nvml *vr_nvml_open(const char *library)
{
    struct vr_nvml *v = calloc(1, sizeof *v);
    VR_AUTO(vr_machine) nobody = vr_machine_new(NULL); /* for the notes, which were read by whoever looked first */
    bool ok = v && nobody && open_library(&v->n, library, nobody);
    if (ok) return v;
    free(v);
    return NULL;
}

void vr_nvml_close(struct vr_nvml *v)
{
    if (!v) return;
    v->n.shutdown();
    dlclose(v->n.lib);
    free(v);
}

size_t vr_nvml_use(const struct vr_nvml *v, struct vr_card_use *out, size_t max)
{
    const struct nvml *n = &v->n;
    unsigned count = 0;
    size_t found = 0;
    if (n->count(&count) != NVML_OK) return 0;
    for (unsigned i = 0; i < count && found < max; i++) {
        struct vr_card_use *u = &out[found];
        struct vr_device d = { 0 };
        struct card *h = NULL;
        struct rates rates = { 0 };
        unsigned celsius = 0, milliwatts = 0;
        if (n->by_index(i, &h) != NVML_OK || read_memory(n, h, &d) != NVML_OK) continue;
        *u = (struct vr_card_use){ .total_bytes = d.total_bytes, .free_bytes = d.free_bytes };
        if (ASK(n, uuid, h, u->uuid, sizeof u->uuid))
            clean(u->uuid, sizeof u->uuid);
        else
            u->uuid[0] = '\0';
        u->load_percent = ASK(n, load, h, &rates) && rates.gpu <= 100 ? (int)rates.gpu : -1;
        u->temperature_c = ASK(n, temperature, h, 0, &celsius) && celsius < 200 ? (int)celsius : -1;
        u->power_w = ASK(n, power, h, &milliwatts) && milliwatts < 10000000 ? (int)(milliwatts / 1000) : -1;
        found++;
    }
    return found;
}
