/* A library that answers like NVIDIA's management library on a machine with two RTX 3090 Ti, joined by NVLink, and an
 * RTX 4080 Laptop. Built as a shared object and really loaded by the tests: VRAM_LLM_NVML names it.
 *
 * VR_STUB_NVML_MODE chooses what is wrong with the machine:
 *   (unset)     nothing
 *   half        card 1 answers only its name and its memory
 *   lost        card 1 has fallen off the bus: no handle
 *   lost-late   card 1 has a handle, but every question about it says that it is lost
 *   init-fails  the driver is not loaded
 *   mismatch    the library and the kernel module differ in version
 *   none        no devices
 *   old         a driver without the second version of the memory question, without CUDA version and field values
 *   many        40 devices
 *   switch      the three cards hang on an NVSwitch with 18 links each
 *   wild        absurd answers: free > total, a terminal escape in the name, huge link widths and clocks
 *
 * While there is a file VR_STUB_NVML_HOLD, it does not answer. A file VR_STUB_NVML_FREE says how many MiB each card has
 * free, at every question: "40 24111 11047". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_LOADED = 9, NOT_FOUND = 13, LOST = 15, MISMATCH = 18 };

struct nvmlDevice {
    unsigned index;
};
struct memory {
    unsigned long long total, free, used;
};
struct memory2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
struct pci {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char id[32];
};
struct field {
    unsigned field, scope;
    long long timestamp, latency_us;
    unsigned type;
    int rc;
    unsigned long long value;
};

static const struct {
    const char *name, *uuid;
    unsigned bus;
    unsigned long long total_mib, free_mib;
    unsigned gen, lanes, max_gen, max_lanes, bits, mhz;
    int major, minor;
} cards[] = {
    { "NVIDIA GeForce RTX 3090 Ti", "GPU-11111111-aaaa-bbbb-cccc-000000000001", 1, 24564, 23287, 1, 8, 4, 16, 384,
      10501, 8, 6 },
    { "NVIDIA GeForce RTX 3090 Ti", "GPU-22222222-aaaa-bbbb-cccc-000000000002", 2, 24564, 24111, 1, 8, 4, 16, 384,
      10501, 8, 6 },
    { "NVIDIA GeForce RTX 4080 Laptop GPU", "GPU-33333333-aaaa-bbbb-cccc-000000000003", 0x41, 12282, 11047, 4, 4, 4, 8,
      192, 9001, 8, 9 },
};

static struct nvmlDevice devices[40];

static int mode(const char *name)
{
    const char *m = getenv("VR_STUB_NVML_MODE");
    return m && !strcmp(m, name);
}

static unsigned count(void) { return mode("none") ? 0 : mode("many") ? 40 : 3; }
static unsigned kind(const struct nvmlDevice *d) { return d->index % 3; }

/* What a card says to any question but its name and memory. */
static int mood(const struct nvmlDevice *d)
{
    if (!d) return INVALID;
    if (mode("lost-late") && d->index == 1) return LOST;
    return mode("half") && d->index == 1 ? NOT_SUPPORTED : OK;
}

#define FUNCTION(name, ...)                                                                                            \
    int name(__VA_ARGS__);                                                                                             \
    int name(__VA_ARGS__)

FUNCTION(nvmlInit_v2, void)
{
    for (unsigned i = 0; i < 40; i++) devices[i].index = i;
    const char *hold = getenv("VR_STUB_NVML_HOLD");
    while (hold && access(hold, F_OK) == 0) usleep(10000);
    return mode("init-fails") ? NOT_LOADED : mode("mismatch") ? MISMATCH : OK;
}

FUNCTION(nvmlShutdown, void) { return OK; }

const char *nvmlErrorString(int rc);
const char *nvmlErrorString(int rc)
{
    return rc == NOT_LOADED ? "Driver Not Loaded"
           : rc == LOST     ? "GPU is lost"
           : rc == MISMATCH ? "Driver/library version mismatch"
                            : "Unknown Error";
}

FUNCTION(nvmlSystemGetDriverVersion, char *out, unsigned n)
{
    snprintf(out, n, "580.65.06");
    return OK;
}

