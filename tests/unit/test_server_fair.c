/* Clients, turns and places in the queue, over random histories: nothing is lost, nobody starves, shares are equal
 * where clients ask for more than there is, and who asks for little is never turned away because of others. */
#include "test.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "server/api/queue.h"
#include "server/http/clients.h"
#include "server/http/conn.h"
#include "server/http/share.h"
#include "server/http/turns.h"
#include "server/server.h"

enum { N = 12, DEEP = 400 };

static uint32_t seed;
static uint32_t pick(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

/* --- turns --- */

struct waiter {
    struct vr_turn turn;
    uint64_t number; /* in its line */
};

/* Every line is always full: what each is given differs by no more than the dearest turn of either. */
static void test_equal_shares(void **state)
{
    (void)state;
    for (seed = 1; seed < 40; seed++) {
        uint32_t again = seed;
        struct vr_turns all = { 0 };
        struct vr_line lines[N] = { 0 };
        static struct waiter waiters[N][DEEP];
        uint64_t given[N] = { 0 }, next[N] = { 0 }, dearest = 0;
        for (size_t i = 0; i < N; i++)
            for (size_t k = 0; k < DEEP; k++) {
                waiters[i][k].number = k;
                uint64_t cost = i % 3 == 0 ? 1 : 1 + pick(16); /* some ask for one, others for many */
                if (cost > dearest) dearest = cost;
                vr_turns_add(&all, &lines[i], &waiters[i][k].turn, cost);
            }
        assert_int_equal(all.n, N * DEEP);
        for (bool full = true; full;) {
            struct vr_turn *t = vr_turns_next(&all);
            size_t i = (size_t)(t->line - lines);
            assert_int_equal(((struct waiter *)t)->number, next[i]++); /* first come, first served */
            uint64_t cost = t->cost;
            vr_turns_take(&all, t);
            given[i] += cost;
            for (size_t k = 0; k < N; k++) full = full && lines[k].first;
            for (size_t k = 0; full && k < N; k++)
                if (given[i] > given[k] + 2 * dearest) fail_msg("seed %u: %zu has more than %zu", again, i, k);
        }
        seed = again;
    }
}

/* Lines come and go, turns are taken and removed: the sums are right, and no line waits longer than all others' turns.
 */
static void test_any_history(void **state)
{
    (void)state;
    for (seed = 1; seed < 60; seed++) {
        uint32_t again = seed;
        struct vr_turns all = { 0 };
        struct vr_line lines[N] = { 0 };
        static struct waiter waiters[DEEP];
        memset(waiters, 0, sizeof waiters);
        size_t n = 0, passed[N] = { 0 };
        uint64_t waiting = 0;
        for (int step = 0; step < 4000; step++) {
            struct waiter *w = &waiters[pick(DEEP)];
            uint32_t what = pick(5);
            if (what < 2 && !w->turn.line) {
                vr_turns_add(&all, &lines[pick(N)], &w->turn, 1);
                n++, waiting++;
            } else if (what == 2) {
                if (w->turn.line) n--, waiting--;
                vr_turns_remove(&all, &w->turn);
            } else if (what > 2 && all.n) {
                struct vr_turn *t = vr_turns_next(&all);
                size_t mine = (size_t)(t->line - lines);
                vr_turns_take(&all, t);
                n--, waiting--;
                for (size_t i = 0; i < N; i++) passed[i] = lines[i].first && i != mine ? passed[i] + 1 : 0;
                for (size_t i = 0; i < N; i++)
                    if (passed[i] > 2 * N) fail_msg("seed %u, step %d: line %zu starves", again, step, i);
            }
            assert_int_equal(all.n, n);
            assert_int_equal(all.waiting, waiting);
            assert_true((all.n == 0) == (vr_turns_next(&all) == NULL));
        }
        seed = again;
    }
}

/* One that was away saves nothing up, and one that took much is not forgiven for having left. */
static void test_no_credit(void **state)
{
    (void)state;
    struct vr_turns all = { 0 };
    struct vr_line busy = { 0 }, away = { 0 }, greedy = { 0 };
    static struct vr_turn turns[1000], late[10], dear, again;
    for (size_t i = 0; i < 1000; i++) vr_turns_add(&all, &busy, &turns[i], 1);
    for (size_t i = 0; i < 500; i++) vr_turns_take(&all, vr_turns_next(&all));
    for (size_t i = 0; i < 10; i++) vr_turns_add(&all, &away, &late[i], 1);
    size_t its = 0;
    for (size_t i = 0; i < 10; i++) {
        its += vr_turns_next(&all)->line == &away;
        vr_turns_take(&all, vr_turns_next(&all));
    }
    assert_true(its >= 4 && its <= 6);
    vr_turns_add(&all, &greedy, &dear, 16);
    while (vr_turns_next(&all)->line != &greedy) vr_turns_take(&all, vr_turns_next(&all));
    vr_turns_take(&all, vr_turns_next(&all));
    assert_null(greedy.first); /* left */
    vr_turns_add(&all, &greedy, &again, 1);
    size_t before = 0;
    for (; vr_turns_next(&all)->line != &greedy; before++) vr_turns_take(&all, vr_turns_next(&all));
    assert_true(before >= 15);
}

/* --- clients --- */

static struct vr_client *at(struct vr_clients *all, const char *address, uint64_t now)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
    bool six = inet_pton(AF_INET, address, &v4.sin_addr) != 1;
    if (six) assert_int_equal(inet_pton(AF_INET6, address, &v6.sin6_addr), 1);
    return vr_client_of_address(all, six ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4, now);
}

