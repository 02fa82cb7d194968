/* Text -> --gpus, and the same text as --devices and --reserve-mib on a fixed machine. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hw/select.h"
#include "hw/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct vr_machine typed, fixed;
    struct vr_err err = { 0 };
    if (fixed.n_devices == 0 && !vr_spec_parse("2x RTX 3090, RTX 3060 8GB, A100 80GB", &fixed, &err)) abort();
    VR_AUTO_FREE char *text = strndup((const char *)data, n);
    if (!text) return 0;
    if (!vr_spec_parse(text, &typed, &err) && (err.code == VR_OK || !err.msg[0])) abort();
    struct vr_budgets budgets;
    const struct vr_select selects[] = { { .devices = text }, { .reserve_mib = text }, { .device_order = text } };
    for (size_t i = 0; i < VR_COUNT(selects); i++) {
        err = (struct vr_err){ 0 };
        if (!vr_budgets_select(&fixed, &selects[i], &budgets, &err) && (err.code == VR_OK || !err.msg[0])) abort();
        if (err.code == VR_OK && budgets.n + budgets.n_excluded != fixed.n_devices) abort();
    }
    return 0;
}
