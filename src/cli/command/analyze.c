/* `analyze`: what is in a model file, what its context costs, and the machine it would run on. Layers that are alike
 * are one row, wherever they stand. */
#include <inttypes.h>
#include <string.h>

#include "base/table.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/load/placement.h"
#include "cli/text/plan_json.h"
#include "cli/text/plan_text.h"
#include "cli/text/show.h"

/* Columns of the table of layers: which roles they sum up. */
static const struct {
    const char *title;
    unsigned roles;
} columns[] = {
    { "attention", 1u << VR_ROLE_ATTENTION },
    { "recurrent", 1u << VR_ROLE_RECURRENT },
    { "dense FFN", 1u << VR_ROLE_FFN },
    { "experts", 1u << VR_ROLE_EXPERT },
    { "shared", 1u << VR_ROLE_SHARED_EXPERT },
    { "rest",
      1u << VR_ROLE_NORM | 1u << VR_ROLE_ROUTER | 1u << VR_ROLE_OTHER | 1u << VR_ROLE_INPUT | 1u << VR_ROLE_OUTPUT },
};
#define N_COLUMNS VR_COUNT(columns)

static uint64_t column_bytes(const struct vr_layer *l, size_t c)
{
    uint64_t sum = 0;
    for (unsigned r = 0; r < VR_N_ROLES; r++)
        if (columns[c].roles & 1u << r) sum += l->role_bytes[r];
    return sum;
}

struct analysis {
    const struct vr_model *m;
    const struct vr_footprint *f;
};

/* What layer i costs beside its weights: KV cache and recurrent state. A layer of the engine's own, beyond those in the
 * file, counts with the last one. */
static uint64_t layer_context_bytes(const struct analysis *a, uint32_t i)
{
    uint64_t sum = 0;
    uint32_t end = i + 1 == a->m->n_layers ? a->f->n_layers : i + 1;
    for (; i < end && i < a->f->n_layers; i++) sum += a->f->layers[i].kv_gpu_bytes + a->f->layers[i].state_gpu_bytes;
    return sum;
}

static bool alike(const struct analysis *a, uint32_t i, uint32_t k)
{
    const struct vr_layer *x = &a->m->layers[i], *y = &a->m->layers[k];
    return x->bytes == y->bytes && memcmp(x->role_bytes, y->role_bytes, sizeof x->role_bytes) == 0 &&
           x->n_head_kv == y->n_head_kv && x->mtp == y->mtp && layer_context_bytes(a, i) == layer_context_bytes(a, k);
}

/* "0-9, 12, 15, 18, … 70-79": all layers alike to layer `first`, cut in the middle when the list is long. */
static uint32_t list_alike(const struct analysis *a, uint32_t first, char *text, size_t n)
{
    uint32_t count = 0;
    VR_AUTO_BUF list = { 0 };
    char last[32] = "";
    size_t shown = 0, ranges = 0;
    for (uint32_t i = first; i < a->m->n_layers; i++) {
        if (!alike(a, first, i)) continue;
        uint32_t end = i;
        while (end + 1 < a->m->n_layers && alike(a, first, end + 1)) end++;
        count += end - i + 1;
        if (end > i)
            snprintf(last, sizeof last, "%" PRIu32 "-%" PRIu32, i, end);
        else
            snprintf(last, sizeof last, "%" PRIu32, i);
        ranges++;
        if (list.n < 22) {
            vr_buf_addf(&list, "%s%s", ranges > 1 ? ", " : "", last);
            shown++;
        }
        i = end;
    }
    if (shown + 1 == ranges)
        snprintf(text, n, "%s, %s", vr_buf_str(&list), last);
    else
        snprintf(text, n, "%s%s%s", vr_buf_str(&list), shown < ranges ? " … " : "", shown < ranges ? last : "");
    return count;
}

static bool is_first_of_kind(const struct analysis *a, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (alike(a, k, i)) return false;
    return true;
}

static void mib_cell(struct vr_table *t, uint64_t bytes)
{
    struct vr_num num;
    vr_table_cell(t, "%s", bytes ? vr_fmt_mib(&num, bytes, 2) : "-");
}

static void layer_row(struct vr_table *t, const struct analysis *a, const bool used[N_COLUMNS], uint32_t i,
                      const char *label, uint32_t count)
{
    const struct vr_layer *l = &a->m->layers[i];
    vr_table_row(t);
    vr_table_cell(t, "%s%s", label, l->mtp ? " (MTP)" : "");
    vr_table_cell(t, "%" PRIu32, count);
    for (size_t c = 0; c < N_COLUMNS; c++)
        if (used[c]) mib_cell(t, column_bytes(l, c));
    mib_cell(t, l->bytes);
    mib_cell(t, layer_context_bytes(a, i));
    mib_cell(t, (l->bytes + layer_context_bytes(a, i)) * count);
}

