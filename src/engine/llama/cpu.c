/* Choosing a CPU variant. The candidates are scored by themselves (ggml_backend_score), which says what the processor
 * claims; the proof is a child that multiplies and compares with plain arithmetic. A child that dies of SIGILL has
 * answered too. */
#include "engine/llama/cpu.h"

#include <dirent.h>
#include <dlfcn.h>
#include <math.h>
#include <string.h>

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>

#include "base/file.h"
#include "engine/llama/isolated.h"
#include "engine/llama/library.h"

#define MAX_VARIANTS 64
#define PROOF_MS     20000

static bool has_cpu(void) { return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) != NULL; }

bool vr_cpu_load(const char *path, struct vr_err *err)
{
    if (has_cpu()) return true;
    if (!*path || !ggml_backend_load(path))
        return vr_fail(err, VR_EENGINE, "%s: the engine's CPU backend cannot be loaded; run tools/engine-fetch again",
                       path);
    return true;
}

void vr_cpu_set_threads(ggml_backend_t cpu, int n)
{
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(cpu));
    void *fn = ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads");
    if (fn) ((ggml_backend_set_n_threads_t)fn)(cpu, n);
}

static int is_variant(const struct dirent *e)
{
    size_t n = strlen(e->d_name);
    return strncmp(e->d_name, "libggml-cpu", 11) == 0 && n > 3 && strcmp(e->d_name + n - 3, ".so") == 0;
}

struct name {
    char s[64];
};

/* The variants' file names, sorted. Returns how many. */
static int list_variants(const char *dir, struct name names[MAX_VARIANTS])
{
    struct dirent **list;
    int n = scandir(dir, &list, is_variant, alphasort), kept = 0;
    for (int i = 0; i < n; i++) {
        if (kept < MAX_VARIANTS && strlen(list[i]->d_name) < sizeof names->s) strcpy(names[kept++].s, list[i]->d_name);
        free(list[i]);
    }
    if (n >= 0) free(list);
    return kept;
}

bool vr_cpu_load_plain(struct vr_err *err)
{
    static const char *const plain[] = { "libggml-cpu-x64.so", "libggml-cpu-armv8.0_1.so", "libggml-cpu.so" };
    if (has_cpu()) return true;
    char dir[768], path[1024];
    struct name names[MAX_VARIANTS];
    if (!vr_engine_dir(dir, sizeof dir, err)) return false;
    for (size_t i = 0; i < VR_COUNT(plain); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, plain[i]);
        if (vr_file_readable(path)) return vr_cpu_load(path, err);
    }
    if (list_variants(dir, names) == 0)
        return vr_fail(err, VR_EENGINE, "%s: no libggml-cpu*.so here; run tools/engine-fetch again", dir);
    snprintf(path, sizeof path, "%.760s/%.63s", dir, names[0].s);
    return vr_cpu_load(path, err);
}

/* --- the proof, in the child --- */

enum { K = 512, ROWS = 64, COLS = 48 };

static float a_values[K * ROWS], b_values[K * COLS], row_values[K], c_values[ROWS * COLS];
static char a_quants[K * ROWS * 4];

/* The product of the same (dequantized) weights in plain arithmetic, against c_values. */
static bool agrees(enum ggml_type type, int cols)
{
    double worst = 0, scale = 0;
    ggml_to_float_t to_float = ggml_get_type_traits(type)->to_float;
    for (int r = 0; r < ROWS; r++) {
        const char *from = a_quants + (size_t)r * ggml_row_size(type, K);
        if (to_float)
            to_float(from, row_values, K);
        else
            memcpy(row_values, from, sizeof row_values);
        for (int j = 0; j < cols; j++) {
            double sum = 0;
            for (int k = 0; k < K; k++) sum += (double)row_values[k] * (double)b_values[j * K + k];
            worst = fmax(worst, fabs(sum - (double)c_values[j * ROWS + r]));
            scale = fmax(scale, fabs(sum));
        }
    }
    return worst <= 0.05 * scale; /* the activations are rounded to 8 bits on the way */
}

