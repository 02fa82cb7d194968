#include "cli/options.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/text.h"
#include "cli/commands.h"

enum {
#define COMMAND(id, ...) id##_INDEX,
#include "cli/commands.def"
#undef COMMAND
    N_COMMANDS
};
enum {
#define COMMAND(id, ...) id = 1 << id##_INDEX,
#include "cli/commands.def"
#undef COMMAND
};

static const struct vr_command commands[] = {
#define COMMAND(id, name, function, arguments, summary) { name, function, arguments, summary, id },
#include "cli/commands.def"
#undef COMMAND
};

enum kind { K_SECTION, K_FLAG, K_TEXT, K_PICK, K_NUMB };

static const struct option {
    enum kind kind;
    const char *name; /* a section's title */
    char letter;
    const char *argument; /* or choices */
    const char *text;     /* default of K_TEXT, K_PICK */
    uint64_t number, min, max;
    unsigned commands;
    const char *help;
    size_t field; /* offset in struct vr_options */
} options[] = {
#define SECTION(title) { .kind = K_SECTION, .name = title },
#define FLAG(f, name, letter, commands, help)                                                                          \
    { K_FLAG, name, letter, "", NULL, 0, 0, 0, commands, help, offsetof(struct vr_options, f) },
#define TEXT(f, name, letter, arg, def, commands, help)                                                                \
    { K_TEXT, name, letter, arg, def, 0, 0, 0, commands, help, offsetof(struct vr_options, f) },
#define PICK(f, name, letter, choices, def, commands, help)                                                            \
    { K_PICK, name, letter, choices, def, 0, 0, 0, commands, help, offsetof(struct vr_options, f) },
#define NUMB(f, name, letter, arg, def, min, max, commands, help)                                                      \
    { K_NUMB, name, letter, arg, NULL, def, min, max, commands, help, offsetof(struct vr_options, f) },
#include "cli/options.def"
#undef SECTION
#undef FLAG
#undef TEXT
#undef PICK
#undef NUMB
};

const struct vr_command *vr_command_find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

static const char *command_name(size_t i, const void *ctx)
{
    (void)ctx;
    return commands[i].name;
}

const struct vr_command *vr_command_nearest(const char *name)
{
    int i = vr_nearest(name, N_COMMANDS, command_name, NULL);
    return i < 0 ? NULL : &commands[i];
}

/* --- parsing --- */

static void *field_of(struct vr_options *o, const struct option *opt) { return (char *)o + opt->field; }

static void set_default(struct vr_options *o, const struct option *opt)
{
    switch (opt->kind) {
    case K_SECTION: break;
    case K_FLAG: *(bool *)field_of(o, opt) = false; break;
    case K_TEXT:
    case K_PICK: *(const char **)field_of(o, opt) = opt->text; break;
    case K_NUMB: *(uint64_t *)field_of(o, opt) = opt->number; break;
    }
}

/* Is `value` one of "a|b|c"? */
static bool among(const char *choices, const char *value)
{
    size_t n = strlen(value);
    for (const char *at = choices; *at;) {
        size_t m = strcspn(at, "|");
        if (m == n && memcmp(at, value, n) == 0) return true;
        at += m + (at[m] == '|');
    }
    return false;
}

static bool set_value(struct vr_options *o, const struct option *opt, const char *value, struct vr_err *err)
{
    switch (opt->kind) {
    case K_TEXT:
        if (!*value) return vr_fail(err, VR_EUSAGE, "--%s requires a value (%s)", opt->name, opt->argument);
        *(const char **)field_of(o, opt) = value;
        return true;
    case K_PICK:
        if (!among(opt->argument, value))
            return vr_fail(err, VR_EUSAGE, "--%s: '%s' is not one of %s", opt->name, value, opt->argument);
        *(const char **)field_of(o, opt) = value;
        return true;
    case K_NUMB:
        if (!vr_parse_u64(value, opt->min, opt->max, field_of(o, opt))) {
            struct vr_num min, max;
            return vr_fail(err, VR_EUSAGE, "--%s: '%s' is not an integer from %s to %s", opt->name, value,
                           vr_fmt_count(&min, opt->min), vr_fmt_count(&max, opt->max));
        }
        return true;
    default: return false;
    }
}

/* Candidates for "did you mean": the options of one command; others answer with a word that resembles nothing. */
static const char *option_name(size_t i, const void *ctx)
{
    const unsigned *bit = ctx;
    return options[i].kind != K_SECTION && options[i].commands & *bit ? options[i].name : "";
}

static bool unknown_option(const struct vr_command *c, const char *name, size_t n, struct vr_err *err)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(n < 60 ? n : 60), name);
    for (size_t i = 0; i < VR_COUNT(options); i++) /* known, but to another command */
        if (options[i].kind != K_SECTION && strcmp(options[i].name, word) == 0)
            for (size_t k = 0; k < N_COMMANDS; k++)
                if (options[i].commands & commands[k].bit)
                    return vr_fail(err, VR_EUSAGE, "--%s is an option of '%s', not of '%s'", word, commands[k].name,
                                   c->name);
    int i = vr_nearest(word, VR_COUNT(options), option_name, &c->bit);
    if (i >= 0) return vr_fail(err, VR_EUSAGE, "unknown option --%s; did you mean --%s?", word, options[i].name);
    return vr_fail(err, VR_EUSAGE, "unknown option --%s; see 'vram-llm %s --help'", word, c->name);
}

