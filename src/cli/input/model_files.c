#include "cli/input/model_files.h"

#include <string.h>

#include "base/text.h"
#include "cli/input/speculation.h"
#include "gguf/pair.h"

#define MOST_SCALE 100.0

/* FILE or FILE:SCALE, in place. A name may have colons; what is behind the last one is a number then. */
static bool read_scale(char *text, float *out, struct vr_err *err)
{
    char *colon = strrchr(text, ':');
    double scale = 1;
    if (colon && vr_parse_double(colon + 1, &scale)) *colon = '\0';
    *out = (float)scale;
    return (scale >= -MOST_SCALE && scale <= MOST_SCALE) ||
           vr_fail(err, VR_EUSAGE, "--lora %s: the scale must be from -%g to %g", text, MOST_SCALE, MOST_SCALE);
}

static bool open_loras(const char *list, struct vr_models *out, struct vr_err *err)
{
    char *text = vr_arena_strdup(&out->arena, list), *save = NULL;
    if (!text) return vr_fail_nomem(err, "reading --lora");
    for (char *one = strtok_r(text, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
        struct vr_lora *l = &out->loras[out->n_loras];
        if (out->n_loras == VR_MOST_LORAS)
            return vr_fail(err, VR_EUSAGE, "--lora: more than %d adapters", VR_MOST_LORAS);
        if (!read_scale(one, &l->scale, err)) return false;
        l->path = one;
        VR_AUTO(vr_model) m = vr_model_open(l->path, err);
        if (!m || !vr_pair_lora(out->main, m, err)) return false;
        for (uint32_t i = 0; i < m->n_tensors; i++) out->lora_bytes += vr_weight_gpu_bytes(&m->tensors[i]);
        out->n_loras++;
    }
    return true;
}

bool vr_models_open(const struct vr_options *o, struct vr_models *out, struct vr_err *err)
{
    *out = (struct vr_models){ .main = vr_model_open(o->model, err) };
    if (!out->main || !vr_pair_model(out->main, err)) return false;
    struct vr_model **draft = &out->companions[VR_DRAFT], **mmproj = &out->companions[VR_MMPROJ];
    if (o->draft && strcmp(o->spec, "off") != 0 && !(*draft = vr_model_open(o->draft, err))) return false;
    if (*draft && !vr_pair_draft(out->main, *draft, err)) return false;
    if (o->mmproj && !(*mmproj = vr_model_open(o->mmproj, err))) return false;
    if (*mmproj && !vr_pair_mmproj(*mmproj, err)) return false;
    if (o->lora && !open_loras(o->lora, out, err)) return false;
    return vr_spec_check(o, out, err);
}

void vr_models_done(struct vr_models *m)
{
    vr_model_free(m->main);
    for (size_t i = 0; i < VR_N_COMPANIONS; i++) vr_model_free(m->companions[i]);
    vr_arena_done(&m->arena);
    *m = (struct vr_models){ 0 };
}
