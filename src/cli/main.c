/* Finds the command, parses its options, runs it, and prints what it made. A failure is one sentence on standard error
 * and an exit status by its kind (base/errors.def), after what the command had to show: a plan that does not fit. With
 * --json standard output is one document in any case: what there is to show, or {"error":{"kind","message"}}. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/load/engine_process.h"
#include "cli/load/load_plan.h"
#include "cli/load/memory_process.h"
#include "cli/load/meter_process.h"
#include "cli/models/model_name.h"
#include "cli/options.h"
#include "engine/llama/library.h"
#include "engine/llama/confinement.h"

/* How failures are told. */
struct teller {
    bool as_log;  /* on standard error, as a line of the log */
    bool as_json; /* on standard output, too */
};

static int fail(const struct vr_err *err, struct teller t)
{
    if (t.as_json) {
        VR_AUTO_BUF out = { 0 };
        vr_buf_addf(&out, "{\"error\":{\"kind\":\"%s\",\"message\":", vr_code_kind(err->code));
        vr_json_add_string(&out, err->msg);
        vr_buf_adds(&out, "}}\n");
        if (!vr_fd_write(STDOUT_FILENO, vr_buf_str(&out), out.n)) return vr_code_exit(VR_EIO);
    }
    if (t.as_log)
        vr_log_fields(VR_ERROR, (const struct vr_field[]){ { "kind", vr_code_kind(err->code) }, { 0 } }, "%s",
                      err->msg);
    else
        fprintf(stderr, "vram-llm: %s\n", err->msg);
    return vr_code_exit(err->code);
}

/* The whole output or an error: a full disk or a closed pipe does not pass for success. */
static bool print(const struct vr_buf *out, struct vr_err *err)
{
    if (out->failed) return vr_fail_nomem(err, "writing the output");
    return vr_fd_write(STDOUT_FILENO, out->data, out->n) ||
           vr_fail(err, VR_EIO, "cannot write the output: %s", strerror(errno));
}

static bool find_command(const char *name, const struct vr_command **out, struct vr_err *err)
{
    *out = vr_command_find(name);
    if (*out) return true;
    const struct vr_command *near = vr_command_nearest(name);
    if (near) return vr_fail(err, VR_EUSAGE, "unknown command '%s'; did you mean '%s'?", name, near->name);
    return vr_fail(err, VR_EUSAGE, "unknown command '%s'; see 'vram-llm --help'", name);
}

/* Also when the options cannot be read, which is a failure like any other. */
static bool wants_json(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--json") == 0) return true;
    return false;
}

/* Most options are read where they are used: what is wrong with one that a file set must name the file. */
static int fail_of(const struct vr_err *err, const struct vr_options *o, struct teller t)
{
    struct vr_err named = { 0 };
    const char *source = vr_option_source(o, err->msg);
    if (!source) return fail(err, t);
    vr_fail(&named, err->code, "%s: %s", source, err->msg);
    return fail(&named, t);
}

/* The engine's processes, however they are started, learn it from the environment. */
static bool set_user(const char *user, struct vr_err *err)
{
    uid_t uid;
    gid_t gid;
    if (!user) return true;
    if (!vr_confine_user_id(user, &uid, &gid)) return vr_fail(err, VR_EUSAGE, "--user: there is no user '%s'", user);
    return setenv(VR_ENGINE_USER_VAR, user, 1) == 0 || vr_fail_nomem(err, "reading the options");
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN); /* a reader that went away is an error of write(2) */
    VR_AUTO_BUF out = { 0 };
    struct vr_err err = { 0 };
    struct teller how = { .as_json = wants_json(argc, argv) };
    const char *word = argc > 1 ? argv[1] : "--help";
    if (argc == 3 && strcmp(word, "engine-process") == 0) return vr_cmd_engine_process(argv[2]);
    if (argc == 2 && strcmp(word, "meter-process") == 0) return vr_cmd_meter_process();
    if (argc == 2 && strcmp(word, "memory-process") == 0) return vr_cmd_memory_process();
    if (strcmp(word, "--version") == 0) {
        vr_buf_adds(&out, "vram-llm " VR_VERSION);
        if (*VR_COMMIT) vr_buf_adds(&out, " (commit " VR_COMMIT ")");
        vr_buf_addf(&out, ", engine llama.cpp %s\n", vr_engine_version());
        return print(&out, &err) ? 0 : fail(&err, how);
    }
    if (strcmp(word, "--manual") == 0) {
        vr_manual(&out);
        return print(&out, &err) ? 0 : fail(&err, how);
    }
    if (strcmp(word, "--completions") == 0) {
        if (argc != 3 || !vr_completions(argv[2], &out)) vr_fail(&err, VR_EUSAGE, "--completions bash|zsh|fish");
        return !err.code && print(&out, &err) ? 0 : fail(&err, how);
    }
    bool help = strcmp(word, "help") == 0;
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || (help && argc < 3)) {
        vr_help_all(&out);
        return print(&out, &err) ? 0 : fail(&err, how);
    }

    const struct vr_command *command;
    bool load_plan = strcmp(word, "load-plan") == 0; /* a part of serve, in a process of its own */
    how.as_json = how.as_json || load_plan;
    if (!find_command(load_plan ? "serve" : help ? argv[2] : word, &command, &err)) return fail(&err, how);
    struct vr_options o;
    if (!vr_options_parse(command, help ? 0 : argc - 2, argv + 2, &o, &err)) return fail(&err, how);
    if (!set_user(o.user, &err)) return fail_of(&err, &o, how);
    how.as_log = strcmp(o.log_format, "json") == 0;
    vr_log_init(STDERR_FILENO, how.as_log ? VR_LOG_JSON : VR_LOG_TEXT, VR_INFO);
    bool ok = true;
    if (help || o.help)
        vr_help_command(command, &out);
    else if (!vr_model_name_resolve(&o, command->needs, &err))
        ok = false;
    else
        ok = load_plan ? vr_cmd_load_plan(&o, &out, &err) : command->run(&o, &out, &err);
    struct vr_err unwritten;
    how.as_json = how.as_json && out.n == 0;
    if (!print(&out, &unwritten)) return fail(ok ? &unwritten : &err, how);
    return ok ? 0 : fail_of(&err, &o, how);
}
