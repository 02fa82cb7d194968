/* Predicted against published: every row, then what they say together. Ratios are predicted / published; the middle of
 * a generation of cards is the median of its ratios. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rank.h"
#include "hw/gpus.h"
#include "published.h"

/* How far off is still good, and how many must be: what docs/accuracy.md says of cards that nobody measured. */
static const double allowed[VR_N_PHASES] = { 0.25, 0.40 };
static const char *const phase_names[VR_N_PHASES] = { "token generation", "prompt processing" };

static double ratio(const struct row *r, enum vr_phase phase)
{
    return r->published[phase] > 0 && r->predicted[phase] > 0 ? r->predicted[phase] / r->published[phase] : 0;
}

/* --- which rows --- */

struct which {
    const char *generation;  /* NULL: any */
    int kept;                /* -1: any */
    bool old, several, host; /* several: with more than one card; host: with weights on the host; else only without */
    bool any_place;          /* the last two do not matter */
};

static bool is_among(const struct row *r, const struct which *w)
{
    bool host = r->on_cpu[0] != '\0';
    if (r->era != (w->old ? ROW_OLD : ROW_NOW) || (w->kept >= 0 && r->kept != (bool)w->kept)) return false;
    if (w->generation && strcmp(w->generation, r->generation) != 0) return false;
    return w->any_place || (host == w->host && (r->n_gpus > 1) == w->several);
}

struct figures {
    double ratios[MAX_ROWS], middle;
    size_t n, good;
};

static void collect(const struct rows *rows, const struct which *w, enum vr_phase phase, struct figures *out)
{
    *out = (struct figures){ 0 };
    for (size_t i = 0; i < rows->n; i++) {
        double x = ratio(&rows->items[i], phase);
        if (!(x > 0) || !is_among(&rows->items[i], w)) continue;
        out->ratios[out->n++] = x;
        out->good += fabs(x - 1) <= allowed[phase];
    }
    out->middle = vr_rank(out->ratios, out->n, 0.5);
}

static double share(const struct figures *f) { return f->n ? (double)f->good / (double)f->n : 1; }

/* --- tables --- */

static void write_cards(const struct row *r, struct vr_buf *out)
{
    for (size_t i = 0, n; i < r->n_gpus; i += n) {
        for (n = 1; i + n < r->n_gpus && strcmp(r->gpus[i], r->gpus[i + n]) == 0;) n++;
        if (i) vr_buf_adds(out, " + ");
        if (n > 1) vr_buf_addf(out, "%zux ", n);
        vr_buf_adds(out, vr_gpu_short(r->gpus[i]));
    }
    if (strcmp(r->backend, "CUDA") != 0 && strcmp(r->backend, "not given") != 0) vr_buf_addf(out, ", %s", r->backend);
    if (r->split_mode == VR_SPLIT_TENSOR) vr_buf_adds(out, ", split mode tensor");
}

static void write_figure(const struct row *r, enum vr_phase phase, struct vr_buf *out)
{
    double x = ratio(r, phase);
    if (!(x > 0)) {
        vr_buf_adds(out, " | |");
        return;
    }
    int digits = r->published[phase] < 20 ? 1 : 0;
    vr_buf_addf(out, " %.*f / %.*f | %s%+.0f %%%s |", digits, r->predicted[phase], digits, r->published[phase],
                fabs(x - 1) > allowed[phase] ? "**" : "", (x - 1) * 100, fabs(x - 1) > allowed[phase] ? "**" : "");
}

static void write_rows(const struct rows *rows, bool old, struct vr_buf *out)
{
    vr_buf_adds(out,
                "| cards | model | on the host | depth | token generation, tok/s | | prompt processing, tok/s | |\n"
                "|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < rows->n; i++) {
        const struct row *r = &rows->items[i];
        if (r->era != (old ? ROW_OLD : ROW_NOW) || r->why[0]) continue;
        vr_buf_adds(out, "| ");
        write_cards(r, out);
        vr_buf_addf(out, " | %s %s%s | %s | %u |", r->model, r->quant, r->kept ? " *" : "", r->on_cpu, r->depth);
        for (enum vr_phase phase = 0; phase < VR_N_PHASES; phase++) write_figure(r, phase, out);
        vr_buf_adds(out, "\n");
    }
    const char *joint = "\nNot asked: ";
    for (size_t i = 0; i < rows->n; i++) {
        const struct row *r = &rows->items[i];
        if (r->era != (old ? ROW_OLD : ROW_NOW) || !r->why[0]) continue;
        vr_buf_addf(out, "%s%s (%s)", joint, r->id, r->why);
        joint = ", ";
    }
    if (joint[0] == ',') vr_buf_adds(out, ".\n");
}

