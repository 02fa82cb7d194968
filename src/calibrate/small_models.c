/* Two models, of 4 and of 24 layers, tell what starting a kernel and a step costs on a device: two equations for two
 * unknowns. On the host the first alone tells the step, since threads start nothing. Two more, with matrices of floats
 * and with experts, show what other libraries take of the device's memory; with layers or experts on the host they tell
 * what going back and forth costs.
 *
 * What a run costs beside that is the price of its graph (fit/), by the figures that are known already. */
#include "calibrate/small_models.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "calibrate/figures.h"
#include "fit/fit.h"

#define N_CTX  2048
#define UBATCH 512
#define TOKENS 96 /* that are generated each time */
#define FEW    4
#define MANY   24
#define LEAST  0.01 /* us: 0 would mean that it was not measured */

bool vr_small_models_make(struct vr_small_models *s, struct vr_err *err)
{
    static const struct vr_measure_tiny kinds[VR_N_SMALL] = {
        [VR_SMALL_FEW] = { FEW, false, false },
        [VR_SMALL_MANY] = { MANY, false, false },
        [VR_SMALL_FLOATS] = { FEW, false, true },
        [VR_SMALL_EXPERTS] = { FEW, true, false },
    };
    const char *tmp = getenv("TMPDIR");
    snprintf(s->dir, sizeof s->dir, "%.40s/vram-llm-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp");
    if (!mkdtemp(s->dir)) {
        vr_fail(err, VR_EIO, "%s: %s", s->dir, strerror(errno));
        s->dir[0] = '\0';
        return false;
    }
    for (size_t i = 0; i < VR_N_SMALL; i++) {
        snprintf(s->paths[i], sizeof s->paths[i], "%s/%zu.gguf", s->dir, i);
        if (!vr_measure_make(s->paths[i], &kinds[i], err)) return false;
    }
    return true;
}

void vr_small_models_done(struct vr_small_models *s)
{
    for (size_t i = 0; i < VR_N_SMALL; i++)
        if (s->paths[i][0]) unlink(s->paths[i]);
    if (s->dir[0]) rmdir(s->dir);
}

/* --- running one, and pricing the same run --- */

/* On a device, with its experts or with half of its layers on the host, or (budget NULL) wholly on the host. */
struct where {
    const struct vr_budget *budget;
    bool experts_on_host, half_on_host;
};

static int layers_of(const struct where *x) { return !x->budget ? 0 : x->half_on_host ? 1 + FEW / 2 : 1000; }

static bool run(const struct vr_small_models *s, const struct vr_machine *m, enum vr_small which, const struct where *x,
                double seconds, struct vr_measure_run *out, struct vr_err *err)
{
    static const struct vr_vgpu_spec device = { .name = "CUDA0" };
    static const struct vr_override experts = { "exps", VR_ON_CPU };
    VR_AUTO_BUF env = { 0 };
    struct vr_load_params load = vr_load_params_default();
    load.model = s->paths[which];
    load.cpu = s->cpu;
    load.context.n_ctx = N_CTX;
    load.n_gpu_layers = layers_of(x);
    load.devices = &device;
    load.n_devices = x->budget ? 1 : 0;
    load.overrides = &experts;
    load.n_overrides = x->experts_on_host ? 1 : 0;
    load.pipeline = false;
    if (x->budget) {
        vr_buf_addf(&env, "CUDA_VISIBLE_DEVICES=%s", m->devices[x->budget->device].uuid);
        vr_buf_addc(&env, '\0', 1);
    }
    return vr_measure_run(&load, env.data, env.n, TOKENS, seconds, s->timeout_ms, out, err);
}

/* What the same run costs by the price of its graph, in milliseconds: a token generated within the first 256 cells, and
 * the second micro-batch of a prompt. */
