#include "server/api/body.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "engine/wire/limits.h"

#define MAX_DEPTH  VR_MOST_JSON_DEPTH
#define MAX_VALUES 1000000 /* each costs the parser some 40 bytes */

/* What the parser must not see: too deep (it recurses), too many values (memory), bytes that are no text. */
static bool scan(const char *data, size_t n, struct vr_refusal *p)
{
    size_t depth = 0, values = 0;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c >= 0x80) {
            size_t len = vr_utf8_len((const unsigned char *)data + i, n - i);
            if (len == 0) return vr_refuse(p, NULL, "invalid_utf8", "the body is not UTF-8 at byte %zu", i);
            i += len - 1;
        } else if (in_string) {
            if (c == '\\') i++;
            if (c == '"') in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            values++;
            if (++depth > MAX_DEPTH)
                return vr_refuse(p, NULL, "too_deep", "the body is nested deeper than %d", MAX_DEPTH);
        } else if (c == '}' || c == ']') {
            if (depth) depth--;
        } else if (c == ',') {
            values++;
        }
        if (values > MAX_VALUES)
            return vr_refuse(p, NULL, "too_many_values", "the body has more than %d values", MAX_VALUES);
    }
    return true;
}

json_t *vr_body_parse(const char *data, size_t n, struct vr_refusal *p)
{
    json_error_t why;
    if (n == 0) return vr_refuse(p, NULL, "empty_body", "the body is empty; it must be a JSON object"), NULL;
    if (!scan(data, n, p)) return NULL;
    json_t *tree = json_loadb(data, n, JSON_REJECT_DUPLICATES, &why);
    if (!tree)
        return vr_refuse(p, NULL, "invalid_json", "the body is not valid JSON at line %d, column %d: %s", why.line,
                         why.column, why.text),
               NULL;
    if (json_is_object(tree)) return tree;
    json_decref(tree);
    return vr_refuse(p, NULL, "invalid_json", "the body must be a JSON object"), NULL;
}

static void read_form(const json_t *body, enum vr_request_kind kind, struct vr_reply_form *out)
{
#define GET(field) vr_request_get(body, VR_FIELD_##field)
    const char *model = json_string_value(GET(model)), *encoding = json_string_value(GET(encoding_format));
    *out = (struct vr_reply_form){
        .stream = json_is_true(GET(stream)),
        .usage = json_is_true(json_object_get(GET(stream_options), "include_usage")),
        .logprobs = kind == VR_CHAT ? json_is_true(GET(logprobs)) : GET(top_logprobs_of_completion) != NULL,
        .base64 = encoding && strcmp(encoding, "base64") == 0,
        .n_choices = vr_request_choices(body, kind),
    };
    snprintf(out->model, sizeof out->model, "%s", model ? model : "");
#undef GET
}

bool vr_body_check(json_t *body, enum vr_request_kind kind, struct vr_reply_form *out, struct vr_refusal *p)
{
    if (!vr_request_check(body, kind, p)) return false;
    read_form(body, kind, out);
    return vr_request_strip(body, kind, p);
}