static void test_who_is_who(void **state)
{
    (void)state;
    static struct vr_clients all;
    vr_clients_init(&all, 100);
    static const struct {
        const char *a, *b;
        bool same;
    } rows[] = { { "127.0.0.1", "127.0.0.1", true },          { "127.0.0.1", "127.0.0.2", false },
                 { "10.0.0.1", "::ffff:10.0.0.1", true },     { "2001:db8::1", "2001:db8::ffff:1", true },
                 { "2001:db8::1", "2001:db8:0:1::1", false }, { "::1", "0.0.0.1", false } };
    for (size_t i = 0; i < VR_COUNT(rows); i++)
        if ((at(&all, rows[i].a, 0) == at(&all, rows[i].b, 0)) != rows[i].same) fail_msg("row %zu", i);
    struct vr_client *one = vr_client_of_key(&all, 1, 0);
    assert_ptr_equal(one, vr_client_of_key(&all, 1, 0));
    assert_ptr_not_equal(one, vr_client_of_key(&all, 2, 0));
    vr_clients_done(&all);
}

static void test_table(void **state)
{
    (void)state;
    static struct vr_clients all;
    vr_clients_init(&all, 50);
    struct vr_client *kept = vr_client_of_key(&all, 1, 0);
    kept->n_conns = 3;
    vr_client_hold(&all, kept, 700);
    for (unsigned i = 2; i < 5000; i++) { /* many come and go: never more than 50 are known */
        struct vr_client *c = vr_client_of_key(&all, i, 0);
        assert_non_null(c);
        vr_client_used(c, 1 + pick(20), 0);
        vr_client_unref(c);
        assert_true(all.n <= 50);
    }
    assert_ptr_equal(vr_client_of_key(&all, 1, 0), kept);
    assert_ptr_equal(vr_clients_most_conns(&all), kept);
    assert_ptr_equal(vr_clients_most_bytes(&all), kept);
    vr_client_release(&all, kept, 700);
    assert_int_equal(all.body_bytes, 0);
    assert_null(vr_clients_most_bytes(&all));
    vr_clients_sweep(&all, 1000);
    assert_true(all.n > 1); /* their use is remembered for a while ... */
    vr_clients_sweep(&all, 100 * VR_USE_HALF_MS);
    assert_int_equal(all.n, 1); /* ... and then forgotten, but not what is referred to */
    for (unsigned i = 1000; i < 1049; i++) assert_non_null(vr_client_of_key(&all, i, 0));
    assert_null(vr_client_of_key(&all, 2000, 0)); /* all are in use */
    vr_clients_done(&all);
}

static void test_use(void **state)
{
    (void)state;
    struct vr_client c = { 0 };
    vr_client_used(&c, 8, 1000);
    assert_float_equal(vr_client_use(&c, 1000), 8, 1e-9);
    assert_float_equal(vr_client_use(&c, 1000 + VR_USE_HALF_MS), 4, 1e-9);
    vr_client_used(&c, 1, 1000 + 2 * VR_USE_HALF_MS);
    assert_float_equal(vr_client_use(&c, 1000 + 2 * VR_USE_HALF_MS), 3, 1e-9);
    assert_float_equal(vr_client_use(&c, 0), 3, 1e-9); /* a clock that is behind */
}

/* --- bodies --- */