static bool price(const struct vr_small_models *s, const struct vr_machine *m, enum vr_small which,
                  const struct where *x, const struct vr_speeds *speeds, double ms[VR_N_PHASES], struct vr_err *err)
{
    VR_AUTO(vr_model) model = vr_model_open(s->paths[which], err);
    if (!model) return false;
    struct vr_budgets budgets = { .n = x->budget ? 1 : 0 };
    if (x->budget) budgets.items[0] = *x->budget;
    struct vr_fit_ask ask = { .model = model,
                              .machine = m,
                              .budgets = &budgets,
                              .speeds = speeds,
                              .context = VR_CONTEXT_DEFAULT,
                              .flash_auto = true,
                              .fill = 2.0 * UBATCH / N_CTX };
    ask.context.n_ctx = N_CTX;
    ask.context.n_batch = ask.context.n_ubatch = UBATCH;
    ask.context.flash_attn = true;
    struct vr_given given = { .n_gpu_layers = layers_of(x), .overrides = x->experts_on_host ? "exps=CPU" : NULL };
    VR_AUTO_OUTCOME outcome = { 0 };
    if (!vr_fit_given(&ask, &given, &outcome, err)) return false;
    ms[VR_DECODE] = outcome.verdict.empty.step_ms[VR_DECODE];
    ms[VR_PREFILL] = outcome.verdict.price.step_ms[VR_PREFILL];
    return true;
}

static double took_ms(const struct vr_measure_run *r, enum vr_phase phase)
{
    return phase == VR_DECODE ? (r->decode_ms[0] + r->decode_ms[1]) / 2 : r->prefill_ms[0];
}

static struct vr_speeds *speeds_of(const struct vr_machine *m, struct vr_err *err)
{
    struct vr_speeds *s = malloc(sizeof *s);
    if (!s) return VR_FAIL_NULL(err, VR_ENOMEM, "out of memory while pricing a small model");
    vr_speeds_of(m, s);
    return s;
}

/* --- what the runs tell --- */

static bool solve_launches(const struct vr_small_models *s, const struct vr_machine *m, const struct vr_budget *budget,
                           struct vr_measured *out, struct vr_err *err)
{
    VR_AUTO_FREE struct vr_speeds *speeds = speeds_of(m, err);
    if (!speeds) return false;
    const struct where x = { .budget = budget };
    struct vr_speed *p = &speeds->places[budget->device];
    struct vr_timed timed[VR_N_PHASES][2];
    p->step_ms = p->prompt_step_ms = p->pair_ms = 0;
    for (int i = VR_SMALL_FEW; i <= VR_SMALL_MANY; i++) {
        double free_starts[VR_N_PHASES], slow_starts[VR_N_PHASES];
        p->submit_ms = p->prompt_submit_ms = 0;
        if (!price(s, m, (enum vr_small)i, &x, speeds, free_starts, err)) return false;
        p->submit_ms = p->prompt_submit_ms = 1;
        if (!price(s, m, (enum vr_small)i, &x, speeds, slow_starts, err)) return false;
        for (int k = 0; k < VR_N_PHASES; k++)
            timed[k][i] = (struct vr_timed){ took_ms(&s->runs[i], (enum vr_phase)k), free_starts[k], slow_starts[k] };
    }
    const struct vr_timed *few = &timed[VR_DECODE][VR_SMALL_FEW], *prompt = timed[VR_PREFILL];
    double ms[VR_N_PHASES];
    p->submit_ms = vr_figure_submit_ms(few, &timed[VR_DECODE][VR_SMALL_MANY]);
    if (!price(s, m, VR_SMALL_FEW, &x, speeds, ms, err)) return false;
    out->submit_us = fmax(p->submit_ms * 1e3, LEAST);
    out->step_us = vr_figure_beyond_us(few->took, ms[VR_DECODE]);
    /* what is left of the small one, where the device waits for the host, is the mask: it is the same for both */
    p->prompt_submit_ms = vr_figure_prompt_submit_ms(&prompt[VR_SMALL_FEW], &prompt[VR_SMALL_MANY]);
    if (!price(s, m, VR_SMALL_FEW, &x, speeds, ms, err)) return false;
    out->prompt_submit_us = fmax(p->prompt_submit_ms * 1e3, LEAST);
    out->prompt_pair_ns =
        fmax(vr_figure_beyond_us(prompt[VR_SMALL_FEW].took, ms[VR_PREFILL]) * 1e3 / (UBATCH * UBATCH), LEAST);
    return true;
}

