/* The prompt cache: what is found is what was added and begins alike, for the same tenant; equal beginnings are there
 * once; the budget holds at all times; and finding takes no time over ten thousand. Rows: cut and joined is as it was.
 */
#include "test.h"

#include "base/clock.h"
#include "engine/cache/prompt_cache.h"
#include "engine/cache/kv_rows.h"

enum { BLOCK = 16, TOKEN_BYTES = 32 };

static uint32_t seed = 1;

static uint32_t below(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

struct world {
    struct vr_cache_ram ram;
    struct vr_prompt_cache c;
    uint32_t n_cut; /* blocks that were asked for */
};

static void world_init(struct world *w, uint64_t limit)
{
    *w = (struct world){ .ram.limit_bytes = limit };
    w->c.ram = &w->ram;
}

static struct vr_kept *block(void *ctx, uint32_t from, uint32_t n)
{
    struct world *w = ctx;
    w->n_cut++;
    assert_true(n <= BLOCK && from % BLOCK == 0);
    return vr_kept_new(&w->ram, (size_t)n * TOKEN_BYTES);
}

/* As the engine's process does: room first, then added. */
static bool add(struct world *w, uint64_t tenant, const int32_t *tokens, uint32_t n, const struct vr_checkpoints *c)
{
    static const struct vr_checkpoints none;
    const struct vr_cache_source s = {
        tenant, tokens, n, BLOCK, c ? c : &none, block, w, (double)n,
    };
    for (int i = 0; i < 3; i++)
        if (!vr_prompt_cache_make_room(&w->c, vr_prompt_cache_need(&w->c, &s, TOKEN_BYTES))) return false;
    bool ok = vr_prompt_cache_add(&w->c, &s);
    assert_true(w->ram.used_bytes <= w->ram.limit_bytes);
    return ok;
}

static uint32_t known(struct world *w, uint64_t tenant, const int32_t *tokens, uint32_t n)
{
    return vr_prompt_cache_known(&w->c, tenant, tokens, n);
}

static void test_shared(void **state)
{
    (void)state;
    struct world w;
    int32_t a[100], b[100];
    world_init(&w, 1 << 20);
    for (int i = 0; i < 100; i++) a[i] = b[i] = i;
    b[50] = -1;
    assert_true(add(&w, 1, a, 100, NULL));
    assert_int_equal(w.n_cut, 7);
    uint64_t used = w.ram.used_bytes;
    assert_true(add(&w, 1, a, 100, NULL)); /* there already */
    assert_true(add(&w, 1, a, 80, NULL));  /* part of it */
    assert_int_equal(w.ram.used_bytes, used);
    assert_int_equal(w.c.n, 1);
    assert_true(add(&w, 1, b, 100, NULL)); /* three blocks are the same */
    assert_int_equal(w.n_cut, 7 + 4);
    assert_int_equal(known(&w, 1, b, 100), 100);
    assert_int_equal(known(&w, 2, b, 100), 0);
    assert_int_equal(known(&w, 0, b, 100), 0);
    assert_true(add(&w, 2, a, 100, NULL)); /* tenants share nothing */
    assert_int_equal(w.n_cut, 7 + 4 + 7);
    vr_prompt_cache_done(&w.c);
    assert_int_equal(w.ram.used_bytes, 0);
}

/* One that goes on is the same one, longer. */
static void test_grows(void **state)
{
    (void)state;
    struct world w;
    int32_t a[1000];
    world_init(&w, 1 << 20);
    for (int i = 0; i < 1000; i++) a[i] = i;
    for (uint32_t n = 10; n <= 1000; n += 30) assert_true(add(&w, 1, a, n, NULL));
    assert_int_equal(w.c.n, 1);
    uint64_t used = w.ram.used_bytes;
    vr_prompt_cache_done(&w.c);
    world_init(&w, 1 << 20);
    assert_true(add(&w, 1, a, 1000, NULL));
    assert_int_equal(w.ram.used_bytes, used);
    vr_prompt_cache_done(&w.c);
}

/* The longest beginning is not the best one, if it has no checkpoint there. */
static void test_checkpoints(void **state)
{
    (void)state;
    struct world w;
    int32_t a[100], b[100], c[100];
    uint32_t n;
    world_init(&w, 1 << 20);
    for (int i = 0; i < 100; i++) a[i] = b[i] = c[i] = i;
    b[90] = 500, c[95] = 400;
    struct vr_checkpoints early = { 0 }, late = { 0 };
    vr_checkpoints_add(&early, 40, vr_kept_new(&w.ram, 10));
    vr_checkpoints_add(&late, 80, vr_kept_new(&w.ram, 10));
    vr_checkpoints_add(&late, 95, vr_kept_new(&w.ram, 10)); /* behind where they part */
    assert_true(add(&w, 1, b, 100, &late));
    assert_true(add(&w, 1, c, 100, &early));
    assert_int_equal(vr_prompt_cache_find(&w.c, 1, a, 99, false, &n)->n, 100);
    assert_int_equal(n, 95);
    assert_non_null(vr_prompt_cache_find(&w.c, 1, a, 99, true, &n));
    assert_int_equal(n, 80);
    assert_null(vr_prompt_cache_find(&w.c, 1, a, 39, true, &n));
    assert_null(vr_prompt_cache_find(&w.c, 2, a, 99, true, &n));
    vr_checkpoints_clear(&early);
    vr_checkpoints_clear(&late);
    vr_prompt_cache_done(&w.c);
    assert_int_equal(w.ram.used_bytes, 0);
}

/* What goes first: what was not used for longest; and what is pinned stays. */
static void test_least(void **state)
{
    (void)state;
    struct world w;
    int32_t a[10][100];
    uint32_t n;
    world_init(&w, 30000);
    for (int k = 0; k < 10; k++)
        for (int i = 0; i < 100; i++) a[k][i] = 1000 * k + i;
    for (int k = 0; k < 4; k++) assert_true(add(&w, 1, a[k], 100, NULL));
    struct vr_cached_prompt *first = vr_prompt_cache_find(&w.c, 1, a[0], 100, false, &n);
    first->n_pins = 1;
    for (int k = 4; k < 10; k++) {
        assert_true(add(&w, 1, a[k], 100, NULL));
        assert_int_equal(known(&w, 1, a[k], 100), 100);
        assert_int_equal(known(&w, 1, a[0], 100), 100);
    }
    assert_int_equal(known(&w, 1, a[1], 100), 0);
    assert_false(vr_prompt_cache_make_room(&w.c, 30000));
    assert_int_equal(w.c.n, 1);
    first->n_pins = 0;
    assert_false(vr_prompt_cache_make_room(&w.c, 30001));
    assert_true(vr_prompt_cache_make_room(&w.c, 30000));
    vr_prompt_cache_done(&w.c);
}

/* Random ones that begin alike, against a search through all that were ever added. */
static void test_random(void **state)
{
    (void)state;
    enum { N = 300, LONG = 120 };
    static int32_t all[N][LONG];
    static uint32_t length[N], tenant[N];
    struct world w;
    for (int round = 0; round < 20; round++) {
        world_init(&w, round % 2 ? 1 << 24 : 60000);
        for (int i = 0; i < N; i++) {
            tenant[i] = below(3);
            length[i] = 1 + below(LONG);
            int like = i ? (int)below((uint32_t)i) : 0;
            uint32_t same = i ? below(length[like]) : 0;
            for (uint32_t k = 0; k < length[i]; k++) all[i][k] = k < same ? all[like][k] : (int32_t)below(3);
            assert_true(add(&w, tenant[i], all[i], length[i], NULL));
            uint32_t most = 0, who = below((uint32_t)i + 1), got = known(&w, tenant[i], all[who], length[who]);
            for (int j = 0; j <= i; j++) {
                uint32_t k = 0;
                while (k < length[j] && k < length[who] && all[j][k] == all[who][k]) k++;
                if (tenant[j] == tenant[i] && k > most) most = k;
            }
            assert_true(round % 2 ? got == most : got <= most);
        }
        vr_prompt_cache_done(&w.c);
        assert_int_equal(w.ram.used_bytes, 0);
    }
}

/* Ten thousand, all of which begin with the same 3,000 tokens; and the same with room for about a tenth of them: the
 * budget holds all the while (add() sees to that), and the last one is there. */
static void test_ten_thousand(void **state)
{
    (void)state;
    enum { COUNT = 10000, SAME = 3000, LONG = 3200, ONE = LONG * 4 + 14 * (BLOCK * TOKEN_BYTES + 160) + 2500 };
    static int32_t tokens[LONG];
    for (int i = 0; i < LONG; i++) tokens[i] = i;
    for (int tenth = 0; tenth < 2; tenth++) {
        struct world w;
        world_init(&w, tenth ? (uint64_t)ONE * COUNT / 10 : (uint64_t)1 << 31);
        for (int i = 0; i < COUNT; i++) {
            tokens[SAME] = (int32_t)((uint32_t)i * 2654435761u % 1000000);
            assert_true(add(&w, 1, tokens, LONG, NULL));
            assert_int_equal(known(&w, 1, tokens, LONG), LONG);
        }
        if (tenth)
            assert_in_range(w.c.n, COUNT / 20, COUNT / 5);
        else
            assert_int_equal(w.c.n, COUNT);
        double before = vr_thread_us();
        for (int i = 0; i < 1000; i++) {
            tokens[SAME] = -(int32_t)below(COUNT) - 1;
            assert_int_equal(known(&w, 1, tokens, LONG), SAME);
        }
        double each_us = (vr_thread_us() - before) / 1000;
        print_message("%.2f us to find one of %zu\n", each_us, w.c.n);
        assert_true(each_us < 1000);
        vr_prompt_cache_done(&w.c);
        assert_int_equal(w.ram.used_bytes, 0);
    }
}

/* --- rows --- */

static uint8_t *put(uint8_t *at, const void *v, size_t n)
{
    memcpy(at, v, n);
    return at + n;
}

static uint8_t *put_u32(uint8_t *at, uint32_t v) { return put(at, &v, 4); }

struct shape {
    uint32_t n_streams, stream, n_layers, k_bytes, v_bytes, ext_bytes;
    bool has_v, v_trans;
};

/* A section as llama.cpp writes it, with its cells in the order of `cell`: values tell section, column, token and byte.
 */
static uint8_t *put_section(uint8_t *at, const struct shape *s, uint32_t n, const uint32_t *pos_of, uint8_t salt)
{
    at = put_u32(at, s->n_streams);
    for (uint32_t i = 0; i < s->n_streams; i++) {
        at = put_u32(at, i == s->stream ? n : 0);
        if (i != s->stream) continue;
        for (uint32_t k = 0; k < n; k++) {
            at = put_u32(put_u32(at, pos_of[k]), 1);
            for (uint32_t e = 0; e < s->ext_bytes; e++) *at++ = (uint8_t)(pos_of[k] * 3 + e + salt);
            at = put_u32(at, 0);
        }
        at = put_u32(put_u32(at, s->v_trans), s->n_layers);
        for (uint32_t l = 0; l < s->n_layers * (s->has_v ? 2 : 1); l++) {
            bool v = l >= s->n_layers, trans = v && s->v_trans;
            uint32_t item = trans ? 2 : v ? s->v_bytes : s->k_bytes, runs = trans ? s->v_bytes / 2 : 1;
            at = put_u32(put_u32(put_u32(at, 1), item), trans ? runs : 0);
            for (uint32_t r = 0; r < runs; r++)
                for (uint32_t k = 0; k < n; k++)
                    for (uint32_t x = 0; x < item; x++) *at++ = (uint8_t)(pos_of[k] * 7 + l * 31 + r * 5 + x + salt);
        }
    }
    return at;
}

static size_t put_state(uint8_t *out, const struct shape *s, uint32_t n_sections, uint32_t n, const uint32_t *pos_of)
{
    uint8_t *at = put_u32(put_u32(out, 0xaf143cd8), 0);
    for (uint32_t i = 0; i < n_sections; i++) at = put_section(at, &s[i], n, pos_of, (uint8_t)(i * 101));
    return (size_t)(at - out);
}

static void test_rows(void **state)
{
    (void)state;
    static const struct shape shapes[][2] = {
        { { 1, 0, 3, 16, 24, 0, true, false }, { 0 } },
        { { 1, 0, 3, 16, 24, 0, true, true }, { 0 } },
        { { 4, 0, 2, 16, 8, 12, true, true }, { 0 } },
        { { 1, 0, 5, 40, 0, 0, false, false }, { 0 } },
        { { 2, 0, 2, 8, 8, 12, true, false }, { 2, 0, 3, 4, 4, 0, false, false } },
    };
    static uint8_t whole[1 << 20], part[1 << 20], joined[1 << 20], blocks[4][1 << 18];
    static struct vr_kv_rows rows, again;
    const uint8_t *const list[] = { blocks[0], blocks[1], blocks[2], blocks[3] };
    for (size_t k = 0; k < VR_COUNT(shapes); k++) {
        uint32_t n_sections = shapes[k][1].n_streams ? 2 : 1, n = 700, pos_of[700], straight[700];
        struct shape other[2] = { shapes[k][0], shapes[k][1] };
        for (uint32_t i = 0; i < n; i++) pos_of[i] = straight[i] = i;
        for (uint32_t i = n - 1; i > 0; i--) {
            uint32_t j = i % 3 ? i : below(i + 1), keep = pos_of[i];
            pos_of[i] = pos_of[j];
            pos_of[j] = keep;
        }
        other[0].stream = other[0].n_streams - 1;
        size_t bytes = put_state(whole, other, n_sections, n, pos_of);
        assert_true(vr_kv_rows_read(&rows, whole, bytes, n));
        assert_int_equal(vr_kv_rows_state_bytes(&rows, n), bytes);
        for (uint32_t i = 0; i * VR_KV_ROWS_BLOCK < n; i++) {
            uint32_t from = i * VR_KV_ROWS_BLOCK, count = n - from < VR_KV_ROWS_BLOCK ? n - from : VR_KV_ROWS_BLOCK;
            assert_true(vr_kv_rows_block_bytes(&rows, count) <= sizeof blocks[0]);
            assert_true(vr_kv_rows_cut(&rows, whole, n, from, count, blocks[i]));
        }
        static const uint32_t wants[] = { 700, 1, 255, 256, 257, 512, 513, 600 };
        for (size_t i = 0; i < VR_COUNT(wants); i++) {
            uint32_t want = wants[i], n_blocks = (want + VR_KV_ROWS_BLOCK - 1) / VR_KV_ROWS_BLOCK;
            bytes = put_state(part, shapes[k], n_sections, want, straight);
            assert_int_equal(vr_kv_rows_state_bytes(&rows, want), bytes);
            vr_kv_rows_join(&rows, list, want, n_blocks == 3 ? 700 - 512 : VR_KV_ROWS_BLOCK, joined);
            assert_memory_equal(joined, part, bytes);
            assert_true(vr_kv_rows_read(&again, joined, bytes, want));
            assert_true(vr_kv_rows_same(&rows, &again));
        }
    }
}

/* What is not such a state is refused, and nothing beyond it is read (the sanitizers would tell). */
static void test_nonsense(void **state)
{
    (void)state;
    static const struct shape s = { 2, 1, 2, 16, 8, 12, true, true };
    static uint8_t whole[1 << 16];
    static struct vr_kv_rows rows;
    uint32_t pos_of[40], n = 40;
    for (uint32_t i = 0; i < n; i++) pos_of[i] = i;
    size_t bytes = put_state(whole, &s, 1, n, pos_of);
    assert_true(vr_kv_rows_read(&rows, whole, bytes, n));
    assert_false(vr_kv_rows_read(&rows, whole, bytes, n - 1));
    assert_false(vr_kv_rows_read(&rows, whole, bytes, 0));
    for (size_t k = 0; k < bytes; k += k < 200 ? 1 : 97) {
        uint8_t *copy = malloc(k + 1);
        memcpy(copy, whole, k);
        assert_false(vr_kv_rows_read(&rows, copy, k, n));
        free(copy);
    }
    pos_of[3] = 4; /* twice */
    bytes = put_state(whole, &s, 1, n, pos_of);
    assert_false(vr_kv_rows_read(&rows, whole, bytes, n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared), cmocka_unit_test(test_grows),    cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_least),  cmocka_unit_test(test_random),   cmocka_unit_test(test_ten_thousand),
        cmocka_unit_test(test_rows),   cmocka_unit_test(test_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