FUNCTION(nvmlSystemGetCudaDriverVersion_v2, int *out)
{
    if (mode("old")) return NOT_FOUND;
    *out = 13000;
    return OK;
}

FUNCTION(nvmlDeviceGetCount_v2, unsigned *out)
{
    *out = count();
    return OK;
}

FUNCTION(nvmlDeviceGetHandleByIndex_v2, unsigned index, struct nvmlDevice **out)
{
    if (index >= count()) return INVALID;
    if (mode("lost") && index == 1) return LOST;
    *out = &devices[index];
    return OK;
}

FUNCTION(nvmlDeviceGetName, struct nvmlDevice *d, char *out, unsigned n)
{
    if (mode("lost-late") && d->index == 1) return LOST;
    snprintf(out, n, "%s", mode("wild") && d->index == 0 ? "RTX \033[31m4090" : cards[kind(d)].name);
    return OK;
}

FUNCTION(nvmlDeviceGetUUID, struct nvmlDevice *d, char *out, unsigned n)
{
    if (mood(d)) return mood(d);
    if (d->index < 3)
        snprintf(out, n, "%s", cards[d->index].uuid);
    else
        snprintf(out, n, "GPU-%08x-aaaa-bbbb-cccc-000000000000", d->index);
    return OK;
}

FUNCTION(nvmlDeviceGetPciInfo_v3, struct nvmlDevice *d, struct pci *out)
{
    if (mood(d)) return mood(d);
    out->bus = d->index < 3 ? cards[d->index].bus : 0x50 + d->index;
    snprintf(out->id, sizeof out->id, "00000000:%02X:00.0", out->bus);
    return OK;
}

/* Of a card, as the file says; those that it does not name have what they always have. */
static unsigned long long free_mib(unsigned index)
{
    const char *path = getenv("VR_STUB_NVML_FREE");
    FILE *f = path ? fopen(path, "re") : NULL;
    unsigned long long mib = 0;
    int found = f != NULL;
    for (unsigned i = 0; found && i <= index; i++) found = fscanf(f, "%llu", &mib) == 1;
    if (f) fclose(f);
    return found ? mib : cards[index % 3].free_mib;
}

FUNCTION(nvmlDeviceGetMemoryInfo, struct nvmlDevice *d, struct memory *out)
{
    if (mode("lost-late") && d->index == 1) return LOST;
    out->total = cards[kind(d)].total_mib << 20;
    out->free = (mode("wild") ? 2 * cards[kind(d)].total_mib : free_mib(d->index)) << 20;
    out->used = out->total - out->free;
    return OK;
}

FUNCTION(nvmlDeviceGetMemoryInfo_v2, struct nvmlDevice *d, struct memory2 *out)
{
    if (mode("old")) return NOT_FOUND;
    if (out->version != (sizeof *out | 2u << 24)) return 25; /* argument version mismatch */
    struct memory m;
    int rc = nvmlDeviceGetMemoryInfo(d, &m);
    if (rc) return rc;
    out->total = m.total;
    out->free = m.free;
    out->reserved = 400ull << 20;
    out->used = m.used - out->reserved;
    return OK;
}

#define ANSWER(name, value)                                                                                            \
    FUNCTION(name, struct nvmlDevice *d, unsigned *out)                                                                \
    {                                                                                                                  \
        if (mood(d)) return mood(d);                                                                                   \
        *out = mode("wild") ? 4000000000u : (value);                                                                   \
        return OK;                                                                                                     \
    }

ANSWER(nvmlDeviceGetCurrPcieLinkGeneration, cards[kind(d)].gen)
ANSWER(nvmlDeviceGetCurrPcieLinkWidth, cards[kind(d)].lanes)
ANSWER(nvmlDeviceGetMaxPcieLinkGeneration, cards[kind(d)].max_gen)
ANSWER(nvmlDeviceGetMaxPcieLinkWidth, cards[kind(d)].max_lanes)
ANSWER(nvmlDeviceGetMemoryBusWidth, cards[kind(d)].bits)

