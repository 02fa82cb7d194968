/* One bar per device in placement order, as long as its memory; the host's bar below has a scale of its own. In a bar:
 * the layers, each as wide as its weights, then what was moved there, KV, compute buffers, scratch memory beside them,
 * what stays free, and the reserve. */
#include "cli/text/svg.h"

#include <inttypes.h>

#include "base/text.h"
#include "hw/gpus.h"

#define WIDTH  960
#define LEFT   216 /* names */
#define RIGHT  156 /* numbers behind the bars */
#define BAR    34
#define STEP   58
#define TOP    112
#define LEGEND 64

struct canvas {
    struct vr_buf *out;
    double x, y, scale; /* pixels per byte */
    const int *where;   /* of each tensor */
};

static void text_at(struct vr_buf *out, double x, double y, const char *class, const char *fmt, ...) VR_PRINTF(5, 6);
static void text_at(struct vr_buf *out, double x, double y, const char *class, const char *fmt, ...)
{
    VR_AUTO_BUF text = { 0 };
    va_list ap;
    va_start(ap, fmt);
    vr_buf_addv(&text, fmt, ap);
    va_end(ap);
    vr_buf_addf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
    for (const char *s = vr_buf_str(&text); *s; s++) {
        if (*s == '<')
            vr_buf_adds(out, "&lt;");
        else if (*s == '&')
            vr_buf_adds(out, "&amp;");
        else
            vr_buf_addc(out, *s, 1);
    }
    vr_buf_adds(out, "</text>\n");
}

/* A piece of a bar; the title shows on hover. */
static void piece(struct canvas *c, uint64_t bytes, const char *class, const char *title)
{
    double w = (double)bytes * c->scale;
    struct vr_num mib;
    if (bytes == 0) return;
    vr_buf_addf(
        c->out,
        "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" class=\"%s\"><title>%s: %s MiB</title></rect>\n",
        c->x, c->y, w, BAR, class, title, vr_fmt_mib(&mib, bytes, 0));
    c->x += w;
}

/* Of each layer here, what is here of it; then the tensors of other layers that were moved here. */
static void layers(struct canvas *c, const struct vr_fit_ask *a, const struct vr_outcome *o, const struct vr_judged *j,
                   int place)
{
    const struct vr_model *m = a->model;
    double part = vr_outcome_slice(a, o, c->where, (size_t)place);
    uint64_t here = 0;
    char title[64];
    for (uint32_t il = j->first_layer; il < j->first_layer + j->n_layers; il++) {
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < m->n_tensors; i++)
            if (m->tensors[i].layer == (int32_t)il && vr_outcome_has(o, c->where[i], (size_t)place))
                bytes += (uint64_t)(part * (double)m->tensors[i].bytes);
        snprintf(title, sizeof title, "layer %" PRIu32, il);
        piece(c, bytes, il % 2 ? "l1" : "l0", title);
        here += bytes;
    }
    uint64_t output = j->output ? m->output_bytes + (m->tied ? m->input_bytes : 0) : 0;
    output = (uint64_t)(part * (double)output);
    piece(c, output, "lo", "output");
    here += output;
    if (j->use.model_bytes > here && part >= 1) piece(c, j->use.model_bytes - here, "lm", "tensor overrides");
}

/* A draft or an mmproj, where it is. */
static uint64_t companions(struct canvas *c, const struct vr_outcome *o, int device)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < o->n_companions; i++) {
        const struct vr_companion *k = &o->companions[i];
        const struct vr_use *u = k->device < 0 || device < 0 ? &k->host : &k->use;
        uint64_t all = vr_use_bytes(u);
        if (k->device != device && device >= 0) continue;
        piece(c, all, "ca", vr_companion_name(k->kind));
        bytes += all;
    }
    return bytes;
}

