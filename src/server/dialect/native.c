#include "server/dialect/native.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "engine/wire/limits.h"
#include "server/dialect/fields.h"

static const struct vr_field_row fields[] = {
#include "server/dialect/native.def"
};

/* And what stands around the place where text is wanted. */
static const struct vr_field_row infill_fields[] = {
#include "server/dialect/native.def"
    SAME(input_prefix) SAME(input_suffix) SAME(input_extra)
};

#define NO_LIMIT    (1 << 30) /* tokens */
#define MOST_FIELDS 64        /* of an answer, by name */

/* --- /completion --- */

/* {"prompt_string":"..."} is the string. */
static json_t *prompt_of(json_t *v)
{
    json_t *text = vr_get(v, "prompt_string");
    return json_incref(text && !vr_get(v, "multimodal_data") ? text : v);
}

static bool read_prompt(const json_t *body, json_t *out, struct vr_translation *t)
{
    json_t *v = vr_get(body, "prompt");
    if (!v) return vr_refuse(t->why, "prompt", "missing_required_parameter", "'prompt' is missing");
    bool several = json_is_array(v) && !vr_is_one_text(v);
    json_t *prompt = several ? json_array() : prompt_of(v);
    for (size_t i = 0; several && i < json_array_size(v); i++) vr_append(t, prompt, prompt_of(json_array_get(v, i)));
    vr_put(t, out, "prompt", prompt);
    if (!json_is_string(prompt)) return true;
    vr_put(t, t->memo, VR_MEMO_PROMPT, json_incref(prompt));
    t->n_memo += json_string_length(prompt);
    return true;
}

/* Fields that are 0, -1 or empty where they are not meant. */
static bool read_limits(const json_t *body, json_t *out, struct vr_translation *t)
{
    const json_t *limit = vr_get(body, "n_predict"), *seed = vr_get(body, "seed"), *probs = vr_get(body, "n_probs");
    json_t *samplers = vr_get(body, "samplers"), *stop = vr_get(body, "stop"), *grammar = vr_get(body, "grammar");
    if (limit && vr_get(body, "max_tokens") && !json_equal(limit, vr_get(body, "max_tokens")))
        return vr_refuse(t->why, "n_predict", "invalid_value", "give 'n_predict' or 'max_tokens', not both");
    if (!limit) limit = vr_get(body, "max_tokens");
    json_int_t most = limit ? json_integer_value(limit) : -1;
    if (limit && !json_is_integer(limit))
        return vr_refuse(t->why, "n_predict", "invalid_type", "'n_predict' must be an integer");
    if (probs && (!json_is_integer(probs) || json_integer_value(probs) > VR_MOST_TOP_LOGPROBS))
        return vr_refuse(t->why, "n_probs", "invalid_value", "'n_probs' must be an integer of at most %d",
                         VR_MOST_TOP_LOGPROBS);
    vr_put(t, out, "max_tokens", json_integer(most < 0 ? NO_LIMIT : most));
    if (seed && !(json_is_integer(seed) && json_integer_value(seed) < 0))
        vr_put(t, out, "seed", json_incref((json_t *)(uintptr_t)seed));
    if (json_integer_value(probs) > 0) vr_put(t, out, "logprobs", json_incref((json_t *)(uintptr_t)probs));
    if (samplers && (json_array_size(samplers) || json_string_length(samplers)))
        vr_put(t, out, "samplers", json_incref(samplers));
    if (stop && !(json_is_array(stop) && json_array_size(stop) == 0)) vr_put(t, out, "stop", json_incref(stop));
    if (grammar && !(json_is_string(grammar) && json_string_length(grammar) == 0))
        vr_put(t, out, "grammar", json_incref(grammar));
    return true;
}

static bool read_schema(const json_t *body, json_t *out, struct vr_translation *t)
{
    json_t *schema = vr_get(body, "json_schema");
    if (!schema || vr_get(out, "grammar")) return true; /* as in llama.cpp the grammar wins */
    if (json_is_object(schema) && json_object_size(schema) == 0)
        vr_put(t, out, "response_format", json_pack("{s:s}", "type", "json_object"));
    else
        vr_put(
            t, out, "response_format",
            json_pack("{s:s,s:{s:s,s:O}}", "type", "json_schema", "json_schema", "name", "answer", "schema", schema));
    return true;
}