static void show_layers(struct vr_buf *out, const struct analysis *a, bool each)
{
    VR_AUTO_TABLE t = { .indent = "  ", .color = vr_show_color() };
    bool used[N_COLUMNS] = { 0 };
    uint64_t weights = 0, context = 0;
    for (uint32_t i = 0; i < a->m->n_layers; i++) {
        for (size_t c = 0; c < N_COLUMNS; c++) used[c] |= column_bytes(&a->m->layers[i], c) > 0;
        weights += a->m->layers[i].bytes;
        context += layer_context_bytes(a, i);
    }
    t.cols[t.n_cols++] = (struct vr_col){ "layers, MiB each", false };
    t.cols[t.n_cols++] = (struct vr_col){ "count", true };
    for (size_t c = 0; c < N_COLUMNS; c++)
        if (used[c]) t.cols[t.n_cols++] = (struct vr_col){ columns[c].title, true };
    t.cols[t.n_cols++] = (struct vr_col){ "weights", true };
    t.cols[t.n_cols++] = (struct vr_col){ a->f->n_kv_layers ? "KV" : "state", true };
    t.cols[t.n_cols++] = (struct vr_col){ "total MiB", true };

    for (uint32_t i = 0; i < a->m->n_layers; i++) {
        char label[64];
        uint32_t count = 1;
        if (each)
            snprintf(label, sizeof label, "%" PRIu32, i);
        else if (!is_first_of_kind(a, i))
            continue;
        else
            count = list_alike(a, i, label, sizeof label);
        layer_row(&t, a, used, i, label, count);
    }
    vr_table_rule(&t);
    vr_table_cell(&t, "all layers");
    vr_table_cell(&t, "%" PRIu32, a->m->n_layers);
    for (size_t c = 0; c < N_COLUMNS; c++) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < a->m->n_layers; i++) sum += column_bytes(&a->m->layers[i], c);
        if (used[c]) mib_cell(&t, sum);
    }
    mib_cell(&t, weights);
    mib_cell(&t, context);
    mib_cell(&t, weights + context);
    vr_table_print(&t, out);
}

static uint32_t layers_with_attention(const struct vr_model *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_layers; i++) n += m->layers[i].role_bytes[VR_ROLE_ATTENTION] > 0;
    return n;
}

static uint64_t expert_bytes(const struct vr_model *m)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < m->n_layers; i++) sum += m->layers[i].role_bytes[VR_ROLE_EXPERT];
    return sum;
}

static void show_model(struct vr_buf *out, const struct analysis *a, const struct vr_context *c)
{
    const struct vr_model *m = a->m;
    struct vr_num x, y, z;
    char attention[48] = "";
    uint32_t n_attention = layers_with_attention(m);
    if (n_attention == 0)
        snprintf(attention, sizeof attention, " (recurrent)");
    else if (n_attention < m->n_layers)
        snprintf(attention, sizeof attention, " (%" PRIu32 " with attention)", n_attention);
    vr_show_title(out, m->name);
    char parts[32] = "", mib[64] = "";
    if (m->n_parts > 1) snprintf(parts, sizeof parts, " in %" PRIu32 " files", m->n_parts);
    if (m->tensor_bytes >> 30) snprintf(mib, sizeof mib, " (%s MiB)", vr_fmt_mib(&z, m->tensor_bytes, 1));
    vr_show_fact(out, "weights", "%s%s%s, %s, %s parameters", vr_fmt_bytes(&x, m->tensor_bytes), mib, parts, m->quant,
                 vr_fmt_short(&y, (double)m->params));
    vr_show_fact(out, "architecture", "%s, %" PRIu32 " layers%s, embedding size %s, vocabulary %s", m->arch,
                 m->n_layers, attention, vr_fmt_count(&x, m->n_embd), vr_fmt_count(&y, m->n_vocab));
    if (m->n_expert)
        vr_show_fact(out, "experts", "%" PRIu32 ", %" PRIu32 " used per token; %s of the weights (%.0f %%)",
                     m->n_expert, m->n_expert_used, vr_fmt_bytes(&x, expert_bytes(m)),
                     100.0 * (double)expert_bytes(m) / (double)m->tensor_bytes);
    char what[64] = "of recurrent state";
    if (a->f->n_kv_layers)
        snprintf(what, sizeof what, "of KV cache%s, %s/%s", a->f->n_state_layers ? " and recurrent state" : "",
                 vr_type(c->type_k)->name, vr_type(c->type_v)->name);
    vr_show_fact(out, "context", "%s tokens (trained for %s), %" PRIu32 " sequence%s: %s MiB %s%s",
                 vr_fmt_count(&x, a->f->n_ctx), vr_fmt_count(&y, m->n_ctx_train), c->n_seq, c->n_seq == 1 ? "" : "s",
                 vr_fmt_mib(&z, a->f->kv_gpu_bytes + a->f->state_gpu_bytes, 2), what, a->f->exact ? "" : " (estimate)");
    if (!a->f->exact) vr_show_fact(out, "", "%s", a->f->inexact);
    vr_show_fact(out, "non-layer", "input %s MiB (always in host memory), output %s MiB%s",
                 vr_fmt_mib(&x, a->f->input_host_bytes, 2), vr_fmt_mib(&y, a->f->output_gpu_bytes, 2),
                 m->tied ? " (tied embeddings: a second copy of the input)" : "");
    vr_buf_adds(out, "\n");
}

