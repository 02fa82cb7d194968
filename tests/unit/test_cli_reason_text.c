/* Every kind of reason has a sentence, every place in it a figure of that kind, and JSON has all of them. */
#include "test.h"

#include "base/text.h"
#include "cli/text/reason_text.h"
#include "gguf/type.h"
#include "hw/machine.h"

static struct vr_machine machine;

static int set_up(void **state)
{
    (void)state;
    machine.n_devices = 5;
    for (size_t i = 0; i < machine.n_devices; i++) {
        snprintf(machine.devices[i].id, sizeof machine.devices[i].id, "CUDA%u", (unsigned)i & 31);
        snprintf(machine.devices[i].name, sizeof machine.devices[i].name, "NVIDIA GeForce RTX 3090");
    }
    return 0;
}

/* Each sentence as it is written. */
static const char *const sentences[VR_N_REASON_KINDS] = {
#define SENTENCE(kind, text) [VR_REASON_##kind] = text,
#include "cli/text/sentences.def"
#undef SENTENCE
};

static bool says(enum vr_reason_kind kind, const char *name)
{
    char plain[64], flag[64];
    snprintf(plain, sizeof plain, "{%s}", name);
    snprintf(flag, sizeof flag, "{%s?", name);
    return strstr(sentences[kind], plain) || strstr(sentences[kind], flag);
}

/* A sentence names what its kind has, and nothing else. */
static void test_sentences_match_the_table(void **state)
{
    (void)state;
    for (enum vr_reason_kind k = 0; k < VR_N_REASON_KINDS; k++) {
        const struct vr_reason_row *row = vr_reason_row(k);
        if (!sentences[k]) fail_msg("%s says nothing", row->name);
        size_t places = 0, known = says(k, "devices");
        for (const char *s = sentences[k]; *s; s++) places += *s == '{';
        for (enum vr_figure f = 0; f < VR_N_FIGURES; f++) {
            bool has = row->figures >> f & 1, told = says(k, vr_figure_row(f)->name);
            /* whether a companion is there decides what is said before the sentence */
            if (told != has && !(f == VR_FIGURE_COMPANION && row->about == VR_ABOUT_LEFT_OUT))
                fail_msg("%s: '%s' %s", row->name, vr_figure_row(f)->name, has ? "is not told" : "is not its own");
            known += told;
        }
        if (places < known) fail_msg("%s: a place is not closed", row->name);
        struct vr_reason r = { .kind = k, .devices = 1 };
        VR_AUTO_BUF text = { 0 };
        vr_reason_text(&text, &machine, &r);
        if (strpbrk(vr_buf_str(&text), "{}|?")) fail_msg("%s: %s", row->name, vr_buf_str(&text));
    }
}

