#include "engine/wire/failure.h"

#include <inttypes.h>
#include <stdio.h>

#include <jansson.h>

#include "base/json.h"

void vr_failure_write(const struct vr_failure *f, const char *log, struct vr_buf *out)
{
    vr_buf_addf(out, "{\"stage\":\"%s\",\"out_of_memory\":%s,\"aborted\":%s,\"device\":", vr_load_stage_name(f->stage),
                f->out_of_memory ? "true" : "false", f->aborted ? "true" : "false");
    if (f->device[0])
        vr_json_add_string(out, f->device);
    else
        vr_buf_adds(out, "null");
    vr_buf_addf(out,
                ",\"asked_bytes\":%" PRIu64 ",\"free_bytes\":%" PRIu64 ",\"missing_bytes\":%" PRIu64 ",\"message\":",
                f->asked_bytes, f->free_bytes, f->missing_bytes);
    vr_json_add_string(out, f->message);
    vr_buf_adds(out, ",\"left\":[");
    for (size_t i = 0; i < f->n_left; i++) {
        vr_buf_addf(out, "%s{\"name\":", i ? "," : "");
        vr_json_add_string(out, f->left[i].name);
        vr_buf_addf(out, ",\"free_bytes\":%" PRIu64 "}", f->left[i].free_bytes);
    }
    vr_buf_addf(out, "],\"log\":%s}", log);
}

static bool read_bytes(const json_t *j, const char *key, uint64_t *out)
{
    const json_t *v = json_object_get(j, key);
    *out = (uint64_t)json_integer_value(v);
    return json_is_integer(v) && json_integer_value(v) >= 0;
}

static bool read_tree(const json_t *j, struct vr_failure *f)
{
    const json_t *device = json_object_get(j, "device"), *left = json_object_get(j, "left");
    size_t n = json_array_size(left);
    if (!vr_load_stage_parse(json_string_value(json_object_get(j, "stage")), &f->stage)) return false;
    f->out_of_memory = json_is_true(json_object_get(j, "out_of_memory"));
    f->aborted = json_is_true(json_object_get(j, "aborted"));
    if (!json_is_null(device) && !vr_json_read_text(device, f->device, sizeof f->device)) return false;
    if (!vr_json_read_text(json_object_get(j, "message"), f->message, sizeof f->message)) return false;
    if (!read_bytes(j, "asked_bytes", &f->asked_bytes) || !read_bytes(j, "free_bytes", &f->free_bytes) ||
        !read_bytes(j, "missing_bytes", &f->missing_bytes))
        return false;
    if (!json_is_array(left) || n > VR_MAX_FAILURE_DEVICES) return false;
    for (f->n_left = 0; f->n_left < n; f->n_left++) {
        const json_t *d = json_array_get(left, f->n_left);
        if (!vr_json_read_text(json_object_get(d, "name"), f->left[f->n_left].name, sizeof f->left[0].name) ||
            !read_bytes(d, "free_bytes", &f->left[f->n_left].free_bytes))
            return false;
    }
    return true;
}

bool vr_failure_read(const void *json, size_t n, struct vr_failure *out)
{
    *out = (struct vr_failure){ 0 };
    json_t *tree = json_loadb(json, n, 0, NULL);
    bool ok = read_tree(tree, out);
    json_decref(tree);
    return ok;
}
