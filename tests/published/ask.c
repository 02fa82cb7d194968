/* A row's question: its machine from the table of known cards and what is told of the host, its model from a header
 * that reads as the whole file, one dry run, and the price at the row's depth. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/own.h"
#include "fit/outcome.h"
#include "hw/gpus.h"
#include "published.h"

/* --- the model --- */

/* The header in memory, as long as the whole file: what is not written takes no room. */
static int stretch(const char *path, uint64_t bytes)
{
    int fd = memfd_create("header", 0), from = open(path, O_RDONLY | O_CLOEXEC);
    char block[65536];
    ssize_t n = -1;
    bool ok = fd >= 0 && from >= 0;
    while (ok && (n = read(from, block, sizeof block)) > 0) ok = write(fd, block, (size_t)n) == n;
    if (from >= 0) close(from);
    if (ok && n == 0 && ftruncate(fd, (off_t)bytes) == 0) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

/* *fd is its file, to be closed after it. */
static struct vr_model *open_model(const struct rows *all, const struct row *r, double *bytes, int *fd,
                                   struct vr_err *err)
{
    const char *file = strrchr(r->header, '/');
    const json_t *facts = json_object_get(all->index, file ? file + 1 : r->header);
    char path[1024], shown[64];
    snprintf(path, sizeof path, "%s/%s", all->dir, r->header);
    *bytes = json_number_value(json_object_get(facts, "bytes"));
    *fd = stretch(path, (uint64_t)*bytes);
    if (*fd < 0) return VR_FAIL_NULL(err, VR_EIO, "%s: cannot be read", path);
    snprintf(shown, sizeof shown, "/proc/self/fd/%d", *fd);
    return vr_model_open(shown, err);
}

/* --- the machine --- */

/* Hosts that rows describe: their cores, and their memory's GB/s (channels x MT/s x 8). */
static const struct {
    const char *begins;
    uint32_t cores;
    double gbs;
} hosts[] = { { "i9-10900X", 10, 102 },     { "Ryzen PRO 5975WX", 32, 204.8 }, { "Ryzen 9 5900X", 12, 51.2 },
              { "Ryzen 5 5600X", 6, 51.2 }, { "i9-14900K", 24, 96 },           { "i9-13900HK", 14, 83.2 } };

static void set_host(const struct row *r, struct vr_host *h)
{
    h->cores = 8;
    h->threads = 16;
    h->ram_total_bytes = h->ram_free_bytes = 256ull << 30;
    for (size_t i = 0; i < VR_COUNT(hosts); i++) {
        if (strncmp(r->host, hosts[i].begins, strlen(hosts[i].begins)) != 0) continue;
        h->cores = hosts[i].cores;
        h->bandwidth_gbs = hosts[i].gbs;
    }
}

/* "PCIe 3 x8, no P2P" is true of all cards, "PCIe 3 x8 and PCIe 1 x4" of one after the other. */
static void set_links(const struct row *r, struct vr_machine *m)
{
    size_t n = 0;
    for (const char *at = r->host; (at = strstr(at, "PCIe ")); at++) {
        unsigned gen, lanes;
        if (sscanf(at, "PCIe %u x%u", &gen, &lanes) != 2) continue;
        for (size_t i = n; i < m->n_devices; i++) {
            m->devices[i].pcie_gen = m->devices[i].pcie_gen_max = (uint16_t)gen;
            m->devices[i].pcie_lanes = m->devices[i].pcie_lanes_max = (uint16_t)lanes;
        }
        n++;
    }
}

static bool make_machine(const struct row *r, struct vr_machine *m, struct vr_err *err)
{
    memset(m, 0, sizeof *m);
    bool told = strcmp(r->backend, "not given") != 0;
    for (size_t i = 0; i < r->n_gpus; i++) {
        const struct vr_gpu *g = vr_gpu_known(r->gpus[i], 0);
        if (!g) return vr_fail(err, VR_EUSAGE, "%s is not in the table of cards", r->gpus[i]);
        struct vr_device *d = vr_machine_add(m);
        snprintf(d->name, sizeof d->name, "%s", g->name);
        snprintf(d->backend, sizeof d->backend, "%s", told ? r->backend : g->backend);
        d->total_bytes = (uint64_t)g->mib << 20;
        d->free_bytes = vr_device_free_guess(d->total_bytes);
        d->pcie_gen = d->pcie_gen_max = g->pcie_gen;
        d->pcie_lanes = d->pcie_lanes_max = g->pcie_lanes;
        vr_gpu_fill(d);
    }
    vr_machine_number(m);
    set_host(r, &m->host);
    set_links(r, m);
    m->reduce_way = r->nccl ? VR_REDUCE_NCCL : VR_REDUCE_PAIR;
    return true;
}

/* --- the placement --- */

/* What --n-cpu-moe N and --cpu-moe mean: experts of the first N layers, or of all. */
static void override_experts(const struct row *r, struct vr_buf *pattern)
{
    unsigned n = 0;
    if (sscanf(r->on_cpu, "n-cpu-moe %u", &n) == 1) {
        vr_buf_adds(pattern, "blk\\.(0");
        for (unsigned i = 1; i < n; i++) vr_buf_addf(pattern, "|%u", i);
        vr_buf_adds(pattern, ")\\.ffn_(up|down|gate|gate_up)_exps");
    } else if (strcmp(r->on_cpu, "all experts") == 0) {
        vr_buf_adds(pattern, "exps");
    }
}

struct question {
    const struct row *row;
    struct vr_fit_ask ask;
    struct vr_outcome outcome;
    struct vr_buf pattern;
    struct vr_override override;
};

/* Only one row was placed by llama.cpp itself: "llama.cpp's fit, ctx 100000, 300 MiB left". */
static bool placed_by_fit(const struct row *r, unsigned *n_ctx, unsigned *reserve_mib)
{
    return sscanf(r->on_cpu, "llama.cpp's fit, ctx %u, %u MiB left", n_ctx, reserve_mib) == 2;
}

static bool place(struct question *q, struct vr_err *err)
{
    const struct row *r = q->row;
    unsigned n_ctx, reserve;
    if (placed_by_fit(r, &n_ctx, &reserve)) return vr_fit_llama(&q->ask, &q->outcome, err);
    if (!vr_outcome_start(&q->ask, &q->outcome, err)) return false;
    struct vr_load_params *t = &q->outcome.trial;
    t->n_gpu_layers = r->n_gpu_layers;
    t->split_mode = r->split_mode;
    t->has_split = r->n_split > 0;
    for (size_t i = 0; i < r->n_split; i++) t->split[i] = (float)r->split[i];
    override_experts(r, &q->pattern);
    if (!q->pattern.n) return true;
    q->override = (struct vr_override){ .pattern = vr_buf_str(&q->pattern), .device = VR_ON_CPU };
    t->overrides = &q->override;
    t->n_overrides = 1;
    return true;
}

/* --- the price --- */

/* The cache holds the depth and, in the middle of the test, half of its tokens; of a micro-batch all that it ends with.
 */
static double filled(const struct row *r, enum vr_phase phase, uint32_t n_ubatch)
{
    double more = r->tokens[phase] / 2.0;
    if (phase == VR_PREFILL) more += fmin(n_ubatch, r->tokens[phase]) / 2.0;
    return r->depth + more;
}

static bool price(struct question *q, struct row *r, double header_bytes, struct vr_err *err)
{
    struct vr_prober prober;
    struct vr_proof proof = { 0 };
    struct vr_trial trial = vr_trial_default();
    if (!vr_prober_open(q->ask.model, &prober, err)) return false;
    trial.load = q->outcome.trial;
    trial.want_work = true;
    bool ok = vr_probe(&prober, &trial, &proof, err);
    vr_prober_close(&prober);
    if (!ok) return false;
    uint16_t machine_device[VR_MAX_VGPUS];
    for (size_t i = 0; i < r->n_gpus; i++) machine_device[i] = (uint16_t)i;
    struct vr_pricing p = { .speeds = q->ask.speeds,
                            .machine_device = machine_device,
                            .n_devices = r->n_gpus,
                            .fill = { .n_ctx_seq = proof.n_ctx, .n_ubatch = trial.load.context.n_ubatch },
                            .n_seq = 1,
                            .n_prompt = r->tokens[VR_PREFILL],
                            .pipeline = proof.pipeline };
    for (enum vr_phase phase = 0; phase < VR_N_PHASES; phase++) {
        struct vr_price out;
        if (!(r->published[phase] > 0)) continue;
        p.fill.share = fmin(filled(r, phase, p.fill.n_ubatch) / proof.n_ctx, 1);
        vr_price(&proof.works, &p, &out);
        r->predicted[phase] = phase == VR_DECODE ? out.decode_tok_s : out.prefill_tok_s;
    }
    if (!r->moe && r->size_bytes > 0) r->predicted[VR_DECODE] *= header_bytes / r->size_bytes; /* of another mix */
    vr_proof_done(&proof);
    return true;
}

void row_predict(const struct rows *all, struct row *r)
{
    struct vr_err err = { 0 };
    double bytes;
    unsigned n_ctx, reserve = 64;
    char reserve_mib[16];
    VR_CLEANUP(vr_closep) int fd = -1;
    if (!r->header) {
        snprintf(r->why, sizeof r->why, "no header of that file");
        return;
    }
    VR_AUTO(vr_machine) m = vr_machine_new(&err);
    VR_AUTO_FREE struct vr_speeds *speeds = calloc(1, sizeof *speeds);
    VR_AUTO_FREE struct vr_budgets *budgets = calloc(1, sizeof *budgets);
    VR_AUTO(vr_model) model = m && speeds && budgets ? open_model(all, r, &bytes, &fd, &err) : NULL;
    struct question q = { .row = r };
    bool ok = model && make_machine(r, m, &err);
    if (ok && placed_by_fit(r, &n_ctx, &reserve)) r->context.n_ctx = n_ctx;
    snprintf(reserve_mib, sizeof reserve_mib, "%u", reserve);
    if (ok) ok = vr_budgets_select(m, &(struct vr_select){ .reserve_mib = reserve_mib }, budgets, &err);
    if (ok) {
        vr_speeds_of(m, speeds);
        q.ask = (struct vr_fit_ask){
            .model = model, .machine = m, .budgets = budgets, .speeds = speeds, .context = r->context
        };
        ok = place(&q, &err) && price(&q, r, bytes, &err);
    }
    if (!ok) snprintf(r->why, sizeof r->why, "%.150s", err.msg);
    vr_outcome_done(&q.outcome);
    vr_buf_done(&q.pattern);
}
