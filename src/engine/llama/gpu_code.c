/* The section .nv_fatbin holds containers, one after the other: a head of 16 bytes (magic, version, its own length, the
 * length of what follows) and entries, each with a head that says what it is (1: PTX, 2: machine code), how long head
 * and content are, and for which compute capability. No length is believed before it was compared with the section's.
 */
#include "engine/llama/gpu_code.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "engine/llama/isolated.h"
#include "engine/llama/library.h"

#define MAGIC 0xBA55ED50u

struct container {
    uint32_t magic;
    uint16_t version, head_bytes;
    uint64_t body_bytes;
};

struct entry {
    uint16_t kind, version;
    uint32_t head_bytes;
    uint64_t body_bytes;
    uint32_t unused[3];
    uint32_t arch;
};

struct file {
    const unsigned char *data;
    size_t n;
};

static void close_file(struct file *f)
{
    if (f->data) munmap((void *)(uintptr_t)f->data, f->n);
}

static bool open_file(const char *path, struct file *f, struct vr_err *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0 ? (size_t)st.st_size : 0;
    void *data = n ? mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (fd >= 0) close(fd);
    if (data == MAP_FAILED) return vr_fail(err, VR_EIO, "%s: cannot be read", path);
    *f = (struct file){ data, n };
    return true;
}

/* The section of that name. */
static bool section(const struct file *f, const char *name, struct file *out)
{
    Elf64_Ehdr e;
    Elf64_Shdr s, names;
    if (f->n < sizeof e) return false;
    memcpy(&e, f->data, sizeof e);
    size_t room = e.e_shoff < f->n ? (f->n - e.e_shoff) / sizeof s : 0;
    if (memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 || e.e_shnum > room || e.e_shstrndx >= e.e_shnum) return false;
    memcpy(&names, f->data + e.e_shoff + e.e_shstrndx * sizeof s, sizeof names);
    for (size_t i = 0; i < e.e_shnum; i++) {
        memcpy(&s, f->data + e.e_shoff + i * sizeof s, sizeof s);
        uint64_t at = names.sh_offset + s.sh_name;
        if (at < names.sh_offset || at >= f->n || f->n - at <= strlen(name)) continue;
        if (memcmp(f->data + at, name, strlen(name) + 1) != 0) continue;
        if (s.sh_offset > f->n || s.sh_size > f->n - s.sh_offset) return false;
        *out = (struct file){ f->data + s.sh_offset, (size_t)s.sh_size };
        return true;
    }
    return false;
}

static void add(uint32_t *all, size_t *n, uint32_t arch)
{
    for (size_t i = 0; i < *n; i++)
        if (all[i] == arch) return;
    if (*n < VR_MAX_GPU_CODES) all[(*n)++] = arch;
}

/* The entries of one container. */
static void read_entries(const unsigned char *from, size_t n, struct vr_gpu_codes *out)
{
    struct entry e;
    while (n >= sizeof e) {
        memcpy(&e, from, sizeof e);
        if (e.head_bytes < sizeof e || e.head_bytes > n || e.body_bytes > n - e.head_bytes) return;
        if (e.kind == 1) add(out->ptx, &out->n_ptx, e.arch);
        if (e.kind == 2) add(out->native, &out->n_native, e.arch);
        from += e.head_bytes + e.body_bytes;
        n -= (size_t)(e.head_bytes + e.body_bytes);
    }
}

static void read_containers(const struct file *s, struct vr_gpu_codes *out)
{
    struct container c;
    for (size_t at = 0; at + sizeof c <= s->n;) {
        memcpy(&c, s->data + at, sizeof c);
        if (c.magic != MAGIC) {
            at += 8; /* they are aligned */
            continue;
        }
        if (c.head_bytes < sizeof c || c.head_bytes > s->n - at || c.body_bytes > s->n - at - c.head_bytes) return;
        read_entries(s->data + at + c.head_bytes, (size_t)c.body_bytes, out);
        at += (size_t)(c.head_bytes + c.body_bytes);
    }
}

/* The names of the libraries that it needs are among its strings. */
static void read_runtime(const struct file *strings, struct vr_gpu_codes *out)
{
    static const char name[] = "libcudart.so.";
    const char *at = memmem(strings->data, strings->n, name, sizeof name - 1);
    if (!at) return;
    at += sizeof name - 1;
    size_t left = strings->n - (size_t)((const unsigned char *)at - strings->data);
    snprintf(out->runtime, sizeof out->runtime, "%.*s", (int)strnlen(at, left), at);
}

bool vr_gpu_codes_read(const char *path, struct vr_gpu_codes *out, struct vr_err *err)
{
    VR_CLEANUP(close_file) struct file f = { 0 };
    struct file s;
    *out = (struct vr_gpu_codes){ 0 };
    if (!open_file(path, &f, err)) return false;
    if (section(&f, ".dynstr", &s)) read_runtime(&s, out);
    if (section(&f, ".nv_fatbin", &s)) read_containers(&s, out);
    return out->n_native + out->n_ptx > 0 || vr_fail(err, VR_EFORMAT, "%s: it contains no GPU code", path);
}

enum vr_gpu_code vr_gpu_codes_for(const struct vr_gpu_codes *c, unsigned major, unsigned minor)
{
    uint32_t is = major * 10 + minor;
    for (size_t i = 0; i < c->n_native; i++)
        if (c->native[i] / 10 == major && c->native[i] <= is) return VR_CODE_NATIVE;
    for (size_t i = 0; i < c->n_ptx; i++)
        if (c->ptx[i] <= is) return VR_CODE_PTX;
    return VR_CODE_NONE;
}

