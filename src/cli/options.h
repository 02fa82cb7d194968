/* The command line: options.def and commands.def as a struct, a parser and a help text. */
#ifndef VR_CLI_OPTIONS_H
#define VR_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct vr_options {
#define SECTION(title)
#define FLAG(field, ...) bool field;
#define TEXT(field, ...) const char *field;
#define PICK(field, ...) const char *field;
#define NUMB(field, ...) uint64_t field;
#include "cli/options.def"
#undef SECTION
#undef FLAG
#undef TEXT
#undef PICK
#undef NUMB
    int argc; /* as they were given, without program and command */
    char **argv;
};

struct vr_command {
    const char *name;
    bool (*run)(const struct vr_options *o, struct vr_buf *out, struct vr_err *err);
    const char *arguments, *summary;
    unsigned bit; /* of this command in the rows of options.def */
};

/* NULL when there is none of that name. */
const struct vr_command *vr_command_find(const char *name);
/* The command whose name reads most like it, or NULL. */
const struct vr_command *vr_command_nearest(const char *name);

/* Defaults, then argv[0 .. argc-1] (without program and command). Values point into argv. */
bool vr_options_parse(const struct vr_command *c, int argc, char **argv, struct vr_options *out,
                      struct vr_err *err) VR_MUST_CHECK;

void vr_help_all(struct vr_buf *out);
void vr_help_command(const struct vr_command *c, struct vr_buf *out);

#endif
