/* A body in another API's form -> ours: what comes out passed every check, whatever went in; what does not is refused
 * with words and a code; what has no effect is named in a header that is one line. The first byte says which API. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/json.h"
#include "engine/wire/limits.h"
#include "server/api/body.h"
#include "server/dialect/messages.h"
#include "server/dialect/native.h"
#include "server/dialect/ollama.h"
#include "server/dialect/response_store.h"
#include "server/dialect/rerank.h"
#include "server/dialect/responses.h"
#include "server/dialect/transcription.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Reading alone. */
static const struct vr_dialect all[] = {
    { .kind = VR_CHAT, .translate = vr_responses_translate },
    { .kind = VR_CHAT, .translate = vr_responses_translate_count },
    { .kind = VR_CHAT, .translate = vr_messages_translate },
    { .kind = VR_CHAT, .translate = vr_messages_translate_count },
    { .kind = VR_CHAT, .translate = vr_ollama_translate_chat },
    { .kind = VR_CHAT, .translate = vr_ollama_translate_generate },
    { .kind = VR_EMBEDDING, .translate = vr_ollama_translate_embed },
    { .kind = VR_COMPLETION, .translate = vr_native_translate_completion },
    { .kind = VR_EMBEDDING, .translate = vr_native_translate_embedding },
    { .kind = VR_COMPLETION, .translate = vr_native_translate_tokenize },
    { .kind = VR_COMPLETION, .translate = vr_native_translate_detokenize },
    { .kind = VR_CHAT, .translate = vr_native_translate_template },
    { .kind = VR_COMPLETION, .translate = vr_native_translate_infill },
    { .kind = VR_RERANK, .translate = vr_rerank_translate },
    { .kind = VR_CHAT, .parse = vr_form_parse, .translate = vr_transcription_translate },
    { .kind = VR_CHAT, .parse = vr_form_parse, .translate = vr_audio_translation_translate },
};

static void must(bool truth)
{
    if (!truth) abort();
}

static struct vr_responses *store(void)
{
    static const char items[] = "{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"z\",\"id\":"
                                "\"msg_0123456789abcdef01234567_0\"}";
    struct vr_responses *all = vr_responses_new(1 << 20, 1 << 20);
    must(all && vr_responses_put(all, &(struct vr_stored_owner){ 0 }, "resp_0123456789abcdef01234567", items,
                                 sizeof items - 1, "{}", 2));
    return all;
}

static void check(const struct vr_body *b)
{
    if (!b->ok) {
        must(!b->json && !b->memo && b->why.status >= 400 && b->why.message[0] && b->why.code);
        must(b->why.status != 503); /* memory is never out here: what is wrong is not told as that */
        must(vr_utf8_is(b->why.message) && vr_utf8_is(b->why.param));
        return;
    }
    json_t *body = json_loadb(b->json, b->n, JSON_REJECT_DUPLICATES, NULL);
    enum vr_request_kind kind;
    must(body && vr_request_kind_parse(json_string_value(json_object_get(body, "kind")), &kind));
    must(b->form.n_choices >= 1 && b->form.n_choices <= VR_MOST_TEXTS);
    must(!json_object_get(body, "model") && json_integer_value(json_object_get(body, "tenant")) == 7);
    json_decref(body);
    for (const char *c = b->ignored; c && *c; c++) must(*c >= ' ' && *c <= '~');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct vr_responses *responses;
    if (!responses) responses = store();
    if (n == 0) return 0;
    const struct vr_dialect *d = &all[data[0] % VR_COUNT(all)];
    VR_AUTO_FREE char *text = malloc(n);
    must(text);
    memcpy(text, data + 1, n - 1);
    struct vr_body b;
    const struct vr_asker asker = {
        .dialect = d, .whose = { 3, 7 }, .responses = responses, .boundary = "b", .may_keep = true
    };
    vr_body_read(text, n - 1, &asker, &b);
    check(&b);
    vr_body_done(&b);
    return 0;
}
