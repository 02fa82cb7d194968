/* Slots: which one a prompt gets, what it may use again, and that tenants never share anything. */
#include "test.h"

#include "engine/process/slots.h"

/* No memory of the engine behind it: what a slot holds is what it counts. */
struct bench {
    struct vr_engine e;
    struct vr_slots s;
};

static void bench_init(struct bench *b, uint32_t n_seq, bool unified)
{
    struct vr_err err;
    b->e = (struct vr_engine){ .n_seq = n_seq, .n_ctx_seq = 1024, .can_cut = true, .unified = unified };
    assert_true(vr_slots_init(&b->s, &b->e, &err));
}

static void fill(llama_token *out, uint32_t n, int from)
{
    for (uint32_t i = 0; i < n; i++) out[i] = from + (int)i;
}

/* A whole request: takes a slot, computes the rest of the prompt, becomes idle. What came from the cache. */
static uint32_t ask(struct bench *b, uint64_t tenant, const llama_token *prompt, uint32_t n)
{
    uint32_t n_cached = 0;
    struct vr_slot *slot = vr_slots_take(&b->s, tenant, prompt, n, true, &n_cached);
    assert_non_null(slot);
    assert_int_equal(slot->tenant, tenant);
    assert_int_equal(slot->n, n_cached);
    vr_slot_push(slot, prompt + n_cached, n - n_cached);
    vr_slots_give(&b->s, slot);
    return n_cached;
}

static void test_own_prefix(void **state)
{
    (void)state;
    for (int unified = 0; unified < 2; unified++) {
        struct bench b;
        llama_token prompt[300];
        bench_init(&b, 4, unified);
        fill(prompt, 300, 7);
        assert_int_equal(ask(&b, 1, prompt, 300), 0);
        assert_int_equal(ask(&b, 1, prompt, 300), 299); /* the last one is computed, for its logits */
        prompt[200] = 3;
        assert_int_equal(ask(&b, 1, prompt, 300), 200);
        vr_slots_done(&b.s);
    }
}

/* A slot that is wished for is taken if it is idle, with what is known of the prompt, wherever that is. */
static void test_wish(void **state)
{
    (void)state;
    for (int unified = 0; unified < 2; unified++) {
        struct bench b;
        llama_token prompt[300], other[300];
        uint32_t n_cached = 0;
        bench_init(&b, 4, unified);
        fill(prompt, 300, 7);
        fill(other, 300, 5000);
        struct vr_slot *wish = &b.s.slot[2];
        struct vr_choice *busy = (struct vr_choice *)(void *)&b;
        assert_ptr_equal(vr_slots_take_as(&b.s, wish, 1, prompt, 300, true, &n_cached), wish);
        assert_int_equal(n_cached, 0);
        vr_slot_push(wish, prompt, 300);
        vr_slots_give(&b.s, wish);
        /* it holds another conversation, and there are empty ones: it is the one that was wished for all the same */
        assert_ptr_equal(vr_slots_take_as(&b.s, wish, 1, other, 300, true, &n_cached), wish);
        assert_int_equal(n_cached, 0);
        vr_slot_push(wish, other, 300);
        vr_slots_give(&b.s, wish);
        /* what another slot knows is copied */
        struct vr_slot *one = &b.s.slot[1];
        assert_ptr_equal(vr_slots_take_as(&b.s, one, 1, other, 300, true, &n_cached), one);
        assert_int_equal(n_cached, 299);
        vr_slots_give(&b.s, one);
        /* but not what another tenant's does */
        assert_ptr_equal(vr_slots_take_as(&b.s, one, 2, other, 300, true, &n_cached), one);
        assert_int_equal(n_cached, 0);
        one->choice = busy;
        struct vr_slot *got = vr_slots_take_as(&b.s, one, 1, prompt, 300, true, &n_cached);
        assert_true(got && got != one);
        vr_slots_done(&b.s);
    }
}