static void write_line(const struct rows *rows, const char *name, const struct which *w, struct vr_buf *out)
{
    vr_buf_addf(out, "| %s |", name);
    for (enum vr_phase phase = 0; phase < VR_N_PHASES; phase++) {
        struct figures f;
        collect(rows, w, phase, &f);
        if (f.n)
            vr_buf_addf(out, " %zu | %zu, %.0f %% | %+.0f %% |", f.n, f.good, share(&f) * 100, (f.middle - 1) * 100);
        else
            vr_buf_adds(out, " | | |");
    }
    vr_buf_adds(out, "\n");
}

static const char *const generations[] = { "Pascal", "Turing", "Ampere", "Ada", "Blackwell", "AMD", "Intel", "mixed" };

static void write_summary(const struct rows *rows, struct vr_buf *out)
{
    vr_buf_adds(
        out,
        "| builds of 2025-26 | token generation: rows | within 25 % | median | prompt processing: rows | within 40 % "
        "| median |\n|---|---|---|---|---|---|---|\n");
    write_line(rows, "**all**", &(struct which){ .kept = -1, .any_place = true }, out);
    write_line(rows, "rows that constants were fitted to", &(struct which){ .any_place = true }, out);
    write_line(rows, "rows kept back", &(struct which){ .kept = 1, .any_place = true }, out);
    write_line(rows, "one card", &(struct which){ .kept = -1 }, out);
    write_line(rows, "several cards", &(struct which){ .kept = -1, .several = true }, out);
    write_line(rows, "one card, weights on the host", &(struct which){ .kept = -1, .host = true }, out);
    for (size_t i = 0; i < VR_COUNT(generations); i++)
        write_line(rows, generations[i], &(struct which){ .kept = -1, .any_place = true, .generation = generations[i] },
                   out);
    write_line(rows, "builds of 2024", &(struct which){ .old = true, .kept = -1, .any_place = true }, out);
}

/* --- the same machine and model in both split modes --- */

static bool is_pair(const struct row *tensor, const struct row *layer)
{
    if (tensor->era != ROW_PAIR || layer->era != ROW_PAIR) return false;
    if (tensor->split_mode != VR_SPLIT_TENSOR || layer->split_mode == VR_SPLIT_TENSOR) return false;
    if (tensor->n_gpus != layer->n_gpus || tensor->depth != layer->depth || strcmp(tensor->model, layer->model) != 0)
        return false;
    for (size_t i = 0; i < tensor->n_gpus; i++)
        if (strcmp(tensor->gpus[i], layer->gpus[i]) != 0) return false;
    return strcmp(tensor->backend, layer->backend) == 0 && strcmp(tensor->quant, layer->quant) == 0;
}

struct pairs {
    size_t n, near, differ, right; /* ratios within a quarter; those that differ by a tenth, and the faster is known */
};

static void count_pair(const struct row *t, const struct row *l, enum vr_phase phase, struct pairs *n,
                       struct vr_buf *out)
{
    double said = l->predicted[phase] > 0 ? t->predicted[phase] / l->predicted[phase] : 0;
    double was = l->published[phase] > 0 ? t->published[phase] / l->published[phase] : 0;
    if (!(said > 0) || !(was > 0)) return;
    bool near = fabs(said / was - 1) <= 0.25, differ = was > 1.1 || was < 1 / 1.1;
    n->n++;
    n->near += near;
    n->differ += differ;
    n->right += differ && (said > 1) == (was > 1);
    if (!out) return;
    vr_buf_adds(out, "| ");
    write_cards(t, out);
    vr_buf_addf(out, " | %s %s | %s | %.2fx | %.2fx | %s |\n", t->model, t->quant, phase_names[phase], said, was,
                !near ? "**off**" : "");
}

