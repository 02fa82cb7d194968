/* The list of paths is made anew for each process: a model is replaced, a driver installed, and a restart sees it. */
#include "engine/llama/confinement.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

#include "base/arena.h"
#include "base/child.h"
#include "base/file.h"
#include "base/text.h"
#include "engine/llama/library.h"
#include "gguf/part_name.h"

#define ROOTS_CACHE "/var/cache/vram-llm" /* of the user that root becomes */
#define MPS_PIPES   "/tmp/nvidia-mps"
#define SPARE_BYTES (4 * VR_GIB) /* stacks that are never used whole */
#define WAKE_MS     20000
#define MAX_GROUPS  16

enum { LOOK = VR_MAY_READ, CHANGE = LOOK | VR_MAY_WRITE, DRIVE = CHANGE | VR_MAY_CONTROL };

struct list { /* of paths; one that found no memory is missing, and shows as EACCES */
    struct vr_arena arena;
    struct vr_confine_path *items;
    size_t n, cap;
};

static void add(struct list *l, unsigned may, const char *path)
{
    if (!path || !*path) return;
    if (l->n == l->cap) {
        struct vr_confine_path *more = vr_arena_alloc(&l->arena, l->cap * 2 + 64, sizeof *more);
        if (!more) return;
        if (l->n) memcpy(more, l->items, l->n * sizeof *more);
        l->items = more;
        l->cap = l->cap * 2 + 64;
    }
    char *copy = vr_arena_strdup(&l->arena, path);
    if (copy) l->items[l->n++] = (struct vr_confine_path){ copy, may };
}

static void add_matches(struct list *l, unsigned may, const char *pattern)
{
    glob_t g;
    if (!strchr(pattern, '*')) return add(l, may, pattern);
    if (glob(pattern, GLOB_NOSORT, NULL, &g) == 0)
        for (size_t i = 0; i < g.gl_pathc; i++) add(l, may, g.gl_pathv[i]);
    globfree(&g);
}

static void add_listed(struct list *l, const char *variable)
{
    const char *value = getenv(variable);
    VR_AUTO_FREE char *copy = value ? strdup(value) : NULL;
    char *rest;
    for (char *p = copy ? strtok_r(copy, ":", &rest) : NULL; p; p = strtok_r(NULL, ":", &rest)) add(l, LOOK, p);
}

/* A GGUF file, or all parts of the model that it is one of. */
static void add_model(struct list *l, const char *path)
{
    size_t stem;
    unsigned no, count;
    add(l, LOOK, path);
    if (!path || !vr_part_name(path, &stem, &no, &count)) return;
    for (unsigned i = 1; i <= count; i++)
        add(l, LOOK, vr_arena_printf(&l->arena, "%.*s-%05u-of-%05u.gguf", (int)stem, path, i, count));
}

/* --- compiled kernels --- */

/* Ours, made for the one who will write there. */
static bool cache_folder(const char *becomes, char *out, size_t n)
{
    struct vr_err err;
    uid_t uid;
    gid_t gid;
    if (becomes)
        snprintf(out, n, "%s", ROOTS_CACHE);
    else if (!vr_file_own_path("XDG_CACHE_HOME", ".cache", "drivers", out, n) || !vr_file_make_parents(out, &err))
        return false;
    if (mkdir(out, 0700) != 0 && errno != EEXIST) return false;
    VR_AUTO_CLOSE int fd = open(out, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && (!becomes || (vr_confine_user_id(becomes, &uid, &gid) && fchown(fd, uid, gid) == 0));
}

static void add_caches(struct list *l, const char *becomes)
{
    static const struct {
        const char *variable, *folder;
    } rows[] = {
#define KEEP(...)
#define LISTED(...)
#define CACHE(variable, folder) { variable, folder },
#include "engine/llama/keeps.def"
#undef KEEP
#undef LISTED
#undef CACHE
    };
    char dir[512] = "", path[600];
    bool own = cache_folder(becomes, dir, sizeof dir);
    if (own) add(l, CHANGE, dir);
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        const char *given = getenv(rows[i].variable);
        snprintf(path, sizeof path, "%s/%s", dir, rows[i].folder);
        if (given)
            add(l, CHANGE, given);
        else if (own)
            setenv(rows[i].variable, path, 0);
    }
}

/* --- who --- */

static bool among(const gid_t *groups, size_t n, gid_t group)
{
    for (size_t i = 0; i < n; i++)
        if (groups[i] == group) return true;
    return false;
}

