/* Reading the fixture: one JSON object per line, llama-bench's defaults where a row is silent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "published.h"

#define KEPT_SEED 3 /* the first that keeps back a third of the rows of 2025-26 */

static const char *text(const json_t *o, const char *key) { return json_string_value(json_object_get(o, key)); }

static const char *text_or(const json_t *o, const char *key, const char *otherwise)
{
    const char *s = text(o, key);
    return s ? s : otherwise;
}

static double number(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

/* "q8_0", or "q8_0 keys" where values stay f16. */
static void read_cache(const char *kv, struct vr_context *c)
{
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(kv, " "), kv);
    uint32_t type = vr_type_by_name(name);
    if (type == VR_TYPE_NONE) return;
    c->type_k = type;
    if (!strstr(kv, "keys")) c->type_v = type;
}

static void read_split(const json_t *o, struct row *r)
{
    const char *mode = text_or(o, "split", "layer"), *shares = text(o, "tensor_split");
    r->split_mode = strcmp(mode, "tensor") == 0 ? VR_SPLIT_TENSOR : VR_SPLIT_LAYER;
    while (shares && *shares && r->n_split < VR_MAX_SPLIT) {
        char *end;
        r->split[r->n_split++] = strtod(shares, &end);
        shares = *end == ',' ? end + 1 : NULL;
    }
}

/* The context holds the depth and the longer test; what a server set aside beyond that costs no time. */
static void read_context(const json_t *o, struct row *r)
{
    r->context = VR_CONTEXT_DEFAULT;
    r->depth = (uint32_t)number(o, "depth");
    r->tokens[VR_DECODE] = (uint32_t)number(o, "tg_tokens");
    r->tokens[VR_PREFILL] = (uint32_t)number(o, "pp_tokens");
    uint32_t longer = r->tokens[0] > r->tokens[1] ? r->tokens[0] : r->tokens[1], ubatch = (uint32_t)number(o, "ubatch");
    r->context.n_ctx = (r->depth + longer + 255) / 256 * 256;
    if (r->tokens[VR_PREFILL] && ubatch > r->tokens[VR_PREFILL]) ubatch = r->tokens[VR_PREFILL];
    r->context.n_ubatch = ubatch ? ubatch : VR_N_UBATCH_DEFAULT;
    if (r->context.n_ubatch > r->context.n_ctx) r->context.n_ubatch = r->context.n_ctx;
    r->context.n_batch = r->context.n_ubatch;
    r->context.flash_attn = strcmp(text_or(o, "flash_attn", "auto"), "off") != 0;
    read_cache(text_or(o, "kv", "f16"), &r->context);
}

static void read_row(const json_t *o, struct row *r)
{
    const json_t *gpus = json_object_get(o, "gpus"), *layers = json_object_get(o, "n_gpu_layers"), *gpu;
    const char *era = text_or(o, "era", "");
    size_t i;
    *r = (struct row){ .id = text_or(o, "id", "?"),
                       .source = text_or(o, "source", ""),
                       .model = text_or(o, "model", "?"),
                       .quant = text_or(o, "quant", ""),
                       .backend = text_or(o, "backend", ""),
                       .generation = text_or(o, "generation", ""),
                       .on_cpu = text_or(o, "on_cpu", ""),
                       .host = text_or(o, "host", ""),
                       .header = text(o, "header"),
                       .era = strcmp(era, "now") == 0    ? ROW_NOW
                              : strcmp(era, "pair") == 0 ? ROW_PAIR
                                                         : ROW_OLD,
                       .nccl = strcmp(text_or(o, "reduce", ""), "nccl") == 0,
                       .moe = strcmp(text_or(o, "kind", ""), "moe") == 0,
                       .n_gpu_layers = json_is_integer(layers) ? (int)json_integer_value(layers) : -1,
                       .size_bytes = number(o, "size_gib") * (double)(1 << 30),
                       .published = { number(o, "tg_tok_s"), number(o, "pp_tok_s") } };
    r->kept = vr_hash(r->source, strlen(r->source), KEPT_SEED) % 3 == 0;
    json_array_foreach(gpus, i, gpu) if (i < VR_MAX_DEVICES) r->gpus[r->n_gpus++] = json_string_value(gpu);
    read_split(o, r);
    read_context(o, r);
}

static bool read_lines(const char *path, struct rows *out, struct vr_err *err)
{
    FILE *f = fopen(path, "re");
    if (!f) return vr_fail(err, VR_EIO, "%s: cannot be read", path);
    bool ok = true;
    while (ok && out->n < MAX_ROWS) {
        json_error_t why;
        json_t *o = json_loadf(f, JSON_DISABLE_EOF_CHECK, &why);
        if (!o && feof(f)) break;
        ok = json_is_object(o) || vr_fail(err, VR_EFORMAT, "%s: row %zu: %s", path, out->n + 1, why.text);
        if (!ok || json_array_append_new(out->json, o) != 0) break;
        read_row(o, &out->items[out->n++]);
    }
    fclose(f);
    return ok;
}

bool rows_read(const char *dir, struct rows *out, struct vr_err *err)
{
    char path[768];
    memset(out, 0, sizeof *out);
    snprintf(out->dir, sizeof out->dir, "%s", dir);
    snprintf(path, sizeof path, "%s/index.json", dir);
    out->index = json_load_file(path, 0, NULL);
    if (!out->index) return vr_fail(err, VR_EIO, "%s: cannot be read", path);
    out->json = json_array();
    static const char *const files[] = { "published.jsonl", "pairs.jsonl" };
    for (size_t i = 0; i < VR_COUNT(files); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        if (!read_lines(path, out, err)) return false;
    }
    return true;
}

void rows_done(struct rows *r)
{
    json_decref(r->json);
    json_decref(r->index);
}
