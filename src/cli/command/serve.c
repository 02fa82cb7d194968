/* `serve`: checks what can be checked before anything is loaded, then runs the front. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "base/child.h"
#include "base/confine.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/input/input.h"
#include "cli/load/load_plan.h"
#include "cli/command/served_list.h"
#include "cli/input/shipped.h"
#include "engine/llama/confinement.h"
#include "gguf/model.h"
#include "server/server.h"

#define MAX_LIST     64
#define MAX_KEY_FILE 65536
#define MIN_KEY      8

/* Words between commas, or lines: pointers into one copy of the text. */
struct list {
    struct vr_buf text;
    const char *items[MAX_LIST + 1];
    size_t n;
};

static bool list_split(struct list *l, const char *text, const char *between, const char *what, struct vr_err *err)
{
    if (!text) return true;
    vr_buf_adds(&l->text, text);
    if (l->text.failed) return vr_fail_nomem(err, "reading the options");
    char *rest;
    for (char *word = strtok_r(l->text.data, between, &rest); word; word = strtok_r(NULL, between, &rest)) {
        word += strspn(word, " \t");
        for (size_t n = strlen(word); n && strchr(" \t\r", word[n - 1]); n--) word[n - 1] = '\0';
        if (!*word || *word == '#') continue;
        if (l->n == MAX_LIST) return vr_fail(err, VR_EUSAGE, "%s: more than %d entries", what, MAX_LIST);
        l->items[l->n++] = word;
    }
    return true;
}

/* --- keys --- */

#define KEY_VARIABLE "VRAM_LLM_API_KEY"

/* Where /proc shows it. */
static void overwrite(const char *shown) { memset((char *)(uintptr_t)shown, 'x', strlen(shown)); }

/* The key of the command line, else that of the environment, in a copy of our own; no child inherits either. */
static bool take_key(struct vr_options *o, char **key, struct vr_err *err)
{
    const char *there = getenv(KEY_VARIABLE), *given = o->api_key;
    if (!given && there && *there && !o->api_key_file) given = there;
    if (given && !(*key = strdup(given))) return vr_fail_nomem(err, "reading the options");
    if (o->api_key) overwrite(o->api_key);
    if (there) overwrite(there);
    unsetenv(KEY_VARIABLE);
    o->api_key = *key;
    return true;
}

static void warn_of_key(void)
{
    vr_log(VR_WARN, "--api-key: other users of this machine may see the key in the process list; set the environment "
                    "variable " KEY_VARIABLE " or use --api-key-file instead");
}

static bool read_keys(const struct vr_options *o, struct list *keys, struct vr_err *err)
{
    VR_AUTO_BUF text = { 0 };
    struct stat st;
    if (o->api_key && o->api_key_file) return vr_fail(err, VR_EUSAGE, "give --api-key or --api-key-file, not both");
    if (o->no_api_key && (o->api_key || o->api_key_file))
        return vr_fail(err, VR_EUSAGE, "--no-api-key conflicts with the API key that was given");
    if (o->api_key_file) {
        if (!vr_file_read(o->api_key_file, MAX_KEY_FILE, &text, err)) return false;
        if (stat(o->api_key_file, &st) == 0 && st.st_mode & 077)
            vr_log(VR_WARN, "%s is readable by other users of this machine; restrict it with chmod 600",
                   o->api_key_file);
        if (!list_split(keys, vr_buf_str(&text), "\n", o->api_key_file, err)) return false;
        if (keys->n == 0) return vr_fail(err, VR_EUSAGE, "%s contains no API key", o->api_key_file);
    } else if (o->api_key) {
        vr_buf_adds(&keys->text, o->api_key);
        keys->items[keys->n++] = vr_buf_str(&keys->text);
    }
    for (size_t i = 0; i < keys->n; i++)
        if (strlen(keys->items[i]) < MIN_KEY)
            return vr_fail(err, VR_EUSAGE,
                           "an API key is shorter than %d characters and could be guessed: use a longer one", MIN_KEY);
    if (keys->n == 0 && !o->no_api_key && !vr_hosts_are_loopback(o->host))
        return vr_fail(err, VR_EUSAGE,
                       "%s is reachable from other machines: set an API key (--api-key-file, or the environment "
                       "variable " KEY_VARIABLE "), or --no-api-key if anyone may use this server",
                       o->host);
    return true;
}

/* --- the model --- */

static bool is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool check_mlock(const struct vr_options *o, uint64_t bytes, struct vr_err *err)
{
    struct rlimit r;
    struct vr_num have, need;
    if (!o->mlock || geteuid() == 0 || getrlimit(RLIMIT_MEMLOCK, &r) != 0 || r.rlim_cur == RLIM_INFINITY) return true;
    if (r.rlim_cur >= bytes) return true;
    return vr_fail(
        err, VR_EUSAGE,
        "--mlock: this user may lock %s of memory, but the model takes %s: raise the limit (ulimit -l) or drop --mlock",
        vr_fmt_bytes(&have, r.rlim_cur), vr_fmt_bytes(&need, bytes));
}

