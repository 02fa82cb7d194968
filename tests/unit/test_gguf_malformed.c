/* Files that are not what they say. Each row builds one: a header from a few steps, then damage to its bytes; and tells
 * what the message must contain. */
#include "test.h"

#include "gguf_maker.h"

enum step_kind {
    END,
    RAW,
    KEY,
    U32,
    STR,
    ARR,
    LEN,
    TENSOR,
    PLACED,
    DIMS,
    LLAMA,
    LIE_META,
    LIE_TENSORS,
    CUT,
    GROW,
    HOLE,
    SET32,
    SET64
};

struct step {
    enum step_kind kind;
    const char *s;
    uint64_t a, b, c, d;
};
#define STEPS(...)                                                                                                     \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

/* after LLAMA(1): offsets in the header that the damage rows name */
enum { AT_VERSION = 4, AT_N_TENSORS = 8, AT_N_META = 16, AT_FIRST_KEY = 24 };

static const struct row {
    const char *name, *message;
    struct step steps[8];
} rows[] = {
    /* not GGUF at all */
    { "empty", "the file is empty", STEPS({ RAW, "", 0 }) },
    { "one byte", "ends at byte 1", STEPS({ RAW, "G", 1 }) },
    { "magic only", "ends at byte 4, inside the header: at least 4 bytes are missing", STEPS({ RAW, "GGUF", 4 }) },
    { "text", "does not start with the magic GGUF", STEPS({ RAW, "hello, this is a text file", 26 }) },
    { "web page", "a web page: the download failed", STEPS({ RAW, "<!DOCTYPE html><html>", 21 }) },
    { "lower case web page", "a web page", STEPS({ RAW, "<html><body>404", 15 }) },
    { "lfs pointer", "git lfs pull", STEPS({ RAW, "version https://git-lfs spec v1", 31 }) },
    { "zip", "a zip archive", STEPS({ RAW, "PK\3\4aaaaaaaaaaaa", 16 }) },
    { "safetensors", "safetensors", STEPS({ RAW, "\x40\0\0\0\0\0\0\0{\"a\":1}", 15 }) },
    { "ggml", "older than GGUF", STEPS({ RAW, "lmggaaaaaaaaaaaaa", 16 }) },
    { "ggjt", "GGJT", STEPS({ RAW, "tjggaaaaaaaaaaaaa", 16 }) },
    { "gzip", "gzip-compressed", STEPS({ RAW, "\x1f\x8b\x08\0aaaaaaaaaaaa", 16 }) },
    { "zstd", "zstd-compressed", STEPS({ RAW, "\x28\xb5\x2f\xfd aaaaaaaaaa", 15 }) },
    { "big-endian magic", "big-endian", STEPS({ RAW, "FUGG\0\0\0\3aaaaaaaa", 16 }) },
    /* the fixed header */
    { "version 0", "version 0", STEPS({ LLAMA, 0, 1 }, { SET32, 0, AT_VERSION, 0 }) },
    { "version 1", "version 1 is not supported; 2 and 3", STEPS({ LLAMA, 0, 1 }, { SET32, 0, AT_VERSION, 1 }) },
    { "version 4", "version 4", STEPS({ LLAMA, 0, 1 }, { SET32, 0, AT_VERSION, 4 }) },
    { "big-endian version", "big-endian", STEPS({ LLAMA, 0, 1 }, { SET32, 0, AT_VERSION, 0x03000000 }) },
    { "no counts", "at least 8 bytes are missing", STEPS({ RAW, "GGUF\3\0\0\0", 8 }) },
    { "absurd tensor count", "18446744073709551615 tensors, but at most",
      STEPS({ RAW, "GGUF\3\0\0\0\377\377\377\377\377\377\377\377\0\0\0\0\0\0\0\0", 24 }) },
    { "absurd entry count", "metadata entries, but at most",
      STEPS({ RAW, "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\377\377\377\377\377\377\377\177", 24 }) },
    { "more tensors than bytes", "do not fit into a file of",
      STEPS({ LLAMA, 0, 1 }, { SET64, 0, AT_N_TENSORS, 131072 }, { CUT, 0, 50000 }) },
    { "more entries than bytes", "do not fit into a file of", STEPS({ U32, "a.b", 1 }, { LIE_META, 0, 16000 }) },
    { "one entry too few", "corrupt", STEPS({ LLAMA, 0, 1 }, { LIE_META, 0, (uint64_t)-1 }) },
    { "one entry too many", "corrupt", STEPS({ LLAMA, 0, 1 }, { LIE_META, 0, 1 }) },
    { "one tensor too many", "", STEPS({ LLAMA, 0, 1 }, { LIE_TENSORS, 0, 1 }) },
    /* metadata */
    { "empty key", "is 0 bytes long", STEPS({ LEN, 0, 0 }, { RAW, "", 0 }, { GROW, 0, 100 }) },
    { "key longer than any", "1 to 1024 is allowed", STEPS({ LEN, 0, 70000 }, { GROW, 0, 100000 }) },
    { "key past the end", "missing", STEPS({ LEN, 0, 1000 }, { GROW, 0, 24 }) },
    { "key of 2^64-1 bytes", "18446744073709551615 bytes long", STEPS({ LEN, 0, UINT64_MAX }, { GROW, 0, 100 }) },
    { "unprintable key", "unprintable", STEPS({ U32, "a\001b", 1 }) },
    { "CSI in one character", "unprintable", STEPS({ U32, "a\xc2\x9b\x31m", 1 }) },
    { "newline in a key", "unprintable", STEPS({ U32, "a\nb", 1 }) },
    { "key twice", "duplicate key 'general.name'", STEPS({ STR, "general.name" }, { STR, "general.name" }) },
    { "value type 13", "value type 13", STEPS({ KEY, "general.x", 13 }, { GROW, 0, 100 }) },
    { "value type 2^32-1", "value type 4294967295", STEPS({ KEY, "general.x", UINT32_MAX }, { GROW, 0, 100 }) },
    { "value cut", "inside the value of key 'general.x'", STEPS({ U32, "general.x", 1 }, { CUT, 0, 2 }) },
    { "u64 value cut", "at least 3 bytes are missing", STEPS({ KEY, "general.x", VR_V_U64 }, { RAW, "aaaaa", 5 }) },
    { "string past the end", "inside the value of key 'general.x'",
      STEPS({ KEY, "general.x", VR_V_STRING }, { LEN, 0, 5000 }, { GROW, 0, 100 }) },
    { "string of 2^63 bytes", "has a string of",
      STEPS({ KEY, "general.x", VR_V_STRING }, { LEN, 0, 1ull << 63 }, { GROW, 0, 100 }) },
    { "string length cut", "at least 4 bytes are missing",
      STEPS({ KEY, "general.x", VR_V_STRING }, { RAW, "aaaa", 4 }) },
    { "array of arrays", "an array of arrays", STEPS({ ARR, "general.x", VR_V_ARRAY, 1 }, { GROW, 0, 100 }) },
    { "array of nothing known", "an array of an unknown type", STEPS({ ARR, "general.x", 99, 1 }, { GROW, 0, 100 }) },
    { "array of 2^62", "has 4611686018427387904 elements",
      STEPS({ ARR, "general.x", VR_V_U64, 1ull << 62 }, { GROW, 0, 100 }) },
    { "array longer than the file", "bytes are missing",
      STEPS({ ARR, "general.x", VR_V_U64, 100000 }, { GROW, 0, 100 }) },
    { "small array cut", "bytes are missing", STEPS({ ARR, "general.x", VR_V_U8, 64 }, { GROW, 0, 10 }) },
    { "string array longer than the file", "bytes are missing",
      STEPS({ ARR, "general.x", VR_V_STRING, 1000000 }, { GROW, 0, 100 }) },
    { "string array with a long string", "bytes are missing",
      STEPS({ ARR, "general.x", VR_V_STRING, 2 }, { LEN, 0, 1000000 }, { GROW, 0, 100 }) },
    { "string array with 2^64-1", "bytes are missing",
      STEPS({ ARR, "general.x", VR_V_STRING, 1 }, { LEN, 0, UINT64_MAX }, { GROW, 0, 100 }) },
    { "a billion empty strings in a hole", "extends past the first 128.00 MiB",
      STEPS({ ARR, "general.x", VR_V_STRING, 1 << 30 }, { HOLE, 0, 1ull << 40 }) },
    { "one string of a gigabyte in a hole", "the value of key 'general.x' extends past",
      STEPS({ KEY, "general.x", VR_V_STRING }, { LEN, 0, 1 << 30 }, { HOLE, 0, 1ull << 40 }) },
    { "many strings of a megabyte in a hole", "extends past",
      STEPS({ ARR, "general.x", VR_V_STRING, 1000 }, { LEN, 0, 300 << 20 }, { HOLE, 0, 1ull << 40 }) },
    { "alignment 0", "but must be a power of two", STEPS({ U32, "general.alignment", 0 }) },
    { "alignment 33", "general.alignment is 33", STEPS({ U32, "general.alignment", 33 }) },
    { "alignment as text", "is of type string, but must be u32", STEPS({ STR, "general.alignment" }) },
    /* the model's facts */
    { "no architecture", "general.architecture is missing", STEPS({ U32, "x", 1 }) },
    { "architecture as number", "general.architecture is missing", STEPS({ U32, "general.architecture", 1 }) },
    { "too many layers", "0 to 512 is allowed",
      STEPS({ STR, "general.architecture" }, { U32, "text.block_count", 513 }) },
    { "layers as text", "'text.block_count' is not an integer",
      STEPS({ STR, "general.architecture" }, { STR, "text.block_count" }) },
    { "more MTP layers than layers", "for multi-token prediction",
      STEPS({ STR, "general.architecture" }, { U32, "text.block_count", 2 }, { U32, "text.nextn_predict_layers", 3 }) },
    { "more experts used than there are", "experts used per token",
      STEPS({ STR, "general.architecture" }, { U32, "text.expert_count", 2 }, { U32, "text.expert_used_count", 3 }) },
    { "too few heads", "has 3 values for 5 layers",
      STEPS({ STR, "general.architecture" }, { U32, "text.block_count", 5 },
            { ARR, "text.attention.head_count", VR_V_I32, 3 }, { RAW, "\1\0\0\0\1\0\0\0\1\0\0\0", 12 }) },
    { "negative heads", "is -1 for layer 0",
      STEPS({ STR, "general.architecture" }, { U32, "text.block_count", 1 },
            { ARR, "text.attention.head_count", VR_V_I32, 1 }, { RAW, "\377\377\377\377", 4 }) },
    { "heads as text", "is not an array of integers",
      STEPS({ STR, "general.architecture" }, { U32, "text.block_count", 1 }, { STR, "text.attention.head_count" }) },
    { "layer beyond the last", "is of layer 7, but the model has 1 layers",
      STEPS({ LLAMA, 0, 1 }, { TENSOR, "blk.7.attn_q.weight", VR_TYPE_F32, 32 }) },
    { "a part without its name", "so the others cannot be found",
      STEPS({ LLAMA, 0, 1 }, { KEY, "split.count", VR_V_U16 }, { RAW, "\2\0", 2 }) },
    { "a part of none", "1 to 1024 are allowed",
      STEPS({ LLAMA, 0, 1 }, { KEY, "split.count", VR_V_U16 }, { RAW, "\0\0", 2 }) },
    /* tensors */
    { "tensor without name", "is 0 bytes long", STEPS({ LLAMA, 0, 1 }, { TENSOR, "", VR_TYPE_F32, 32 }) },
    { "tensor with a long name", "1 to 63 is allowed",
      STEPS({ TENSOR, "a123456789b123456789c123456789d123456789e123456789f123456789g1234", VR_TYPE_F32, 32 }) },
    { "unprintable tensor", "unprintable", STEPS({ TENSOR, "a\033[31m", VR_TYPE_F32, 32 }) },
    { "tensor twice", "duplicate tensor 'output.weight'",
      STEPS({ LLAMA, 0, 1 }, { TENSOR, "output.weight", VR_TYPE_F32, 32 }) },
    { "five dimensions", "has 5 dimensions", STEPS({ DIMS, "t", 5 }, { GROW, 0, 200 }) },
    { "2^32-1 dimensions", "has 4294967295 dimensions", STEPS({ DIMS, "t", UINT32_MAX }, { GROW, 0, 200 }) },
    { "dimension of 0", "dimension 0 is 0", STEPS({ DIMS, "t", 1 }, { LEN, 0, 0 }, { GROW, 0, 200 }) },
    { "dimension of 2^63", "an invalid shape", STEPS({ TENSOR, "t", VR_TYPE_F32, 1ull << 63 }) },
    { "product of dimensions", "an invalid shape", STEPS({ TENSOR, "t", VR_TYPE_F32, 1ull << 32, 1ull << 32 }) },
    { "product in the third", "dimension 2 is 65536",
      STEPS({ TENSOR, "t", VR_TYPE_F32, 1ull << 16, 1ull << 16, 1ull << 16 }) },
    { "withdrawn type", "has type 4, which this engine does not support", STEPS({ TENSOR, "t", 4, 32 }) },
    { "type from the future", "has type 1000", STEPS({ TENSOR, "t", 1000, 32 }) },
    { "half a block", "which is not a multiple of the q4_K block size 256", STEPS({ TENSOR, "t", 12, 100 }) },
    { "overlap", "before 128, where the previous tensor ends",
      STEPS({ PLACED, "a", VR_TYPE_F32, 32, 0 }, { PLACED, "b", VR_TYPE_F32, 32, 64 }, { GROW, 0, 4096 }) },
    { "gap", "past 128, where the previous tensor ends",
      STEPS({ PLACED, "a", VR_TYPE_F32, 32, 0 }, { PLACED, "b", VR_TYPE_F32, 32, 256 }, { GROW, 0, 4096 }) },
    { "first tensor not at 0", "past 0, where", STEPS({ PLACED, "a", VR_TYPE_F32, 32, 32 }, { GROW, 0, 4096 }) },
    { "offset of 2^64-32", "past 0, where",
      STEPS({ PLACED, "a", VR_TYPE_F32, 32, UINT64_MAX - 31 }, { GROW, 0, 4096 }) },
    { "data cut by one byte", "truncated by 1 bytes: tensor 'output.weight' ends",
      STEPS({ LLAMA, 0, 1 }, { CUT, 0, 1 }) },
    { "data cut by more", "truncated by 13,000 bytes", STEPS({ LLAMA, 0, 1 }, { CUT, 0, 13000 }) },
    { "cut within the table", "inside the description of tensor",
      STEPS({ TENSOR, "abc", VR_TYPE_F32, 32 }, { CUT, 0, 140 }) },
};