FUNCTION(nvmlDeviceGetMaxClockInfo, struct nvmlDevice *d, int which, unsigned *out)
{
    if (mood(d)) return mood(d);
    if (which != 2) return INVALID;
    *out = cards[kind(d)].mhz;
    return OK;
}

FUNCTION(nvmlDeviceGetCudaComputeCapability, struct nvmlDevice *d, int *major, int *minor)
{
    if (mood(d)) return mood(d);
    *major = mode("wild") ? -5 : cards[kind(d)].major;
    *minor = cards[kind(d)].minor;
    const char *cc = getenv("VR_STUB_NVML_CC"); /* "6.1 7.0 7.5": of each kind */
    for (unsigned i = kind(d); cc && i; i--) cc = strchr(cc, ' ') ? strchr(cc, ' ') + 1 : cc;
    if (cc) sscanf(cc, "%d.%d", major, minor);
    return OK;
}

FUNCTION(nvmlDeviceGetNvLinkState, struct nvmlDevice *d, unsigned link, int *active)
{
    if (mood(d)) return mood(d);
    if (mode("switch")) {
        *active = link < 18;
        return link < 18 ? OK : INVALID;
    }
    if (kind(d) == 2 || d->index > 2) return NOT_SUPPORTED;
    if (link >= 4) return INVALID;
    *active = 1;
    return OK;
}

FUNCTION(nvmlDeviceGetNvLinkRemoteDeviceType, struct nvmlDevice *d, unsigned link, int *type)
{
    (void)link;
    if (mood(d)) return mood(d);
    *type = mode("switch") ? 2 : 0;
    return OK;
}

FUNCTION(nvmlDeviceGetNvLinkRemotePciInfo_v2, struct nvmlDevice *d, unsigned link, struct pci *out)
{
    (void)link;
    if (mood(d)) return mood(d);
    snprintf(out->id, sizeof out->id, "00000000:%02X:00.0", cards[1 - kind(d)].bus);
    return OK;
}

FUNCTION(nvmlDeviceGetNvLinkVersion, struct nvmlDevice *d, unsigned link, unsigned *out)
{
    (void)link;
    if (mood(d)) return mood(d);
    *out = mode("switch") ? 4 : 3;
    return OK;
}

FUNCTION(nvmlDeviceGetFieldValues, struct nvmlDevice *d, int n, struct field *fields)
{
    if (mode("old") || mode("switch")) return NOT_FOUND;
    if (mood(d)) return mood(d);
    for (int i = 0; i < n; i++) {
        fields[i].rc = fields[i].field == 90 ? OK : NOT_SUPPORTED;
        fields[i].type = 1;
        fields[i].value = 14062;
    }
    return OK;
}

FUNCTION(nvmlDeviceGetTopologyCommonAncestor, struct nvmlDevice *a, struct nvmlDevice *b, int *level)
{
    if (mood(a) || mood(b)) return NOT_SUPPORTED;
    *level = kind(a) == 2 || kind(b) == 2 ? 50 : 30;
    return OK;
}

FUNCTION(nvmlDeviceGetP2PStatus, struct nvmlDevice *a, struct nvmlDevice *b, int what, int *status)
{
    if (mood(a) || mood(b) || what != 0) return NOT_SUPPORTED;
    *status = kind(a) == 2 || kind(b) == 2 ? 1 : 0;
    return OK;
}

FUNCTION(nvmlDeviceGetUtilizationRates, struct nvmlDevice *d, unsigned out[2])
{
    if (mood(d)) return mood(d);
    out[0] = mode("wild") ? 4000000000u : 40 + d->index;
    out[1] = 7;
    return OK;
}

FUNCTION(nvmlDeviceGetTemperature, struct nvmlDevice *d, int sensor, unsigned *out)
{
    if (mood(d)) return mood(d);
    *out = sensor == 0 ? 55 + d->index : 999;
    return OK;
}

FUNCTION(nvmlDeviceGetPowerUsage, struct nvmlDevice *d, unsigned *out)
{
    if (mood(d)) return mood(d);
    *out = mode("wild") ? 4000000000u : 250000 + d->index * 1000;
    return OK;
}