/* The host: operations were measured one by one; what a small model takes beyond their sum is the step's. Its batches
 * compute for so long that nothing can be told from what is left. */
static bool solve_step(const struct vr_small_models *s, const struct vr_machine *m, struct vr_measured *out,
                       struct vr_err *err)
{
    double ms[VR_N_PHASES];
    out->step_us = 0;
    VR_AUTO_FREE struct vr_speeds *speeds = speeds_of(m, err);
    if (!speeds) return false;
    if (out == &m->host.measured) speeds->alone = speeds->places[VR_SPEED_HOST]; /* that is what the price goes by */
    if (!price(s, m, VR_SMALL_FEW, &(struct where){ 0 }, speeds, ms, err)) return false;
    out->step_us = vr_figure_beyond_us(s->runs[VR_SMALL_FEW].decode_ms[0], ms[VR_DECODE]);
    return true;
}

bool vr_small_models_run(struct vr_small_models *s, const struct vr_machine *m, const struct vr_budget *budget,
                         struct vr_measured *out, struct vr_err *err)
{
    const struct where x = { .budget = budget };
    memset(s->runs, 0, sizeof s->runs);
    for (int i = 0; i < (budget ? VR_N_SMALL : VR_SMALL_FEW + 1); i++) {
        double seconds = i == VR_SMALL_FLOATS ? 0.05 : 1; /* its memory counts, not its time */
        if (!run(s, m, (enum vr_small)i, &x, seconds, &s->runs[i], err)) return false;
    }
    if (!budget) return solve_step(s, m, out, err);
    vr_figure_memory(vr_figure_outside_bytes(&s->runs[VR_SMALL_MANY]),
                     vr_figure_outside_bytes(&s->runs[VR_SMALL_FLOATS]),
                     vr_figure_outside_bytes(&s->runs[VR_SMALL_EXPERTS]), out);
    return solve_launches(s, m, budget, out, err);
}

/* What a run with something on the host takes beyond its price, for each change between device and host. Generating, it
 * is that much longer than with all on the device, so that what else is wrong with the price falls out; a prompt with
 * all on the device takes 2 ms longer than its price in the small models alone, and tells nothing of others. */
static bool solve_switches(const struct vr_small_models *s, const struct vr_machine *m, enum vr_small which,
                           const struct where *x, enum vr_phase phase, double *us, struct vr_err *err)
{
    struct vr_measure_run r = { 0 };
    const struct where device = { .budget = x->budget };
    double whole[VR_N_PHASES], base[VR_N_PHASES], with[VR_N_PHASES];
    if (!run(s, m, which, x, 1, &r, err)) return false;
    VR_AUTO_FREE struct vr_speeds *speeds = speeds_of(m, err);
    if (!speeds) return false;
    struct vr_speed *p = &speeds->places[x->budget->device];
    p->switch_ms = p->prompt_switch_ms = 0;
    if (!price(s, m, which, &device, speeds, whole, err) || !price(s, m, which, x, speeds, base, err)) return false;
    p->switch_ms = p->prompt_switch_ms = 1;
    if (!price(s, m, which, x, speeds, with, err)) return false;
    double off = phase == VR_DECODE ? took_ms(&s->runs[which], phase) - whole[phase] : 0;
    *us = vr_figure_switch_us(took_ms(&r, phase) - off, base[phase], with[phase]);
    return true;
}

/* Generating changes where experts are on the host; a prompt at every matrix of a layer that is. */
bool vr_small_models_switch(struct vr_small_models *s, const struct vr_machine *m, const struct vr_budget *budget,
                            struct vr_measured *out, struct vr_err *err)
{
    const struct where experts = { .budget = budget, .experts_on_host = true },
                       half = { .budget = budget, .half_on_host = true };
    return solve_switches(s, m, VR_SMALL_EXPERTS, &experts, VR_DECODE, &out->switch_us, err) &&
           solve_switches(s, m, VR_SMALL_FEW, &half, VR_PREFILL, &out->prompt_switch_us, err);
}