static const char *build(const struct row *r)
{
    MK_AUTO g = { 0 };
    uint64_t cut = 0, grow = 0, hole = 0;
    bool raw_file = r->steps[0].kind == RAW;
    VR_AUTO_BUF file = { 0 };
    for (const struct step *s = r->steps; s->kind != END; s++) {
        struct vr_buf *part = s > r->steps && (s[-1].kind == DIMS || s[-1].kind == TENSOR) ? &g.tensors : &g.meta;
        switch (s->kind) {
        case RAW: mk_raw(raw_file ? &file : part, s->s, s->a); break;
        case KEY: mk_key(&g, s->s, (uint32_t)s->a); break;
        case U32: mk_u32(&g, s->s, (uint32_t)s->a); break;
        case STR: mk_str(&g, s->s, "text"); break;
        case ARR:
            mk_key(&g, s->s, VR_V_ARRAY);
            mk_32(&g.meta, (uint32_t)s->a);
            mk_64(&g.meta, s->b);
            break;
        case LEN:
            if (part == &g.meta && g.n_meta == 0) g.n_meta = 1;
            mk_64(part, s->a);
            break;
        case TENSOR:
            mk_tensor_at(&g, s->s, (uint32_t)s->a, (const uint64_t[4]){ s->b, s->c, s->d, 0 }, g.data);
            g.data += 128;
            break;
        case PLACED: mk_tensor_at(&g, s->s, (uint32_t)s->a, (const uint64_t[4]){ s->b }, s->c); break;
        case DIMS:
            mk_string(&g.tensors, s->s);
            mk_32(&g.tensors, (uint32_t)s->a);
            g.n_tensors = 1;
            break;
        case LLAMA: mk_llama(&g, (uint32_t)s->a); break;
        case LIE_META: g.extra_n_meta = (int64_t)s->a; break;
        case LIE_TENSORS: g.extra_n_tensors = (int64_t)s->a; break;
        case CUT: cut = s->a; break;
        case GROW: grow = s->a; break;
        case HOLE: hole = s->a; break;
        default: break; /* damage: below */
        }
    }
    if (!raw_file) mk_header(&g, &file);
    uint64_t size = file.n + g.data + grow;
    vr_buf_addc(&file, 0, size - file.n);
    for (const struct step *s = r->steps; s->kind != END; s++) {
        uint32_t v32 = (uint32_t)s->b;
        if (s->kind == SET32) memcpy(file.data + s->a, &v32, 4);
        if (s->kind == SET64) memcpy(file.data + s->a, &s->b, 8);
    }
    const char *path = scratch("malformed.gguf");
    mk_file(path, vr_buf_str(&file), size - cut, hole);
    return path;
}

