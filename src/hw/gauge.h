/* How busy a computer is, asked again and again: memory and load of its devices and its host. */
#ifndef VR_HW_GAUGE_H
#define VR_HW_GAUGE_H

#include "hw/detect.h"

struct vr_gauge_reading {
    struct {
        char id[24], name[96];
        uint64_t total_bytes, free_bytes;
        int load_percent, temperature_c, power_w; /* -1 unknown */
    } devices[VR_MAX_DEVICES];
    size_t n_devices;
    uint64_t ram_total_bytes, ram_free_bytes;
    int cpu_percent; /* of all cores since the last reading; -1 at the first one */
};

struct vr_gauge;
/* Watches these devices; keeps the driver's library open. */
struct vr_gauge *vr_gauge_new(const struct vr_detect *opts, const struct vr_machine *m,
                              struct vr_err *err) VR_MUST_CHECK;
void vr_gauge_free(struct vr_gauge *g);
/* May take as long as the driver does: seconds when a card was lost. */
bool vr_gauge_read(struct vr_gauge *g, struct vr_gauge_reading *out, struct vr_err *err) VR_MUST_CHECK;

/* Percent of all cores that programs use now, over a third of a second; -1 unknown. */
int vr_cpu_busy_percent(const struct vr_machine *m);

#endif
