#include "cli/options.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/option_rows.h"
#include "cli/settings.h"

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

const struct vr_command vr_commands[] = {
#define COMMAND(id, name, function, arguments, summary, needs) { name, function, arguments, summary, id, needs },
#include "cli/commands.def"
#undef COMMAND
};
const size_t vr_n_commands = VR_COUNT(vr_commands);

const struct vr_option vr_option_rows[] = {
#define SECTION(title) { .kind = VR_OPTION_SECTION, .name = title },
#define FLAG(f, name, letter, commands, help)                                                                          \
    { VR_OPTION_FLAG, name, letter, "", NULL, 0, 0, 0, commands, help, offsetof(struct vr_options, f) },
#define TEXT(f, name, letter, arg, def, commands, help)                                                                \
    { VR_OPTION_TEXT, name, letter, arg, def, 0, 0, 0, commands, help, offsetof(struct vr_options, f) },
#define PICK(f, name, letter, choices, def, commands, help)                                                            \
    { VR_OPTION_PICK, name, letter, choices, def, 0, 0, 0, commands, help, offsetof(struct vr_options, f) },
#define NUMB(f, name, letter, arg, def, min, max, commands, help)                                                      \
    { VR_OPTION_NUMBER, name, letter, arg, NULL, def, min, max, commands, help, offsetof(struct vr_options, f) },
#include "cli/options.def"
#undef SECTION
#undef FLAG
#undef TEXT
#undef PICK
#undef NUMB
};
const size_t vr_n_option_rows = VR_COUNT(vr_option_rows);

const struct vr_command *vr_command_find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(vr_commands[i].name, name) == 0) return &vr_commands[i];
    return NULL;
}

static const char *command_name(size_t i, const void *ctx)
{
    (void)ctx;
    return vr_commands[i].name;
}

const struct vr_command *vr_command_nearest(const char *name)
{
    int i = vr_nearest(name, N_COMMANDS, command_name, NULL);
    return i < 0 ? NULL : &vr_commands[i];
}

/* --- parsing --- */

static void *field_of(struct vr_options *o, const struct vr_option *opt) { return (char *)o + opt->field; }

static void set_default(struct vr_options *o, const struct vr_option *opt)
{
    switch (opt->kind) {
    case VR_OPTION_SECTION: break;
    case VR_OPTION_FLAG: *(bool *)field_of(o, opt) = false; break;
    case VR_OPTION_TEXT:
    case VR_OPTION_PICK: *(const char **)field_of(o, opt) = opt->text; break;
    case VR_OPTION_NUMBER: *(uint64_t *)field_of(o, opt) = opt->number; break;
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

static bool set_value(struct vr_options *o, const struct vr_option *opt, const char *value, struct vr_err *err)
{
    switch (opt->kind) {
    case VR_OPTION_TEXT:
        if (!*value) return vr_fail(err, VR_EUSAGE, "--%s requires a value (%s)", opt->name, opt->argument);
        *(const char **)field_of(o, opt) = value;
        return true;
    case VR_OPTION_PICK:
        if (!among(opt->argument, value))
            return vr_fail(err, VR_EUSAGE, "--%s: '%s' is not one of %s", opt->name, value, opt->argument);
        *(const char **)field_of(o, opt) = value;
        return true;
    case VR_OPTION_NUMBER:
        if (!vr_parse_u64(value, opt->min, opt->max, field_of(o, opt))) {
            struct vr_num min, max;
            return vr_fail(err, VR_EUSAGE, "--%s: '%s' is not an integer from %s to %s", opt->name, value,
                           vr_fmt_count(&min, opt->min), vr_fmt_count(&max, opt->max));
        }
        return true;
    case VR_OPTION_FLAG:
        return vr_setting_bool(value, field_of(o, opt)) ||
               vr_fail(err, VR_EUSAGE, "--%s: '%s' is neither yes nor no", opt->name, value);
    default: return false;
    }
}

/* Candidates for "did you mean": the options of one command; others answer with a word that resembles nothing. */
static const char *option_name(size_t i, const void *ctx)
{
    const unsigned *bit = ctx;
    return vr_option_rows[i].kind != VR_OPTION_SECTION && vr_option_rows[i].commands & *bit ? vr_option_rows[i].name
                                                                                            : "";
}

static bool unknown_option(const struct vr_command *c, const char *name, size_t n, struct vr_err *err)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(n < 60 ? n : 60), name);
    for (size_t i = 0; i < VR_COUNT(vr_option_rows); i++) /* known, but to another command */
        if (vr_option_rows[i].kind != VR_OPTION_SECTION && strcmp(vr_option_rows[i].name, word) == 0)
            for (size_t k = 0; k < N_COMMANDS; k++)
                if (vr_option_rows[i].commands & vr_commands[k].bit)
                    return vr_fail(err, VR_EUSAGE, "--%s is an option of '%s', not of '%s'", word, vr_commands[k].name,
                                   c->name);
    int i = vr_nearest(word, VR_COUNT(vr_option_rows), option_name, &c->bit);
    if (i >= 0) return vr_fail(err, VR_EUSAGE, "unknown option --%s; did you mean --%s?", word, vr_option_rows[i].name);
    return vr_fail(err, VR_EUSAGE, "unknown option --%s; see 'vram-llm %s --help'", word, c->name);
}

