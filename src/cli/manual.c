/* The manual page and the completions of shells, from the tables that the parser reads. */
#include <inttypes.h>
#include <string.h>

#include "cli/option_rows.h"

/* --- man --- */

/* Text in man's language: backslashes and hyphens are what they are, and a line never begins with a command. */
static void add_roff(struct vr_buf *out, const char *text)
{
    bool begins = out->n == 0 || out->data[out->n - 1] == '\n';
    if (begins && (*text == '.' || *text == '\'')) vr_buf_adds(out, "\\&");
    for (const char *c = text; *c; c++) {
        if (*c == '\\')
            vr_buf_adds(out, "\\e");
        else if (*c == '-')
            vr_buf_adds(out, "\\-");
        else
            vr_buf_add(out, c, 1);
    }
}

static void add_commands(struct vr_buf *out, unsigned bits)
{
    bool any = false;
    for (size_t k = 0; k < vr_n_commands; k++)
        if (bits & vr_commands[k].bit) {
            vr_buf_addf(out, "%s%s", any ? ", " : "", vr_commands[k].name);
            any = true;
        }
}

static void man_option(struct vr_buf *out, const struct vr_option *o)
{
    vr_buf_adds(out, ".TP\n");
    if (o->letter) vr_buf_addf(out, "\\fB\\-%c\\fR, ", o->letter);
    vr_buf_adds(out, "\\fB\\-\\-");
    add_roff(out, o->name);
    vr_buf_adds(out, "\\fR");
    if (*o->argument) {
        vr_buf_adds(out, " \\fI");
        add_roff(out, o->argument);
        vr_buf_adds(out, "\\fR");
    }
    vr_buf_adds(out, "\n");
    add_roff(out, o->help);
    if (o->kind == VR_OPTION_NUMBER) vr_buf_addf(out, " [%" PRIu64 "]", o->number);
    if (o->text) {
        vr_buf_adds(out, " [");
        add_roff(out, o->text);
        vr_buf_adds(out, "]");
    }
    vr_buf_adds(out, "\n.br\n(");
    add_commands(out, o->commands);
    vr_buf_adds(out, ")\n");
}

static void man_exit(struct vr_buf *out, int status, const char *meaning)
{
    vr_buf_addf(out, ".TP\n.B %d\n", status);
    add_roff(out, meaning);
    vr_buf_adds(out, "\n");
}

const struct vr_variable vr_variables[] = {
#define VARIABLE(...) { __VA_ARGS__ },
#include "cli/variables.def"
#undef VARIABLE
};
const size_t vr_n_variables = VR_COUNT(vr_variables);

void vr_manual(struct vr_buf *out)
{
    vr_buf_adds(out, ".TH VRAM\\-LLM 1 \"\" \"vram\\-llm " VR_VERSION "\" \"User Commands\"\n.SH NAME\n"
                     "vram\\-llm \\- run large language models on the GPUs you have\n.SH SYNOPSIS\n"
                     ".B vram\\-llm\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR] [\\fIMODEL\\fR]\n.SH COMMANDS\n");
    for (size_t i = 0; i < vr_n_commands; i++) {
        const struct vr_command *c = &vr_commands[i];
        vr_buf_addf(out, ".TP\n\\fB%s\\fR%s\\fI", c->name, *c->arguments ? " " : "");
        add_roff(out, c->arguments);
        vr_buf_adds(out, "\\fR\n");
        add_roff(out, c->summary);
        vr_buf_adds(out, "\n");
    }
    vr_buf_adds(out, ".SH OPTIONS\n");
    for (size_t i = 0; i < vr_n_option_rows; i++) {
        const struct vr_option *o = &vr_option_rows[i];
        if (o->kind != VR_OPTION_SECTION) {
            man_option(out, o);
            continue;
        }
        vr_buf_adds(out, ".SS ");
        add_roff(out, o->name);
        vr_buf_adds(out, "\n");
    }
    vr_buf_adds(
        out,
        ".SH FILES\n.TP\n.I /etc/vram\\-llm/config\n.TQ\n.I ~/.config/vram\\-llm/config\n"
        "Settings: any option as a line NAME = VALUE, without the leading hyphens: n\\-ctx = 8192, no\\-mmap = yes. "
        "Lines under [serve] apply to that command only. Environment variables (VRAM_LLM_N_CTX=8192) override "
        "these files, and the command line overrides both; \\fBvram\\-llm doctor\\fR shows what is in force.\n"
        ".SH ENVIRONMENT\n");
    for (size_t i = 0; i < vr_n_variables; i++) {
        vr_buf_addf(out, ".TP\n.B %s\n", vr_variables[i].name);
        add_roff(out, vr_variables[i].what);
        vr_buf_adds(out, "\n");
    }
    vr_buf_adds(out, ".SH EXIT STATUS\n.TP\n.B 0\nsuccess\n");
#define ERROR(code, status, http, kind, meaning) man_exit(out, status, meaning);
#include "base/errors.def"
#undef ERROR
}