/* The groups by which a user without rights gets at the devices. False: one belongs to root alone, named in `which`. */
static bool device_groups(gid_t groups[MAX_GROUPS], size_t *n, char *which, size_t n_which)
{
    static const char *const nodes[] = { "/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/nvidia-uvm",
                                         "/dev/dri/renderD*", "/dev/kfd",       "/dev/dxg" };
    const gid_t unmapped = 65534; /* a group that a container does not know: what it gives cannot be asked for again */
    bool ok = true;
    *n = 0;
    for (size_t i = 0; i < VR_COUNT(nodes); i++) {
        glob_t g;
        struct stat st;
        size_t found = glob(nodes[i], 0, NULL, &g) == 0 ? g.gl_pathc : 0;
        for (size_t k = 0; k < found; k++) {
            if (stat(g.gl_pathv[k], &st) != 0 || (st.st_mode & 06) == 06) continue;
            bool by_group = (st.st_mode & 060) == 060 && st.st_gid != unmapped;
            if (by_group && among(groups, *n, st.st_gid)) continue;
            if (by_group && *n < MAX_GROUPS)
                groups[(*n)++] = st.st_gid;
            else if (ok)
                ok = false, snprintf(which, n_which, "%s", g.gl_pathv[k]);
        }
        globfree(&g);
    }
    return ok;
}

static bool exists(const char *path) { return access(path, F_OK) == 0; }

void vr_engine_wake_driver(void)
{
    static const char *const argv[] = { "nvidia-modprobe", "-c", "0", "-u", NULL };
    if (!exists("/proc/driver/nvidia/version") || exists("/dev/nvidia-uvm")) return;
    struct vr_child_end end = { 0 };
    struct vr_err none;
    /* without it CUDA says what is missing */
    if (vr_child_run(&(struct vr_child){ .argv = argv, .timeout_ms = WAKE_MS }, &end, &none)) vr_child_end_done(&end);
}

/* --- NCCL --- */

#define ALLREDUCE "GGML_CUDA_ALLREDUCE" /* the engine's own variable */

bool vr_engine_uses_nccl(void)
{
    const char *asked = getenv(ALLREDUCE);
    return (asked ? strcmp(asked, "nccl") == 0 : vr_confine_is_off()) && vr_engine_has_nccl();
}

/* The engine would try it first, and go on without when it gets no socket: it is told to begin there. With one, its
 * peers are on this machine. */
static bool decide_nccl(void)
{
    bool used = vr_engine_uses_nccl();
    if (used)
        setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    else
        setenv(ALLREDUCE, "internal", 0);
    return used;
}

/* --- all of it --- */

static void add_all(struct list *l, const struct vr_engine_needs *needs)
{
    enum { ALWAYS = 1 };
    const bool DEVICES = needs->devices;
    char dir[768];
#define KEEP(when, may, path)                                                                                          \
    if (when) add_matches(l, may, path);
#define LISTED(variable) add_listed(l, variable);
#define CACHE(...)
#include "engine/llama/keeps.def"
#undef KEEP
#undef LISTED
#undef CACHE
    if (vr_engine_dir(dir, sizeof dir, NULL)) add(l, LOOK, dir);
    add(l, CHANGE, needs->cache);
    for (size_t i = 0; i < VR_MAX_NEEDS; i++) add_model(l, needs->files[i]);
}

void vr_engine_confine(const struct vr_engine_needs *needs, struct vr_confined *out)
{
    struct vr_confined told;
    struct list l = { 0 };
    gid_t groups[MAX_GROUPS];
    char root_only[80] = "";
    struct sysinfo host;
    if (!out) out = &told;
    *out = (struct vr_confined){ .off = vr_confine_is_off() };
    if (out->off) return;
    const char *user = getenv(VR_ENGINE_USER_VAR);
    struct vr_confine c = { .calls = needs->prepares ? VR_CALLS_COMPUTE : VR_CALLS_DRIVERS,
                            .may_fork = needs->prepares,
                            .confines_files = true,
                            .user = user ? user : VR_ENGINE_USER };
    if (needs->devices) {
        const char *pipes = getenv("CUDA_MPS_PIPE_DIRECTORY");
        vr_engine_wake_driver();
        if (geteuid() == 0 && !device_groups(groups, &c.n_groups, root_only, sizeof root_only)) c.user = NULL;
        c.groups = groups;
        c.may_listen = true;                        /* CUDA begins with a socket of its own, and ends if it gets none */
        c.may_connect = pipes || exists(MPS_PIPES); /* GPUs that are shared by CUDA's own server */
        c.may_network = decide_nccl();
        if (c.may_connect) add(&l, CHANGE, pipes ? pipes : MPS_PIPES);
        add_caches(&l, geteuid() == 0 ? c.user : NULL);
    } else if (sysinfo(&host) == 0) {
        c.data_bytes = (uint64_t)(host.totalram + host.totalswap) * host.mem_unit + SPARE_BYTES;
    }
    add_all(&l, needs);
    c.paths = l.items;
    c.n_paths = l.n;
    vr_confine(&c, out);
    if (*root_only) {
        out->state[VR_CONFINE_USER] = VR_CONFINE_REFUSED;
        snprintf(out->why[VR_CONFINE_USER], sizeof out->why[0], "%s can be used by root alone", root_only);
    }
    vr_arena_done(&l.arena);
}
