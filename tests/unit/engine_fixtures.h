/* What the tests of the probe share: probers for the fixtures, and machines by the dozen. */
#ifndef ENGINE_FIXTURES_H
#define ENGINE_FIXTURES_H

#include <jansson.h>

#include "engine/probe/probe.h"

static const char *const fixture_names[] = { "llama-3.1-8b",   "llama-3.3-70b",   "nemotron-super-49b",
                                             "qwen3-30b-a3b",  "qwen3-235b-a22b", "gemma-3-27b",
                                             "gpt-oss-120b",   "kimi-k2.5",       "devstral-small-24b",
                                             "falcon-mamba-7b" };

/* The stretched file of a fixture's first part. */
static inline const char *fixture_path(const char *model)
{
    static char path[768];
    json_t *index = json_load_file("tests/fixtures/models/index.json", 0, NULL);
    const json_t *files = json_object_get(json_object_get(index, model), "files");
    const char *file = json_string_value(json_object_get(json_array_get(files, 0), "file"));
    snprintf(path, sizeof path, "%s/%s", getenv("VR_MODELS"), file ? file : "?");
    json_decref(index);
    return path;
}

static inline void open_prober(const char *path, struct vr_prober *out)
{
    struct vr_err err = { 0 };
    VR_AUTO(vr_model) m = vr_model_open(path, &err);
    if (!m || !vr_prober_open(m, out, &err)) fail_msg("%s", err.msg);
}

/* One prober per fixture, opened once. */
static inline struct vr_prober *prober(const char *model)
{
    static struct {
        char model[64];
        struct vr_prober p;
    } all[16];
    size_t i = 0;
    for (; i < VR_COUNT(all) && all[i].model[0]; i++)
        if (strcmp(all[i].model, model) == 0) return &all[i].p;
    open_prober(fixture_path(model), &all[i].p);
    snprintf(all[i].model, sizeof all[i].model, "%s", model);
    return &all[i].p;
}

/* n cards like an RTX 3090, with that many MiB free. */
static inline struct vr_trial trial_on(size_t n, uint64_t free_mib)
{
    static struct vr_vgpu_spec devices[VR_MAX_VGPUS];
    struct vr_trial t = vr_trial_default();
    for (size_t i = 0; i < n; i++) {
        devices[i] = (struct vr_vgpu_spec){ .total_bytes = free_mib << 20, .free_bytes = free_mib << 20, .cc = 860 };
        snprintf(devices[i].name, sizeof devices[i].name, "CUDA%u", (unsigned)i);
        snprintf(devices[i].about, sizeof devices[i].about, "NVIDIA GeForce RTX 3090");
    }
    t.load.devices = devices;
    t.load.n_devices = n;
    return t;
}

#endif