static void device_bar(struct canvas *c, const struct vr_fit_ask *a, const struct vr_outcome *o,
                       const struct vr_judged *j, int place)
{
    const struct vr_device *d = &a->machine->devices[j->device];
    uint64_t used = vr_judged_bytes(j);
    struct vr_num x, y;
    char percent[24] = "";
    if (j->n_layers && j->share < 1) snprintf(percent, sizeof percent, "%.0f %% of ", 100 * j->share);
    text_at(c->out, LEFT - 16, c->y + 15, "name", "%s", vr_gpu_short(d->name));
    if (j->n_layers)
        text_at(c->out, LEFT - 16, c->y + 31, "sub", "%s: %slayers %" PRIu32 "–%" PRIu32 "%s", d->id, percent,
                j->first_layer, j->first_layer + j->n_layers - 1, j->output ? ", output" : "");
    else
        text_at(c->out, LEFT - 16, c->y + 31, "sub", "%s%s", d->id, j->output ? ": output" : "");
    c->x = LEFT;
    layers(c, a, o, j, place);
    piece(c, j->use.context_bytes, "kv", "KV cache");
    piece(c, j->use.compute_bytes, "co", "compute buffers");
    piece(c, j->beside_bytes, "sc", "kernels' scratch memory");
    used += companions(c, o, j->device);
    if (used < j->free_bytes) {
        uint64_t left = j->free_bytes - used, reserve = left < j->reserve_bytes ? left : j->reserve_bytes;
        piece(c, left - reserve, "fr", "free");
        piece(c, reserve, "re", "reserve");
    }
    text_at(c->out, c->x + 10, c->y + 15, "num", "%s of %s", vr_fmt_mib(&x, used, 0), vr_fmt_mib(&y, j->free_bytes, 0));
    text_at(c->out, c->x + 10, c->y + 31, "subl", "%.1f ms per token", j->ms[VR_DECODE]);
    c->y += STEP;
}

static void host_bar(struct canvas *c, const struct vr_fit_ask *a, const struct vr_outcome *o)
{
    const struct vr_verdict *v = &o->verdict;
    uint64_t used = vr_use_bytes(&v->host), free = a->machine->host.ram_free_bytes;
    struct vr_num x, y;
    c->scale = (WIDTH - LEFT - RIGHT) / (double)(free > used ? free : used ? used : 1);
    text_at(c->out, LEFT - 16, c->y + 15, "name", "Host memory");
    text_at(c->out, LEFT - 16, c->y + 31, "sub", "different scale");
    c->x = LEFT;
    piece(c, v->host.model_bytes, "ho", "weights");
    piece(c, v->host.context_bytes, "kv", "KV cache");
    piece(c, v->host.compute_bytes, "co", "compute buffers");
    used += companions(c, o, -1);
    if (free > used) piece(c, free - used, "fr", "free");
    text_at(c->out, c->x + 10, c->y + 15, "num", "%s of %s", vr_fmt_mib(&x, used, 0), vr_fmt_mib(&y, free, 0));
    text_at(c->out, c->x + 10, c->y + 31, "subl", "%.1f ms per token", v->host_ms[VR_DECODE]);
    c->y += STEP;
}

static void legend(struct vr_buf *out, double y, bool with_companions, bool with_scratch)
{
    const struct {
        const char *class, *name;
        bool shown;
    } keys[] = { { "l0", "layers", true },
                 { "lo", "output", true },
                 { "lm", "overrides", true },
                 { "kv", "KV cache", true },
                 { "co", "compute", true },
                 { "sc", "scratch", with_scratch },
                 { "re", "reserve", true },
                 { "fr", "free", true },
                 { "ho", "weights in host memory", true },
                 { "ca", "draft, mmproj", with_companions } };
    double x = with_companions || with_scratch ? LEFT / 2 : LEFT;
    for (size_t i = 0; i < VR_COUNT(keys); i++) {
        if (!keys[i].shown) continue;
        vr_buf_addf(out, "<rect x=\"%.0f\" y=\"%.0f\" width=\"12\" height=\"12\" class=\"%s\"/>\n", x, y,
                    keys[i].class);
        text_at(out, x + 17, y + 10.5, "subl", "%s", keys[i].name);
        x += 34 + 6.6 * (double)vr_text_width(keys[i].name);
    }
}

static const char style[] =
    "<style>text{font-family:system-ui,'DejaVu Sans',sans-serif;fill:#1c2430}.title{font-size:21px;font-weight:600}"
    ".lead{font-size:14px;fill:#475266}.name{font-size:13px;font-weight:600;text-anchor:end}.sub{font-size:11px;fill:#"
    "667085;"
    "text-anchor:end}.subl{font-size:11px;fill:#667085}.num{font-size:12px;font-weight:600}.l0{fill:#3b6fd4}.l1{fill:#"
    "5c8ae6}"
    ".lo{fill:#274b96}.lm{fill:#8f6fd0}.kv{fill:#2fa37c}.co{fill:#e0973a}.re{fill:#d7dce5}.fr{fill:#f0f3f8}.ho{fill:#"
    "7a8aa6}.ca{fill:#c2569b}.sc{fill:#a8622a}</style>\n";

