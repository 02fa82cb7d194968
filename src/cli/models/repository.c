#include "cli/models/repository.h"

#include <string.h>

#include "base/text.h"
#include "cli/models/model_rows.h"
#include "cli/models/model_table.h"
#include "cli/text/show.h"
#include "remote/elsewhere.h"

static int by_size(const void *a, const void *b)
{
    const struct vr_listed *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? -1 : 1) : strcmp(x->id, y->id);
}

static uint64_t number_of(const json_t *row, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(row, key));
}

static bool on_devices(const json_t *row)
{
    return json_array_size(json_object_get(row, "devices")) > 0 && number_of(row, "host_bytes") == 0;
}

static double speed(const json_t *row) { return json_number_value(json_object_get(row, "decode_tok_s")); }

/* The largest that is wholly on devices loses least by quantization and nothing by the host; where none is, the fastest
 * that fits. NULL: none does. */
static const json_t *best(const json_t *rows)
{
    const json_t *found = NULL, *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        if (!json_is_true(json_object_get(row, "fits"))) continue;
        if (!found || on_devices(row) > on_devices(found))
            found = row;
        else if (on_devices(row) == on_devices(found))
            found = on_devices(row) || speed(row) > speed(found) ? row : found; /* they come by size */
    }
    return found;
}

static void show(struct vr_buf *out, const struct vr_options *o, const struct vr_elsewhere *e, const json_t *rows,
                 const json_t *chosen)
{
    struct vr_num x, y, z;
    bool several = json_array_size(rows) > 1;
    vr_show_title(out, e->name);
    vr_model_table(out, rows, false);
    vr_buf_addc(out, '\n', 1);
    vr_model_table_machine(out, o);
    vr_buf_addf(out, ", with a half-full context of %s tokens. Only headers were fetched: %s.\n",
                vr_fmt_count(&x, o->n_ctx), vr_fmt_bytes(&z, vr_net_bytes(e->net)));
    if (!chosen) {
        vr_buf_adds(out, several ? "None of them fits.\n" : "It does not fit.\n");
        return;
    }
    if (several)
        vr_buf_addf(out, "%s is the %s: ", json_string_value(json_object_get(chosen, "name")),
                    on_devices(chosen) ? "largest that runs on the GPUs alone" : "fastest that fits");
    bool hub = *e->remote.owner != '\0';
    vr_buf_addf(out, "vram-llm serve %s%s%s downloads it (%s) and runs it.\n", hub ? e->name : e->remote.text,
                hub ? ":" : "", hub ? json_string_value(json_object_get(chosen, "id")) : "",
                vr_fmt_bytes(&y, number_of(chosen, "bytes")));
}

/* Fetches the headers of all its models, or of the one that is named, and leaves that one alone in the catalog. */
static bool fetch_headers(struct vr_elsewhere *e, struct vr_err *err)
{
    struct vr_catalog *c = &e->catalog;
    struct vr_found found;
    bool hub = *e->remote.owner != '\0';
    if (hub && !*e->remote.word) return vr_elsewhere_heads(e, NULL, err);
    if (!vr_elsewhere_pick(e, false, &found, err) || !vr_elsewhere_heads(e, &found, err)) return false;
    if (!hub && !vr_catalog_folder(e->heads, c, err)) return false; /* now that its length is known */
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n_items; i++)
        if (strcmp(c->items[i].path, found.path) == 0) c->items[n++] = c->items[i];
    c->n_items = n;
    return true;
}

bool vr_plan_repository(const struct vr_options *o, const char *model, struct vr_input *in, struct vr_buf *out,
                        struct vr_err *err)
{
    VR_AUTO_ELSEWHERE e = { 0 };
    if (o->svg) return vr_fail(err, VR_EUSAGE, "--svg draws the plan of one model: %s:QUANT", model);
    if (o->n_ctx == 0)
        return vr_fail(err, VR_EUSAGE, "--n-ctx 0: the largest context of each model is shown in any case");
    if (!vr_elsewhere_open(&e, model, o->allow_http, err) || !vr_elsewhere_ask(&e, err) || !fetch_headers(&e, err))
        return false;
    struct vr_catalog *c = &e.catalog;
    if (c->n_items) qsort(c->items, c->n_items, sizeof *c->items, by_size);
    json_t *rows = vr_model_rows(o, in, c, "ranked.json", err);
    if (!rows) return false;
    const json_t *chosen = best(rows);
    if (o->json)
        return vr_json_print(json_pack("{s:s, s:s?, s:s?, s:o}", "repository", e.name, "commit",
                                       *e.repo.commit ? e.repo.commit : NULL, "best",
                                       json_string_value(json_object_get(chosen, "id")), "models", rows),
                             out, err);
    show(out, o, &e, rows, chosen);
    json_decref(rows);
    return true;
}