static const struct vr_option *find_option(const struct vr_command *c, const char *name, size_t n, char letter)
{
    for (size_t i = 0; i < VR_COUNT(vr_option_rows); i++) {
        const struct vr_option *opt = &vr_option_rows[i];
        if (opt->kind == VR_OPTION_SECTION || !(opt->commands & c->bit)) continue;
        if (letter ? opt->letter == letter : strlen(opt->name) == n && memcmp(opt->name, name, n) == 0) return opt;
    }
    return NULL;
}

const char *vr_option_of(const char *command, size_t i)
{
    unsigned bit = vr_command_find(command)->bit;
    for (size_t k = 0; k < VR_COUNT(vr_option_rows); k++)
        if (vr_option_rows[k].kind != VR_OPTION_SECTION && vr_option_rows[k].commands & bit && i-- == 0)
            return vr_option_rows[k].name;
    return NULL;
}

const char *vr_option_named(const char *command, const char *name, const char **section)
{
    const struct vr_option *opt = find_option(vr_command_find(command), name, strlen(name), 0), *row = opt;
    while (row && row->kind != VR_OPTION_SECTION) row--; /* the table begins with one */
    if (row) *section = row->name;
    return opt ? opt->name : NULL;
}

bool vr_option_is_flag(const char *name)
{
    for (size_t i = 0; i < VR_COUNT(vr_option_rows); i++)
        if (vr_option_rows[i].kind == VR_OPTION_FLAG && strcmp(vr_option_rows[i].name, name) == 0) return true;
    return false;
}

bool vr_option_check(const char *command, const char *name, const char *value, struct vr_err *err)
{
    const struct vr_command *c = vr_command_find(command);
    const struct vr_option *opt = find_option(c, name, strlen(name), 0);
    struct vr_options somewhere;
    return opt ? set_value(&somewhere, opt, value, err) : unknown_option(c, name, strlen(name), err);
}

/* --- settings --- */

/* What only a command line can say, and a secret that has better places. */
static bool is_setting(const struct vr_option *opt)
{
    return opt->kind != VR_OPTION_SECTION && strcmp(opt->name, "help") != 0 && strcmp(opt->name, "config") != 0 &&
           strcmp(opt->name, "api-key") != 0;
}

static bool unknown_setting(const struct vr_setting *x, struct vr_err *err)
{
    unsigned all = ~0u;
    if (strcmp(x->name, "api-key") == 0)
        return vr_fail(err, VR_EUSAGE, "%s: API keys belong in a file of their own: api-key-file = FILE", x->source);
    int i = vr_nearest(x->name, VR_COUNT(vr_option_rows), option_name, &all);
    vr_fail(err, VR_EUSAGE, "%s: unknown setting '%.60s'", x->source, x->name);
    return i < 0 || !is_setting(&vr_option_rows[i]) ? false
                                                    : vr_fail_more(err, "; did you mean %s?", vr_option_rows[i].name);
}

