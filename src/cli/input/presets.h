/* A file of models with their options, in the INI form of llama-server's --models-preset:
 *
 *     [*]                        ; for all of them
 *     ctx-size = 8192
 *     [coder]                    ; the name that clients send
 *     model = /models/Qwen3-Coder-30B-Q4_K_M.gguf
 *     alias = gpt-4, code
 *     pin = yes                  ; pin, ttl (seconds), preload and default are ours
 *     [ggml-org/gemma-3-4b-it-GGUF:Q4_K_M]
 *
 * A key is an option of ours, or of llama-server's under any of its names (presets.def has what they are called here),
 * without dashes. A # or ; ends a value. A key that nobody knows, one that has no counterpart here, and a value that
 * the option does not take are errors with their line. */
#ifndef VR_CLI_PRESETS_H
#define VR_CLI_PRESETS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"

struct vr_preset {
    const char *name;
    const char *model; /* as after --model: a file, a name, hf:..., a URL; where the file says none, `name` */
    const char **argv; /* options as on the command line, without the model: "--n-ctx", "8192"; ends with NULL */
    int argc;
    const char **aliases; /* further names */
    size_t n_aliases;
    bool pin;        /* is never unloaded for another one */
    bool preload;    /* is loaded when the server starts */
    bool is_default; /* answers requests without a name: exactly one is, the first where the file says nothing */
    unsigned ttl_s;  /* is unloaded when it was idle for so long; 0: stays */
};

struct vr_presets {
    struct vr_preset *items; /* in the order of the file */
    size_t n;
    struct vr_arena arena; /* all texts */
};

/* At least one preset. No two have a name or an alias in common. The caller's: vr_presets_done(), also after a
 * failure. */
bool vr_presets_read(const char *path, struct vr_presets *out, struct vr_err *err) VR_MUST_CHECK;
/* The same of a text that errors call `from`. */
bool vr_presets_parse(const char *text, const char *from, struct vr_presets *out, struct vr_err *err) VR_MUST_CHECK;
void vr_presets_done(struct vr_presets *p);
#define VR_AUTO_PRESETS VR_CLEANUP(vr_presets_done) struct vr_presets

#endif
