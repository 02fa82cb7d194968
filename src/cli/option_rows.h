/* options.def, commands.def and variables.def as tables, for those who parse, explain and complete them. */
#ifndef VR_CLI_OPTION_ROWS_H
#define VR_CLI_OPTION_ROWS_H

#include <stddef.h>

#include "cli/options.h"

enum vr_option_kind { VR_OPTION_SECTION, VR_OPTION_FLAG, VR_OPTION_TEXT, VR_OPTION_PICK, VR_OPTION_NUMBER };

struct vr_option {
    enum vr_option_kind kind;
    const char *name; /* a section's title */
    char letter;
    const char *argument; /* or choices */
    const char *text;     /* default of a text or a choice */
    uint64_t number, min, max;
    unsigned commands;
    const char *help;
    size_t field; /* offset in struct vr_options */
};

/* An environment variable beside those of options. */
struct vr_variable {
    const char *name;
    bool shown; /* its value, by doctor: it is no secret */
    const char *what;
};

extern const struct vr_option vr_option_rows[];
extern const size_t vr_n_option_rows;
extern const struct vr_command vr_commands[];
extern const size_t vr_n_commands;
extern const struct vr_variable vr_variables[];
extern const size_t vr_n_variables;

#endif
