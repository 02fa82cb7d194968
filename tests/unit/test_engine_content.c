/* Special texts and marks, without an engine: what counts, what is found, where marks go. */
#include "test.h"

#include "engine/content/marks.h"

static const struct vr_special vocabulary[] = {
    { "<s>", VR_SPECIAL_CONTROL },
    { "<|im_end|>", VR_SPECIAL_CONTROL },
    { "<|im_end|>more", VR_SPECIAL_CONTROL },
    { "<|start|>", VR_SPECIAL_DEFINED },
    { "<think>", VR_SPECIAL_DEFINED },
    { "</think>", VR_SPECIAL_DEFINED },
    { "<h1>", VR_SPECIAL_DEFINED },
    { "\n\n", VR_SPECIAL_DEFINED },
    { "X", VR_SPECIAL_CONTROL },
    { "\xe2\x96\x81", VR_SPECIAL_CONTROL },
    { "\xef\xbd\x9c<", VR_SPECIAL_CONTROL },
};
static const char source[] = "{{ '<|im_end|>' }}\n\n{{ '<think>' }} </think>";

static struct vr_specials *make(const char *chat_template)
{
    struct vr_err err;
    struct vr_specials *s = vr_specials_new(vocabulary, VR_COUNT(vocabulary), chat_template, &err);
    assert_non_null(s);
    return s;
}

static void test_which_count(void **state)
{
    (void)state;
    VR_AUTO(vr_specials) s = make(source);
    static const struct {
        const char *text;
        unsigned kinds;
        size_t n;
    } rows[] = {
        { "<s>", VR_SPECIAL_CONTROL, 3 },
        { "<s>", VR_SPECIAL_DEFINED, 0 },
        { "<s", VR_SPECIAL_ANY, 0 },
        { "", VR_SPECIAL_ANY, 0 },
        { "<|im_end|>mor", VR_SPECIAL_ANY, 10 },
        { "<|im_end|>more", VR_SPECIAL_ANY, 14 }, /* the longest */
        { "<|start|>", VR_SPECIAL_CONTROL, 9 },   /* its form says so */
        { "<think>", VR_SPECIAL_DEFINED, 7 },
        { "<think>", VR_SPECIAL_CONTROL, 0 },
        { "<h1>", VR_SPECIAL_ANY, 0 }, /* not the template's */
        { "\n\n", VR_SPECIAL_ANY, 0 }, /* blank */
        { "X", VR_SPECIAL_ANY, 0 },    /* of one character */
        { "\xe2\x96\x81", VR_SPECIAL_ANY, 0 },
        { "\xef\xbd\x9c<", VR_SPECIAL_ANY, 4 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++)
        if (vr_specials_begin(s, rows[i].kinds, rows[i].text, strlen(rows[i].text)) != rows[i].n)
            fail_msg("'%s'", rows[i].text);
    assert_int_equal(vr_specials_weigh(s, "a<s><s<s>", 9), 6);
    assert_false(vr_specials_may_join(s));
    VR_AUTO(vr_specials) joins = make("{{ content | replace('a', '') }}");
    assert_true(vr_specials_may_join(joins));
}

/* JSON with ' for ", and ~ for the mark. */
static char *text_of(const char *row, const char *mark)
{
    VR_AUTO_BUF b = { 0 };
    for (; *row; row++) {
        if (*row == '~')
            vr_buf_adds(&b, mark);
        else
            vr_buf_addc(&b, *row == '\'' ? '"' : *row, 1);
    }
    return strdup(vr_buf_str(&b));
}

static void test_marks(void **state)
{
    (void)state;
    static const struct {
        bool joins, needed;
        const char *from, *to;
    } rows[] = {
        { false, false, "[{'role':'user','content':'a < b <h1> [x]'}]", NULL },
        { false, true, "[{'role':'user','content':'a<s>b'}]", "[{'role':'user','content':'a<~s>b'}]" },
        { false, true, "[{'role':'user','content':'<<s>><|im_end|>'}]",
          "[{'role':'user','content':'<<~s>><~|im_end|>'}]" },
        { false, true, "[{'role':'user','content':'\xef\xbd\x9c<s>'}]",
          "[{'role':'user','content':'\xef\xbd\x9c~<~s>'}]" },
        { false, true, "[{'role':'user','content':'</think>'}]", "[{'role':'user','content':'<~/think>'}]" },
        { false, true, "[{'role':'assistant','content':'</think><s>'}]",
          "[{'role':'assistant','content':'</think><~s>'}]" },
        { false, true, "[{'role':'assistant','reasoning_content':'</think><|start|>'}]",
          "[{'role':'assistant','reasoning_content':'</think><~|start|>'}]" },
        { false, true,
          "[{'role':'user','content':[{'type':'text','text':'<s>'},{'type':'media_marker','text':'<m>'}]}]",
          "[{'role':'user','content':[{'type':'text','text':'<~s>'},{'type':'media_marker','text':'<m>'}]}]" },
        { false, true,
          "[{'role':'assistant','tool_calls':[{'id':'<s>','function':{'name':'<s>','arguments':'<think>'}}]}]",
          "[{'role':'assistant','tool_calls':[{'id':'<~s>','function':{'name':'<~s>','arguments':'<~think>'}}]}]" },
        /* escapes inside arguments, which are JSON in JSON */
        { false, true,
          "[{'role':'assistant','tool_calls':[{'function':{'arguments':'\\\\u003cs\\\\u003E \\\\n\\\\u0022 "
          "<\\\\/think>'}}]}]",
          "[{'role':'assistant','tool_calls':[{'function':{'arguments':'<~s> \\\\n\\\\u0022 <~/think>'}}]}]" },
        { false, true,
          "[{'role':'assistant','tool_calls':[{'function':{'arguments':'\\\\uff5c\\\\u003c\\\\ud83d\\\\ude00'}}]}]",
          "[{'role':'assistant','tool_calls':[{'function':{'arguments':'\xef\xbd\x9c~<\xf0\x9f\x98\x80'}}]}]" },
        { false, true, "[{'role':'assistant','tool_calls':[{'function':{'arguments':'\\\\u0041\\\\\\\\u003cs>'}}]}]",
          NULL },
        /* every first character, where words are taken out */
        { true, true, "[{'role':'user','content':'a<b'},{'role':'assistant','content':'a<b','name':'a<b'}]",
          "[{'role':'user','content':'a<~b'},{'role':'assistant','content':'a<b','name':'a<b'}]" },
        { true, true, "[{'role':'user','content':[{'type':'media_marker','text':'<m>'},{'type':'text','text':'<'}]}]",
          "[{'role':'user','content':[{'type':'media_marker','text':'<m>'},{'type':'text','text':'<~'}]}]" },
    };
    VR_AUTO(vr_specials) plain = make(source);
    VR_AUTO(vr_specials) joins = make("replace <think> </think>");
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_marks m;
        const struct vr_specials *s = rows[i].joins ? joins : plain;
        char *from = text_of(rows[i].from, "");
        assert_int_equal(vr_marks_needed(s, from), rows[i].needed);
        assert_true(vr_marks_init(&m, s, (const char *const[]){ from, NULL }, 2));
        char *to = text_of(rows[i].to ? rows[i].to : rows[i].from, m.mark);
        json_t *v = json_loads(from, 0, NULL), *marked = vr_marks_messages(&m, v);
        char *got = json_dumps(marked, JSON_COMPACT);
        if (strcmp(got, to) != 0) fail_msg("%s\n%s", got, to);
        assert_int_equal(m.n > 0, rows[i].to != NULL);
        free(got);
        free(from);
        free(to);
        json_decref(v);
        json_decref(marked);
    }
}