/* --- shells --- */

static bool takes_file(const struct vr_option *o)
{
    return strcmp(o->argument, "FILE") == 0 || strcmp(o->argument, "DIR") == 0;
}

static void add_words(struct vr_buf *out, unsigned bit)
{
    for (size_t i = 0; i < vr_n_option_rows; i++) {
        const struct vr_option *o = &vr_option_rows[i];
        if (o->kind != VR_OPTION_SECTION && o->commands & bit) vr_buf_addf(out, " --%s", o->name);
    }
}

/* "a|b|c" -> "a b c" */
static void add_choices(struct vr_buf *out, const char *choices)
{
    for (const char *c = choices; *c; c++) vr_buf_add(out, *c == '|' ? " " : c, 1);
}

static void bash(struct vr_buf *out)
{
    vr_buf_adds(out, "_vram_llm_files() { compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "
                     "\"$word\"); }\n" /* a line each: names have spaces */
                     "_vram_llm() {\n  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
                     "  COMPREPLY=()\n  case $before in\n");
    for (size_t i = 0; i < vr_n_option_rows; i++) {
        const struct vr_option *o = &vr_option_rows[i];
        if (o->kind == VR_OPTION_SECTION || o->kind == VR_OPTION_FLAG) continue;
        vr_buf_addf(out, "  --%s) ", o->name);
        if (o->kind == VR_OPTION_PICK) {
            vr_buf_adds(out, "COMPREPLY=($(compgen -W '");
            add_choices(out, o->argument);
            vr_buf_adds(out, "' -- \"$word\")); ");
        } else if (takes_file(o))
            vr_buf_adds(out, "_vram_llm_files; ");
        vr_buf_adds(out, "return ;;\n");
    }
    vr_buf_adds(out, "  esac\n  local words=\n  case ${COMP_WORDS[1]} in\n");
    for (size_t k = 0; k < vr_n_commands; k++) {
        vr_buf_addf(out, "  %s) words='", vr_commands[k].name);
        add_words(out, vr_commands[k].bit);
        vr_buf_adds(out, "' ;;\n");
    }
    vr_buf_adds(out, "  esac\n  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W '");
    for (size_t k = 0; k < vr_n_commands; k++) vr_buf_addf(out, "%s ", vr_commands[k].name);
    vr_buf_adds(out, "--help --version' -- \"$word\"))\n  elif [[ $word == -* ]]; then\n"
                     "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n  else\n"
                     "    _vram_llm_files\n  fi\n}\n"
                     "complete -F _vram_llm vram-llm\n");
}

/* Text between single quotes of a shell; brackets and colons mean something to zsh. */
static void add_quoted(struct vr_buf *out, const char *text, const char *escaped)
{
    for (const char *c = text; *c; c++) {
        if (*c == '\'')
            vr_buf_adds(out, "'\\''");
        else
            vr_buf_addf(out, "%s%c", strchr(escaped, *c) ? "\\" : "", *c);
    }
}