static void test_never_anothers(void **state)
{
    (void)state;
    for (int unified = 0; unified < 2; unified++)
        for (uint32_t n_seq = 1; n_seq <= 4; n_seq++) {
            struct bench b;
            llama_token prompt[300];
            bench_init(&b, n_seq, unified);
            fill(prompt, 300, 7);
            assert_int_equal(ask(&b, 1, prompt, 300), 0);
            assert_int_equal(ask(&b, 2, prompt, 300), 0);
            assert_int_equal(ask(&b, 0, prompt, 300), 0);
            if (n_seq >= 3) assert_int_equal(ask(&b, 1, prompt, 300), 299);
            if (n_seq == 1) assert_int_equal(ask(&b, 1, prompt, 300), 0); /* taken over, and emptied before */
            vr_slots_done(&b.s);
        }
}

/* A long conversation is missed more than a younger short one, but not for ever. */
static void test_least_valuable(void **state)
{
    (void)state;
    struct bench b;
    llama_token prompt[500], brief[50];
    bench_init(&b, 2, false);
    fill(prompt, 500, 7);
    assert_int_equal(ask(&b, 1, prompt, 500), 0);
    for (int i = 1; i < 6; i++) {
        fill(brief, 50, i * 1000);
        assert_int_equal(ask(&b, 1, brief, 50), 0);
    }
    assert_int_equal(ask(&b, 1, prompt, 500), 499);
    for (int i = 6; i < 30; i++) {
        fill(brief, 50, i * 1000);
        assert_int_equal(ask(&b, 1, brief, 50), 0);
    }
    assert_int_equal(ask(&b, 1, prompt, 500), 0);
    vr_slots_done(&b.s);
}

/* A slot that is busy gives its beginning away, but not to others. */
static void test_busy(void **state)
{
    (void)state;
    struct bench b;
    llama_token prompt[300];
    uint32_t n_cached;
    bench_init(&b, 3, true);
    fill(prompt, 300, 7);
    struct vr_slot *busy = vr_slots_take(&b.s, 1, prompt, 300, true, &n_cached);
    vr_slot_push(busy, prompt, 300);
    busy->choice = (struct vr_choice *)&b; /* anything but NULL */
    assert_int_equal(ask(&b, 2, prompt, 300), 0);
    assert_int_equal(ask(&b, 1, prompt, 300), 299);
    vr_slots_done(&b.s);
}

/* The choices of one request share its prompt; the copy belongs to the same tenant. */
static void test_fork(void **state)
{
    (void)state;
    struct bench b;
    llama_token prompt[100];
    uint32_t n_cached;
    bench_init(&b, 2, true);
    fill(prompt, 100, 7);
    struct vr_slot *first = vr_slots_take(&b.s, 5, prompt, 100, true, &n_cached);
    vr_slot_push(first, prompt, 100);
    first->choice = (struct vr_choice *)&b;
    struct vr_slot *second = vr_slots_fork(&b.s, first);
    assert_non_null(second);
    assert_int_equal(second->n, 100);
    assert_int_equal(second->tenant, 5);
    assert_int_equal(ask(&b, 6, prompt, 100), 0);
    vr_slots_done(&b.s);
}

/* Random requests of three tenants with prompts that begin alike: what is reused was this tenant's. */
static void test_random(void **state)
{
    (void)state;
    uint32_t random = 1;
    for (int round = 0; round < 200; round++) {
        struct bench b;
        llama_token asked[3][64][200];
        uint32_t n_asked[3] = { 0 };
        bench_init(&b, 1 + (uint32_t)round % 5, round & 1);
        for (int k = 0; k < 60; k++) {
            llama_token prompt[200];
            random = random * 1664525u + 1013904223u;
            uint32_t tenant = random >> 16 & 3, change = random >> 20 & 127;
            if (tenant == 3) continue;
            fill(prompt, 200, 1);
            prompt[change] = -9;
            uint32_t n_cached = ask(&b, tenant, prompt, 200), most = 0;
            for (uint32_t i = 0; i < n_asked[tenant]; i++) {
                uint32_t same = 0;
                while (same < 200 && asked[tenant][i][same] == prompt[same]) same++;
                if (same > most) most = same;
            }
            assert_true(n_cached <= most);
            memcpy(asked[tenant][n_asked[tenant]++], prompt, sizeof prompt);
        }
        vr_slots_done(&b.s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_prefix),     cmocka_unit_test(test_wish), cmocka_unit_test(test_never_anothers),
        cmocka_unit_test(test_busy),           cmocka_unit_test(test_fork), cmocka_unit_test(test_random),
        cmocka_unit_test(test_least_valuable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
