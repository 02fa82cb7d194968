/* Cached prompts on disk: what is read back is what was written, after any damage too, or it is not there; a file of
 * records uses its room again, within its limit; and a disk that is full ends nothing. */
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/cache/disk_cache.h"
#include "scratch.h"

enum { TOKEN_BYTES = 64 };

static uint32_t seed = 1;

static uint32_t below(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static int open_file(int flags)
{
    int fd = open(scratch("prompts"), O_RDWR | O_CLOEXEC | flags, 0600);
    assert_true(fd > 0);
    return fd;
}

static int fresh(void) { return open_file(O_CREAT | O_TRUNC); }
static int again(void) { return open_file(0); }

/* --- the file --- */

static bool write_record(struct vr_disk_file *d, const uint8_t *data, uint64_t n, uint64_t *at)
{
    struct vr_disk_write w;
    if (!vr_disk_file_reserve(d, VR_RECORD_PIECE, data, n, &w)) return false;
    assert_int_equal(vr_disk_write(d->fd, &w), 0);
    *at = w.to.at;
    return true;
}

/* Records that come and go at random, over openings in between: each has the bytes that were written. */
static void test_records(void **state)
{
    (void)state;
    enum { MOST = 40, LIMIT = 40000 };
    struct vr_disk_file d;
    struct {
        uint64_t at, n;
        uint8_t fill;
    } has[MOST];
    uint8_t data[3000], back[3000];
    int n = 0, refused = 0;
    assert_int_equal(vr_disk_file_open(&d, fresh(), "me", LIMIT), VR_DISK_NEW);
    for (int i = 0; i < 4000; i++) {
        struct stat st;
        if (n && (n == MOST || below(2))) {
            int k = (int)below((uint32_t)n);
            vr_disk_file_free(&d, has[k].at);
            has[k] = has[--n];
        } else {
            uint64_t size = 1 + below(3000);
            memset(data, (int)(has[n].fill = (uint8_t)below(256)), size);
            has[n].n = size;
            if (write_record(&d, data, size, &has[n].at))
                n++;
            else
                refused++;
        }
        assert_int_equal(fstat(d.fd, &st), 0);
        assert_true(st.st_size <= LIMIT && d.used_bytes <= LIMIT);
        if (i % 50 == 0) {
            vr_disk_file_close(&d);
            assert_int_equal(vr_disk_file_open(&d, again(), "me", LIMIT), VR_DISK_KEPT);
        }
        for (int k = 0; k < n; k++) {
            const struct vr_extent *x = vr_disk_file_at(&d, has[k].at);
            memset(data, has[k].fill, has[k].n);
            assert_true(x && x->n == has[k].n && vr_disk_file_read(&d, x, back) && memcmp(data, back, x->n) == 0);
        }
    }
    assert_true(refused > 0);
    vr_disk_file_close(&d);
    assert_int_equal(vr_disk_file_open(&d, again(), "another", LIMIT), VR_DISK_FOREIGN);
    assert_int_equal(d.n_all, 1);
    vr_disk_file_close(&d);
}

/* The process dies between any two writes of a record: the others are still there, and it is whole or not. */
static void test_torn(void **state)
{
    (void)state;
    uint8_t data[1000], back[1000];
    uint64_t at[4], size;
    memset(data, 7, sizeof data);
    for (uint64_t cut = 0; cut < 1200; cut += 13) {
        struct vr_disk_file d;
        struct vr_disk_write w;
        assert_int_equal(vr_disk_file_open(&d, fresh(), "me", 1 << 20), VR_DISK_NEW);
        for (int i = 0; i < 4; i++) assert_true(write_record(&d, data, 900, &at[i]));
        vr_disk_file_free(&d, at[1]);
        vr_disk_file_free(&d, at[2]); /* joined with the one before, in the index alone */
        assert_true(vr_disk_file_reserve(&d, VR_RECORD_PIECE, data, 1000, &w));
        assert_int_equal(w.to.at, at[1]);
        size = w.to.at + 64;
        for (uint64_t i = 0; i < cut && i < 1000; i++) assert_int_equal(pwrite(d.fd, "x", 1, (off_t)(size + i)), 1);
        if (cut >= 1000) assert_int_equal(vr_disk_write(d.fd, &w), 0);
        if (cut < 1000) vr_disk_unwrite(d.fd, &w); /* the heads, which come first */
        vr_disk_file_close(&d);
        assert_int_equal(vr_disk_file_open(&d, again(), "me", 1 << 20), VR_DISK_KEPT);
        const struct vr_extent *first = vr_disk_file_at(&d, at[0]), *last = vr_disk_file_at(&d, at[3]);
        assert_true(first && vr_disk_file_read(&d, first, back) && last && vr_disk_file_read(&d, last, back));
        assert_int_equal(vr_disk_file_at(&d, at[1]) != NULL, cut >= 1000);
        vr_disk_file_close(&d);
    }
}

/* --- the cache --- */

struct world {
    struct vr_cache_ram ram;
    struct vr_prompt_cache prompts;
    struct vr_disk_cache disk;
};

static bool world_open(struct world *w, int fd, uint64_t ram, uint64_t disk)
{
    *w = (struct world){ .ram.limit_bytes = ram };
    w->prompts.ram = &w->ram;
    return vr_disk_cache_open(&w->disk, fd, "me", disk, &w->prompts, TOKEN_BYTES);
}

static void world_close(struct world *w)
{
    vr_disk_cache_close(&w->disk);
    vr_prompt_cache_done(&w->prompts);
    assert_int_equal(w->ram.used_bytes, 0);
}

/* The bytes of a token are made of it and of what is before it, as in an engine. */
static void fill(const int32_t *tokens, uint32_t from, uint32_t n, uint8_t *out)
{
    uint32_t h = 1;
    for (uint32_t i = 0; i < from + n; i++) {
        h = h * 31 + (uint32_t)tokens[i];
        if (i >= from) memset(out + (size_t)(i - from) * TOKEN_BYTES, (int)(h >> 8), TOKEN_BYTES);
    }
}

struct source {
    struct world *w;
    const int32_t *tokens;
};

static struct vr_kept *block(void *ctx, uint32_t from, uint32_t n)
{
    const struct source *s = ctx;
    struct vr_kept *p = vr_kept_new(&s->w->ram, (size_t)n * TOKEN_BYTES);
    if (p) fill(s->tokens, from, n, p->data);
    return p;
}

static bool add(struct world *w, const int32_t *tokens, uint32_t n)
{
    struct source from = { w, tokens };
    struct vr_checkpoints c = { 0 };
    const struct vr_cache_source s = { 5, tokens, n, VR_KV_ROWS_BLOCK, &c, block, &from, (double)n };
    for (int i = 0; i < 3; i++)
        if (!vr_prompt_cache_make_room(&w->prompts,
                                       vr_prompt_cache_need(&w->prompts, &s, TOKEN_BYTES) + vr_kept_cost(500)))
            return false;
    struct vr_kept *state = vr_kept_new(&w->ram, 500);
    assert_non_null(state);
    memset(state->data, tokens[n - 1] & 0xFF, 500);
    vr_checkpoints_add(&c, n, state);
    bool ok = vr_prompt_cache_add(&w->prompts, &s);
    vr_checkpoints_clear(&c);
    assert_true(w->ram.used_bytes <= w->ram.limit_bytes);
    return ok;
}

static void write_all(struct world *w)
{
    while (vr_disk_cache_turn(&w->disk, 10000)) continue;
    assert_true(w->disk.file.used_bytes <= w->disk.file.limit_bytes);
}

/* How many of the tokens are known; every piece of them that can be had is right. */
static uint32_t check(struct world *w, const int32_t *tokens, uint32_t n)
{
    uint32_t k;
    static uint8_t want[VR_KV_ROWS_BLOCK * TOKEN_BYTES];
    struct vr_cached_prompt *one = vr_prompt_cache_find(&w->prompts, 5, tokens, n, false, &k);
    if (!one) return 0;
    one->n_pins++;
    for (uint32_t i = 0; i < k / VR_KV_ROWS_BLOCK; i++) {
        bool here = vr_disk_cache_fetch(&w->disk, one->blocks[i]);
        one->is_here = true;
        if (!here) k = i * VR_KV_ROWS_BLOCK;
        if (!here) break;
        fill(tokens, i * VR_KV_ROWS_BLOCK, VR_KV_ROWS_BLOCK, want);
        assert_memory_equal(one->blocks[i]->data, want, sizeof want);
    }
    for (uint32_t i = 0; i < one->checkpoints.n && one->checkpoints.at[i].n <= k; i++) {
        struct vr_kept *p = one->checkpoints.at[i].state;
        if (!vr_disk_cache_fetch(&w->disk, p)) continue;
        assert_int_equal(p->data[499], tokens[one->checkpoints.at[i].n - 1] & 0xFF);
    }
    one->n_pins--;
    assert_true(w->ram.used_bytes <= w->ram.limit_bytes);
    return k;
}

enum { HISTORIES = 12, MOST_TOKENS = 3000 };
static int32_t histories[HISTORIES][MOST_TOKENS];
static uint32_t lengths[HISTORIES];

static void make_histories(void)
{
    for (int i = 0; i < HISTORIES; i++) {
        for (int k = 0; k < MOST_TOKENS; k++) histories[i][k] = k < 600 ? k : (int32_t)below(1000);
        lengths[i] = 300 + below(1500);
    }
}

/* Histories that grow over restarts, with less host memory than they take: all of them come back whole. */
static void test_restart(void **state)
{
    (void)state;
    struct world w;
    make_histories();
    assert_true(world_open(&w, fresh(), 400000, 8 << 20));
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < HISTORIES; i++) {
            assert_true(add(&w, histories[i], lengths[i]));
            write_all(&w);
        }
        world_close(&w);
        assert_true(world_open(&w, again(), 400000, 8 << 20));
        assert_string_equal(w.disk.note, "");
        for (int i = 0; i < HISTORIES; i++) assert_int_equal(check(&w, histories[i], lengths[i]), lengths[i]);
        assert_true(vr_disk_cache_count(&w.disk) <= HISTORIES); /* what a history was before is part of it */
        for (int i = 0; i < HISTORIES; i++) lengths[i] += below(200);
    }
    world_close(&w);
}