static void zsh(struct vr_buf *out)
{
    vr_buf_adds(out, "#compdef vram-llm\n_vram_llm() {\n  local -a commands=(\n");
    for (size_t k = 0; k < vr_n_commands; k++) {
        vr_buf_addf(out, "    '%s:", vr_commands[k].name);
        add_quoted(out, vr_commands[k].summary, "");
        vr_buf_adds(out, "'\n");
    }
    vr_buf_adds(out, "  )\n  if (( CURRENT == 2 )); then _describe command commands; return; fi\n"
                     "  local command=$words[2]\n  shift words; (( CURRENT-- ))\n  case $command in\n");
    for (size_t k = 0; k < vr_n_commands; k++) {
        vr_buf_addf(out, "  %s) _arguments -S", vr_commands[k].name);
        for (size_t i = 0; i < vr_n_option_rows; i++) {
            const struct vr_option *o = &vr_option_rows[i];
            if (o->kind == VR_OPTION_SECTION || !(o->commands & vr_commands[k].bit)) continue;
            vr_buf_addf(out, " \\\n    '--%s%s[", o->name, o->kind == VR_OPTION_FLAG ? "" : "=");
            add_quoted(out, o->help, "[]:");
            vr_buf_adds(out, "]");
            if (o->kind == VR_OPTION_PICK) {
                vr_buf_adds(out, ":value:(");
                add_choices(out, o->argument);
                vr_buf_adds(out, ")");
            } else if (o->kind != VR_OPTION_FLAG)
                vr_buf_addf(out, ":%s:%s", o->argument, takes_file(o) ? "_files" : " ");
            vr_buf_adds(out, "'");
        }
        vr_buf_adds(out, " \\\n    '*:model:_files' ;;\n");
    }
    vr_buf_adds(out, "  esac\n}\n_vram_llm \"$@\"\n");
}

static void fish(struct vr_buf *out)
{
    vr_buf_adds(out, "complete -c vram-llm -n __fish_use_subcommand -f\n");
    for (size_t k = 0; k < vr_n_commands; k++) {
        vr_buf_addf(out, "complete -c vram-llm -n __fish_use_subcommand -f -a %s -d '", vr_commands[k].name);
        add_quoted(out, vr_commands[k].summary, "");
        vr_buf_adds(out, "'\n");
    }
    for (size_t i = 0; i < vr_n_option_rows; i++) {
        const struct vr_option *o = &vr_option_rows[i];
        if (o->kind == VR_OPTION_SECTION) continue;
        vr_buf_adds(out, "complete -c vram-llm -n '__fish_seen_subcommand_from");
        for (size_t k = 0; k < vr_n_commands; k++)
            if (o->commands & vr_commands[k].bit) vr_buf_addf(out, " %s", vr_commands[k].name);
        vr_buf_addf(out, "' -l %s", o->name);
        if (o->letter) vr_buf_addf(out, " -s %c", o->letter);
        if (o->kind == VR_OPTION_PICK) {
            vr_buf_adds(out, " -x -a '");
            add_choices(out, o->argument);
            vr_buf_adds(out, "'");
        } else if (o->kind != VR_OPTION_FLAG)
            vr_buf_adds(out, takes_file(o) ? " -r" : " -x");
        vr_buf_adds(out, " -d '");
        add_quoted(out, o->help, "");
        vr_buf_adds(out, "'\n");
    }
}

bool vr_completions(const char *shell, struct vr_buf *out)
{
    static const struct {
        const char *name;
        void (*write)(struct vr_buf *out);
    } shells[] = { { "bash", bash }, { "zsh", zsh }, { "fish", fish } };
    for (size_t i = 0; i < VR_COUNT(shells); i++)
        if (strcmp(shells[i].name, shell) == 0) {
            shells[i].write(out);
            return true;
        }
    return false;
}
