/* Text -> presets: a preset has a name, a model and arguments that the command line takes; a refusal says why. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/option_rows.h"
#include "cli/input/presets.h"

/* The commands themselves are not under test. */
#define COMMAND(id, name, function, ...)                                                                               \
    bool function(const struct vr_options *o, struct vr_buf *out, struct vr_err *err)                                  \
    {                                                                                                                  \
        (void)o, (void)out, (void)err;                                                                                 \
        return false;                                                                                                  \
    }
#include "cli/commands.def"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct vr_err err = { 0 };
    VR_AUTO_PRESETS p;
    VR_AUTO_FREE char *text = strndup((const char *)data, n);
    if (!text) return 0;
    if (!vr_presets_parse(text, "presets.ini", &p, &err)) {
        if (err.code == VR_OK || !err.msg[0]) abort();
        return 0;
    }
    size_t n_default = 0;
    for (size_t i = 0; i < p.n; i++) {
        const struct vr_preset *x = &p.items[i];
        if (!x->name[0] || !x->model[0] || x->argv[x->argc]) abort();
        n_default += x->is_default;
        struct vr_options o;
        setenv("XDG_CONFIG_HOME", "/nonexistent", 0);
        if (!vr_options_parse(vr_command_find("serve"), x->argc, (char **)(uintptr_t)x->argv, &o, &err)) abort();
    }
    if (n_default != 1) abort();
    return 0;
}
