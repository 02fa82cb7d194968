#include "server/dialect/rerank.h"

#include "server/dialect/fields.h"

static const struct vr_field_row fields[] = {
#include "server/dialect/rerank.def"
};

/* Strings; one that stands in {"text": "..."}, as Cohere's and Jina's may, is that text. */
static json_t *texts_of(const json_t *list, struct vr_translation *t)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *v = json_array_get(list, i), *text = vr_get(v, "text");
        vr_append(t, out, json_incref(text && json_object_size(v) == 1 ? text : v));
    }
    return out;
}

static bool read_top(const json_t *body, struct vr_translation *t)
{
    json_t *top = vr_get(body, "top_n");
    if (!top) return true;
    if (!json_is_integer(top) || json_integer_value(top) < 1)
        return vr_refuse(t->why, "top_n", "invalid_value", "'top_n' must be an integer of at least 1");
    vr_put(t, t->memo, VR_MEMO_TOP, json_incref(top));
    return true;
}

static bool read_wish(const json_t *body, const char *name, bool *out, struct vr_translation *t)
{
    const json_t *v = vr_get(body, name);
    *out = json_is_true(v);
    return !v || json_is_boolean(v) || vr_refuse(t->why, name, "invalid_type", "'%s' must be true or false", name);
}

static bool read_documents(const json_t *body, json_t *out, struct vr_translation *t)
{
    json_t *documents = vr_get(body, "documents"), *texts = vr_get(body, "texts"), *all = documents ? documents : texts;
    const char *name = documents || !texts ? "documents" : "texts";
    bool wanted, wanted_too;
    if (documents && texts) return vr_refuse(t->why, "texts", "invalid_value", "give 'documents' or 'texts', not both");
    if (!all) return vr_refuse(t->why, name, "missing_required_parameter", "'documents' is missing");
    if (!json_is_array(all)) return vr_refuse(t->why, name, "invalid_type", "'%s' must be an array of texts", name);
    if (!read_wish(body, "return_documents", &wanted, t) || !read_wish(body, "return_text", &wanted_too, t))
        return false;
    json_t *list = texts_of(all, t);
    if (texts) vr_put(t, t->memo, VR_MEMO_TEI, json_true());
    if (wanted || wanted_too) {
        for (size_t i = 0; i < json_array_size(list); i++) t->n_memo += json_string_length(json_array_get(list, i));
        vr_put(t, t->memo, VR_MEMO_TEXTS, json_incref(list));
    }
    vr_put(t, out, "documents", list);
    return true;
}

json_t *vr_rerank_translate(json_t *body, struct vr_translation *t)
{
    json_t *out = json_object();
    t->memo = json_object();
    if (out && t->memo && vr_fields_read(body, fields, VR_COUNT(fields), "", out, t) && read_top(body, t) &&
        read_documents(body, out, t))
        return out;
    json_decref(out);
    return NULL;
}
