/* Pictures in requests: what is let through to the decoder, and what never gets there. */
#include "test.h"

#include "engine/wire/picture.h"
#include "engine/process/slots.h"

static const char png[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0\0\0\2\0\10\2\0\0\0";
static const char jpeg[] = "\xff\xd8\xff\xe0\0\4AB\xff\xff\xdb\0\3x\xff\xc2\0\13\10\2\0\1\0\3";

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *what, *data;
        size_t n;
        uint32_t width, height; /* 0: refused */
    } rows[] = {
        { "PNG", png, sizeof png - 1, 256, 512 },
        { "JPEG, progressive, behind other segments", jpeg, sizeof jpeg - 1, 256, 512 },
        { "nothing", "", 0, 0, 0 },
        { "GIF", "GIF89a\1\0\1\0\200\0\0\0\0\0\0\0\0\0\0\0\0\0", 24, 0, 0 },
        { "sound", "RIFF\0\0\0\0WAVEfmt \20\0\0\0\1\0\1\0", 24, 0, 0 },
        { "PNG without IHDR", "\x89PNG\r\n\x1a\n\0\0\0\rIDAT\0\0\1\0\0\0\2\0", 24, 0, 0 },
        { "PNG of no width", "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\0\0\0\2\0", 24, 0, 0 },
        { "PNG of 4 G", "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xff\xff\xff\0\0\0\1", 24, 0, 0 },
        { "PNG of too many pixels", "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x3f\0\0\0\x3f\0", 24, 0, 0 },
        { "JPEG without a frame", "\xff\xd8\xff\xda\0\4AB", 8, 0, 0 },
        { "JPEG with an empty segment", "\xff\xd8\xff\xe0\0\0\xff\xc0\0\13\10\2\0\1\0\3", 16, 0, 0 },
        { "JPEG with a segment past the end", "\xff\xd8\xff\xe0\xff\xff\0", 7, 0, 0 },
        { "JPEG that is no JPEG", "\xff\xd8 and text", 11, 0, 0 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_err err = { 0 };
        uint32_t w = 0, h = 0;
        bool ok = vr_picture_size((const uint8_t *)rows[i].data, rows[i].n, &w, &h, &err);
        if (ok != (rows[i].width > 0) || (ok && (w != rows[i].width || h != rows[i].height)))
            fail_msg("%s: %s (%u x %u)", rows[i].what, ok ? "taken" : err.msg, w, h);
    }
}

/* Cut anywhere, changed anywhere: an answer, and nothing read past the end (the copy has no byte more). */
static void test_damage(void **state)
{
    (void)state;
    const struct {
        const char *data;
        size_t n;
    } files[] = { { png, sizeof png - 1 }, { jpeg, sizeof jpeg - 1 } };
    unsigned seed = 1;
    for (size_t f = 0; f < VR_COUNT(files); f++)
        for (int round = 0; round < 20000; round++) {
            struct vr_err err = { 0 };
            uint32_t w, h;
            size_t n = (size_t)rand_r(&seed) % (files[f].n + 1);
            uint8_t *copy = malloc(n ? n : 1);
            memcpy(copy, files[f].data, n);
            for (int k = 0; n > 2 && k < rand_r(&seed) % 3; k++)
                copy[2 + (size_t)rand_r(&seed) % (n - 2)] = (uint8_t)rand_r(&seed);
            if (vr_picture_size(copy, n, &w, &h, &err)) assert_true((uint64_t)w * h <= 33554432 && w && h);
            free(copy);
        }
}

