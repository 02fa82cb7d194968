/* What a worker answers: what goes in comes out; what is cut, changed or lies is seen, whatever it is. */
#include "test.h"

#include <math.h>

#include "engine/prepare/prepared.h"

enum { N_VOCAB = 1000 };

static const int32_t prompt[] = { 1, 2, 3, 999 }, ends[] = { 7 };

#define SPAN(s) ((struct vr_span){ s, sizeof(s) - 1 })
#define IDS(a)  ((struct vr_ids){ a, VR_COUNT(a) })

struct sample {
    struct vr_prepared p;
    struct vr_ids prompts[1], think_ends[1];
    struct vr_span stops[2];
    struct vr_trigger triggers[1];
    struct vr_bias bias[2];
    struct vr_span breakers[1];
};

static struct vr_prepared *make_chat(struct sample *s)
{
    *s = (struct sample){ .prompts = { IDS(prompt) },
                          .think_ends = { IDS(ends) },
                          .stops = { SPAN("STOP"), SPAN("<|end|>") },
                          .triggers = { { true, SPAN("^<call>$") } },
                          .bias = { { 5, -1 }, { 6, -INFINITY } },
                          .breakers = { SPAN("\n") } };
    s->p = (struct vr_prepared){ .kind = VR_CHAT,
                                 .prompts = s->prompts,
                                 .n_prompts = 1,
                                 .n = 2,
                                 .sampling = { .temperature = 0.5f,
                                               .top_k = -1,
                                               .bias = s->bias,
                                               .n_bias = 2,
                                               .chain = { .on = true,
                                                          .tells = true,
                                                          .typical_p = 0.5f,
                                                          .steps = { VR_SAMPLER_DRY, VR_SAMPLER_XTC },
                                                          .n_steps = 2,
                                                          .breakers = s->breakers,
                                                          .n_breakers = 1 } },
                                 .seed = UINT64_MAX,
                                 .max_tokens = INT32_MAX,
                                 .top_logprobs = 20,
                                 .n_indent = 4,
                                 .max_ms = 1500,
                                 .stream = true,
                                 .stops = s->stops,
                                 .n_stops = 2,
                                 .n_own_stops = 1,
                                 .grammar = { .gbnf = SPAN("root ::= \"x\""),
                                              .lazy = true,
                                              .triggers = s->triggers,
                                              .n_triggers = 1,
                                              .trigger_tokens = IDS(ends),
                                              .think = IDS(ends),
                                              .think_ends = s->think_ends,
                                              .n_think_ends = 1 },
                                 .grammar_param = SPAN("tools"),
                                 .is_chat = true,
                                 .chat = { .format = 3, .parser = SPAN("{}"), .kept = IDS(ends), .tools = true } };
    return &s->p;
}

static enum vr_prepared_what read_back(const struct vr_buf *b, size_t n, struct vr_arena *arena,
                                       struct vr_prepared *out)
{
    struct vr_refusal why;
    return vr_prepared_read(vr_buf_str(b), n, N_VOCAB, arena, out, &why);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct sample s;
    VR_AUTO_BUF b = { 0 };
    VR_AUTO_BUF again = { 0 };
    VR_AUTO_ARENA arena = { 0 };
    struct vr_prepared p;
    vr_prepared_write(make_chat(&s), &b);
    assert_false(b.failed);
    assert_int_equal(read_back(&b, b.n, &arena, &p), VR_PREPARED);
    assert_int_equal(p.prompts[0].n, 4);
    assert_memory_equal(p.prompts[0].ids, prompt, sizeof prompt);
    assert_int_equal(p.seed, UINT64_MAX);
    assert_int_equal(p.sampling.bias[1].token, 6);
    assert_memory_equal(p.stops[1].data, "<|end|>", 7);
    assert_true(p.stream && !p.echo && p.grammar.lazy && p.chat.tools && !p.chat.plain);
    assert_int_equal(p.grammar.think_ends[0].ids[0], 7);
    vr_prepared_write(&p, &again);
    assert_int_equal(again.n, b.n);
    assert_memory_equal(again.data, b.data, b.n);
}

static void test_refusals(void **state)
{
    (void)state;
    VR_AUTO_BUF b = { 0 };
    VR_AUTO_ARENA arena = { 0 };
    struct vr_prepared p;
    struct vr_refusal why, got;
    vr_refuse(&why, "messages", "too_costly", "no %d", 7);
    vr_refusal_write(&why, &b);
    assert_int_equal(vr_prepared_read(b.data, b.n, N_VOCAB, &arena, &p, &got), VR_REFUSED);
    assert_int_equal(got.status, 400);
    assert_string_equal(got.code, "too_costly");
    assert_string_equal(got.param, "messages");
    assert_string_equal(got.message, "no 7");
    for (size_t n = 0; n < b.n; n++)
        assert_int_equal(vr_prepared_read(b.data, n, N_VOCAB, &arena, &p, &got), VR_MALFORMED);
}