static json_t *json_layers(const struct analysis *a)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < a->m->n_layers; i++) {
        const struct vr_layer *l = &a->m->layers[i];
        json_array_append_new(list,
                              json_pack("{s:i, s:I, s:I, s:i, s:I}", "index", (int)i, "bytes", (json_int_t)l->bytes,
                                        "expert_bytes", (json_int_t)l->role_bytes[VR_ROLE_EXPERT], "n_head_kv",
                                        (int)l->n_head_kv, "kv_bytes", (json_int_t)layer_context_bytes(a, i)));
    }
    return list;
}

static json_t *json_model(const struct analysis *a)
{
    const struct vr_model *m = a->m;
    json_t *tree = vr_json_model(m);
    json_object_update_new(tree, json_pack("{s:I, s:i, s:i, s:i, s:i, s:i, s:b, s:b, s:o, s:I, s:I, s:I, s:I}",
                                           "tensor_bytes", (json_int_t)m->tensor_bytes, "n_parts", (int)m->n_parts,
                                           "n_embd", (int)m->n_embd, "n_vocab", (int)m->n_vocab, "n_expert",
                                           (int)m->n_expert, "n_expert_used", (int)m->n_expert_used, "tied", m->tied,
                                           "kv_exact", a->f->exact, "layers", json_layers(a), "input_bytes",
                                           (json_int_t)m->input_bytes, "output_bytes", (json_int_t)m->output_bytes,
                                           "other_bytes", (json_int_t)m->other_bytes, "kv_bytes_total",
                                           (json_int_t)(a->f->kv_gpu_bytes + a->f->state_gpu_bytes)));
    return tree;
}

bool vr_cmd_analyze(const struct vr_options *o, struct vr_buf *out, struct vr_err *err)
{
    if (!o->model) return vr_fail(err, VR_EUSAGE, "no model given: vram-llm analyze FILE.gguf");
    VR_AUTO(vr_input) in = vr_input_read(o, err);
    if (!in) return false;
    VR_AUTO_MODELS models;
    if (!vr_models_open(o, &models, err)) return false;
    const struct vr_model *m = models.main;
    VR_AUTO_FOOTPRINT f = { 0 };
    const struct vr_context context = vr_context_settled(&in->context, vr_model_makes_embeddings(m));
    if (!vr_footprint_compute(m, &context, &f, err)) return false;
    struct analysis a = { m, &f };
    VR_AUTO_FREE struct vr_speeds *speeds = vr_input_speeds(o, in, err);
    if (!speeds) return false;
    struct vr_fit_ask ask = vr_placement_ask(o, in, &models, speeds);
    ask.context.n_ctx = f.n_ctx;
    VR_AUTO_OUTCOME outcome = { 0 };
    struct vr_err no_plan = { 0 };
    struct vr_goal goal = { .optimize = vr_placement_optimize(o) };
    if (!vr_placement_splits(o, &goal.splits, err)) return false;
    const struct vr_open open = vr_placement_open(o);
    bool planned = vr_fit_choose(&ask, &goal, &open, &outcome, &no_plan);
    if (o->json) {
        const struct vr_load_params load = planned ? outcome.trial : vr_fit_params(&ask);
        json_t *tree = json_pack("{s:o, s:o, s:o}", "model", json_model(&a), "goal",
                                 vr_json_goal(&load, &ask, o->optimize), "machine", vr_json_machine(in));
        if (planned)
            json_object_set_new(tree, "plan", vr_json_outcome(&ask, &outcome));
        else
            json_object_set_new(tree, "plan", json_pack("{s:b, s:s}", "fits", 0, "reason", no_plan.msg));
        return vr_json_print(tree, out, err);
    }
    show_model(out, &a, &context);
    show_layers(out, &a, o->all_layers);
    vr_buf_adds(out, "\n");
    vr_show_machine(out, in);
    vr_buf_adds(out, "\n");
    if (planned)
        vr_show_outcome(out, &ask, &outcome);
    else
        vr_buf_addf(out, "  No plan: %s.\n", no_plan.msg);
    return true;
}