/* One bias, of a token or of the tokens that a text has; false is never. */
static bool add_bias(struct vr_translation *t, json_t *ids, const char *key, bool is_id, json_t *bias)
{
    if (!(json_is_false(bias) || (json_is_number(bias) && fabs(json_number_value(bias)) <= 100)))
        return vr_refuse(t->why, "logit_bias", "invalid_value",
                         "'logit_bias': the bias of '%.40s' is neither a number from -100 to 100 nor false", key);
    if (!is_id && (!*key || strlen(key) > VR_MOST_STOP_BYTES || json_object_size(t->text_bias) >= VR_MOST_BIASES))
        return vr_refuse(t->why, "logit_bias", "invalid_value", "'logit_bias' takes at most %d texts of 1 to %d bytes",
                         VR_MOST_BIASES, VR_MOST_STOP_BYTES);
    if (!is_id && !t->text_bias) t->text_bias = json_object();
    vr_put(t, is_id ? ids : t->text_bias, key, json_is_false(bias) ? json_integer(-100) : json_incref(bias));
    return true;
}

/* Pairs [token id or text, bias]. */
static bool read_bias_pairs(const json_t *list, json_t *ids, struct vr_translation *t)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *pair = json_array_get(list, i), *what = json_array_get(pair, 0);
        char key[32];
        snprintf(key, sizeof key, "%lld", (long long)json_integer_value(what));
        if (!json_is_integer(what) && !json_is_string(what))
            return vr_refuse(t->why, "logit_bias", "invalid_value",
                             "'logit_bias[%zu]' must be [token id or text, bias]", i);
        if (!add_bias(t, ids, json_is_integer(what) ? key : json_string_value(what), json_is_integer(what),
                      json_array_get(pair, 1)))
            return false;
    }
    return true;
}

static bool read_bias_map(json_t *map, json_t *ids, struct vr_translation *t)
{
    const char *key;
    json_t *bias;
    json_object_foreach(map, key, bias)
    {
        uint64_t id;
        if (!add_bias(t, ids, key, vr_parse_u64(key, 0, 1u << 30, &id), bias)) return false;
    }
    return true;
}

static bool read_biases(const json_t *body, json_t *out, struct vr_translation *t)
{
    json_t *v = vr_get(body, "logit_bias"), *ids = json_object();
    bool ok = json_is_array(v) ? read_bias_pairs(v, ids, t) : read_bias_map(v, ids, t);
    if (v && !json_is_array(v) && !json_is_object(v))
        ok = vr_refuse(t->why, "logit_bias", "invalid_type", "'logit_bias' must be an object or an array of pairs");
    if (ok && json_object_size(ids))
        vr_put(t, out, "logit_bias", ids);
    else
        json_decref(ids);
    return ok;
}

/* [{"token":1,"bias":2.5}, ...], as llama.cpp tells them. */
static json_t *biases_told(const json_t *map, struct vr_translation *t)
{
    json_t *list = json_array(), *bias;
    const char *id;
    json_object_foreach((json_t *)(uintptr_t)map, id, bias)
        vr_append(t, list, json_pack("{s:I,s:O}", "token", (json_int_t)strtoll(id, NULL, 10), "bias", bias));
    return list;
}

/* ["content", "timings/predicted_n"]: the answer has these alone; an empty list is none. */
static bool read_response_fields(const json_t *body, struct vr_translation *t)
{
    json_t *list = vr_get(body, "response_fields");
    size_t n = json_array_size(list);
    bool ok = !list || (json_is_array(list) && n <= MOST_FIELDS);
    for (size_t i = 0; ok && i < n; i++) ok = json_is_string(json_array_get(list, i));
    if (!ok)
        return vr_refuse(t->why, "response_fields", "invalid_type",
                         "'response_fields' must be an array of at most %d names", MOST_FIELDS);
    for (size_t i = 0; i < n; i++) t->n_memo += json_string_length(json_array_get(list, i));
    if (n) vr_put(t, t->memo, VR_MEMO_FIELDS, json_incref(list));
    return true;
}

