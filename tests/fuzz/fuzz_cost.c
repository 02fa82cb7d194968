/* The cost of what the front itself does with strangers' bytes: CPU time per byte stays within a bound, whatever they
 * say.
 *
 * An input is a recipe: its first letter says who reads the rest, in which <N|...> stands for N times what is inside,
 * up to three deep, and ~ for a number that is another one each time. So a few bytes are a body of half a megabyte, and
 * costs that grow faster than the body stand out. What is measured is compared with an ordinary body of the same kind,
 * read in the same run; what exceeds the bound is measured again with its yardstick, so a busy machine fails nothing.
 * The most that a byte cost counts as coverage: libFuzzer keeps what is dearer than anything before. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "engine/wire/limits.h"
#include "engine/wire/picture.h"
#include "engine/wire/schema.h"
#include "server/api/body.h"
#include "server/dialect/messages.h"
#include "server/dialect/native.h"
#include "server/dialect/ollama.h"
#include "server/dialect/responses.h"
#include "server/http/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MAX_TEXT (512 << 10)
#define MAX_DEEP 3
#define TIMES    6       /* so many times dearer than an ordinary byte; the seeds are within 2.2 */
#define FREE_NS  1000000 /* what may be spent whatever the size */
#define TRIES    6

/* --- who reads --- */

static void read_body(const char *text, size_t n, enum vr_request_kind kind)
{
    struct vr_refusal why = { 0 };
    struct vr_reply_form form;
    json_t *body = vr_body_parse(text, n, &why);
    if (body && !vr_body_check(body, kind, &form, &why) && !why.message[0]) abort();
    json_decref(body);
}
static void read_chat(const char *text, size_t n) { read_body(text, n, VR_CHAT); }
static void read_completion(const char *text, size_t n) { read_body(text, n, VR_COMPLETION); }
static void read_embedding(const char *text, size_t n) { read_body(text, n, VR_EMBEDDING); }

/* Another API's, as ours. */
static void translate(const char *text, size_t n, const struct vr_dialect *d)
{
    struct vr_body out;
    vr_body_read(text, n, &(struct vr_asker){ .dialect = d }, &out);
    if (!out.ok && !out.why.message[0]) abort();
    vr_body_done(&out);
}
#define DIALECT(name, its_kind, function)                                                                              \
    static void read_##name(const char *text, size_t n)                                                                \
    {                                                                                                                  \
        translate(text, n, &(struct vr_dialect){ .kind = its_kind, .translate = function });                           \
    }
DIALECT(responses, VR_CHAT, vr_responses_translate)
DIALECT(anthropic, VR_CHAT, vr_messages_translate)
DIALECT(ollama, VR_CHAT, vr_ollama_translate_chat)
DIALECT(native, VR_COMPLETION, vr_native_translate_completion)

static void read_schema(const char *text, size_t n)
{
    struct vr_err err;
    struct vr_refusal why = { 0 };
    json_t *schema = vr_body_parse(text, n, &why);
    if (schema && !vr_schema_check(schema, VR_SCHEMA_ANSWER, NULL, NULL, &err) && !err.msg[0]) abort();
    json_decref(schema);
}

/* Byte by byte, as a slow client sends it. */
static void read_head(const char *text, size_t n)
{
    struct vr_head_scan scan = { 0 };
    struct vr_bad_http no;
    struct vr_head head;
    enum vr_feed fed = VR_FEED_MORE;
    for (size_t i = 1; i <= n && fed == VR_FEED_MORE; i++) fed = vr_head_scan(&scan, text, i, MAX_TEXT, &no);
    if (fed == VR_FEED_DONE && !vr_head_parse(text + scan.skip, scan.at - scan.skip, &head, &no) && !no.why[0]) abort();
}

static void read_chunks(const char *text, size_t n)
{
    VR_AUTO_BUF out = { .max = MAX_TEXT };
    struct vr_chunks chunks = { 0 };
    struct vr_bad_http no;
    enum vr_feed fed = VR_FEED_MORE;
    for (size_t at = 0, used; at < n && fed == VR_FEED_MORE; at += used)
        fed = vr_chunks_feed(&chunks, text + at, n - at < 7 ? n - at : 7, &used, &out, &no);
}

static void read_url(const char *text, size_t n)
{
    struct vr_arena arena = { 0 };
    struct vr_picture_file file;
    struct vr_err err;
    if (!vr_picture_read(text, n, &arena, &file, &err) && !err.msg[0]) abort();
    vr_arena_done(&arena);
}

static void read_picture(const char *text, size_t n)
{
    uint32_t w, h;
    struct vr_err err;
    if (!vr_picture_size((const uint8_t *)text, n, &w, &h, &err) && !err.msg[0]) abort();
}

