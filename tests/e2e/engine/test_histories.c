/* Histories that are edited and sent again, on models with every kind of memory: what is said is what is said without
 * any cache, token for token, and what need not be computed is not. EDITS (default 10, and 4 over restarts) for each
 * kind and way of serving; KIND and WAY choose one. */
#include "test_engine.h"

#include <signal.h>
#include <unistd.h>

enum { MOST = 1500, SAY = 5 };
#define CARD(name) "{'name':'" name "','mib':64}"
#define CARDS      ", 'vgpus': [" CARD("CUDA0") "," CARD("CUDA1") "], 'devices': ['CUDA0', 'CUDA1'], 'n_gpu_layers': 99"
#define SLICES     CARDS ", 'split_mode': 'tensor'"
#define UNEQUAL_SLICES                                                                                                 \
    ", 'vgpus': [" CARD("CUDA0") "," CARD("CUDA1") "," CARD(                                                           \
        "CUDA2") "], 'devices': ['CUDA0', 'CUDA1', 'CUDA2'], "                                                         \
                 "'n_gpu_layers': 99, 'tensor_split': [2,1,1], 'split_mode': 'tensor'"

struct history {
    int tokens[MOST];
    int n;
};

static uint32_t seed;

static uint32_t below(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static void add_random(struct history *h, int at, int n)
{
    if (h->n + n > MOST - 100) n = MOST - 100 - h->n;
    if (n <= 0) return;
    memmove(h->tokens + at + n, h->tokens + at, (size_t)(h->n - at) * sizeof h->tokens[0]);
    for (int i = 0; i < n; i++) h->tokens[at + i] = (int)below(500);
    h->n += n;
}

static void cut(struct history *h, int at, int n)
{
    if (n > h->n - at) n = h->n - at;
    memmove(h->tokens + at, h->tokens + at + n, (size_t)(h->n - at - n) * sizeof h->tokens[0]);
    h->n -= n;
}

/* Near the end, mostly, as conversations change; and anywhere. */
static void edit(struct history *h)
{
    int at =
        below(4) ? h->n - 1 - (int)below((uint32_t)h->n < 120 ? (uint32_t)h->n - 1 : 120) : (int)below((uint32_t)h->n);
    switch (below(4)) {
    case 0: cut(h, at, 1 + (int)below(200)); break;
    case 1: add_random(h, at, 1 + (int)below(60)); break;
    case 2: h->tokens[at] = (h->tokens[at] + 1) % 500; break;
    default: add_random(h, h->n, 1 + (int)below(200));
    }
    if (h->n < 200) add_random(h, h->n, 300);
}

static char *ask(struct client *c, const struct history *h, bool cache, uint32_t *n_cached)
{
    struct answer a;
    VR_AUTO_BUF list = { 0 };
    for (int i = 0; i < h->n; i++) vr_buf_addf(&list, "%s%d", i ? "," : "", h->tokens[i]);
    client_ask(
        c, &a, 1,
        "{'kind':'completion','prompt':[%s],'max_tokens':%d,'temperature':0,'ignore_eos':true,'cache_prompt':%s}",
        list.data, SAY, cache ? "true" : "false");
    client_wait(c, &a);
    if (a.error) fail_msg("%s", json_string_value(json_object_get(a.error, "message")));
    char *text = strdup(vr_buf_str(&a.text[0]));
    *n_cached = a.end[0].cached_tokens;
    answer_done(&a);
    return text;
}

static int n_edits(int few) { return getenv("EDITS") ? atoi(getenv("EDITS")) : few; }

static bool is_wanted(size_t kind) { return !getenv("KIND") || !strcmp(getenv("KIND"), memory_kinds[kind]); }

static void start(struct client *c, const char *file, const char *more)
{
    client_start(
        c,
        "{'model': '%s', 'extra_bufts': false, 'threads': 1, 'type_k': 'f32', 'type_v': 'f32', 'n_batch': 256, "
        "'n_ubatch': 64%s%s}",
        file, more, strstr(more, "n_ctx") ? "" : ", 'n_seq': 1, 'n_ctx': 2048");
    if (!c->ready) fail_msg("not up: %s", json_string_value(json_object_get(c->failed, "message")));
}

static json_int_t cache_figure(struct client *c, const char *name)
{
    client_send(c, VR_WIRE_STATS, 0, NULL, 0);
    json_decref(c->status);
    c->status = NULL;
    while (!c->status && client_read(c, 60000)) continue;
    return json_integer_value(json_object_get(json_object_get(c->status, "cache"), name));
}

/* Without any cache; on the host, but for split mode tensor, which adds parts up in an order of its own. */
static void plain_start(struct client *c, const char *file, const char *more)
{
    char all[500];
    snprintf(all, sizeof all, ", 'flash_attn': '%s', 'cache_mib': 0%s", strstr(more, "'on'") ? "on" : "off",
             strstr(more, "'tensor'") ? strstr(more, ", 'vgpus'") : "");
    start(c, file, all);
}

struct compared { /* an engine with a cache beside one without */
    struct client plain, cached;
    struct history h[3], *last;
    uint64_t reused, sent;
};

/* Asks both about a history; how much of it was cached. */
static uint32_t compare(struct compared *c, const struct history *one, const char *what, int i)
{
    uint32_t n_cached, none;
    char *with = ask(&c->cached, one, true, &n_cached), *without = ask(&c->plain, one, false, &none);
    assert_int_equal(none, 0);
    if (strcmp(with, without) != 0)
        fail_msg("%s: edit %d, %d tokens, %u of them cached: '%s' instead of '%s'", what, i, one->n, n_cached, with,
                 without);
    c->reused += n_cached;
    c->sent += (uint64_t)one->n;
    free(with);
    free(without);
    return n_cached;
}

/* One edit of one history. */
static void edit_one(struct compared *c, const char *what, int i)
{
    c->last = &c->h[below(3)];
    if (i) edit(c->last);
    compare(c, c->last, what, i);
}

static void begin_histories(struct compared *c, int n)
{
    seed = 7;
    c->reused = c->sent = 0;
    for (int k = 0; k < 3; k++) c->h[k].n = 0, add_random(&c->h[k], 0, n + n * k);
}

static void edit_on(const char *kind, const char *file, const char *more, int n)
{
    struct compared c;
    char what[400];
    snprintf(what, sizeof what, "%s%s", kind, more);
    plain_start(&c.plain, file, more);
    start(&c.cached, file, more);
    begin_histories(&c, 300);
    for (int i = 0; i < n; i++) edit_one(&c, what, i);
    json_int_t restored = cache_figure(&c.cached, "restored_tokens");
    print_message("%s: %llu of %llu tokens reused, %lld of them from host memory\n", what, (unsigned long long)c.reused,
                  (unsigned long long)c.sent, (long long)restored);
    assert_true(cache_figure(&c.cached, "bytes") <= cache_figure(&c.cached, "limit_bytes"));
    if (n >= 4 && strstr(more, "'n_seq': 1,")) assert_true(restored > 0);
    if (n >= 10) assert_true(c.reused * 16 > c.sent);
    down(&c.plain);
    down(&c.cached);
}

void test_histories(void **state)
{
    (void)state;
    static const char *const ways[] = {
        ", 'flash_attn': 'off', 'n_seq': 4, 'n_ctx': 8192",
        ", 'flash_attn': 'off', 'n_seq': 4, 'n_ctx': 8192, 'kv_unified': true",
        ", 'flash_attn': 'off', 'n_seq': 1, 'n_ctx': 2048",
        ", 'flash_attn': 'on', 'n_seq': 1, 'n_ctx': 2048, 'cache_mib': 4",
        ", 'flash_attn': 'off', 'n_seq': 4, 'n_ctx': 2048, 'kv_unified': true",
        ", 'flash_attn': 'off', 'n_seq': 2, 'n_ctx': 4096" CARDS,
    };
    const char *way = getenv("WAY"); /* one for all kinds; otherwise each kind has two of them */
    for (int k = 0; k < N_KINDS; k++)
        for (size_t w = 0; w < VR_COUNT(ways); w++)
            if (is_wanted((size_t)k) && (way ? atoi(way) == (int)w : ((size_t)k + w) % 3 == 0))
                edit_on(memory_kinds[k], kind_files[k], ways[w], n_edits(10));
}

/* --- over a restart --- */

/* Ended as it should be, or killed. */
static void end_engine(struct client *c, bool killed)
{
    if (killed) kill(c->pid, SIGKILL);
    assert_int_equal(client_stop(c, 0), killed ? -SIGKILL : 0);
}

/* Flips bytes in the middle of a file. */
static void damage(const char *file)
{
    VR_AUTO_FCLOSE FILE *f = fopen(file, "r+e");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    for (int i = 1; i < 40; i++) {
        fseek(f, size / 40 * i, SEEK_SET);
        fputc((int)below(256), f);
    }
}

/* Checkpoints keep 64 tokens from the end, and 32 from each other; and a window that is only ever cut a little near its
 * end needs none there while it stays in its slot (stops.c). */
static bool came_back(uint32_t back, uint32_t n) { return back + 100 >= n || back >= n / 2; }

/* Engines that end and begin again over one file: in turns in order, killed, with the file damaged, and without it. The
 * text is the same all the while; and after an end in order the last history comes back from disk, unless budgets are
 * too small for all of them. */
static void restart_on(const char *kind, const char *file, const char *more, int n_all)
{
    enum { EVERY = 2 };
    struct compared c;
    char what[500], cache[400], options[900];
    snprintf(what, sizeof what, "%s, restarted%s", kind, more);
    snprintf(cache, sizeof cache, "%s.prompts", file);
    snprintf(options, sizeof options, ", 'cache_file': '%s'%s", cache, more);
    unlink(cache);
    plain_start(&c.plain, file, more);
    start(&c.cached, file, options);
    begin_histories(&c, 150);
    int n = 0, n_orderly = 0, n_back = 0;
    for (int i = 0; i < n_all; i++) {
        edit_one(&c, what, i);
        assert_true(cache_figure(&c.cached, "disk_bytes") <= cache_figure(&c.cached, "disk_limit_bytes"));
        assert_true(cache_figure(&c.cached, "bytes") <= cache_figure(&c.cached, "limit_bytes"));
        if (i % EVERY != EVERY - 1) continue;
        int how = n++ % 4;
        end_engine(&c.cached, how == 1);
        if (how == 2) damage(cache);
        if (how == 3) unlink(cache);
        start(&c.cached, file, options);
        uint32_t back = compare(&c, c.last, what, i);
        if (how != 0) continue;
        n_orderly++;
        n_back += came_back(back, (uint32_t)c.last->n);
        if (!strstr(more, "cache_disk_mib") && !came_back(back, (uint32_t)c.last->n))
            fail_msg("%s: edit %d: %u of %d tokens came back", what, i, back, c.last->n);
    }
    if (n_orderly && !n_back) fail_msg("%s: none of %d histories came back", what, n_orderly);
    print_message("%s: %llu of %llu tokens reused, %d of %d histories came back from disk\n", what,
                  (unsigned long long)c.reused, (unsigned long long)c.sent, n_back, n_orderly);
    down(&c.plain);
    down(&c.cached);
    unlink(cache);
}

void test_restarts(void **state)
{
    (void)state;
    static const char *const ways[] = {
        ", 'flash_attn': 'off', 'n_seq': 1, 'n_ctx': 2048",
        ", 'flash_attn': 'off', 'n_seq': 2, 'n_ctx': 4096, 'cache_mib': 4, 'cache_disk_mib': 6",
        ", 'flash_attn': 'on', 'n_seq': 4, 'n_ctx': 4096, 'kv_unified': true",
    };
    const char *way = getenv("WAY");
    for (size_t k = 0; k < N_KINDS; k++)
        if (is_wanted(k))
            restart_on(memory_kinds[k], kind_files[k], ways[(way ? (size_t)atoi(way) : k) % VR_COUNT(ways)],
                       n_edits(4));
}

/* --- in split mode tensor --- */

/* A sequence is put together of its slices, and taken apart again: the same text, on equal and on unequal cards, and
 * over a restart. The engine has this mode for three kinds of memory. */
void test_slices(void **state)
{
    (void)state;
    static const char *const kinds[N_SLICED] = { "llama, sliced", "gemma3, sliced", "qwen35, sliced" };
    for (int k = 0; k < N_SLICED; k++) {
        edit_on(kinds[k], sliced_files[k], ", 'flash_attn': 'on', 'n_seq': 1, 'n_ctx': 2048" SLICES, n_edits(4));
        edit_on(kinds[k], sliced_files[k], ", 'flash_attn': 'on', 'n_seq': 2, 'n_ctx': 4096" UNEQUAL_SLICES,
                n_edits(2));
        restart_on(kinds[k], sliced_files[k], ", 'flash_attn': 'on', 'n_seq': 1, 'n_ctx': 2048" SLICES, n_edits(2));
    }
}

/* --- conversations --- */

static void chat(struct client *c, struct answer *a, const char *messages)
{
    client_ask(c, a, 1, "{'kind':'chat','messages':[%s],'max_tokens':40,'temperature':0,'ignore_eos':true}", messages);
    client_wait(c, a);
    if (a->error) fail_msg("%s", json_string_value(json_object_get(a->error, "message")));
}

/* A template that drops thoughts: the next turn leaves the last prompt where the answer began, and nothing before that
 * is computed again, but for a few tokens. */
void test_turns(void **state)
{
    (void)state;
    for (int k = 0; k < N_KINDS; k++) {
        struct client c;
        VR_AUTO_BUF messages = { 0 };
        uint32_t before = 0;
        up(&c, kind_files[k], ", 'n_seq': 2, 'n_ctx': 16384, 'n_batch': 256, 'n_ubatch': 64");
        for (int turn = 0; turn < 6; turn++) {
            struct answer a;
            vr_buf_addf(&messages, "%s{'role':'user','content':'question %d: ", turn ? "," : "", turn);
            for (int i = 0; i < 40; i++) vr_buf_addf(&messages, "word %d of %d, ", i, turn);
            vr_buf_adds(&messages, "and?'}");
            chat(&c, &a, messages.data);
            if (turn && a.end[0].cached_tokens + 100 < before)
                fail_msg("%s: turn %d: %u of %u tokens of the last prompt were there", memory_kinds[k], turn,
                         a.end[0].cached_tokens, before);
            before = a.begin.prompt_tokens;
            answer_done(&a);
            vr_buf_addf(&messages, ",{'role':'assistant','content':'answer %d'}", turn);
        }
        down(&c);
    }
}