static void test_malformed(void **state)
{
    (void)state;
    assert_true(VR_COUNT(rows) >= 60);
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        const char *path = build(&rows[i]);
        struct vr_err err = { 0 };
        VR_AUTO(vr_model) m = vr_model_open(path, &err);
        if (m) fail_msg("%s: was accepted", rows[i].name);
        if (err.code != VR_EFORMAT) fail_msg("%s: code %d: %s", rows[i].name, err.code, err.msg);
        if (!strstr(err.msg, rows[i].message))
            fail_msg("%s: '%s' does not contain '%s'", rows[i].name, err.msg, rows[i].message);
        if (strncmp(err.msg, path, strlen(path)) != 0)
            fail_msg("%s: '%s' does not name the file", rows[i].name, err.msg);
    }
}

/* Every prefix of a right file is refused, and none crashes. */
static void test_every_length(void **state)
{
    (void)state;
    MK_AUTO g = { 0 };
    mk_llama(&g, 1);
    mk_vocab(&g, "tokenizer.ggml.tokens", "token", 20);
    VR_AUTO_BUF file = { 0 };
    mk_header(&g, &file);
    for (size_t n = 0; n < file.n; n++) {
        const char *path = scratch("prefix.gguf");
        mk_file(path, file.data, n, 0);
        struct vr_err err = { 0 };
        VR_AUTO(vr_model) m = vr_model_open(path, &err);
        if (m) fail_msg("the first %zu bytes were accepted", n);
        assert_int_equal(err.code, VR_EFORMAT);
    }
}