/* What begins alike is on disk once. */
static void test_shared(void **state)
{
    (void)state;
    struct world w;
    int32_t a[1000], b[1000];
    for (int i = 0; i < 1000; i++) a[i] = b[i] = i;
    b[900] = -1 + 5;
    assert_true(world_open(&w, fresh(), 1 << 20, 8 << 20));
    assert_true(add(&w, a, 1000));
    write_all(&w);
    uint64_t used = w.disk.file.used_bytes;
    assert_true(add(&w, b, 1000));
    write_all(&w);
    assert_true(w.disk.file.used_bytes - used < 300 * TOKEN_BYTES + 6000); /* a block, a checkpoint, its tokens */
    world_close(&w);
}

/* A file with room for a few, and host memory for fewer: those that are worth least go, on disk, too, and the last ones
 * come back. */
static void test_limit(void **state)
{
    (void)state;
    struct world w;
    make_histories();
    for (int i = 0; i < HISTORIES; i++) lengths[i] = 1000 + below(500);
    assert_true(world_open(&w, fresh(), 200000, 400000));
    for (int i = 0; i < HISTORIES; i++) {
        assert_true(add(&w, histories[i], lengths[i]));
        write_all(&w);
    }
    size_t n = vr_disk_cache_count(&w.disk);
    assert_true(n > 1 && n < HISTORIES);
    world_close(&w);
    assert_true(world_open(&w, again(), 200000, 400000));
    assert_int_equal(vr_disk_cache_count(&w.disk), n);
    int last = HISTORIES - 1;
    assert_int_equal(check(&w, histories[last], lengths[last]), lengths[last]);
    world_close(&w);
}

