/* --help: the table of options as text. */
#include <inttypes.h>
#include <string.h>

#include "cli/option_rows.h"
#include "cli/text/show.h"

#define HELP_WIDTH      100
#define HELP_INDENT     33
#define COMMANDS_INDENT 29

void vr_help_all(struct vr_buf *out)
{
    vr_buf_adds(out, "vram-llm " VR_VERSION ": run large language models on the GPUs you have\n\n");
    for (size_t i = 0; i < vr_n_commands; i++) {
        char usage[64];
        snprintf(usage, sizeof usage, "%s %s", vr_commands[i].name, vr_commands[i].arguments);
        vr_buf_addf(out, "  vram-llm %-17s ", usage);
        vr_show_wrapped(out, vr_commands[i].summary, COMMANDS_INDENT, HELP_WIDTH);
    }
    vr_buf_adds(out, "\nRun 'vram-llm COMMAND --help' for the options of a command,\n'vram-llm --version' for the "
                     "versions of program and engine.\n");
}

static void help_option(const struct vr_option *opt, struct vr_buf *out)
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
    if (opt->kind == VR_OPTION_NUMBER) vr_buf_addf(&help, " [%" PRIu64 "]", opt->number);
    if (opt->text) vr_buf_addf(&help, " [%s]", opt->text);
    out->failed |= help.failed;
    vr_show_wrapped(out, vr_buf_str(&help), HELP_INDENT, HELP_WIDTH);
}

void vr_help_command(const struct vr_command *c, struct vr_buf *out)
{
    vr_buf_addf(out, "vram-llm %s [OPTIONS]%s%s\n  ", c->name, *c->arguments ? " " : "", c->arguments);
    vr_show_wrapped(out, c->summary, 2, HELP_WIDTH);
    const struct vr_option *section = NULL;
    for (size_t i = 0; i < vr_n_option_rows; i++) {
        const struct vr_option *opt = &vr_option_rows[i];
        if (opt->kind == VR_OPTION_SECTION) {
            section = opt;
            continue;
        }
        if (!(opt->commands & c->bit)) continue;
        if (section) vr_buf_addf(out, "\n%s\n", section->name);
        section = NULL;
        help_option(opt, out);
    }
}
