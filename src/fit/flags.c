/* An outcome as flags for other programs, so that a plan can be tried without us. */
#include <inttypes.h>

#include "base/buf.h"
#include "base/json.h"
#include "fit/fit.h"
#include "gguf/type.h"

static const char *device_name(const struct vr_outcome *o, int device)
{
    return device == VR_ON_CPU ? "CPU" : o->specs[device].name;
}

/* -dev CUDA1,CUDA0 -ts 26,47: placement order, and layers of each. */
static void add_devices(const struct vr_outcome *o, struct vr_buf *out)
{
    const struct vr_load_params *t = &o->trial;
    size_t n = vr_load_params_n_order(t);
    if (n == 0) return;
    for (size_t i = 0; i < n; i++)
        vr_buf_addf(out, "%s%s", i ? "," : " -dev ", o->specs[vr_load_params_device(t, i)].name);
    if (!t->has_split) return;
    for (size_t i = 0; i < n; i++) vr_buf_addf(out, "%s%.9g", i ? "," : " -ts ", (double)t->split[i]);
}

/* A path as a shell takes it; the flags are text, so bytes that are none are spelled out. */
static void add_path(const char *path, struct vr_buf *out)
{
    if (!vr_utf8_is(path)) {
        vr_buf_adds(out, " $'");
        for (; *path; path++)
            if (*path >= ' ' && *path <= '~' && *path != '\'' && *path != '\\')
                vr_buf_addc(out, *path, 1);
            else
                vr_buf_addf(out, "\\x%02x", (unsigned char)*path);
        vr_buf_adds(out, "'");
        return;
    }
    vr_buf_adds(out, " '");
    for (; *path; path++)
        if (*path == '\'')
            vr_buf_adds(out, "'\\''");
        else
            vr_buf_addc(out, *path, 1);
    vr_buf_adds(out, "'");
}

/* -md FILE -devd CUDA0 -ngld 999; --mmproj FILE -mmdev CUDA1. */
static void add_companion(const struct vr_companion *c, bool ik, struct vr_buf *out)
{
    bool draft = c->kind == VR_DRAFT;
    const char *device = c->device_id;
    vr_buf_adds(out, draft ? " -md" : " --mmproj");
    add_path(c->model->parts[0].path, out);
    if (!device)
        vr_buf_adds(out, draft ? " -ngld 0" : " --no-mmproj-offload");
    else if (!ik) /* which takes the first one */
        vr_buf_addf(out, " %s %s", draft ? "-devd" : "-mmdev", device);
    if (draft && !device && !ik) vr_buf_adds(out, " -devd none");
    if (draft && device) vr_buf_adds(out, " -ngld 999");
}

void vr_outcome_flags(const struct vr_outcome *o, enum vr_flags_for program, struct vr_buf *out)
{
    const struct vr_load_params *t = &o->trial;
    const struct vr_context *c = &t->context;
    bool ik = program == VR_IK_LLAMA;
    vr_buf_addf(out, "-ngl %d", t->n_gpu_layers < 0 ? 999 : t->n_gpu_layers);
    if (t->split_mode == VR_SPLIT_TENSOR && ik)
        vr_buf_adds(out, " -sm graph"); /* what it calls its own */
    else if (t->split_mode != VR_SPLIT_LAYER)
        vr_buf_addf(out, " -sm %s", vr_split_mode_name(t->split_mode));
    add_devices(o, out);
    for (size_t i = 0; i < t->n_overrides; i++)
        vr_buf_addf(out, "%s%s=%s", i ? "," : " -ot '", t->overrides[i].pattern,
                    device_name(o, t->overrides[i].device));
    if (t->n_overrides)
        vr_buf_adds(out, "'");
    else if (!t->pipeline && o->verdict.n_devices > 1 && t->split_mode == VR_SPLIT_LAYER)
        vr_buf_adds(out, " -ot '" VR_NO_PIPELINE "=CPU'");
    vr_buf_addf(out, " -c %" PRIu32 " -b %" PRIu32 " -ub %" PRIu32 " -np %" PRIu32, c->n_ctx, c->n_batch, c->n_ubatch,
                c->n_seq ? c->n_seq : 1);
    vr_buf_addf(out, " -ctk %s -ctv %s", vr_type(c->type_k)->name, vr_type(c->type_v)->name);
    if (ik)
        vr_buf_adds(out, o->verdict.flash ? " -fa" : " -no-fa");
    else
        vr_buf_addf(out, " -fa %s", t->flash_auto ? "auto" : c->flash_attn ? "on" : "off");
    if (t->embedding_model) vr_buf_adds(out, ik ? " --embedding" : " --embedding -kvu");
    if (!t->mmap) vr_buf_adds(out, " --no-mmap");
    for (size_t i = 0; i < t->n_loras; i++) {
        vr_buf_adds(out, " --lora-scaled");
        add_path(t->loras[i].path, out);
        vr_buf_addf(out, ":%g", (double)t->loras[i].scale);
    }
    for (size_t i = 0; i < o->n_companions; i++) add_companion(&o->companions[i], ik, out);
    if ((t->spec == VR_SPEC_MTP || t->spec == VR_SPEC_ASSISTANT) && !ik)
        vr_buf_addf(out, " --spec-type draft-mtp --spec-draft-n-max %" PRIu32, t->n_draft);
    if (t->spec == VR_SPEC_EAGLE3 && !ik)
        vr_buf_addf(out, " --spec-type draft-eagle3 --spec-draft-n-max %" PRIu32, t->n_draft);
    if (vr_spec_guesses_blocks(t->spec) && !ik)
        vr_buf_addf(out, " --spec-type draft-%s --spec-draft-n-max %" PRIu32, vr_spec_row(t->spec)->name, t->n_draft);
    if (t->spec == VR_SPEC_NGRAM && !ik) vr_buf_adds(out, " --spec-type ngram-map-k");
}