/* Bytes are changed, and ends cut off, anywhere: what is read is right, or is not there. */
static void test_damage(void **state)
{
    (void)state;
    make_histories();
    uint32_t lost = 0, kept = 0;
    for (int round = 0; round < 60; round++) {
        struct world w;
        struct stat st;
        assert_true(world_open(&w, fresh(), 4 << 20, 8 << 20));
        for (int i = 0; i < 4; i++) assert_true(add(&w, histories[i], lengths[i]));
        write_all(&w);
        world_close(&w);
        int fd = again();
        assert_int_equal(fstat(fd, &st), 0);
        for (uint32_t i = 0; i < 1 + (uint32_t)round / 10; i++) {
            uint8_t byte = (uint8_t)below(256);
            assert_int_equal(pwrite(fd, &byte, 1, (off_t)below((uint32_t)st.st_size)), 1);
        }
        if (round % 5 == 0) assert_int_equal(ftruncate(fd, (off_t)below((uint32_t)st.st_size)), 0);
        if (world_open(&w, fd, 4 << 20, 8 << 20)) {
            for (int i = 0; i < 4; i++) {
                uint32_t k = check(&w, histories[i], lengths[i]);
                lost += lengths[i] - k;
                kept += k;
            }
            assert_true(add(&w, histories[5], lengths[5])); /* and it is written on */
            write_all(&w);
        }
        world_close(&w);
    }
    assert_true(lost > 0 && kept > 0);
}