/* Rates over time, in the server's sweeps of 250 ms: when a body is ended, if it is. */
static void test_crawls(void **state)
{
    (void)state;
    const struct vr_limits limits = { .body_seconds = 10, .body_rate = 4096 };
    static const struct {
        const char *what;
        uint64_t first_bytes;                 /* at once */
        uint64_t rate, until_ms, then;        /* bytes per second, which change */
        uint64_t not_before_ms, at_latest_ms; /* 0: never ended, in ten minutes */
    } rows[] = {
        { "steady", 0, 5000, 600000, 5000, 0, 0 },
        { "just enough", 0, 4096, 600000, 4096, 0, 0 },
        { "too slow from the beginning", 0, 3000, 600000, 3000, 9000, 10500 },
        { "nothing", 0, 0, 600000, 0, 9000, 10500 },
        { "nearly all at once, then silence", (16 << 20) - 1, 0, 600000, 0, 9000, 10500 },
        { "nearly all at once, then a byte now and then", (16 << 20) - 1, 8, 600000, 8, 9000, 20500 },
        { "fast for a minute, then slow", 0, 1000000, 60000, 100, 61000, 81000 },
        { "fast for a minute, then silence", 0, 1000000, 60000, 0, 69000, 70500 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_incoming r = { .wire_bytes = rows[i].first_bytes };
        uint64_t ended = 0;
        double owed = 0;
        for (uint64_t now = 250; now <= 600000 && !ended; now += 250) {
            owed += (double)(now <= rows[i].until_ms ? rows[i].rate : rows[i].then) / 4;
            if (owed >= 1) r.heard_ms = now;
            r.wire_bytes += (uint64_t)owed;
            owed -= (double)(uint64_t)owed;
            if (vr_share_crawls(&r, &limits, now)) ended = now;
        }
        bool ok = rows[i].at_latest_ms ? ended >= rows[i].not_before_ms && ended <= rows[i].at_latest_ms : !ended;
        if (!ok) fail_msg("%s: ended at %llu ms", rows[i].what, (unsigned long long)ended);
    }
}

/* --- a full queue --- */

static void test_displaced(void **state)
{
    (void)state;
    struct vr_turns all = { 0 };
    static struct vr_client clients[3];
    static struct vr_client_line greedy = { .client = &clients[0] }, busy = { .client = &clients[1] },
                                 polite = { .client = &clients[2] };
    static struct vr_turn turns[20];
    assert_null(vr_queue_displaced(&all, &polite, 1, 0)); /* nobody waits */
    for (size_t i = 0; i < 10; i++) vr_turns_add(&all, &greedy.line, &turns[i], 1);
    for (size_t i = 10; i < 14; i++) vr_turns_add(&all, &busy.line, &turns[i], 1);
    assert_ptr_equal(vr_queue_displaced(&all, &polite, 1, 0), &turns[9]); /* the newest of the greediest */
    assert_ptr_equal(vr_queue_displaced(&all, &busy, 1, 0), &turns[9]);
    assert_null(vr_queue_displaced(&all, &busy, 6, 0));   /* it would have as many */
    assert_null(vr_queue_displaced(&all, &greedy, 1, 0)); /* its own turn to wait */
    vr_client_used(polite.client, 9.5, 0);
    assert_ptr_equal(vr_queue_displaced(&all, &polite, 1, 0), &turns[9]); /* whatever it had before */
    assert_null(vr_queue_displaced(&all, &polite, 10, 0));                /* it would have as many, and had more */
    vr_client_used(greedy.client, 9.5, 0);
    vr_client_used(greedy.client, 9.5, 0);
    assert_ptr_equal(vr_queue_displaced(&all, &polite, 10, 0), &turns[9]); /* and less */
    assert_int_equal(vr_queue_depth(1), 2);
    assert_true(vr_queue_depth(4) > 4 && vr_queue_depth(4) <= 6);
    assert_true(vr_queue_depth(64) > 64 && vr_queue_depth(64) <= 96);
}

/* A server of four slots and sixteen places, where some clients ask without end and one asks again once it was
 * answered: it is never turned away, and gets at least half of what an equal share would be. */
static void test_one_polite(void **state)
{
    (void)state;
    enum { PLACES = 16, GREEDY = 5 };
    struct vr_turns all = { 0 };
    static struct vr_client clients[GREEDY + 1];
    static struct vr_client_line lines[GREEDY + 1];
    static struct vr_turn turns[PLACES * 4];
    memset(clients, 0, sizeof clients);
    memset(turns, 0, sizeof turns);
    for (size_t i = 0; i <= GREEDY; i++) lines[i] = (struct vr_client_line){ .client = &clients[i] };
    struct vr_client_line *polite = &lines[GREEDY];
    uint64_t served[GREEDY + 1] = { 0 }, now = 0;
    seed = 7;
    for (int step = 0; step < 20000; step++, now += 20) {
        for (size_t i = 0; i <= GREEDY; i++) { /* everybody asks; the polite one only if nothing of its own waits */
            struct vr_client_line *c = &lines[step % 2 ? i : GREEDY - i];
            if (c == polite && c->line.first) continue;
            struct vr_turn *t = turns;
            while (t->line) t++;
            while (all.waiting + 1 > PLACES) {
                struct vr_turn *out = vr_queue_displaced(&all, c, 1, now);
                if (!out) break;
                assert_true(out->line != &polite->line);
                vr_turns_remove(&all, out);
            }
            if (all.waiting + 1 <= PLACES)
                vr_turns_add(&all, &c->line, t, 1);
            else
                assert_true(c != polite);
        }
        struct vr_turn *t = vr_turns_next(&all);
        for (size_t i = 0; i <= GREEDY; i++)
            if (t->line == &lines[i].line) {
                served[i]++;
                vr_client_used(&clients[i], 1, now);
            }
        vr_turns_take(&all, t);
    }
    assert_true(served[GREEDY] > 20000 / (GREEDY + 1) / 2);
    for (size_t i = 0; i < GREEDY; i++) assert_true(served[i] > 20000 / (GREEDY + 1) / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_equal_shares), cmocka_unit_test(test_any_history),
                                        cmocka_unit_test(test_no_credit),    cmocka_unit_test(test_who_is_who),
                                        cmocka_unit_test(test_table),        cmocka_unit_test(test_use),
                                        cmocka_unit_test(test_crawls),       cmocka_unit_test(test_displaced),
                                        cmocka_unit_test(test_one_polite) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