static void test_words(void **state)
{
    (void)state;
    static const struct {
        struct vr_reason reason;
        const char *text;
    } rows[] = {
        { { .kind = VR_REASON_TOO_SMALL, .devices = 2, .figures = { [VR_FIGURE_SHORT_BYTES] = 1234.0 * VR_MIB } },
          "CUDA1 (RTX 3090) left out: its compute buffer and one layer need 1,234 MiB more than it has" },
        { { .kind = VR_REASON_NOT_NEEDED, .devices = 2, .figures = { [VR_FIGURE_COMPANION] = 1 } },
          "CUDA1 (RTX 3090) without layers: the others hold everything, and none of them is slower" },
        { { .kind = VR_REASON_NOT_NEEDED, .devices = 2, .figures = { [VR_FIGURE_OVERRIDDEN] = 1 } },
          "CUDA1 (RTX 3090) left out: the others hold the rest, and none of them is slower" },
        { { .kind = VR_REASON_HOST_LAYERS_NO_ROOM, .devices = 7, .figures = { [VR_FIGURE_N_LAYERS] = 13 } },
          "13 layers in host memory: no more fit on CUDA0, CUDA1 and CUDA2" },
        { { .kind = VR_REASON_HOST_LAYERS_PARTLY,
            .devices = 3,
            .figures = { [VR_FIGURE_N_LAYERS] = 5, [VR_FIGURE_HOST_BYTES] = 1e9 } },
          "5 layers in host memory, 953.67 MiB of weights; FFN matrices are placed one by one to fill "
          "CUDA0 and CUDA1" },
        { { .kind = VR_REASON_HOST_LAYERS_NO_ROOM, .devices = 31, .figures = { [VR_FIGURE_N_LAYERS] = 1 } },
          "1 layer in host memory: no more fit on the 5 devices" },
        { { .kind = VR_REASON_CACHE_REDUCED,
            .figures = { [VR_FIGURE_TYPE_K] = 8,
                         [VR_FIGURE_TYPE_V] = 8,
                         [VR_FIGURE_ASKED_TYPE_K] = VR_TYPE_F16,
                         [VR_FIGURE_ASKED_TYPE_V] = VR_TYPE_F32 } },
          "KV cache reduced to q8_0/q8_0: the requested f16/f32 does not fit (--allow kv)" },
        { { .kind = VR_REASON_OPTIMAL, .figures = { [VR_FIGURE_FIXED] = 1 } },
          "no other placement with what you fixed is faster: the search was exhaustive" },
        { { .kind = VR_REASON_SHORT,
            .devices = VR_REASON_HOST,
            .figures = { [VR_FIGURE_SHORT_BYTES] = 1.0 * VR_MIB,
                         [VR_FIGURE_NEED_BYTES] = 5000.0 * VR_MIB,
                         [VR_FIGURE_FREE_BYTES] = 4999.0 * VR_MIB } },
          "the host is 1 MiB short: it needs 5,000 MiB and has 4,999 MiB free" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        VR_AUTO_BUF text = { 0 };
        vr_reason_text(&text, &machine, &rows[i].reason);
        assert_string_equal(vr_buf_str(&text), rows[i].text);
    }
}

static void test_json(void **state)
{
    (void)state;
    const struct vr_reason r = {
        .kind = VR_REASON_DRAFT,
        .devices = 4,
        .figures = { [VR_FIGURE_BYTES] = 5.0 * VR_GIB, [VR_FIGURE_MS_PER_TOKEN] = 7.5, [VR_FIGURE_N_DRAFT] = 3 }
    };
    json_t *tree = vr_json_reason(&machine, &r);
    VR_AUTO_FREE char *text = json_dumps(tree, JSON_COMPACT);
    json_decref(tree);
    assert_string_equal(
        text,
        "{\"kind\":\"draft\",\"devices\":[\"CUDA2\"],\"figures\":{\"bytes\":5368709120,\"ms_per_token\":7.5,\"n_"
        "draft\":3,"
        "\"break_even_percent\":0.0},\"text\":\"draft model on CUDA2 (RTX 3090): 5,120 MiB, 7.50 ms per drafted token; "
        "drafting 3 tokens per step pays off when more than 0 % of them are accepted\"}");
    const struct vr_budgets b = { .excluded = { { .device = 3, .why = VR_EXCLUDED_NOT_CHOSEN } }, .n_excluded = 1 };
    json_t *list = vr_json_excluded(&machine, &b);
    VR_AUTO_FREE char *excluded = json_dumps(list, JSON_COMPACT);
    json_decref(list);
    assert_string_equal(excluded,
                        "[{\"id\":\"CUDA3\",\"name\":\"NVIDIA GeForce RTX "
                        "3090\",\"total_bytes\":0,\"free_bytes\":0,\"bandwidth_gbs\":0.0,\"kind\":\"not_chosen\","
                        "\"figures\":{},\"reason\":\"not named in --devices\"}]");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_sentences_match_the_table), cmocka_unit_test(test_words),
                                        cmocka_unit_test(test_json) };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