/* Every cut is seen; every other byte that is changed makes something that is still within the bounds, or is seen. */
static void test_cut_and_changed(void **state)
{
    (void)state;
    struct sample s;
    VR_AUTO_BUF b = { 0 };
    vr_prepared_write(make_chat(&s), &b);
    for (size_t n = 0; n < b.n; n++) {
        VR_AUTO_ARENA arena = { 0 };
        struct vr_prepared p;
        VR_AUTO_FREE char *cut = malloc(n + 1); /* to the byte, for the sanitizer */
        memcpy(cut, b.data, n);
        struct vr_refusal why;
        assert_int_equal(vr_prepared_read(cut, n, N_VOCAB, &arena, &p, &why), VR_MALFORMED);
    }
    for (size_t i = 0; i < b.n; i++)
        for (int bit = 0; bit < 8; bit++) {
            VR_AUTO_ARENA arena = { 0 };
            struct vr_prepared p;
            b.data[i] ^= (char)(1 << bit);
            if (read_back(&b, b.n, &arena, &p) == VR_PREPARED) {
                assert_in_range(p.n, 1, VR_MOST_CHOICES);
                assert_true(p.n_own_stops <= p.n_stops && p.top_logprobs <= VR_MOST_TOP_LOGPROBS);
                for (size_t k = 0; k < p.prompts[0].n; k++) assert_in_range(p.prompts[0].ids[k], 0, N_VOCAB - 1);
            }
            b.data[i] ^= (char)(1 << bit);
        }
}

/* A worker that lies, one field at a time. */
static void test_lies(void **state)
{
    (void)state;
    static const int32_t beyond[] = { N_VOCAB }, below[] = { -1 };
    static const char pixels[12];
    struct vr_rgb small = { .width = 2, .height = 2, .pixels = { pixels, 12 } },
                  wrong = { .width = 2, .height = 3, .pixels = { pixels, 12 } };
    struct vr_span empty = { "", 0 };
    struct sample s;
    struct vr_prepared *p = &s.p;
#define LIE(...)                                                                                                       \
    do {                                                                                                               \
        VR_AUTO_BUF b = { 0 };                                                                                         \
        VR_AUTO_ARENA arena = { 0 };                                                                                   \
        struct vr_prepared out;                                                                                        \
        make_chat(&s);                                                                                                 \
        __VA_ARGS__;                                                                                                   \
        vr_prepared_write(p, &b);                                                                                      \
        assert_true(b.failed || read_back(&b, b.n, &arena, &out) == VR_MALFORMED);                                     \
    } while (0)
    LIE(p->prompts[0] = IDS(beyond));
    LIE(p->prompts[0] = IDS(below));
    LIE(p->prompts[0].n = 0);
    LIE(p->n_prompts = 0);
    LIE(p->n = 0);
    LIE(p->n = 17);
    LIE(p->kind = VR_N_REQUEST_KINDS);
    LIE(p->kind = VR_COMPLETION);
    LIE(p->is_chat = false);
    LIE(p->top_logprobs = 21);
    LIE(p->n_own_stops = 3);
    LIE(p->stops[0] = empty);
    LIE(p->sampling.temperature = NAN);
    LIE(s.bias[0].token = N_VOCAB);
    LIE(s.bias[0].bias = NAN);
    LIE(p->chat.kept = IDS(beyond));
    LIE(p->grammar.think_ends[0].n = 0);
    LIE(p->grammar.trigger_tokens = IDS(below));
    LIE(p->scene = SPAN("text"));
    LIE(p->pictures = &small, p->n_pictures = 1);
    LIE(p->n_prompts = 0, p->scene = SPAN("text"), p->pictures = &wrong, p->n_pictures = 1);
#undef LIE
}

static void test_pictures(void **state)
{
    (void)state;
    static const char pixels[12] = "0123456789a";
    struct vr_rgb one = { .width = 2, .height = 2, .pixels = { pixels, 12 }, .id = "abc" };
    struct sample s;
    VR_AUTO_BUF b = { 0 };
    VR_AUTO_ARENA arena = { 0 };
    struct vr_prepared out, *p = make_chat(&s);
    p->n_prompts = 0;
    p->scene = SPAN("look: <marker>");
    p->pictures = &one;
    p->n_pictures = 1;
    vr_prepared_write(p, &b);
    assert_int_equal(read_back(&b, b.n, &arena, &out), VR_PREPARED);
    assert_int_equal(out.pictures[0].height, 2);
    assert_string_equal(out.pictures[0].id, "abc");
    assert_memory_equal(out.pictures[0].pixels.data, pixels, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_round_trip), cmocka_unit_test(test_refusals),
                                        cmocka_unit_test(test_cut_and_changed), cmocka_unit_test(test_lies),
                                        cmocka_unit_test(test_pictures) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
