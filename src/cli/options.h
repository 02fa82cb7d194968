/* The command line: options.def and commands.def as a struct, a parser and a help text. */
#ifndef VR_CLI_OPTIONS_H
#define VR_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct vr_settings;

#define VR_MOST_MODELS 64 /* named on one command line */

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
    const char *more[VR_MOST_MODELS]; /* models beside --model, for a command that takes several */
    size_t n_more;
    const struct vr_settings *settings; /* of files and the environment, whatever the command */
    int argc;                           /* as they were given, without program and command */
    char **argv;
};

/* What a command needs of a model that is not on this computer. */
enum vr_needs {
    VR_NEEDS_NOTHING, /* it sees to that itself */
    VR_NEEDS_HEADER,
    VR_NEEDS_HEADERS, /* or those of all in a repository */
    VR_NEEDS_FILE,
    VR_NEEDS_FIT, /* the file, but only if it would fit */
};

struct vr_command {
    const char *name;
    bool (*run)(const struct vr_options *o, struct vr_buf *out, struct vr_err *err);
    const char *arguments, *summary; /* arguments with "...": several models */
    unsigned bit;                    /* of this command in the rows of options.def */
    enum vr_needs needs;
};

/* NULL when there is none of that name. */
const struct vr_command *vr_command_find(const char *name);
/* The command whose name reads most like it, or NULL. */
const struct vr_command *vr_command_nearest(const char *name);

/* Defaults, then what files and the environment set (cli/settings.h), then argv[0 .. argc-1] (without program and
 * command). Values stay until they are parsed again. */
bool vr_options_parse(const struct vr_command *c, int argc, char **argv, struct vr_options *out,
                      struct vr_err *err) VR_MUST_CHECK;

/* Further ones, which replace those that are there already. */
bool vr_options_add(const struct vr_command *c, int argc, char **argv, struct vr_options *out,
                    struct vr_err *err) VR_MUST_CHECK;

/* The options of a command by number, NULL behind the last, or by name with the section of --help that it is in, NULL:
 * none; whether one is a flag; and is `value` one that it takes, as in a file of settings, where a flag has yes or no?
 */
const char *vr_option_of(const char *command, size_t i);
const char *vr_option_named(const char *command, const char *name, const char **section);
bool vr_option_is_flag(const char *name);
bool vr_option_check(const char *command, const char *name, const char *value, struct vr_err *err) VR_MUST_CHECK;

/* What set the option that a message is about ("--reserve-mib: 'x' is not …"): a file's line or a variable; NULL if it
 * is about none, or about one that the command line gave. */
const char *vr_option_source(const struct vr_options *o, const char *message);

void vr_help_all(struct vr_buf *out);
void vr_help_command(const struct vr_command *c, struct vr_buf *out);
/* The manual page, in man's language; what a shell reads to complete commands and options: bash, zsh, fish. False: no
 * such shell. */
void vr_manual(struct vr_buf *out);
bool vr_completions(const char *shell, struct vr_buf *out);

#endif
