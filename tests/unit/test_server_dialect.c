/* What other APIs ask, translated: what is wrong is refused as that, and what the answer keeps of a request is counted.
 */
#include "test.h"

#include "server/api/body.h"
#include "server/api/dialect.h"
#include "server/dialect/messages.h"
#include "server/dialect/native.h"
#include "server/dialect/ollama.h"

static void read_as(const struct vr_dialect *d, const char *text, struct vr_body *out)
{
    vr_body_read(text, strlen(text), &(struct vr_asker){ .dialect = d, .whose = { 1, 1 }, .may_keep = true }, out);
}

static void test_durations(void **state)
{
    (void)state;
    static const struct {
        const char *keep;
        bool ok;
        int64_t ms;
    } rows[] = {
        { "\"5m\"", true, 300000 }, { "\"1h30m\"", true, 5400000 }, { "\".5s\"", true, 500 }, { "\"-1\"", true, -1 },
        { "\"2.\"", true, 2000 },   { "90", true, 90000 },          { "\".\"", false, 0 },    { "\"1..\"", false, 0 },
        { "\"1s.\"", false, 0 },    { "\"\"", false, 0 },           { "\"-\"", false, 0 },    { "\"5 m\"", false, 0 },
        { "\"5d\"", false, 0 },     { "true", false, 0 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        char text[200];
        struct vr_body b;
        snprintf(text, sizeof text, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"keep_alive\":%s}",
                 rows[i].keep);
        read_as(&vr_ollama_chat, text, &b);
        if (b.ok != rows[i].ok) fail_msg("%s: %s", rows[i].keep, b.why.message);
        if (b.ok) assert_true(b.form.keep && b.form.keep_ms == rows[i].ms);
        if (!b.ok) assert_true(b.why.status == 400 && strstr(b.why.message, "keep_alive"));
        vr_body_done(&b);
    }
}

/* Of the wrong type, and not said to be for lack of memory. */
static void test_wrong_types(void **state)
{
    (void)state;
    static const struct {
        const struct vr_dialect *dialect;
        const char *text, *word;
    } rows[] = {
        { &vr_messages_create,
          "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"chat_template_kwargs\":\"y\"}",
          "chat_template_kwargs" },
        { &vr_messages_create,
          "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"chat_template_kwargs\":[1]}",
          "chat_template_kwargs" },
        { &vr_native_completion, "{\"prompt\":\"x\",\"logit_bias\":\"y\"}", "logit_bias" },
        { &vr_ollama_chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"options\":[]}", "options" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_body b;
        read_as(rows[i].dialect, rows[i].text, &b);
        if (b.ok || b.why.status != 400 || !strstr(b.why.message, rows[i].word))
            fail_msg("%s: %d %s", rows[i].text, b.why.status, b.why.message);
        vr_body_done(&b);
    }
}

/* A prompt is told again with the answer, so it stays until then. */
static void test_what_is_kept(void **state)
{
    (void)state;
    enum { N = 10000 };
    static char text[N + 100];
    struct vr_body b;
    int n = snprintf(text, sizeof text, "{\"prompt\":\"");
    memset(text + n, 'x', N);
    snprintf(text + n + N, sizeof text - (size_t)n - N, "\",\"response_fields\":[\"content\"]}");
    read_as(&vr_native_completion, text, &b);
    assert_true(b.ok);
    assert_true(b.n_memo >= N && b.n_memo < 2 * N);
    vr_body_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_wrong_types),
        cmocka_unit_test(test_what_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
