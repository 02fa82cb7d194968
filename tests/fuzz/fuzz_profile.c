/* Bytes -> a machine profile; what was read is written and read again, and must be the same machine. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hw/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct vr_machine a, b;
    struct vr_err err = { 0 };
    if (!vr_profile_parse("fuzz", (const char *)data, n, &a, &err)) {
        if (err.code == VR_OK || !err.msg[0]) abort(); /* a failure without a reason */
        return 0;
    }
    VR_AUTO_BUF text = { 0 };
    vr_profile_print(&a, &text);
    if (!vr_profile_parse("again", text.data, text.n, &b, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        abort();
    }
    VR_AUTO_BUF again = { 0 };
    vr_profile_print(&b, &again);
    if (strcmp(vr_buf_str(&text), vr_buf_str(&again)) != 0) abort();
    return 0;
}