/* --- what a person at the terminal sees --- */

static void tell(void *ctx, const char *state, int percent)
{
    (void)ctx;
    static const char full[] = "##############################";
    static int shown = -1;
    if (!isatty(STDERR_FILENO)) return;
    bool loading = strcmp(state, "loading") == 0;
    if (loading && percent == shown) return;
    if (loading)
        fprintf(stderr, "\r  loading [%-30.*s] %3d %%", percent * 30 / 100, full, percent);
    else if (shown >= 0)
        fputs("\r\033[K", stderr);
    shown = loading ? percent : -1;
}

/* This program again, with the same options. */
static const char **replan_argv(const struct vr_options *o)
{
    const char **argv = calloc((size_t)o->argc + 3, sizeof *argv);
    if (!argv) return NULL;
    argv[0] = VR_SELF;
    argv[1] = "load-plan";
    for (int i = 0; i < o->argc; i++) argv[2 + i] = o->argv[i];
    return argv;
}

/* --- the command --- */

static struct vr_limits limits_of(const struct vr_options *o)
{
    struct vr_limits l = vr_limits_default();
    l.max_connections = (unsigned)o->max_connections;
    l.max_queue = (unsigned)o->max_queue;
    l.max_body_bytes = o->max_body_mib * VR_MIB;
    l.max_memory_bytes = o->max_memory_mib * VR_MIB;
    l.header_seconds = (unsigned)o->header_seconds;
    l.body_seconds = (unsigned)o->body_seconds;
    l.idle_seconds = (unsigned)o->idle_seconds;
    l.stall_seconds = (unsigned)o->stall_seconds;
    l.silent_seconds = (unsigned)o->silent_seconds;
    l.stop_seconds = (unsigned)o->stop_seconds;
    l.load_wait_seconds = (unsigned)o->load_wait;
    return l;
}

struct lists {
    struct list keys, origins, hosts;
};

static bool read_lists(const struct vr_options *o, struct lists *l, struct vr_err *err)
{
    return read_keys(o, &l->keys, err) && list_split(&l->origins, o->cors_origin, ",", "--cors-origin", err) &&
           list_split(&l->hosts, o->allow_host, ",", "--allow-host", err);
}

static void lists_done(struct lists *l)
{
    vr_buf_done(&l->keys.text);
    vr_buf_done(&l->origins.text);
    vr_buf_done(&l->hosts.text);
}

/* --- the log, and what SIGHUP reads again --- */

struct again {
    const struct vr_options *o;
    struct lists *lists;
    int log_fd; /* of --log-file; -1: none */
};

