/* How long one proven placement takes, for every fixture on every rig, beside one dry run of llama.cpp's own
 * common_fit_params on the original file (original.h).
 *   probe MODELS-DIR RIGS-DIR SCRATCH-DIR */
#include <glob.h>
#include <time.h>

#include "test.h"

#include "engine_fixtures.h"
#include "hw/profile.h"
#include "original.h"

#define ROUNDS 5

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
    t.load.devices = specs;
    for (t.load.n_devices = 0; t.load.n_devices < m->n_devices; t.load.n_devices++) {
        const struct vr_device *d = &m->devices[t.load.n_devices];
        struct vr_vgpu_spec *s = &specs[t.load.n_devices];
        *s = (struct vr_vgpu_spec){ .total_bytes = d->total_bytes,
                                    .free_bytes = d->free_bytes,
                                    .cc = d->cc_major * 100 + d->cc_minor * 10 };
        snprintf(s->name, sizeof s->name, "%s", d->id);
    }
    t.load.context.n_ctx = 32768;
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
        original_write(m, original);
        struct vr_prober ours, theirs;
        if (!vr_prober_open(m, &ours, &err) || !vr_prober_open(m, &theirs, &err))
            return fprintf(stderr, "%s\n", err.msg), 1;
        theirs.path = original;
        for (size_t r = 0; r < rigs.gl_pathc; r++) {
            static struct vr_machine machine;
            if (!vr_profile_load(rigs.gl_pathv[r], &machine, &err)) return fprintf(stderr, "%s\n", err.msg), 1;
            struct vr_trial t = trial_of(&machine);
            struct vr_vgpu_spec roomy[VR_MAX_VGPUS];
            memcpy(roomy, t.load.devices, sizeof roomy);
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
            for (size_t d = 0; d < t.load.n_devices; d++) roomy[d].total_bytes = roomy[d].free_bytes = 1ull << 44;
            struct vr_trial easy = t;
            easy.load.devices = roomy;
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