/* Each byte of the header changed in turn: read or refused, never a crash, and never a tensor past the end. */
static void test_every_byte(void **state)
{
    (void)state;
    MK_AUTO g = { 0 };
    mk_llama(&g, 1);
    VR_AUTO_BUF file = { 0 };
    mk_header(&g, &file);
    uint64_t size = file.n + g.data;
    static const unsigned char flips[] = { 0x01, 0x80, 0xff };
    for (size_t i = 0; i < file.n; i++)
        for (size_t k = 0; k < sizeof flips; k++) {
            const char *path = scratch("flipped.gguf");
            file.data[i] = (char)(file.data[i] ^ flips[k]);
            mk_file(path, file.data, file.n, size);
            file.data[i] = (char)(file.data[i] ^ flips[k]);
            struct vr_err err = { 0 };
            VR_AUTO(vr_model) m = vr_model_open(path, &err);
            for (uint32_t t = 0; m && t < m->n_tensors; t++)
                assert_true(m->tensors[t].offset + m->tensors[t].bytes <= size);
        }
}

static void test_not_a_file(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    assert_null(vr_model_open(scratch("not there.gguf"), &err));
    assert_int_equal(err.code, VR_EIO);
    assert_contains(err.msg, "No such file");
    assert_null(vr_model_open(scratch_dir, &err));
    assert_contains(err.msg, "is a directory");
    assert_null(vr_model_open("/dev/null", &err));
    assert_contains(err.msg, "not a regular file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_not_a_file),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