static bool apply(const struct vr_command *c, const struct vr_setting *x, struct vr_options *out, struct vr_err *err)
{
    size_t i = 0;
    while (i < VR_COUNT(vr_option_rows) &&
           !(is_setting(&vr_option_rows[i]) && strcmp(vr_option_rows[i].name, x->name) == 0))
        i++;
    if (i == VR_COUNT(vr_option_rows)) return unknown_setting(x, err);
    const struct vr_option *opt = &vr_option_rows[i];
    if (x->command && !(opt->commands & vr_command_find(x->command)->bit))
        return vr_fail(err, VR_EUSAGE, "%s: %s is not an option of '%s'", x->source, x->name, x->command);
    bool here = opt->commands & c->bit && (!x->command || strcmp(x->command, c->name) == 0);
    struct vr_options elsewhere; /* what is for other commands must be right as well */
    struct vr_err why = { 0 };
    return set_value(here ? out : &elsewhere, opt, x->value, &why) ||
           vr_fail(err, VR_EUSAGE, "%s: %s", x->source, why.msg);
}

static const char *config_of(int argc, char **argv)
{
    static const char name[] = "--config";
    size_t n = sizeof name - 1;
    for (int i = 0; i < argc; i++)
        if (strncmp(argv[i], name, n) == 0 && (argv[i][n] == '=' || (!argv[i][n] && i + 1 < argc)))
            return argv[i][n] ? argv[i] + n + 1 : argv[i + 1];
    return NULL;
}

static bool apply_settings(const struct vr_command *c, struct vr_options *out, struct vr_err *err)
{
    static struct vr_settings settings; /* values point into it until the options are read again */
    vr_settings_done(&settings);
    if (!vr_settings_read(config_of(out->argc, out->argv), &settings, err)) return false;
    out->settings = &settings;
    for (uint32_t i = 0; i < settings.n_items; i++)
        if (!apply(c, &settings.items[i], out, err)) return false;
    return true;
}

const char *vr_option_source(const struct vr_options *o, const char *message)
{
    if (strncmp(message, "--", 2) != 0 || !o->settings) return NULL;
    size_t n = strcspn(message + 2, ": ");
    for (size_t i = 0; i < VR_COUNT(vr_option_rows); i++) {
        const struct vr_option *opt = &vr_option_rows[i];
        if (opt->kind != VR_OPTION_TEXT || strlen(opt->name) != n || memcmp(opt->name, message + 2, n) != 0) continue;
        const char *value = *(const char *const *)((const char *)o + opt->field);
        for (uint32_t k = 0; k < o->settings->n_items; k++) /* the very text, not one like it */
            if (value == o->settings->items[k].value) return o->settings->items[k].source;
    }
    return NULL;
}

/* A bare word is a model: the first is --model. */
static bool add_model(const struct vr_command *c, const char *word, bool named, struct vr_options *out,
                      struct vr_err *err)
{
    const struct vr_option *opt = find_option(c, "model", strlen("model"), 0);
    bool more = strstr(c->arguments, "...") || (!opt && *c->arguments && !out->n_more); /* `models` has no --model */
    if (opt && !named) return set_value(out, opt, word, err);
    if (!more)
        return vr_fail(err, VR_EUSAGE, "unexpected argument '%s': '%s' takes %s", word, c->name,
                       *c->arguments ? "one model" : "options only");
    if (out->n_more + 1 == VR_MOST_MODELS)
        return vr_fail(err, VR_EUSAGE, "more than %d models; --models-dir serves a whole directory", VR_MOST_MODELS);
    out->more[out->n_more++] = word;
    return true;
}

bool vr_options_parse(const struct vr_command *c, int argc, char **argv, struct vr_options *out, struct vr_err *err)
{
    for (size_t i = 0; i < VR_COUNT(vr_option_rows); i++) set_default(out, &vr_option_rows[i]);
    out->n_more = 0;
    out->argc = argc;
    out->argv = argv;
    return apply_settings(c, out, err) && vr_options_add(c, argc, argv, out, err);
}

bool vr_options_add(const struct vr_command *c, int argc, char **argv, struct vr_options *out, struct vr_err *err)
{
    bool named = false; /* the model */
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        const struct vr_option *opt;
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
            if (!add_model(c, arg, named, out, err)) return false;
            named = true;
            continue;
        }
        if (opt->kind == VR_OPTION_FLAG && !value) value = "yes";
        if (!value && i + 1 < argc) value = argv[++i];
        if (!value) return vr_fail(err, VR_EUSAGE, "--%s requires a value (%s)", opt->name, opt->argument);
        if (!set_value(out, opt, value, err)) return false;
        named |= opt->field == offsetof(struct vr_options, model);
    }
    return true;
}