/* What was asked for, as it will be told with the answer. */
static bool remember(const json_t *body, json_t *out, struct vr_translation *t)
{
    json_t *settings = json_copy(out), *stop = vr_get(out, "stop");
    static const char *const texts[] = { "prompt", "input_prefix", "input_suffix", "input_extra" };
    for (size_t i = 0; i < VR_COUNT(texts); i++) json_object_del(settings, texts[i]);
    json_object_del(settings, "model");
    vr_put(t, settings, "n_predict", json_incref(vr_get(out, "max_tokens")));
    vr_put(t, settings, "logit_bias", biases_told(vr_get(out, "logit_bias"), t));
    if (json_integer_value(vr_get(out, "max_tokens")) == NO_LIMIT) vr_put(t, settings, "n_predict", json_integer(-1));
    char *text = json_dumps(settings, JSON_COMPACT);
    vr_put(t, t->memo, VR_MEMO_SETTINGS, text ? json_string(text) : NULL);
    t->n_memo += text ? strlen(text) : 0;
    free(text);
    json_decref(settings);
    if (json_is_string(stop))
        vr_put(t, t->memo, VR_MEMO_NSTOPS, json_pack("[O]", stop));
    else if (stop)
        vr_put(t, t->memo, VR_MEMO_NSTOPS, json_incref(stop));
    bool tokens = json_is_true(vr_get(body, "return_tokens"));
    if (tokens) vr_put(t, t->memo, VR_MEMO_TOKENS, json_true());
    if (vr_get(out, "logprobs")) vr_put(t, t->memo, VR_MEMO_PROBS, json_true());
    t->ids = tokens || json_is_true(vr_get(out, "stream")); /* each piece of a stream tells its tokens */
    return true;
}

static json_t *translate(json_t *body, const struct vr_field_row *rows, size_t n, struct vr_translation *t)
{
    json_t *out = json_object();
    t->memo = json_object();
    if (out && t->memo && vr_fields_read(body, rows, n, "", out, t) && read_limits(body, out, t) &&
        read_schema(body, out, t) && read_biases(body, out, t) && read_prompt(body, out, t) &&
        read_response_fields(body, t) && remember(body, out, t))
        return out;
    json_decref(out);
    return NULL;
}

json_t *vr_native_translate_completion(json_t *body, struct vr_translation *t)
{
    return translate(body, fields, VR_COUNT(fields), t);
}

/* A prompt is optional there. */
json_t *vr_native_translate_infill(json_t *body, struct vr_translation *t)
{
    if (!vr_get(body, "input_prefix"))
        return vr_refuse(t->why, "input_prefix", "missing_required_parameter", "'input_prefix' is missing"), NULL;
    if (!vr_get(body, "prompt")) vr_put(t, body, "prompt", json_string(""));
    return translate(body, infill_fields, VR_COUNT(infill_fields), t);
}

/* --- the others --- */

static json_t *read_only(json_t *body, const struct vr_field_row *rows, size_t n, struct vr_translation *t)
{
    json_t *out = json_object();
    if (out && vr_fields_read(body, rows, n, "", out, t)) return out;
    json_decref(out);
    return NULL;
}

json_t *vr_native_translate_embedding(json_t *body, struct vr_translation *t)
{
    static const struct vr_field_row rows[] = { SAME(model) SAME(input) AS(content, "input") SAME(encoding_format)
                                                    ONLY(embd_normalize, "2") };
    return read_only(body, rows, VR_COUNT(rows), t);
}

json_t *vr_native_translate_tokenize(json_t *body, struct vr_translation *t)
{
    static const struct vr_field_row rows[] = { SAME(model) AS(content, "prompt") OWN(add_special) OWN(parse_special)
                                                    OWN(with_pieces) };
    t->special = json_is_true(vr_get(body, "add_special"));
    t->unparsed = json_is_false(json_object_get(body, "parse_special"));
    t->look = json_is_true(vr_get(body, "with_pieces")) ? "pieces" : "tokens";
    if (vr_get(body, "content") && !json_is_string(vr_get(body, "content")))
        return vr_refuse(t->why, "content", "invalid_type", "'content' must be a string"), NULL;
    return read_only(body, rows, VR_COUNT(rows), t);
}

json_t *vr_native_translate_detokenize(json_t *body, struct vr_translation *t)
{
    static const struct vr_field_row rows[] = { SAME(model) AS(tokens, "prompt") };
    const json_t *tokens = vr_get(body, "tokens");
    t->look = "text";
    for (size_t i = 0; i < json_array_size(tokens); i++)
        if (!json_is_integer(json_array_get(tokens, i))) tokens = NULL;
    if (!json_is_array(tokens))
        return vr_refuse(t->why, "tokens", "invalid_type", "'tokens' must be an array of token ids"), NULL;
    json_t *out = read_only(body, rows, VR_COUNT(rows), t);
    if (out && json_array_size(tokens) == 0) vr_put(t, out, "prompt", json_string(""));
    return out;
}

json_t *vr_native_translate_count(json_t *body, struct vr_translation *t)
{
    t->look = "count";
    return json_incref(body);
}

json_t *vr_native_translate_template(json_t *body, struct vr_translation *t)
{
    t->look = "prompt";
    return json_incref(body);
}
