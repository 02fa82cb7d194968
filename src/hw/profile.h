/* A machine as a JSON file: what tests/fixtures/rigs shows, and what --machine reads.
 *
 *     { "about", "driver", "note",
 *       "host":    { "cpu", "ram_total_mib", "ram_free_mib", "bandwidth_gbs", "cores", "threads", "numa_nodes" },
 *       "devices": [ { "name", "backend", "uuid", "pci", "total_mib", "free_mib", "bandwidth_gbs", "fp16_tflops",
 *                      "compute_capability": "8.6", "pcie_gen", "pcie_lanes", "pcie_gen_max", "pcie_lanes_max", "numa",
 *                      "note", "node": "attic", "net_gbs", "net_us" } ],
 *       "links":   [ { "a": 0, "b": 1, "kind": "nvlink", "n_nvlinks", "gbs", "p2p", "measured_gbs", "measured_us" } ],
 *       "reduce_way": "nccl",
 *       "reductions": [ { "devices": [ 0, 1 ], "us": [ 31, 58, 170, 1300 ], "way": "nccl" } ] }
 *
 * The host and each device may have "measured": { ... }, what `vram-llm bench` found (struct vr_measured); reductions
 * are what it found for split mode tensor (hw/reduction.h), a time for each size.
 *
 * A device with a "node" is another machine's, which lends it: net_gbs and net_us are the way there.
 *
 * Needed are host.ram_total_mib, and name and total_mib of each device. What is left out of a device is taken from the
 * table of known cards where it knows the name; free memory left out means all of it. MiB may have a fraction: a size
 * is kept to the byte. Unknown fields are ignored, unless they look like a known one that was mistyped. */
#ifndef VR_HW_PROFILE_H
#define VR_HW_PROFILE_H

#include "base/buf.h"
#include "hw/machine.h"

#define VR_PROFILE_MAX_BYTES ((size_t)1 << 20)

bool vr_profile_load(const char *path, struct vr_machine *out, struct vr_err *err) VR_MUST_CHECK;
/* The same from memory; `path` is for messages. */
bool vr_profile_parse(const char *path, const char *text, size_t n, struct vr_machine *out,
                      struct vr_err *err) VR_MUST_CHECK;

/* Loading what was saved gives the same machine. */
bool vr_profile_save(const char *path, const struct vr_machine *m, struct vr_err *err) VR_MUST_CHECK;
void vr_profile_print(const struct vr_machine *m, struct vr_buf *out);

/* Where this machine's own profile is: $XDG_DATA_HOME/vram-llm/machine.json. False: there is no home to keep it in. */
bool vr_profile_own_path(char *out, size_t n);
/* Takes over what was measured on `saved` wherever `m` still has the same: a device of that UUID, else of that name and
 * size; the host by processor and memory. Speeds hold for a card of the same make; what its runtime takes holds for the
 * same driver and engine only, and is left out otherwise, with a line in m->note. Returns how many devices it was. */
size_t vr_machine_calibrate(struct vr_machine *m, const struct vr_machine *saved, const char *engine);

/* A rate that was measured again, and what each row costs beside it (NULL: nothing): the middle of both times. When one
 * took over a quarter longer, something else had the computer, and the other one counts. */
void vr_rate_again(double *rate, double again, double *row_ns, double row_ns_again);

#endif