static const struct option *find_option(const struct vr_command *c, const char *name, size_t n, char letter)
{
    for (size_t i = 0; i < VR_COUNT(options); i++) {
        const struct option *opt = &options[i];
        if (opt->kind == K_SECTION || !(opt->commands & c->bit)) continue;
        if (letter ? opt->letter == letter : strlen(opt->name) == n && memcmp(opt->name, name, n) == 0) return opt;
    }
    return NULL;
}

bool vr_options_parse(const struct vr_command *c, int argc, char **argv, struct vr_options *out, struct vr_err *err)
{
    for (size_t i = 0; i < VR_COUNT(options); i++) set_default(out, &options[i]);
    out->argc = argc;
    out->argv = argv;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        const struct option *opt;
        const char *value = NULL;
        if (arg[0] == '-' && arg[1] == '-' && arg[2]) {
            size_t n = strcspn(arg + 2, "=");
            opt = find_option(c, arg + 2, n, 0);
            if (!opt) return unknown_option(c, arg + 2, n, err);
            if (arg[2 + n] == '=') value = arg + 2 + n + 1;
        } else if (arg[0] == '-' && arg[1] && arg[1] != '-' && !arg[2]) {
            opt = find_option(c, NULL, 0, arg[1]);
            if (!opt) return vr_fail(err, VR_EUSAGE, "unknown option %s; see 'vram-llm %s --help'", arg, c->name);
        } else if (arg[0] == '-') {
            return vr_fail(err, VR_EUSAGE, "'%s' is not an option; see 'vram-llm %s --help'", arg, c->name);
        } else {
            opt = find_option(c, "model", strlen("model"), 0); /* a bare word is the model */
            if (!opt || out->model)
                return vr_fail(err, VR_EUSAGE, "unexpected argument '%s': '%s' takes %s", arg, c->name,
                               opt ? "one model" : "options only");
            value = arg;
        }
        if (opt->kind == K_FLAG) {
            if (value) return vr_fail(err, VR_EUSAGE, "--%s takes no value", opt->name);
            *(bool *)field_of(out, opt) = true;
            continue;
        }
        if (!value && i + 1 < argc) value = argv[++i];
        if (!value) return vr_fail(err, VR_EUSAGE, "--%s requires a value (%s)", opt->name, opt->argument);
        if (!set_value(out, opt, value, err)) return false;
    }
    return true;
}

/* --- help --- */

void vr_help_all(struct vr_buf *out)
{
    vr_buf_adds(out, "vram-llm " VR_VERSION ": run large language models on the GPUs you have\n\n");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        char usage[64];
        snprintf(usage, sizeof usage, "%s %s", commands[i].name, commands[i].arguments);
        vr_buf_addf(out, "  vram-llm %-14s %s\n", usage, commands[i].summary);
    }
    vr_buf_adds(out, "\nRun 'vram-llm COMMAND --help' for the options of a command.\n");
}

#define HELP_INDENT 33
#define HELP_WIDTH  108

/* Words from column HELP_INDENT on, broken before HELP_WIDTH; a word that is longer has a line to itself. */
static void wrap(const char *text, struct vr_buf *out)
{
    for (size_t at = HELP_INDENT; *text;) {
        size_t n = strcspn(text, " ");
        if (at > HELP_INDENT && at + 1 + n > HELP_WIDTH) {
            vr_buf_addf(out, "\n%*s", HELP_INDENT, "");
            at = HELP_INDENT;
        }
        if (at > HELP_INDENT) vr_buf_addc(out, ' ', 1);
        at += (at > HELP_INDENT) + n;
        vr_buf_add(out, text, n);
        text += n + (text[n] == ' ');
    }
    vr_buf_adds(out, "\n");
}

static void help_option(const struct option *opt, struct vr_buf *out)
{
    char left[80], letter[8] = "    ";
    if (opt->letter) snprintf(letter, sizeof letter, "-%c, ", opt->letter);
    snprintf(left, sizeof left, "%s--%s %s", letter, opt->name, opt->argument);
    size_t n = strlen(left);
    vr_buf_addf(out, "  %s", left);
    if (n > 29)
        vr_buf_addf(out, "\n%*s", HELP_INDENT, "");
    else
        vr_buf_addc(out, ' ', HELP_INDENT - 2 - n);
    VR_AUTO_BUF help = { 0 };
    vr_buf_adds(&help, opt->help);
    if (opt->kind == K_NUMB) vr_buf_addf(&help, " [%" PRIu64 "]", opt->number);
    if (opt->text) vr_buf_addf(&help, " [%s]", opt->text);
    out->failed |= help.failed;
    wrap(vr_buf_str(&help), out);
}

void vr_help_command(const struct vr_command *c, struct vr_buf *out)
{
    vr_buf_addf(out, "vram-llm %s [OPTIONS]%s%s: %s\n", c->name, *c->arguments ? " " : "", c->arguments, c->summary);
    const struct option *section = NULL;
    for (size_t i = 0; i < VR_COUNT(options); i++) {
        const struct option *opt = &options[i];
        if (opt->kind == K_SECTION) {
            section = opt;
            continue;
        }
        if (!(opt->commands & c->bit)) continue;
        if (section) vr_buf_addf(out, "\n%s\n", section->name);
        section = NULL;
        help_option(opt, out);
    }
}
