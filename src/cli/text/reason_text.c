#include "cli/text/reason_text.h"

#include <string.h>

#include "base/text.h"
#include "gguf/type.h"
#include "hw/gpus.h"

static const char *const sentences[VR_N_REASON_KINDS] = {
#define SENTENCE(kind, text) [VR_REASON_##kind] = text,
#include "cli/text/sentences.def"
#undef SENTENCE
};

/* --- the places in a sentence --- */

#define NAMED 3 /* so many devices are named; more are counted */

/* "CUDA0 (RTX 3090)", "CUDA0, CUDA1 and CUDA2", "the 10 devices", "the host" */
static void add_devices(struct vr_buf *out, const struct vr_machine *m, uint64_t devices)
{
    int n = __builtin_popcountll(devices), left = n;
    if (devices & VR_REASON_HOST || n == 0) {
        vr_buf_adds(out, "the host");
    } else if (n == 1) {
        const struct vr_device *d = &m->devices[__builtin_ctzll(devices)];
        vr_buf_addf(out, "%s (%s)", d->id, vr_gpu_short(d->name));
    } else if (n > NAMED) {
        vr_buf_addf(out, "the %d devices", n);
    } else {
        for (size_t i = 0; i < m->n_devices; i++)
            if (devices >> i & 1 && left--)
                vr_buf_addf(out, "%s%s", m->devices[i].id, left > 1 ? ", " : left ? " and " : "");
    }
}

static void add_figure(struct vr_buf *out, enum vr_figure_unit unit, double value)
{
    struct vr_num x;
    uint64_t whole = (uint64_t)value;
    switch (unit) {
    case VR_UNIT_INDEX: vr_buf_addf(out, "%.0f", value); return;
    case VR_UNIT_COUNT: vr_buf_adds(out, vr_fmt_count(&x, whole)); return;
    case VR_UNIT_LAYERS: vr_buf_addf(out, "%s layer%s", vr_fmt_count(&x, whole), whole == 1 ? "" : "s"); return;
    case VR_UNIT_BYTES: vr_buf_addf(out, "%s MiB", vr_fmt_mib(&x, whole, 0)); return;
    case VR_UNIT_BIG_BYTES: vr_buf_adds(out, vr_fmt_bytes(&x, whole)); return;
    case VR_UNIT_REAL0: vr_buf_adds(out, vr_fmt_real(&x, value, 0)); return;
    case VR_UNIT_REAL1: vr_buf_adds(out, vr_fmt_real(&x, value, 1)); return;
    case VR_UNIT_REAL2: vr_buf_adds(out, vr_fmt_real(&x, value, 2)); return;
    case VR_UNIT_TYPE: vr_buf_adds(out, vr_type((uint32_t)whole)->name); return;
    case VR_UNIT_FLAG: return; /* has words of its own */
    }
}

/* What stands between the braces: "devices", "n_ctx", "experts?experts|weights". */
static void add_place(struct vr_buf *out, const struct vr_machine *m, const struct vr_reason *r, const char *s,
                      size_t n)
{
    size_t name = strcspn(s, "?}");
    if (name == strlen("devices") && memcmp(s, "devices", name) == 0) {
        add_devices(out, m, r->devices);
        return;
    }
    for (enum vr_figure i = 0; i < VR_N_FIGURES; i++) {
        const struct vr_figure_row *f = vr_figure_row(i);
        if (strlen(f->name) != name || memcmp(f->name, s, name) != 0) continue;
        if (f->unit != VR_UNIT_FLAG) {
            add_figure(out, f->unit, r->figures[i]);
            return;
        }
        const char *yes = s + name + 1, *no = yes + strcspn(yes, "|") + 1;
        if (r->figures[i] != 0)
            vr_buf_add(out, yes, (size_t)(no - 1 - yes));
        else
            vr_buf_add(out, no, (size_t)(s + n - no));
        return;
    }
}

static void add_sentence(struct vr_buf *out, const struct vr_machine *m, const struct vr_reason *r)
{
    const char *s = sentences[r->kind];
    for (size_t n = strcspn(s, "{"); s[n]; n = strcspn(s, "{")) {
        size_t length = strcspn(s + n + 1, "}");
        vr_buf_add(out, s, n);
        add_place(out, m, r, s + n + 1, length);
        s += n + 1 + length + 1;
    }
    vr_buf_adds(out, s);
}

void vr_reason_text(struct vr_buf *out, const struct vr_machine *m, const struct vr_reason *r)
{
    if (vr_reason_row(r->kind)->about == VR_ABOUT_LEFT_OUT) {
        add_devices(out, m, r->devices);
        vr_buf_adds(out, r->figures[VR_FIGURE_COMPANION] != 0 ? " without layers: " : " left out: ");
    }
    add_sentence(out, m, r);
}

/* --- for programs --- */

static json_t *json_figure(enum vr_figure_unit unit, double value)
{
    switch (unit) {
    case VR_UNIT_INDEX:
    case VR_UNIT_COUNT:
    case VR_UNIT_LAYERS:
    case VR_UNIT_BYTES:
    case VR_UNIT_BIG_BYTES: return json_integer((json_int_t)value);
    case VR_UNIT_REAL0:
    case VR_UNIT_REAL1:
    case VR_UNIT_REAL2: return json_real(value);
    case VR_UNIT_TYPE: return json_string(vr_type((uint32_t)value)->name);
    case VR_UNIT_FLAG: return json_boolean(value != 0);
    }
    return NULL;
}

static json_t *json_figures(const struct vr_reason *r)
{
    json_t *all = json_object();
    for (enum vr_figure i = 0; i < VR_N_FIGURES; i++)
        if (vr_reason_row(r->kind)->figures >> i & 1)
            json_object_set_new(all, vr_figure_row(i)->name, json_figure(vr_figure_row(i)->unit, r->figures[i]));
    return all;
}

json_t *vr_json_reason(const struct vr_machine *m, const struct vr_reason *r)
{
    json_t *devices = json_array();
    for (size_t i = 0; i < m->n_devices; i++)
        if (r->devices >> i & 1) json_array_append_new(devices, json_string(m->devices[i].id));
    if (r->devices & VR_REASON_HOST) json_array_append_new(devices, json_string("host"));
    VR_AUTO_BUF text = { 0 };
    vr_reason_text(&text, m, r);
    return json_pack("{s:s, s:o, s:o, s:s}", "kind", vr_reason_row(r->kind)->name, "devices", devices, "figures",
                     json_figures(r), "text", vr_buf_str(&text));
}

json_t *vr_json_left_out(const struct vr_machine *m, const struct vr_reason *r)
{
    const struct vr_device *d = &m->devices[__builtin_ctzll(r->devices)];
    VR_AUTO_BUF text = { 0 };
    add_sentence(&text, m, r);
    return json_pack("{s:s, s:s, s:I, s:I, s:f, s:s, s:o, s:s}", "id", d->id, "name", d->name, "total_bytes",
                     (json_int_t)d->total_bytes, "free_bytes", (json_int_t)d->free_bytes, "bandwidth_gbs",
                     d->bandwidth_gbs, "kind", vr_reason_row(r->kind)->name, "figures", json_figures(r), "reason",
                     vr_buf_str(&text));
}

json_t *vr_json_excluded(const struct vr_machine *m, const struct vr_budgets *b)
{
    json_t *list = json_array();
    for (size_t i = 0; i < b->n_excluded; i++) {
        struct vr_reason r = vr_reason_excluded(&b->excluded[i]);
        json_array_append_new(list, vr_json_left_out(m, &r));
    }
    return list;
}
