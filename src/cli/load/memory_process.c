/* A process of its own for the same reason as the meter's (cli/load/meter_process.c): a driver may take seconds to
 * answer. The kernel reaps a process before the driver has given its memory back, which may take half a second; what is
 * then said to be free is what the next engine can have. Devices are told apart by UUID or PCI address, so none of the
 * engine's own names are needed, which would take longer to find out. */
#include "cli/load/memory_process.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/confine.h"
#include "cli/input/input.h"
#include "hw/gauge.h"

#define EVERY_NS 50000000

struct wait {
    struct vr_machine machine;
    struct vr_gauge_reading reading;
    struct vr_gauge *gauge;
    json_t *wanted; /* {KEY:bytes} */
};

/* Its free memory as the last reading has it; UINT64_MAX: nobody knows. */
static uint64_t free_of(const struct wait *w, const char *key)
{
    char name[96];
    for (size_t i = 0; i < w->machine.n_devices; i++) {
        vr_device_key(&w->machine.devices[i], name, sizeof name);
        if (strcmp(name, key) != 0) continue;
        for (size_t k = 0; k < w->reading.n_devices; k++)
            if (strcmp(w->reading.devices[k].id, w->machine.devices[i].id) == 0)
                return w->reading.devices[k].free_bytes;
    }
    return UINT64_MAX;
}

static json_t *missing(const struct wait *w)
{
    json_t *out = json_object(), *v;
    const char *key;
    json_object_foreach(w->wanted, key, v)
    {
        uint64_t want = (uint64_t)json_integer_value(v), have = free_of(w, key);
        if (have < want) json_object_set_new(out, key, json_integer((json_int_t)(want - have)));
    }
    return out;
}

/* What is still missing in the end; NULL: nobody can be asked. */
static json_t *await(struct wait *w, uint64_t until_ms)
{
    struct vr_err ignored;
    json_t *out = NULL;
    while (vr_gauge_read(w->gauge, &w->reading, &ignored)) {
        json_decref(out);
        out = missing(w);
        if (json_object_size(out) == 0 || vr_now_ms() >= until_ms) return out;
        nanosleep(&(struct timespec){ .tv_nsec = EVERY_NS }, NULL);
    }
    json_decref(out);
    return NULL;
}

int vr_cmd_memory_process(void)
{
    static struct wait w;
    struct vr_err ignored;
    vr_confine_lightly();
    json_t *ask = json_loadfd(STDIN_FILENO, 0, NULL);
    json_int_t ms = json_integer_value(json_object_get(ask, "timeout_ms"));
    w.wanted = json_object_get(ask, "devices");
    uint64_t until = vr_now_ms() + (uint64_t)(ms > 0 ? ms : 0);
    if (vr_machine_detect(NULL, &w.machine, &ignored)) w.gauge = vr_gauge_new(NULL, &w.machine, &ignored);
    json_t *still = w.wanted && w.gauge ? await(&w, until) : NULL;
    VR_AUTO_FREE char *text = still ? json_dumps(still, JSON_COMPACT) : NULL;
    bool ok = text && dprintf(STDOUT_FILENO, "{\"short\":%s}\n", text) > 0;
    json_decref(still);
    json_decref(ask);
    vr_gauge_free(w.gauge);
    return ok ? 0 : 1;
}