static size_t companion_devices(const struct vr_fit_ask *a, const struct vr_outcome *o, struct vr_judged *out)
{
    size_t n = 0;
    for (size_t i = 0; i < o->n_companions; i++) {
        int device = o->companions[i].device;
        bool has_bar = device < 0;
        for (size_t k = 0; k < o->verdict.n_devices; k++) has_bar |= o->verdict.devices[k].device == device;
        for (size_t k = 0; k < n; k++) has_bar |= out[k].device == device;
        if (has_bar) continue;
        out[n] = (struct vr_judged){ .device = (uint16_t)device, .free_bytes = a->machine->devices[device].free_bytes };
        for (size_t b = 0; b < a->budgets->n; b++)
            if (a->budgets->items[b].device == device) out[n].reserve_bytes = a->budgets->items[b].reserve_bytes;
        n++;
    }
    return n;
}

bool vr_svg_outcome(struct vr_buf *out, const struct vr_fit_ask *a, const struct vr_outcome *o, struct vr_err *err)
{
    VR_AUTO_FREE int *where = calloc(a->model->n_tensors + 1, sizeof *where);
    if (!where) return vr_fail_nomem(err, "drawing the plan");
    if (!vr_outcome_where(a, o, where, err)) return false;
    const struct vr_verdict *v = &o->verdict;
    uint64_t largest = 1;
    bool scratch = false;
    for (size_t i = 0; i < v->n_devices; i++) {
        const struct vr_judged *j = &v->devices[i];
        if (j->free_bytes > largest) largest = j->free_bytes;
        if (vr_judged_bytes(j) > largest) largest = vr_judged_bytes(j);
        scratch |= j->beside_bytes > 0;
    }
    struct vr_judged others[VR_N_COMPANIONS]; /* devices that only companions use */
    size_t n_others = companion_devices(a, o, others);
    for (size_t i = 0; i < n_others; i++)
        if (others[i].free_bytes > largest) largest = others[i].free_bytes;
    double height = TOP + STEP * ((double)(v->n_devices + n_others) + 1) + LEGEND;
    vr_buf_addf(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" height=\"%.0f\" "
                "role=\"img\">\n",
                WIDTH, height, WIDTH, height);
    vr_buf_addf(out, "%s<rect width=\"%d\" height=\"%.0f\" fill=\"#fff\"/>\n", style, WIDTH, height);
    struct vr_num ctx, size, total, prefill;
    text_at(out, 28, 44, "title", "%s", a->model->name);
    text_at(out, 28, 70, "lead", "%s, %s, context %s: %s%s tok/s (%.1f ms per %s), prompt processing %s tok/s",
            a->model->quant, vr_fmt_bytes(&size, a->model->tensor_bytes), vr_fmt_count(&ctx, v->n_ctx),
            v->fits ? "" : "does not fit; if it did: ", vr_fmt_real(&total, v->price.total_tok_s, 1),
            v->price.step_ms[VR_DECODE], v->n_seq > 1 ? "step of all streams" : "token",
            vr_fmt_real(&prefill, v->price.prefill_tok_s, 0));
    struct canvas c = { .out = out, .where = where, .y = TOP, .scale = (WIDTH - LEFT - RIGHT) / (double)largest };
    for (size_t i = 0; i < v->n_devices; i++) device_bar(&c, a, o, &v->devices[i], (int)i);
    for (size_t i = 0; i < n_others; i++) device_bar(&c, a, o, &others[i], (int)(v->n_devices + i));
    host_bar(&c, a, o);
    legend(out, c.y + 6, o->n_companions > 0, scratch);
    text_at(out, LEFT, c.y + 40, "subl", "MiB, as llama.cpp allocates them. vram-llm " VR_VERSION);
    vr_buf_adds(out, "</svg>\n");
    return !out->failed || vr_fail_nomem(err, "drawing the plan");
}
