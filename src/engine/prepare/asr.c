#include "engine/prepare/asr.h"

#include "base/buf.h"

bool vr_asr_ask(const struct vr_chats *c, json_t *messages, struct vr_err *err)
{
    VR_AUTO_BUF system = { 0 };
    VR_AUTO_BUF user = { 0 };
    json_t *content = json_object_get(json_array_get(messages, 0), "content"), *part = json_array_get(content, 0);
    json_t *text = json_object_get(part, "text");
    if (!vr_bridge_asr_words(c, &system, &user, err)) return false;
    vr_buf_add(&user, json_string_value(text), json_string_length(text));
    bool ok = !system.failed && !user.failed;
    if (ok && user.n)
        ok = json_object_set_new(part, "text", json_stringn(user.data, user.n)) == 0;
    else if (ok)
        ok = json_array_remove(content, 0) == 0;
    if (ok && system.n)
        ok = json_array_insert_new(messages, 0,
                                   json_pack("{s:s,s:s}", "role", "system", "content", vr_buf_str(&system))) == 0;
    return ok || vr_fail_nomem(err, "asking for a transcription");
}