static void test_values(void **state)
{
    (void)state;
    VR_AUTO(vr_specials) s = make(source);
    struct vr_marks m;
    assert_true(vr_marks_init(&m, s, NULL, 0));
    char *from = text_of("{'<s>':[1,null,true,{'type':'<think>','enum':['<s>','b']}],'x':1.5}", "");
    char *to = text_of("{'<~s>':[1,null,true,{'type':'<~think>','enum':['<~s>','b']}],'x':1.5}", m.mark);
    json_t *v = json_loads(from, 0, NULL), *marked = vr_marks_value(&m, v);
    char *got = json_dumps(marked, JSON_COMPACT);
    assert_string_equal(got, to);
    assert_int_equal(m.n, 3);
    free(from);
    free(to);
    free(got);
    json_decref(v);
    json_decref(marked);
}

/* The mark is one that is not there, neither as itself nor as an escape; and it goes away again. */
static void test_choice(void **state)
{
    (void)state;
    VR_AUTO(vr_specials) s = make(source);
    struct vr_marks m;
    VR_AUTO_BUF with = { 0 }, without = { 0 };
    assert_true(vr_marks_init(&m, s, (const char *const[]){ "a\xef\xb7\x90", "\\\\uFDD1" }, 2));
    assert_string_equal(m.mark, "\xef\xb7\x92");
    vr_marks_rendered(&m,
                      "a\\ufdd2b\xef\xb7\x92"
                      "c",
                      12, &with);
    assert_string_equal(vr_buf_str(&with), "a\xef\xb7\x92"
                                           "b\xef\xb7\x92"
                                           "c");
    vr_marks_remove(&m, vr_buf_str(&with), with.n, &without);
    assert_string_equal(vr_buf_str(&without), "abc");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_count),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
