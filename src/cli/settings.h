/* Settings beside the command line: configuration files and environment variables.
 *
 * Everything that an option can say, a line `n-ctx = 8192` of a file says as well, or a variable VRAM_LLM_N_CTX=8192. A
 * later source goes before an earlier one: /etc/vram-llm/config, ~/.config/vram-llm/config ($XDG_CONFIG_HOME), the
 * environment, the command line. --config FILE is read in place of the two files; none: no file. A file may have
 * sections named by commands, [serve], which hold for those alone; what stands before them holds for every command
 * that has the option. Lines that begin with # or ; are comments. */
#ifndef VR_CLI_SETTINGS_H
#define VR_CLI_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

struct vr_setting {
    const char *name, *value;
    const char *command; /* of a section; NULL: any */
    const char *source;  /* "/etc/vram-llm/config, line 3", "VRAM_LLM_N_CTX" */
};

struct vr_settings {
    struct vr_setting *items; /* a later one counts */
    uint32_t n_items, cap_items;
    const char **unknown; /* variables VRAM_LLM_… that nobody reads: misspelled, perhaps */
    uint32_t n_unknown, cap_unknown;
    struct vr_arena arena;
};

/* `config`: --config; NULL: the usual files, as far as they are there. */
bool vr_settings_read(const char *config, struct vr_settings *out, struct vr_err *err) VR_MUST_CHECK;
void vr_settings_done(struct vr_settings *s);

/* The later one that counts in place of item `i`; NULL: it is in force. */
const struct vr_setting *vr_setting_over(const struct vr_settings *s, uint32_t i);

/* yes, true, on, 1, enabled or no, false, off, 0, disabled. */
bool vr_setting_bool(const char *value, bool *out);

#endif