/* Histories that share a block which is damaged: when one of them finds out, none of them is used any more, so what is
 * computed again is written anew, and comes back. */
static void test_shared_damage(void **state)
{
    (void)state;
    struct world w;
    int32_t a[700], b[700], c[700];
    for (int i = 0; i < 700; i++) a[i] = b[i] = c[i] = i;
    b[600] = 5, c[650] = 6;
    assert_true(world_open(&w, fresh(), 1 << 20, 8 << 20));
    assert_true(add(&w, a, 700) && add(&w, b, 700));
    write_all(&w);
    uint32_t k;
    uint64_t at = vr_prompt_cache_find(&w.prompts, 5, a, 700, false, &k)->blocks[0]->on_disk;
    assert_int_equal(pwrite(w.disk.file.fd, "damage", 6, (off_t)at + 1000), 6);
    world_close(&w);
    assert_true(world_open(&w, again(), 1 << 20, 8 << 20));
    assert_int_equal(vr_disk_cache_count(&w.disk), 2);
    assert_int_equal(check(&w, a, 700), 0);
    assert_non_null(strstr(w.disk.note, "damaged"));
    vr_prompt_cache_drop_damaged(&w.prompts);
    assert_int_equal(vr_disk_cache_count(&w.disk), 0);
    assert_true(add(&w, c, 700));
    write_all(&w);
    world_close(&w);
    assert_true(world_open(&w, again(), 1 << 20, 8 << 20));
    assert_int_equal(check(&w, c, 700), 700);
    world_close(&w);
}

/* Ten thousand, whose pieces are mostly on disk alone, over a restart: within both budgets, and found at once. */
static void test_ten_thousand(void **state)
{
    (void)state;
    enum { COUNT = 10000, LONG = 300, RAM = 32 << 20, DISK = 64 << 20 };
    struct world w;
    int32_t tokens[LONG];
    for (int i = 0; i < LONG; i++) tokens[i] = i;
    assert_true(world_open(&w, fresh(), RAM, DISK));
    for (int i = 0; i < COUNT; i++) {
        tokens[VR_KV_ROWS_BLOCK] = i;
        assert_true(add(&w, tokens, LONG));
        write_all(&w);
    }
    assert_int_equal(vr_disk_cache_count(&w.disk), COUNT);
    world_close(&w);
    assert_true(world_open(&w, again(), RAM, DISK));
    assert_int_equal(vr_disk_cache_count(&w.disk), COUNT);
    double before = vr_thread_us();
    for (int i = 0; i < 1000; i++) {
        tokens[VR_KV_ROWS_BLOCK] = (int32_t)below(COUNT);
        assert_int_equal(vr_prompt_cache_known(&w.prompts, 5, tokens, LONG), LONG);
    }
    double each_us = (vr_thread_us() - before) / 1000;
    print_message("%.2f us to find one of %d on disk\n", each_us, COUNT);
    assert_true(each_us < 1000);
    for (int i = 0; i < COUNT; i += 97) {
        tokens[VR_KV_ROWS_BLOCK] = i;
        assert_int_equal(check(&w, tokens, LONG), LONG);
    }
    world_close(&w);
}

/* The disk is full: a note, and what fits into what is there already is still written. */
static void test_full(void **state)
{
    (void)state;
    struct world w;
    struct rlimit before, few;
    make_histories();
    assert_true(world_open(&w, fresh(), 4 << 20, 8 << 20));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    few = before;
    few.rlim_cur = 150000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
    for (int i = 0; i < HISTORIES; i++) {
        assert_true(add(&w, histories[i], lengths[i]));
        write_all(&w);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_non_null(strstr(w.disk.note, "could not be written"));
    size_t n = vr_disk_cache_count(&w.disk);
    assert_true(n > 0 && n < HISTORIES);
    for (int i = 0; i < HISTORIES; i++) assert_int_equal(check(&w, histories[i], lengths[i]), lengths[i]);
    world_close(&w);
    assert_true(world_open(&w, again(), 4 << 20, 8 << 20));
    assert_int_equal(vr_disk_cache_count(&w.disk), n);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records), cmocka_unit_test(test_torn),          cmocka_unit_test(test_restart),
        cmocka_unit_test(test_shared),  cmocka_unit_test(test_limit),         cmocka_unit_test(test_damage),
        cmocka_unit_test(test_full),    cmocka_unit_test(test_shared_damage), cmocka_unit_test(test_ten_thousand),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