static void test_urls(void **state)
{
    (void)state;
    static const struct {
        const char *url, *refusal; /* NULL: taken, as 3 x 2 pixels */
    } rows[] = {
        { "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAA=", NULL },
        { "data:image/jpeg;base64,iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAA", NULL },
        { "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAMAAAAC", NULL },
        { "data:image/png;base64,", "an image must be" },
        { "data:image/svg+xml;base64,PHN2Zy8+", "an image must be" },
        { "data:image/png,rawbytes", "an image must be" },
        { "http://localhost/x.png", "not fetch remote" },
        { "file:///etc/passwd", "not fetch remote" },
        { "", "an image must be" },
        { "data:image/png;base64,iVBORw0KGgoAAA AN", "not valid base64" },
        { "data:image/png;base64,iVBOR", "not valid base64" },
        { "data:image/png;base64, iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAA", "not valid base64" },
        { "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAA\n", "not valid base64" },
        { "data:image/png;base64,iVBO====Rw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAA=", "not valid base64" },
        { "data:image/png;base64,iVBOR*0K", "not valid base64" },
        { "data:image/png;base64,====", "neither a PNG nor a JPEG" },
        { "data:image/png;base64,_-_-", "neither a PNG nor a JPEG" },
        { "data:image/png;base64,aGVsbG8gd29ybGQ=", "neither a PNG nor a JPEG" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_err err = { 0 };
        struct vr_arena arena = { 0 };
        struct vr_picture_file file = { 0 };
        bool ok = vr_picture_read(rows[i].url, strlen(rows[i].url), &arena, &file, &err);
        if (ok != !rows[i].refusal || (!ok && !strstr(err.msg, rows[i].refusal)) ||
            (ok && (file.width != 3 || file.height != 2)))
            fail_msg("%s: %s", rows[i].url, ok ? "taken" : err.msg);
        vr_arena_done(&arena);
    }
}

/* Behind pictures that take fewer positions than tokens. */
static void test_positions(void **state)
{
    (void)state;
    static llama_token tokens[1000];
    struct vr_slot slot = { .tokens = calloc(1000, sizeof(llama_token)) };
    vr_slot_push(&slot, tokens, 10);
    assert_true(vr_slot_push_picture(&slot, tokens, 100, 100)); /* one dimension: nothing shifts */
    assert_int_equal(vr_slot_pos(&slot, 110), 110);
    assert_true(vr_slot_push_picture(&slot, tokens, 64, 8));
    vr_slot_push(&slot, tokens, 5);
    assert_true(vr_slot_push_picture(&slot, tokens, 36, 6));
    assert_int_equal(vr_slot_pos(&slot, 0), 0);
    assert_int_equal(vr_slot_pos(&slot, 110), 110);
    assert_int_equal(vr_slot_pos(&slot, 174), 118);
    assert_int_equal(vr_slot_pos(&slot, 178), 122);
    assert_int_equal(vr_slot_pos(&slot, slot.n), 129);
    for (uint32_t i = slot.n_shifts; i < VR_MOST_SHIFTS; i++) assert_true(vr_slot_push_picture(&slot, tokens, 4, 2));
    assert_false(vr_slot_push_picture(&slot, tokens, 4, 2));
    free(slot.tokens);
}

static void test_sounds(void **state)
{
    (void)state;
    static const struct {
        const char *base64, *says; /* NULL: taken */
    } rows[] = {
        { "UklGRiQAAABXQVZFZm10IA==", NULL }, /* RIFF....WAVEfmt */
        { "SUQzBAAAAAAAAAAAAAAA", NULL },     /* ID3 */
        { "//uQxAAAAAAAAAAAAAAA", NULL },     /* the head of a frame of MP3 */
        { "ZkxhQwAAACIAAAAAAAAA", NULL },     /* fLaC */
        { "UklGRiQAAABXRUJQZm10IA==", "neither a WAV" },
        { "iVBORw0KGgoAAAANSUhEUg==", "neither a WAV" },
        { "SUQz", "neither a WAV" },
        { "", "neither a WAV" },
        { "SUQzBAAAAAA AAAAAAAAA", "not valid base64" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        VR_AUTO_ARENA arena = { 0 };
        struct vr_picture_file file;
        struct vr_err err = { 0 };
        bool ok = vr_sound_read(rows[i].base64, strlen(rows[i].base64), &arena, &file, &err);
        if (ok != !rows[i].says || (!ok && !strstr(err.msg, rows[i].says))) fail_msg("%s: %s", rows[i].base64, err.msg);
        if (ok) assert_true(file.n >= 12 && file.width == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_sizes), cmocka_unit_test(test_damage),
                                        cmocka_unit_test(test_urls), cmocka_unit_test(test_positions),
                                        cmocka_unit_test(test_sounds) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
