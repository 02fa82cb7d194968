/* Answers of reranking. Scores are collected as they come, and sorted when all are there. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/dialect/rerank.h"
#include "server/front.h"

#define ADD(out, literal) vr_buf_add(out, literal, sizeof literal - 1)

struct score {
    uint32_t index;
    float score;
};

static void add_score(struct vr_call *call, const struct vr_wire_result *r)
{
    struct score s = { .index = r->index };
    static const uint8_t none[4];
    const uint8_t *p = r->n_dims ? r->floats : none;
    uint32_t bits = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    memcpy(&s.score, &bits, sizeof s.score);
    if (!isfinite(s.score)) s.score = 0;
    vr_buf_add(&call->body, (const char *)&s, sizeof s);
}

/* The most relevant first; of equals the one that came first. */
static int by_score(const void *a, const void *b)
{
    const struct score *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static void add_text(struct vr_buf *out, const json_t *text)
{
    vr_json_add_text(out, json_string_value(text), json_string_length(text));
}

static void add_results(struct vr_buf *out, const struct vr_call *call, const struct score *all, size_t n, bool tei)
{
    const json_t *texts = json_object_get(call->memo, VR_MEMO_TEXTS);
    ADD(out, "[");
    for (size_t i = 0; i < n; i++) {
        const json_t *text = json_array_get(texts, all[i].index);
        vr_buf_addf(out, "%s{\"index\":%" PRIu32 ",\"%s\":%.9g", i ? "," : "", all[i].index,
                    tei ? "score" : "relevance_score", (double)all[i].score);
        if (text && !tei) ADD(out, ",\"document\":{\"text\":");
        if (text && tei) ADD(out, ",\"text\":");
        if (text) add_text(out, text);
        if (text && !tei) ADD(out, "}");
        ADD(out, "}");
    }
    ADD(out, "]");
}

static void whole(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    (void)f;
    size_t n = call->body.n / sizeof(struct score);
    const json_t *top = json_object_get(call->memo, VR_MEMO_TOP);
    bool tei = json_is_true(json_object_get(call->memo, VR_MEMO_TEI));
    VR_AUTO_FREE struct score *all = calloc(n + 1, sizeof *all);
    if (!all || call->body.failed) {
        out->failed = true;
        return;
    }
    if (n) memcpy(all, call->body.data, n * sizeof *all);
    qsort(all, n, sizeof *all, by_score);
    if (top && (uint64_t)json_integer_value(top) < n) n = (size_t)json_integer_value(top);
    if (!tei)
        vr_buf_addf(out,
                    "{\"id\":\"rerank-%s\",\"object\":\"list\",\"model\":%s,\"usage\":{\"prompt_tokens\":%" PRIu32
                    ",\"total_tokens\":%" PRIu32 "},\"results\":",
                    call->conn->id, vr_buf_str(&call->model->id_json), call->prompt_tokens, call->prompt_tokens);
    add_results(out, call, all, n, tei);
    vr_buf_adds(out, tei ? "\n" : "}\n");
}

const struct vr_dialect vr_rerank = {
    .kind = VR_RERANK, .translate = vr_rerank_translate, .whole = whole, .result = add_score
};
