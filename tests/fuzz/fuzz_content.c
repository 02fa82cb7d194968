/* Bytes -> a message, which is marked: afterwards nothing in it is special, and without the marks it is what it was.
 * The first byte says who speaks and where. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "engine/content/marks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const struct vr_special vocabulary[] = {
    { "<s>", VR_SPECIAL_CONTROL },        { "</s>", VR_SPECIAL_CONTROL },     { "<<s>", VR_SPECIAL_CONTROL },
    { "<|im_end|>", VR_SPECIAL_CONTROL }, { "|>", VR_SPECIAL_CONTROL },       { "aaaa", VR_SPECIAL_CONTROL },
    { "<think>", VR_SPECIAL_DEFINED },    { "</think>", VR_SPECIAL_DEFINED },
};

static void check_text(const struct vr_marks *m, unsigned kinds, const char *before, const json_t *after)
{
    const char *text = json_string_value(after);
    size_t n = json_string_length(after);
    for (size_t i = 0; i < n; i++)
        if (vr_specials_begin(m->specials, kinds, text + i, n - i)) abort();
    VR_AUTO_BUF bare = { 0 };
    vr_marks_remove(m, text, n, &bare);
    if (before && strcmp(vr_buf_str(&bare), before) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct vr_err err;
    static struct vr_specials *sets[2];
    for (int i = 0; i < 2; i++)
        if (!sets[i])
            sets[i] = vr_specials_new(vocabulary, VR_COUNT(vocabulary),
                                      i ? "replace <think> </think>" : "<think></think>", &err);
    if (n == 0 || memchr(data, 0, n)) return 0;
    VR_AUTO_FREE char *text = strndup((const char *)data + 1, n - 1);
    if (!text || !vr_utf8_is(text)) return 0;
    const struct vr_specials *s = sets[data[0] & 1];
    bool assistant = data[0] & 2;
    struct vr_marks m;
    if (!vr_marks_init(&m, s, (const char *const[]){ text }, 1)) return 0;
    json_t *messages = json_pack("[{ss ss s[{s{ss}}]}]", "role", assistant ? "assistant" : "user", "content", text,
                                 "tool_calls", "function", "arguments", text);
    VR_AUTO_FREE char *json = json_dumps(messages, JSON_COMPACT);
    bool needed = vr_marks_needed(s, json);
    json_t *marked = vr_marks_messages(&m, messages), *message = json_array_get(marked, 0);
    if (!marked || (m.n && !needed)) abort();
    check_text(&m, assistant ? VR_SPECIAL_CONTROL : VR_SPECIAL_ANY, text, json_object_get(message, "content"));
    const json_t *call = json_array_get(json_object_get(message, "tool_calls"), 0);
    check_text(&m, VR_SPECIAL_ANY, NULL, json_object_get(json_object_get(call, "function"), "arguments"));
    json_decref(messages);
    json_decref(marked);
    return 0;
}
