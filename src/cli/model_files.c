#include "cli/model_files.h"

#include "gguf/pair.h"

bool vr_models_open(const struct vr_options *o, struct vr_models *out, struct vr_err *err)
{
    *out = (struct vr_models){ .main = vr_model_open(o->model, err) };
    if (!out->main || !vr_pair_model(out->main, err)) return false;
    struct vr_model **draft = &out->companions[VR_DRAFT], **mmproj = &out->companions[VR_MMPROJ];
    if (o->draft && !(*draft = vr_model_open(o->draft, err))) return false;
    if (*draft && !vr_pair_draft(out->main, *draft, err)) return false;
    if (o->mmproj && !(*mmproj = vr_model_open(o->mmproj, err))) return false;
    return !*mmproj || vr_pair_mmproj(*mmproj, err);
}

void vr_models_done(struct vr_models *m)
{
    vr_model_free(m->main);
    for (size_t i = 0; i < VR_N_COMPANIONS; i++) vr_model_free(m->companions[i]);
    *m = (struct vr_models){ 0 };
}
