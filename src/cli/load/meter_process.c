/* A process of its own, because a driver may take seconds to answer, or for ever, and the front must not wait. */
#include "cli/load/meter_process.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/confine.h"
#include "cli/input/input.h"
#include "hw/gauge.h"

static json_t *json_or_null(int v) { return v < 0 ? json_null() : json_integer(v); }

static json_t *json_reading(const struct vr_gauge_reading *r)
{
    json_t *devices = json_array();
    for (size_t i = 0; i < r->n_devices; i++)
        json_array_append_new(devices,
                              json_pack("{s:s, s:s, s:I, s:I, s:o, s:o, s:o}", "id", r->devices[i].id, "name",
                                        r->devices[i].name, "total_bytes", (json_int_t)r->devices[i].total_bytes,
                                        "free_bytes", (json_int_t)r->devices[i].free_bytes, "load_percent",
                                        json_or_null(r->devices[i].load_percent), "temperature_c",
                                        json_or_null(r->devices[i].temperature_c), "power_w",
                                        json_or_null(r->devices[i].power_w)));
    return json_pack("{s:o, s:{s:I, s:I, s:o}}", "devices", devices, "host", "ram_total_bytes",
                     (json_int_t)r->ram_total_bytes, "ram_free_bytes", (json_int_t)r->ram_free_bytes, "cpu_percent",
                     json_or_null(r->cpu_percent));
}

int vr_cmd_meter_process(void)
{
    vr_confine_lightly();
    struct vr_err err = { 0 };
    static struct vr_machine m;
    struct vr_gauge *g = vr_input_detect(&m, &err) ? vr_gauge_new(NULL, &m, &err) : NULL;
    struct vr_gauge_reading *r = calloc(1, sizeof *r);
    bool ok = g && r;
    while (ok && vr_gauge_read(g, r, &err)) {
        json_t *tree = json_reading(r);
        char *text = tree ? json_dumps(tree, JSON_COMPACT) : NULL;
        json_decref(tree);
        ok = text && dprintf(STDOUT_FILENO, "%s\n", text) > 0;
        free(text);
        nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
    }
    free(r);
    vr_gauge_free(g);
    return 1;
}