/* The number stays the same when it is opened again, so that whoever logs need not know. */
static bool open_log(const struct vr_options *o, int *fd, struct vr_err *err)
{
    if (!o->log_file) return true;
    int next = open(o->log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    if (next < 0) return vr_fail(err, VR_EIO, "--log-file: %s: %s", o->log_file, strerror(errno));
    if (*fd < 0) return *fd = next, true;
    dup3(next, *fd, O_CLOEXEC);
    close(next);
    return true;
}

static bool reload(void *ctx, const char *const **api_keys, struct vr_err *err)
{
    struct again *a = ctx;
    struct list keys = { 0 };
    if (!open_log(a->o, &a->log_fd, err) || !read_keys(a->o, &keys, err)) return vr_buf_done(&keys.text), false;
    vr_buf_done(&a->lists->keys.text);
    a->lists->keys = keys;
    *api_keys = a->lists->keys.items;
    return true;
}

/* Runs it; a second signal ends us as that signal would have. */
static bool run(struct vr_server_config *c, struct vr_err *err)
{
    int number = 0;
    if (!vr_server_run(c, &number, err)) return false;
    if (number) {
        signal(number, SIG_DFL);
        raise(number);
    }
    vr_log(VR_INFO, "stopped");
    return true;
}

/* What was learned about this machine, where that is kept. */
struct known {
    struct vr_learned learned;
    char path[512];
    bool keeps;
};

static void read_known(const struct vr_options *o, struct known *k)
{
    struct vr_err no = { 0 };
    k->keeps = !vr_input_is_virtual(o) && vr_learned_path(k->path, sizeof k->path);
    if (k->keeps && !vr_learned_load(k->path, (int64_t)time(NULL), &k->learned, &no)) vr_log(VR_WARN, "%s", no.msg);
}

/* One model that stays: its plan is made before anything is started, and what is wrong ends it here. */
static bool serve_one(const struct vr_options *o, struct vr_server_config *config, struct vr_err *err)
{
    unsetenv("HF_TOKEN"); /* what was to be fetched is here; the engine's processes need not know it */
    VR_AUTO_MODELS models = { 0 };
    if ((o->alias && !vr_served_name_check(o->alias, err)) || !vr_models_open(o, &models, err) ||
        !check_mlock(o, models.main->tensor_bytes, err))
        return false;
    VR_CLEANUP(vr_load_done) struct vr_load load = { 0 };
    if (!vr_load_plan(o, &models, config->learned, &load, err)) return false;
    VR_AUTO_FREE const char **replan = replan_argv(o);
    if (!replan) return vr_fail_nomem(err, "starting the server");
    char name[256];
    vr_served_name(o->model, name, sizeof name);
    struct vr_served_config one = { .id = o->alias ? o->alias : name,
                                    .path = o->model,
                                    .load = &load,
                                    .replan_argv = replan,
                                    .bytes = models.main->file_bytes };
    config->models = &one;
    config->n_models = 1;
    return run(config, err);
}

static bool serve_many(const struct vr_options *o, struct vr_server_config *config, struct vr_err *err)
{
    VR_CLEANUP(vr_served_list_done) struct vr_served_list list = { 0 };
    if (!vr_served_list(o, &list, err)) return false;
    for (size_t i = 0; i < list.n; i++)
        if (!check_mlock(o, list.models[i].bytes, err)) return false;
    unsetenv("HF_TOKEN"); /* what was to be fetched is here */
    config->models = list.models;
    config->n_models = list.n;
    config->on_demand = true;
    config->ask_driver = !vr_input_is_virtual(o);
    vr_log(VR_INFO, "%zu model%s, loaded on demand; the default is %s", list.n, list.n == 1 ? "" : "s",
           list.models[0].id);
    return run(config, err);
}

bool vr_cmd_serve(const struct vr_options *given, struct vr_buf *out, struct vr_err *err)
{
    (void)out;
    struct vr_options filled = *given;
    const struct vr_options *o = &filled;
    bool many = vr_served_on_demand(o);
    vr_engine_wake_driver();
    vr_confine_lightly(); /* it holds the keys */
    if (!o->model && !o->preset && !o->models_dir) filled.model = vr_shipped_model();
    if (!o->model && !many)
        return vr_fail(err, VR_EUSAGE,
                       "no model given: vram-llm serve FILE.gguf (the demo model, demo.gguf, is "
                       "missing from the installation)");
    if (!o->tls_cert != !o->tls_key) return vr_fail(err, VR_EUSAGE, "--tls-cert and --tls-key must be given together");
    bool json = strcmp(o->log_format, "json") == 0;
    VR_CLEANUP(lists_done) struct lists lists = { 0 };
    struct again again = { o, &lists, -1 };
    if (!open_log(o, &again.log_fd, err)) return false;
    vr_log_init(again.log_fd < 0 ? STDERR_FILENO : again.log_fd, json ? VR_LOG_JSON : VR_LOG_TEXT,
                o->verbose ? VR_DEBUG : VR_INFO);
    VR_AUTO_FREE char *key = NULL;
    if (!take_key(&filled, &key, err) || !read_lists(o, &lists, err)) return false;
    if (given->api_key) warn_of_key();
    VR_AUTO_FREE char *models_dir = o->models_dir ? realpath(o->models_dir, NULL) : NULL;
    if (o->models_dir && (!models_dir || !is_directory(models_dir)))
        return vr_fail(err, VR_EUSAGE, "--models-dir: %s is not a directory", o->models_dir);
    struct known known = { 0 };
    read_known(o, &known);
    const char *const self[] = { VR_SELF, "engine-process", "%d", NULL };
    const char *const other[] = { o->engine_program, "engine-process", "%d", NULL };
    struct vr_server_config config = { .host = o->host,
                                       .port = (uint16_t)o->port,
                                       .tls_cert = o->tls_cert,
                                       .tls_key = o->tls_key,
                                       .api_keys = lists.keys.items,
                                       .share_cache = o->share_cache,
                                       .cors = lists.origins.items,
                                       .hosts = lists.hosts.items,
                                       .any_model = o->any_model,
                                       .engine_argv = o->engine_program ? other : self,
                                       .tell = tell,
                                       .reload = isatty(STDERR_FILENO) ? NULL : reload,
                                       .ctx = &again,
                                       .learned = &known.learned,
                                       .learned_path = known.keeps ? known.path : NULL,
                                       .models_dir = models_dir,
                                       .hub_plans = o->hub_plans || vr_hosts_are_loopback(o->host),
                                       .manage = o->manage,
                                       .limits = limits_of(o) };
    return many ? serve_many(o, &config, err) : serve_one(o, &config, err);
}