/* The ordinary ones are dense: many small values, which is what a byte costs most for in a fair way. */
static struct reader {
    char letter;
    void (*read)(const char *text, size_t n);
    const char *ordinary;
    double ns_per_byte;
} readers[] = {
    { 'b', read_chat,
      "{\"messages\":[<4000|{\"role\":\"user\",\"content\":\"~\"},>{\"role\":\"user\",\"content\":\"\"}]}", 0 },
    { 'p', read_completion, "{\"prompt\":[<60000|~,>1]}", 0 },
    { 'e', read_embedding, "{\"input\":[<2000|\"text ~\",>\"a\"]}", 0 },
    { 'r', read_responses,
      "{\"input\":[<4000|{\"role\":\"user\",\"content\":\"~\"},>{\"role\":\"user\",\"content\":\"\"}]}", 0 },
    { 'a', read_anthropic,
      "{\"max_tokens\":1,\"messages\":[<4000|{\"role\":\"user\",\"content\":\"~\"},>{\"role\":\"user\",\"content\":"
      "\"\"}]}",
      0 },
    { 'o', read_ollama,
      "{\"messages\":[<4000|{\"role\":\"user\",\"content\":\"~\"},>{\"role\":\"user\",\"content\":\"\"}]}", 0 },
    { 'n', read_native, "{\"prompt\":[<60000|~,>1]}", 0 },
    { 's', read_schema, "{\"type\":\"object\",\"properties\":{<4000|\"p~\":{\"type\":\"string\"},>\"a\":{}}}", 0 },
    { 'h', read_head, "GET / HTTP/1.1\r\nHost: a\r\n<90|X-~: <100|abcd ef,>\r\n>\r\n", 0 },
    { 'c', read_chunks, "<20000|4\r\nabcd\r\n>0\r\n\r\n", 0 },
    { 'u', read_url, "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB<20000|abcd>", 0 },
    { 'j', read_picture, "\xFF\xD8<200000|\xFF>", 0 },
};

/* --- recipes --- */

struct recipe {
    const char *at, *end;
    struct vr_buf *out;
    unsigned long serial;
};

/* Expands up to a '>' or the end; false when there is no more room. */
static bool expand(struct recipe *r, unsigned deep)
{
    for (; r->at < r->end && *r->at != '>'; r->at++) {
        char *past = NULL;
        unsigned long times = *r->at == '<' && r->end - r->at > 3 ? strtoul(r->at + 1, &past, 10) : 0;
        if (r->out->n + 32 > MAX_TEXT) return false;
        if (*r->at == '~') {
            vr_buf_addf(r->out, "%lu", r->serial++);
        } else if (!past || *past != '|' || past == r->at + 1 || deep == MAX_DEEP) {
            vr_buf_add(r->out, r->at, 1);
        } else {
            const char *inside = past + 1;
            r->at = inside;
            for (unsigned long i = 0; i < (times ? times : 1); i++) {
                r->at = inside;
                if (!expand(r, deep + 1)) return false;
            }
            if (r->at == r->end) return true;
        }
    }
    return true;
}

static void cook(const char *recipe, size_t n, struct vr_buf *out)
{
    /* a NUL behind it, for strtoul */
    VR_AUTO_FREE char *text = malloc(n + 1);
    if (!text) abort();
    memcpy(text, recipe, n);
    text[n] = '\0';
    struct recipe r = { .at = text, .end = text + n, .out = out };
    expand(&r, 0);
    vr_buf_add(out, "", 0);
}

/* --- the measure --- */

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static double cost_ns(const struct reader *r, const struct vr_buf *text)
{
    uint64_t from = cpu_ns();
    r->read(text->data, text->n);
    return (double)(cpu_ns() - from);
}

static void measure_ordinary(struct reader *r)
{
    VR_AUTO_BUF text = { 0 };
    cook(r->ordinary, strlen(r->ordinary), &text);
    for (int i = 0; i < 3; i++) {
        double each = cost_ns(r, &text) / (double)text.n;
        if (each > r->ns_per_byte) r->ns_per_byte = each;
    }
}

/* More classes of cost than anything before are new coverage. */
__attribute__((section("__libfuzzer_extra_counters"))) static uint8_t dearest[12 * 16];

static void note_cost(size_t reader, double ratio)
{
    size_t class = 0;
    for (; class < 15 && ratio > 0.125; ratio /= 1.5) class ++;
    dearest[reader * 16 + class] = 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 2) return -1;
    size_t i = 0;
    while (i < VR_COUNT(readers) && readers[i].letter != (char)data[0]) i++;
    if (i == VR_COUNT(readers)) return -1;
    struct reader *r = &readers[i];
    if (r->ns_per_byte <= 0) measure_ordinary(r);
    VR_AUTO_BUF text = { 0 };
    cook((const char *)data + 1, n - 1, &text);
    if (text.n == 0) return -1;
    for (int k = 0;; k++) {
        double ns = cost_ns(r, &text), bound = FREE_NS + TIMES * r->ns_per_byte * (double)text.n;
        if (k == 0 && text.n > 4096) note_cost(i, ns / (r->ns_per_byte * (double)text.n));
        if (ns <= bound) return 0;
        if (k == TRIES) {
            fprintf(stderr, "%zu bytes for '%c' cost %.1f ms of CPU time, at most %.1f\n", text.n, r->letter, ns / 1e6,
                    bound / 1e6);
            abort();
        }
        measure_ordinary(r);
    }
}
