/* The libraries are found through the dynamic linker: whatever libllama was loaded, the backends lie beside it. */
#include "engine/llama/library.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ggml-backend.h>
#include <llama.h>

#include "base/file.h"
#include "hw/host.h"

const char *vr_engine_version(void) { return llama_version(); }

bool vr_engine_dir(char *out, size_t n, struct vr_err *err)
{
    Dl_info info;
    if (!dladdr((void *)llama_backend_init, &info) || !info.dli_fname)
        return vr_fail(err, VR_EENGINE, "cannot find the engine's libraries");
    VR_AUTO_FREE char *real = realpath(info.dli_fname, NULL);
    const char *path = real ? real : info.dli_fname, *slash = strrchr(path, '/');
    if (!slash || (size_t)(slash - path) >= n)
        return vr_fail(err, VR_EENGINE, "%s: not a path to the engine's libraries", path);
    snprintf(out, n, "%.*s", (int)(slash - path), path);
    return true;
}

bool vr_engine_has(const char *backend)
{
    char dir[768], plain[80], variants[80];
    snprintf(plain, sizeof plain, "libggml-%s.so", backend);
    snprintf(variants, sizeof variants, "libggml-%s-", backend); /* one per generation of processors */
    DIR *d = vr_engine_dir(dir, sizeof dir, NULL) ? opendir(dir) : NULL;
    bool found = false;
    for (struct dirent *e; d && !found && (e = readdir(d));)
        found = strcmp(e->d_name, plain) == 0 || strncmp(e->d_name, variants, strlen(variants)) == 0;
    if (d) closedir(d);
    return found;
}

/* One that calls NCCL has the name of what it calls, however it was linked; loading it to ask would start the driver.
 */
bool vr_engine_has_nccl(void)
{
    static const char called[] = "ncclCommInitAll";
    char dir[768], path[900];
    struct stat st;
    if (!vr_engine_dir(dir, sizeof dir, NULL)) return false;
    snprintf(path, sizeof path, "%s/libggml-cuda.so", dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0 ? (size_t)st.st_size : 0;
    void *file = n ? mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (fd >= 0) close(fd);
    if (file == MAP_FAILED) return false;
    bool found = memmem(file, n, called, sizeof called - 1) != NULL;
    munmap(file, n);
    return found;
}

bool vr_engine_runs(const char *backend)
{
    return (strcmp(backend, "CUDA") == 0 && vr_engine_has("cuda")) ||
           (strcmp(backend, "Vulkan") == 0 && vr_engine_has("vulkan"));
}

bool vr_engine_load_backends(struct vr_err *err)
{
    static const char *const names[] = { "cuda", "hip", "musa", "vulkan", "sycl", "cann", "rpc" };
    char dir[768], path[900];
    if (!vr_engine_dir(dir, sizeof dir, err)) return false;
    for (size_t i = 0; i < VR_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/libggml-%s.so", dir, names[i]);
        if (vr_file_readable(path)) ggml_backend_load(path);
    }
    return true;
}

uint32_t vr_engine_threads(void)
{
    struct vr_host host = { 0 };
    struct vr_err err;
    cpu_set_t set;
    long n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    if (vr_host_read("/sys", "/proc", &host, &err) && host.cores && (long)host.cores < n) n = host.cores;
    VR_AUTO_BUF quota = { 0 };
    double us, period;
    if (vr_file_read("/sys/fs/cgroup/cpu.max", 256, &quota, &err) &&
        sscanf(vr_buf_str(&quota), "%lf %lf", &us, &period) == 2 && period > 0 && us / period < (double)n)
        n = (long)(us / period + 0.5);
    return n < 1 ? 1 : n > 512 ? 512 : (uint32_t)n;
}