static struct pairs count_pairs(const struct rows *rows, enum vr_phase phase, struct vr_buf *out)
{
    struct pairs n = { 0 };
    for (size_t i = 0; i < rows->n; i++)
        for (size_t k = 0; k < rows->n; k++)
            if (is_pair(&rows->items[i], &rows->items[k])) count_pair(&rows->items[i], &rows->items[k], phase, &n, out);
    return n;
}

static void write_pairs(const struct rows *rows, struct vr_buf *out)
{
    vr_buf_adds(out, "| cards | model | | predicted tensor / layer | published | |\n|---|---|---|---|---|---|\n");
    struct pairs n[VR_N_PHASES];
    for (enum vr_phase phase = 0; phase < VR_N_PHASES; phase++) n[phase] = count_pairs(rows, phase, out);
    for (enum vr_phase phase = 0; phase < VR_N_PHASES; phase++)
        vr_buf_addf(
            out,
            "%s%s: %zu of %zu ratios within 25 %%; where the modes differ by more than 10 %%, the faster one is "
            "the faster one here in %zu of %zu.\n",
            phase ? "" : "\n", phase_names[phase], n[phase].near, n[phase].n, n[phase].right, n[phase].differ);
}

void report_write(const struct rows *r, struct vr_buf *out)
{
    write_summary(r, out);
    vr_buf_adds(out, "\n");
    write_pairs(r, out);
    vr_buf_adds(out, "\n");
    write_rows(r, false, out);
    vr_buf_adds(
        out, "\nBuilds of 2024, whose prompts went through cuBLAS and whose kernels were less fused: not judged.\n\n");
    write_rows(r, true, out);
}

/* --- thresholds --- */

/* The least share of rows that must be good, all and those kept back: a little below what they are, so that a change
 * that spoils some is noticed. */
static const double least_all[VR_N_PHASES] = { 0.90, 0.85 }, least_kept[VR_N_PHASES] = { 0.90, 0.70 };
#define MOST_OFF    0.15 /* the middle of a generation of cards */
#define FEW_ROWS    4    /* of a generation: a middle says nothing */
#define LEAST_PAIRS 0.90 /* of the ratios of split modes that must be good */

static void check_share(const struct rows *rows, const char *name, int kept, enum vr_phase phase, double least,
                        struct vr_buf *out)
{
    struct figures f;
    collect(rows, &(struct which){ .kept = kept, .any_place = true }, phase, &f);
    if (share(&f) < least)
        vr_buf_addf(out, "%s, %s: %zu of %zu rows are good, at least %.0f %% must be\n", phase_names[phase], name,
                    f.good, f.n, least * 100);
}

static void check_generation(const struct rows *rows, const char *name, enum vr_phase phase, struct vr_buf *out)
{
    struct figures f;
    collect(rows, &(struct which){ .kept = -1, .any_place = true, .generation = name }, phase, &f);
    if (f.n >= FEW_ROWS && fabs(f.middle - 1) > MOST_OFF)
        vr_buf_addf(out, "%s, %s: the median of %zu rows is off by %+.0f %%\n", phase_names[phase], name, f.n,
                    (f.middle - 1) * 100);
}

bool report_check(const struct rows *r, struct vr_buf *failures)
{
    struct pairs all = { 0 };
    for (enum vr_phase phase = 0; phase < VR_N_PHASES; phase++) {
        check_share(r, "all", -1, phase, least_all[phase], failures);
        check_share(r, "kept back", 1, phase, least_kept[phase], failures);
        for (size_t i = 0; i < VR_COUNT(generations); i++) check_generation(r, generations[i], phase, failures);
        struct pairs n = count_pairs(r, phase, NULL);
        all.n += n.n;
        all.near += n.near;
    }
    if ((double)all.near < LEAST_PAIRS * (double)all.n || all.n == 0)
        vr_buf_addf(failures, "split mode tensor / layer: %zu of %zu ratios are good\n", all.near, all.n);
    for (size_t i = 0; i < r->n; i++)
        if (r->items[i].header && r->items[i].why[0])
            vr_buf_addf(failures, "%s: %s\n", r->items[i].id, r->items[i].why);
    return failures->n == 0;
}