/* --- the linked engine --- */

/* In a child: what a library does when it is loaded stays there. */
static bool load_runtime(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    static const char *const names[] = { "libcudart.so.", "libcublas.so." };
    char name[64];
    for (size_t i = 0; i < VR_COUNT(names); i++) {
        snprintf(name, sizeof name, "%s%s", names[i], (const char *)ctx);
        if (!dlopen(name, RTLD_LAZY | RTLD_LOCAL)) return vr_fail(err, VR_EENGINE, "%s", name);
    }
    vr_buf_adds(result, "ok");
    return true;
}

struct engine {
    bool asked, known, complete; /* its library was read; the libraries that it needs are here */
    struct vr_gpu_codes codes;
};

static const struct engine *engine(void)
{
    static struct engine e = { .complete = true };
    char dir[768], path[900];
    if (e.asked) return &e;
    e.asked = true;
    if (!vr_engine_dir(dir, sizeof dir, NULL)) return &e;
    snprintf(path, sizeof path, "%s/libggml-cuda.so", dir);
    e.known = vr_gpu_codes_read(path, &e.codes, NULL);
    VR_AUTO_BUF result = { 0 };
    struct vr_isolated job = { .fn = load_runtime,
                               .ctx = e.codes.runtime,
                               .what = "loading the CUDA runtime",
                               .trusted = true,
                               .quiet = true,
                               .timeout_ms = 60000 };
    e.complete = !e.known || !*e.codes.runtime || vr_isolated_run(&job, &result, NULL);
    return &e;
}

/* Where the scripts are that fetch and build a CUDA library: beside what was installed, or in the tarball. NULL: this
 * is a checkout, where `make run` fetches it. */
static const char *scripts(void)
{
    static const char *const places[] = { "../../share/vram-llm/gpu", /* PREFIX/lib/vram-llm */
                                          "../share/vram-llm/gpu" };  /* the tarball's lib */
    static char *found;
    char dir[768], path[900];
    if (!vr_engine_dir(dir, sizeof dir, NULL)) return NULL;
    for (size_t i = 0; i < VR_COUNT(places) && !found; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, places[i]);
        found = realpath(path, NULL);
    }
    return found;
}

const char *vr_gpu_builder(void)
{
    static char path[PATH_MAX + sizeof "/build-cuda"];
    const char *dir = scripts();
    if (dir && !*path) snprintf(path, sizeof path, "%s/build-cuda", dir);
    return dir ? path : "tools/gpu/build-cuda";
}

static bool fail_backend(bool cuda, struct vr_err *why)
{
    const char *dir = scripts();
    if (!dir)
        return vr_fail(why, VR_EENGINE,
                       cuda ? "this engine was built without CUDA. Build it with tools/gpu/build-cuda, or use Vulkan: "
                              "VULKAN=1 make run."
                            : "this engine was built without Vulkan. Get one with it: VULKAN=1 make run.");
    if (!cuda)
        return vr_fail(why, VR_EENGINE,
                       "this program comes without Vulkan; in a checkout of its source, VULKAN=1 make run fetches it.");
    return vr_fail(why, VR_EENGINE,
                   "this program comes without llama.cpp's CUDA library: %s/fetch-cuda fetches it (with npm), and "
                   "build-cuda beside it builds one for exactly these GPUs.",
                   dir);
}

static bool fail_code(const struct vr_device *d, const struct vr_gpu_codes *c, struct vr_err *why)
{
    const char *dir = scripts(), *older = "";
    if (strcmp(c->runtime, "13") == 0)
        older = dir ? "; with CUDA 12's runtime installed, fetch-cuda beside it fetches one"
                    : "; with CUDA 12's runtime installed, make run fetches one";
    return vr_fail(why, VR_EENGINE,
                   "this engine's CUDA library has no code for compute capability %u.%u: %s builds one that does%s%s.",
                   d->cc_major, d->cc_minor, vr_gpu_builder(), older, dir ? "" : ", or use Vulkan: VULKAN=1 make run");
}

bool vr_gpu_usable(const struct vr_device *d, struct vr_err *why)
{
    bool cuda = strcmp(d->backend, "CUDA") == 0;
    if (!vr_engine_runs(d->backend)) return fail_backend(cuda, why);
    if (!cuda) return true;
    const struct engine *e = engine();
    if (!e->complete)
        return vr_fail(
            why, VR_EENGINE,
            "libcudart.so.%s or libcublas.so.%s is not installed: install NVIDIA's packages "
            "cuda-cudart-%s-* and libcublas-%s-*, or name their folder in LD_LIBRARY_PATH (docs/install.md).",
            e->codes.runtime, e->codes.runtime, e->codes.runtime, e->codes.runtime);
    if (!e->known || !d->cc_major || vr_gpu_codes_for(&e->codes, d->cc_major, d->cc_minor) != VR_CODE_NONE) return true;
    return fail_code(d, &e->codes, why);
}

bool vr_gpu_compiles(const struct vr_device *d)
{
    const struct engine *e = engine();
    return e->known && d->cc_major && vr_gpu_codes_for(&e->codes, d->cc_major, d->cc_minor) == VR_CODE_PTX;
}
