/* How long one proven placement takes, for every fixture on every rig, beside one dry run of llama.cpp's own
 * common_fit_params on the original file. The fixtures have lost their vocabularies: a header with a vocabulary of the
 * model's size (tokens, types, merges) is made first, so that the engine has as much to read as a user's has.
 *   probe MODELS-DIR RIGS-DIR SCRATCH-DIR */
#include <glob.h>
#include <time.h>

#include "test.h"

#include "engine_fixtures.h"
#include "gguf/strip.h"
#include "gguf_maker.h"
#include "hw/profile.h"

#define ROUNDS 5

static void copy_header(const struct vr_model *m, int fd, struct maker *g)
{
    char bytes[70000];
    for (uint32_t i = 0; i < m->n_meta; i++) {
        const struct vr_meta *e = &m->meta[i];
        size_t n = (size_t)(e->end - e->begin);
        if (strncmp(e->key, "tokenizer.", 10) == 0) continue;
        if (n > sizeof bytes || pread(fd, bytes, n, (off_t)e->begin) != (ssize_t)n) abort();
        mk_raw(&g->meta, bytes, n);
        g->n_meta++;
    }
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        const struct vr_tensor *t = &m->tensors[i];
        uint64_t ne[4] = { 0 };
        for (uint32_t d = 0; d < t->n_dims; d++) ne[d] = t->ne[d];
        mk_tensor_at(g, t->name, t->type, ne, g->data);
        g->data += (t->bytes + 31) / 32 * 32;
    }
}

/* The model as its user has it: one file with its vocabulary. */
static void write_original(const struct vr_model *m, const char *path)
{
    struct vr_err err = { 0 };
    VR_AUTO_CLOSE int fd = vr_model_strip(m, &err);
    char own[64];
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    VR_AUTO(vr_model) stripped = vr_model_open(own, &err);
    if (!stripped) abort();
    MK_AUTO g = { 0 };
    copy_header(stripped, fd, &g);
    mk_str(&g, "tokenizer.ggml.model", "gpt2");
    mk_str(&g, "tokenizer.ggml.pre", "llama-bpe");
    mk_vocab(&g, "tokenizer.ggml.tokens", "token", m->n_vocab);
    mk_vocab(&g, "tokenizer.ggml.merges", "tok en", m->n_vocab);
    VR_AUTO_FREE int32_t *types = calloc(m->n_vocab, sizeof *types);
    if (!types) abort();
    for (uint32_t i = 0; i < m->n_vocab; i++) types[i] = 1;
    mk_i32s(&g, "tokenizer.ggml.token_type", types, m->n_vocab);
    mk_write(&g, path);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *ms, size_t n)
{
    qsort(ms, n, sizeof *ms, by_value);
    return ms[n / 2];
}

static struct vr_trial trial_of(const struct vr_machine *m)
{
    static struct vr_vgpu_spec specs[VR_MAX_VGPUS];
    struct vr_trial t = vr_trial_default();
    t.devices = specs;
    for (t.n_devices = 0; t.n_devices < m->n_devices; t.n_devices++) {
        const struct vr_device *d = &m->devices[t.n_devices];
        struct vr_vgpu_spec *s = &specs[t.n_devices];
        *s = (struct vr_vgpu_spec){ .total_bytes = d->total_bytes,
                                    .free_bytes = d->free_bytes,
                                    .cc = d->cc_major * 100 + d->cc_minor * 10 };
        snprintf(s->name, sizeof s->name, "%s", d->id);
    }
    t.context.n_ctx = 32768;
    t.timeout_ms = 300000;
    return t;
}

int main(int argc, char **argv)
{
    if (argc != 4) return fprintf(stderr, "usage: probe MODELS-DIR RIGS-DIR SCRATCH-DIR\n"), 2;
    setenv("VR_MODELS", argv[1], 1);
    char pattern[512], original[512];
    snprintf(pattern, sizeof pattern, "%s/*.json", argv[2]);
    snprintf(original, sizeof original, "%s/original.gguf", argv[3]);
    glob_t rigs;
    if (glob(pattern, 0, NULL, &rigs) != 0) return 1;
    printf("one proven placement at 32,768 tokens, median of %d, beside one dry run of common_fit_params on the "
           "original file\n",
           ROUNDS);
    double worst = 1e9, slowest = 0;
    for (size_t i = 0; i < VR_COUNT(fixture_names); i++) {
        struct vr_err err = { 0 };
        VR_AUTO(vr_model) m = vr_model_open(fixture_path(fixture_names[i]), &err);
        if (!m) return fprintf(stderr, "%s\n", err.msg), 1;
        write_original(m, original);
        struct vr_prober ours, theirs;
        if (!vr_prober_open(m, &ours, &err) || !vr_prober_open(m, &theirs, &err))
            return fprintf(stderr, "%s\n", err.msg), 1;
        theirs.path = original;
        for (size_t r = 0; r < rigs.gl_pathc; r++) {
            static struct vr_machine machine;
            if (!vr_profile_load(rigs.gl_pathv[r], &machine, &err)) return fprintf(stderr, "%s\n", err.msg), 1;
            struct vr_trial t = trial_of(&machine);
            struct vr_vgpu_spec roomy[VR_MAX_VGPUS];
            memcpy(roomy, t.devices, sizeof roomy);
            double ms[ROUNDS];
            for (int k = 0; k < ROUNDS; k++) {
                struct vr_proof proof = { 0 };
                t.want_work = false; /* bytes alone, as the peer's dry run */
                if (!vr_probe(&ours, &t, &proof, &err)) return fprintf(stderr, "%s\n", err.msg), 1;
                ms[k] = proof.ms;
                vr_proof_done(&proof);
            }
            double own = median(ms, ROUNDS);
            /* With room for everything it needs exactly one dry run. */
            for (size_t d = 0; d < t.n_devices; d++) roomy[d].total_bytes = roomy[d].free_bytes = 1ull << 44;
            struct vr_trial easy = t;
            easy.devices = roomy;
            uint64_t margins[VR_MAX_VGPUS] = { 0 };
            for (int k = 0; k < ROUNDS; k++) {
                struct vr_fitted fitted = { 0 };
                if (!vr_probe_fit(&theirs, &easy, margins, &fitted, &err)) return fprintf(stderr, "%s\n", err.msg), 1;
                ms[k] = fitted.ms / fitted.dry_runs;
                vr_fitted_done(&fitted);
            }
            double peer = median(ms, ROUNDS);
            const char *slash = strrchr(rigs.gl_pathv[r], '/');
            printf("  %-20s %-30s %7.1f ms   fit's dry run %7.1f ms   %5.1fx\n", fixture_names[i],
                   slash ? slash + 1 : rigs.gl_pathv[r], own, peer, peer / own);
            fflush(stdout);
            if (peer / own < worst) worst = peer / own;
            if (own > slowest) slowest = own;
        }
        vr_prober_close(&ours);
        vr_prober_close(&theirs);
    }
    unlink(original);
    globfree(&rigs);
    printf("  least ratio %.1fx, slowest proof %.1f ms\n", worst, slowest);
    return 0;
}