/* One product with the weights in a buffer of that type. True also where the backend does not offer it. */
static bool multiply(ggml_backend_t cpu, ggml_backend_buffer_type_t buft, enum ggml_type type, int cols)
{
    size_t n = ggml_quantize_chunk(type, a_values, a_quants, 0, ROWS, K, NULL);
    struct ggml_init_params size = { 1 << 16, NULL, true };
    struct ggml_context *weights = ggml_init(size), *rest = ggml_init(size);
    struct ggml_tensor *a = ggml_new_tensor_2d(weights, type, K, ROWS);
    ggml_backend_buffer_t wbuf = ggml_backend_alloc_ctx_tensors_from_buft(weights, buft);
    if (!wbuf) return false;
    ggml_backend_buffer_set_usage(wbuf, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    struct ggml_tensor *b = ggml_new_tensor_2d(rest, GGML_TYPE_F32, K, cols), *c = ggml_mul_mat(rest, a, b);
    bool ok = true;
    if (ggml_backend_supports_op(cpu, c)) {
        struct ggml_cgraph *g = ggml_new_graph_custom(rest, 8, false);
        ggml_build_forward_expand(g, c);
        ggml_backend_buffer_t buf = ggml_backend_alloc_ctx_tensors(rest, cpu);
        ggml_backend_tensor_set(a, a_quants, 0, n);
        ggml_backend_tensor_set(b, b_values, 0, (size_t)(K * cols) * sizeof *b_values);
        ok = buf && ggml_backend_graph_compute(cpu, g) == GGML_STATUS_SUCCESS;
        ggml_backend_tensor_get(c, c_values, 0, (size_t)(ROWS * cols) * sizeof *c_values);
        ok = ok && agrees(type, cols);
        ggml_backend_buffer_free(buf);
    }
    ggml_backend_buffer_free(wbuf);
    ggml_free(weights);
    ggml_free(rest);
    return ok;
}

/* Every common type, in the plain buffer and in those for repacked weights: the latter is where AMX is. */
static bool multiply_all(ggml_backend_t cpu)
{
    static const enum ggml_type types[] = { GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16, GGML_TYPE_Q8_0,
                                            GGML_TYPE_Q4_0, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K };
    ggml_backend_dev_t dev = ggml_backend_get_device(cpu);
    ggml_backend_buffer_type_t bufts[16] = { ggml_backend_dev_buffer_type(dev) };
    size_t n = 1;
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(dev);
    void *fn = ggml_backend_reg_get_proc_address(reg, "ggml_backend_dev_get_extra_bufts");
    ggml_backend_buffer_type_t *more = fn ? ((ggml_backend_dev_get_extra_bufts_t)fn)(dev) : NULL;
    while (more && *more && n < VR_COUNT(bufts)) bufts[n++] = *more++;
    for (int i = 0; i < K * ROWS; i++) a_values[i] = sinf((float)i) / 8;
    for (int i = 0; i < K * COLS; i++) b_values[i] = cosf((float)i * 0.7f);
    for (size_t i = 0; i < n; i++)
        for (size_t t = 0; t < VR_COUNT(types); t++)
            if (!multiply(cpu, bufts[i], types[t], 1) || !multiply(cpu, bufts[i], types[t], COLS)) return false;
    return true;
}

static bool prove(void *ctx, struct vr_buf *result, struct vr_err *err)
{
    (void)result; /* that it comes back is the proof */
    const char *path = ctx;
    ggml_backend_t cpu =
        !*path || ggml_backend_load(path) ? ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL) : NULL;
    if (!cpu) return vr_fail(err, VR_EENGINE, "%s does not load", path);
    vr_cpu_set_threads(cpu, 1); /* more would mostly wait for each other: the products are small */
    return multiply_all(cpu) || vr_fail(err, VR_EENGINE, "%s multiplies wrongly", path);
}

struct variant {
    char path[1024];
    int score;
};

/* Scores in a child too: its answer comes from the library's own code. */
static bool ask_score(void *path, struct vr_buf *result, struct vr_err *err)
{
    (void)err;
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*score)(void) = lib ? (int (*)(void))dlsym(lib, "ggml_backend_score") : NULL;
    int n = !lib ? 0 : score ? score() : 1;
    vr_buf_add(result, &n, sizeof n);
    return true;
}

static int by_score(const void *a, const void *b)
{
    const struct variant *x = a, *y = b;
    return x->score != y->score ? (x->score < y->score ? 1 : -1) : strcmp(x->path, y->path);
}

bool vr_cpu_choose(char *out, size_t n, struct vr_err *err)
{
    char dir[768];
    return vr_engine_dir(dir, sizeof dir, err) && vr_cpu_choose_in(dir, out, n, err);
}

bool vr_cpu_choose_in(const char *dir, char *out, size_t n, struct vr_err *err)
{
    struct name names[MAX_VARIANTS];
    int n_variants = list_variants(dir, names);
    VR_AUTO_FREE struct variant *v = calloc((size_t)n_variants + 1, sizeof *v);
    if (!v) return vr_fail_nomem(err, "listing the engine's CPU backends");
    for (int i = 0; i < n_variants; i++) {
        snprintf(v[i].path, sizeof v[i].path, "%.760s/%.63s", dir, names[i].s);
        const struct vr_isolated job = { ask_score, v[i].path, .what = "scoring", .needs.files = { v[i].path },
                                         .timeout_ms = PROOF_MS };
        struct vr_err none;
        if (!vr_isolated_block(&job, &v[i].score, sizeof v[i].score, &none)) v[i].score = 0; /* not even that works */
    }
    qsort(v, (size_t)n_variants, sizeof *v, by_score);
    if (n_variants == 0) n_variants = 1; /* the empty path: built in */
    struct vr_err last = { .msg = "none says that it would" };
    for (int i = 0; i < n_variants; i++) {
        if (*v[i].path && v[i].score <= 0) continue;
        const struct vr_isolated job = { prove, v[i].path, .what = *v[i].path ? v[i].path : "the built-in one",
                                         .needs.files = { v[i].path }, .timeout_ms = PROOF_MS };
        if (!vr_isolated_block(&job, NULL, 0, &last)) continue;
        if (strlen(v[i].path) >= n) return vr_fail(err, VR_EENGINE, "%s: path too long", v[i].path);
        snprintf(out, n, "%s", v[i].path);
        return true;
    }
    return vr_fail(err, VR_EENGINE, "%s: no CPU backend of the engine works on this processor: %.600s", dir, last.msg);
}
