/* Models against the truth: index.json for the ten real headers, by-hand numbers for made ones. */
#include "test.h"

#include <jansson.h>
#include <sys/stat.h>

#include "gguf/part.h"
#include "gguf_maker.h"

static char model_path[512];

static const char *fixture(const char *file)
{
    snprintf(model_path, sizeof model_path, "%s/%s", getenv("VR_MODELS"), file);
    return model_path;
}

static struct vr_model *open_model(const char *path)
{
    struct vr_err err = { 0 };
    struct vr_model *m = vr_model_open(path, &err);
    if (!m) fail_msg("%s", err.msg);
    return m;
}

static uint64_t number(const json_t *o, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(o, key));
}

/* Every fixture, from each of its parts: all sizes to the byte. */
static void test_fixtures_match_index(void **state)
{
    (void)state;
    json_t *index = json_load_file("tests/fixtures/models/index.json", 0, NULL);
    assert_non_null(index);
    assert_int_equal(json_object_size(index), 10);
    const char *id;
    json_t *truth;
    uint64_t hashes[10];
    size_t n = 0;
    json_object_foreach(index, id, truth)
    {
        const json_t *files = json_object_get(truth, "files"), *layers = json_object_get(truth, "layer_bytes");
        uint64_t file_bytes = 0;
        for (size_t i = 0; i < json_array_size(files); i++) file_bytes += number(json_array_get(files, i), "bytes");
        for (size_t f = 0; f < json_array_size(files); f++) {
            const char *file = json_string_value(json_object_get(json_array_get(files, f), "file"));
            VR_AUTO(vr_model) m = open_model(fixture(file));
            assert_string_equal(m->arch, json_string_value(json_object_get(truth, "arch")));
            assert_int_equal(m->n_parts, json_array_size(files));
            assert_int_equal(m->n_layers, number(truth, "blocks"));
            assert_int_equal(m->file_bytes, file_bytes);
            assert_int_equal(m->tensor_bytes, number(truth, "tensor_bytes"));
            assert_int_equal(m->params, number(truth, "params"));
            assert_int_equal(m->n_vocab, number(truth, "n_vocab"));
            assert_int_equal(m->n_layers, json_array_size(layers));
            uint64_t sum = m->input_bytes + m->output_bytes + m->other_bytes;
            for (uint32_t i = 0; i < m->n_layers; i++) {
                uint64_t roles = 0;
                for (int r = 0; r < VR_N_ROLES; r++) roles += m->layers[i].role_bytes[r];
                assert_int_equal(m->layers[i].bytes, json_integer_value(json_array_get(layers, i)));
                assert_int_equal(m->layers[i].bytes, roles);
                sum += m->layers[i].bytes;
            }
            assert_int_equal(sum, m->tensor_bytes);
            if (f == 0) hashes[n] = vr_model_hash(m);
            assert_true(vr_model_hash(m) == hashes[n]); /* whichever part it was opened by */
        }
        for (size_t i = 0; i < n; i++) assert_true(hashes[i] != hashes[n]);
        n++;
    }
    json_decref(index);
}

/* A header in pieces says what it wants, never too much, until it is whole. */
static void test_wants(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    const char *path = fixture("Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf");
    uint64_t wants = 1, have = 1;
    unsigned n = 0;
    for (; wants; n++) {
        if (!vr_part_wants(path, have, &wants, &err)) fail_msg("%s", err.msg);
        if (wants) assert_true(wants > have);
        if (wants) have = wants;
    }
    assert_true(n > 100); /* as it was asked byte by byte */
    VR_AUTO(vr_model) m = open_model(path);
    uint64_t data = UINT64_MAX;
    for (uint32_t i = 0; i < m->n_tensors; i++) data = m->tensors[i].offset < data ? m->tensors[i].offset : data;
    assert_in_range(data - have, 0, 31); /* the header's end, but for the padding */
    assert_false(vr_part_wants("tests/fixtures/models/index.json", 100, &wants, &err));
    assert_contains(err.msg, "not a GGUF file");
}

/* The model whose layers 0-33 were put on a 24 GB card. */
static void test_nemotron(void **state)
{
    (void)state;
    VR_AUTO(vr_model) m = open_model(fixture("nvidia_Llama-3_3-Nemotron-Super-49B-v1_5-Q8_0-00002-of-00002.gguf"));
    uint64_t first = 0, least = UINT64_MAX, most = 0;
    uint32_t with_attention = 0;
    for (uint32_t i = 0; i < m->n_layers; i++) {
        const struct vr_layer *l = &m->layers[i];
        if (i <= 33) first += l->bytes;
        if (l->bytes < least) least = l->bytes;
        if (l->bytes > most) most = l->bytes;
        with_attention += l->n_head_kv > 0;
        assert_int_equal(l->n_head_kv > 0, l->role_bytes[VR_ROLE_ATTENTION] > 0);
    }
    assert_int_equal(first, 29026975744); /* 27,682.28 MiB */
    assert_int_equal(least, 73564160);    /* 70.16 MiB */
    assert_int_equal(most, 909180928);    /* 867.06 MiB */
    assert_int_equal(with_attention, 49);
    assert_string_equal(m->quant, "Q8_0");
    assert_int_equal(m->layers[11].n_ff, 17920);
}

static void test_experts(void **state)
{
    (void)state;
    VR_AUTO(vr_model) m = open_model(fixture("Kimi-K2.5-UD-IQ3_XXS-00005-of-00009.gguf"));
    assert_int_equal(m->n_expert, 384);
    assert_int_equal(m->n_expert_used, 8);
    assert_string_equal(m->quant, "IQ3_XXS");
    /* the first layer is dense, the others hold experts, one shared expert and a router */
    assert_int_equal(m->layers[0].role_bytes[VR_ROLE_EXPERT], 0);
    assert_true(m->layers[0].role_bytes[VR_ROLE_FFN] > 0);
    for (uint32_t i = 1; i < m->n_layers; i++) {
        assert_true(m->layers[i].role_bytes[VR_ROLE_EXPERT] > m->layers[i].bytes / 2);
        assert_true(m->layers[i].role_bytes[VR_ROLE_SHARED_EXPERT] > 0);
        assert_true(m->layers[i].role_bytes[VR_ROLE_ROUTER] > 0);
        assert_int_equal(m->layers[i].role_bytes[VR_ROLE_FFN], 0);
    }
}

static void test_recurrent(void **state)
{
    (void)state;
    VR_AUTO(vr_model) m = open_model(fixture("falcon-mamba-7B-instruct-Q4_K_M.gguf"));
    for (uint32_t i = 0; i < m->n_layers; i++) {
        assert_int_equal(m->layers[i].n_head_kv, 0);
        assert_int_equal(m->layers[i].role_bytes[VR_ROLE_RECURRENT] + m->layers[i].role_bytes[VR_ROLE_NORM],
                         m->layers[i].bytes);
    }
}

static void test_tied_embeddings(void **state)
{
    (void)state;
    VR_AUTO(vr_model) gemma = open_model(fixture("gemma-3-27b-it-q4_0.gguf"));
    assert_true(gemma->tied);
    VR_AUTO(vr_model) llama = open_model(fixture("Llama-3.3-70B-Instruct-Q4_K_M.gguf"));
    assert_false(llama->tied);
    assert_int_equal(llama->other_bytes, 256); /* rope_freqs */
}

/* What a file calls itself is shown on terminals. */
static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *said, *shown;
    } rows[] = { { "Gr\xc3\xbc\xc3\x9f\x65", "Gr\xc3\xbc\xc3\x9f\x65" },
                 { "a\033[31mb\x7f", "a?[31mb?" },
                 { "a\xc2\x9b\x31mb", "a??1mb" },
                 { "a\xff", "a?" } };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        MK_AUTO g = { 0 };
        mk_str(&g, "general.architecture", "llama");
        mk_str(&g, "general.name", rows[i].said);
        mk_u32(&g, "llama.block_count", 1);
        mk_u32(&g, "llama.embedding_length", 64);
        mk_tensor(&g, "token_embd.weight", VR_TYPE_F16, 64, 300, 0);
        mk_tensor(&g, "blk.0.attn_q.weight", VR_TYPE_F16, 64, 64, 0);
        mk_write(&g, scratch("named.gguf"));
        VR_AUTO(vr_model) m = open_model(scratch("named.gguf"));
        assert_string_equal(m->name, rows[i].shown);
    }
}

/* All value types, of both versions, kept and readable. */
static void test_value_types(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        MK_AUTO g = { .version = version };
        mk_llama(&g, 1);
        static const struct {
            const char *key;
            uint32_t type;
            const char *raw;
            double value;
        } rows[] = {
            { "x.u8", VR_V_U8, "\xff", 255 },
            { "x.i8", VR_V_I8, "\xff", -1 },
            { "x.u16", VR_V_U16, "\xff\xff", 65535 },
            { "x.i16", VR_V_I16, "\xfe\xff", -2 },
            { "x.u32", VR_V_U32, "\xff\xff\xff\xff", 4294967295.0 },
            { "x.i32", VR_V_I32, "\xfd\xff\xff\xff", -3 },
            { "x.f32", VR_V_F32, "\x00\x00\xc0\x3f", 1.5 },
            { "x.bool", VR_V_BOOL, "\x01", 1 },
            { "x.u64", VR_V_U64, "\x00\x00\x00\x00\x01\x00\x00\x00", 4294967296.0 },
            { "x.i64", VR_V_I64, "\xff\xff\xff\xff\xff\xff\xff\xff", -1 },
            { "x.f64", VR_V_F64, "\x00\x00\x00\x00\x00\x00\x04\xc0", -2.5 },
        };
        static const uint8_t sizes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
        for (size_t i = 0; i < VR_COUNT(rows); i++) {
            mk_key(&g, rows[i].key, rows[i].type);
            mk_raw(&g.meta, rows[i].raw, sizes[rows[i].type]);
        }
        mk_i32s(&g, "x.array", (const int32_t[]){ 7, -8, 9 }, 3);
        mk_write(&g, scratch("types.gguf"));
        VR_AUTO(vr_model) m = open_model(scratch("types.gguf"));
        assert_int_equal(m->parts[0].version, version);
        for (size_t i = 0; i < VR_COUNT(rows); i++) assert_true(vr_model_f64(m, rows[i].key, 0, 999) == rows[i].value);
        assert_int_equal(vr_model_u64(m, "x.u64", 0, 0), 4294967296u);
        assert_int_equal(vr_model_u64(m, "x.i64", 0, 77), 77); /* negative: not a count */
        assert_true(vr_model_f64(m, "x.array", 1, 0) == -8);
        assert_true(vr_model_f64(m, "x.array", 3, 5) == 5); /* past the end */
        assert_int_equal(vr_model_u64(m, ".block_count", 0, 0), 1);
        assert_int_equal(vr_model_u64(m, ".block_count", 40, 0), 1); /* a scalar answers for every layer */
        assert_null(vr_model_meta(m, "x.none"));
        assert_string_equal(vr_model_meta(m, "general.name")->string, "tiny");
    }
}

static void test_per_layer_arrays(void **state)
{
    (void)state;
    MK_AUTO g = { 0 };
    mk_str(&g, "general.architecture", "deci");
    mk_u32(&g, "deci.block_count", 3);
    mk_i32s(&g, "deci.attention.head_count", (const int32_t[]){ 8, 0, 4 }, 3);
    mk_i32s(&g, "deci.attention.head_count_kv", (const int32_t[]){ 2, 0, 1 }, 3);
    mk_i32s(&g, "deci.feed_forward_length", (const int32_t[]){ 100, 200, 0 }, 3);
    mk_write(&g, scratch("arrays.gguf"));
    VR_AUTO(vr_model) m = open_model(scratch("arrays.gguf"));
    static const uint32_t heads[] = { 8, 0, 4 }, kv[] = { 2, 0, 1 }, ff[] = { 100, 200, 0 };
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(m->layers[i].n_head, heads[i]);
        assert_int_equal(m->layers[i].n_head_kv, kv[i]);
        assert_int_equal(m->layers[i].n_ff, ff[i]);
    }
}

static void test_mtp_layers(void **state)
{
    (void)state;
    MK_AUTO g = { 0 };
    mk_llama(&g, 3);
    mk_u32(&g, "llama.nextn_predict_layers", 1);
    mk_tensor(&g, "blk.2.nextn.eh_proj.weight", VR_TYPE_F16, 128, 64, 0);
    mk_write(&g, scratch("mtp.gguf"));
    VR_AUTO(vr_model) m = open_model(scratch("mtp.gguf"));
    assert_int_equal(m->n_layers_mtp, 1);
    assert_false(m->layers[1].mtp);
    assert_true(m->layers[2].mtp);
    assert_int_equal(m->layers[2].bytes, m->layers[1].bytes + 128 * 64 * 2);
}

/* A vocabulary is counted and skipped, not copied; what lies behind it is read right. */
static void test_large_vocabulary(void **state)
{
    (void)state;
    MK_AUTO g = { 0 };
    mk_llama(&g, 2);
    mk_vocab(&g, "tokenizer.ggml.tokens", "token", 260000);
    mk_vocab(&g, "tokenizer.ggml.merges", "tok en", 260000);
    mk_u32(&g, "llama.rope.dimension_count", 16);
    mk_write(&g, scratch("vocab.gguf"));
    VR_AUTO(vr_model) m = open_model(scratch("vocab.gguf"));
    assert_int_equal(m->n_vocab, 260000);
    assert_int_equal(vr_model_u64(m, ".rope.dimension_count", 0, 0), 16);
    assert_true(m->arena.total < 128 * 1024);
}

static void test_alignment(void **state)
{
    (void)state;
    MK_AUTO g = { .align = 4096 };
    mk_u32(&g, "general.alignment", 4096);
    mk_llama(&g, 1);
    mk_write(&g, scratch("aligned.gguf"));
    VR_AUTO(vr_model) m = open_model(scratch("aligned.gguf"));
    for (uint32_t i = 0; i < m->n_tensors; i++) assert_int_equal(m->tensors[i].offset % 4096, 0);
}

static void test_odd_models(void **state)
{
    (void)state;
    MK_AUTO g = { 0 }; /* no name, no tensors, unknown file type */
    mk_str(&g, "general.architecture", "llama");
    mk_u32(&g, "general.file_type", 999);
    mk_write(&g, scratch("bare.gguf"));
    VR_AUTO(vr_model) m = open_model(scratch("bare.gguf"));
    assert_string_equal(m->name, "bare.gguf");
    assert_string_equal(m->quant, "none");
    assert_int_equal(m->n_layers, 0);
    MK_AUTO t = { 0 };
    mk_str(&t, "general.architecture", "clip");
    mk_tensor(&t, "v.blk.0.attn_q.weight", VR_TYPE_F16, 64, 64, 0);
    mk_write(&t, scratch("clip.gguf"));
    VR_AUTO(vr_model) c = open_model(scratch("clip.gguf"));
    assert_int_equal(c->tensors[0].layer, -1);
    assert_string_equal(c->quant, "f16");
}

/* --- split models --- */

/* Part `no` (from 0) of `count`, with `n` tensors named after `stem`. */
static void write_part(const char *path, unsigned no, unsigned count, int total, const char *stem, unsigned n)
{
    MK_AUTO g = { 0 };
    if (no == 0) {
        mk_str(&g, "general.architecture", "llama");
        mk_u32(&g, "llama.block_count", 8);
    }
    mk_u16(&g, "split.no", (uint16_t)no);
    mk_u16(&g, "split.count", (uint16_t)count);
    mk_key(&g, "split.tensors.count", VR_V_I32);
    mk_32(&g.meta, (uint32_t)total);
    char name[64];
    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof name, "blk.%u.%s", i, stem);
        mk_tensor(&g, name, VR_TYPE_F32, 64, 0, 0);
    }
    mk_write(&g, path);
}

static void write_split(void)
{
    write_part(scratch("m-00001-of-00003.gguf"), 0, 3, 6, "a.weight", 2);
    write_part(scratch("m-00002-of-00003.gguf"), 1, 3, 6, "b.weight", 2);
    write_part(scratch("m-00003-of-00003.gguf"), 2, 3, 6, "c.weight", 2);
}

static void assert_refused(const char *path, const char *message)
{
    struct vr_err err = { 0 };
    VR_AUTO(vr_model) m = vr_model_open(path, &err);
    if (m) fail_msg("%s was accepted, expected '%s'", path, message);
    assert_contains(err.msg, message);
}

static void test_split(void **state)
{
    (void)state;
    write_split();
    for (unsigned i = 1; i <= 3; i++) {
        VR_AUTO(vr_model) m = open_model(scratch("m-0000%u-of-00003.gguf", i));
        assert_int_equal(m->n_tensors, 6);
        assert_int_equal(m->tensors[5].part, 2);
        assert_string_equal(m->tensors[5].name, "blk.1.c.weight");
        assert_string_equal(m->parts[0].path, scratch("m-00001-of-00003.gguf"));
    }
    /* an empty first part that only carries metadata is how some tools split */
    write_part(scratch("m-00001-of-00003.gguf"), 0, 3, 4, "a.weight", 0);
    write_part(scratch("m-00002-of-00003.gguf"), 1, 3, 4, "b.weight", 2);
    write_part(scratch("m-00003-of-00003.gguf"), 2, 3, 4, "c.weight", 2);
    VR_AUTO(vr_model) m = open_model(scratch("m-00002-of-00003.gguf"));
    assert_int_equal(m->n_tensors, 4);
}

static void test_split_missing(void **state)
{
    (void)state;
    write_split();
    unlink(scratch("m-00002-of-00003.gguf"));
    assert_refused(scratch("m-00001-of-00003.gguf"),
                   "1 of 3 parts is missing from the directory: m-00002-of-00003.gguf");
    unlink(scratch("m-00001-of-00003.gguf"));
    assert_refused(scratch("m-00003-of-00003.gguf"), "m-00001-of-00003.gguf, m-00002-of-00003.gguf");
}

static void test_split_reordered(void **state)
{
    (void)state;
    write_split();
    rename(scratch("m-00002-of-00003.gguf"), scratch("x.gguf"));
    rename(scratch("m-00003-of-00003.gguf"), scratch("m-00002-of-00003.gguf"));
    rename(scratch("x.gguf"), scratch("m-00003-of-00003.gguf"));
    assert_refused(scratch("m-00001-of-00003.gguf"),
                   "m-00002-of-00003.gguf: contains part 3 of 3, but its name says 2");
}

static void test_split_foreign(void **state)
{
    (void)state;
    write_split();
    write_part(scratch("m-00002-of-00003.gguf"), 1, 4, 6, "b.weight", 2);
    assert_refused(scratch("m-00001-of-00003.gguf"),
                   "part of a model split into 4 parts, not of this one, split into 3");
    write_part(scratch("m-00002-of-00003.gguf"), 1, 3, 9, "b.weight", 2);
    assert_refused(scratch("m-00001-of-00003.gguf"), "00002-of-00003.gguf: its split.tensors.count differs");
    write_part(scratch("m-00002-of-00003.gguf"), 1, 3, 6, "b.weight", 1);
    assert_refused(scratch("m-00001-of-00003.gguf"), "contain 5 tensors, but the first one declares 6");
    write_part(scratch("m-00002-of-00003.gguf"), 1, 3, 6, "c.weight", 2);
    assert_refused(scratch("m-00001-of-00003.gguf"), "tensor 'blk.0.c.weight' is also in m-00002-of-00003.gguf");
    write_split();
    rename(scratch("m-00002-of-00003.gguf"), scratch("renamed.gguf"));
    assert_refused(scratch("renamed.gguf"), "does not end in -00002-of-00003.gguf");
    rename(scratch("renamed.gguf"), scratch("m-00002-of-00004.gguf"));
    assert_refused(scratch("m-00002-of-00004.gguf"), "its name says 4 parts, but its header says 3");
    MK_AUTO g = { 0 };
    mk_u16(&g, "split.count", 3);
    mk_write(&g, scratch("m-00002-of-00003.gguf"));
    assert_refused(scratch("m-00001-of-00003.gguf"), "split.no is missing");
}

/* A part of a model of another width, with the right names and counts. */
static void test_split_of_another_width(void **state)
{
    (void)state;
    write_part(scratch("w-00001-of-00002.gguf"), 0, 2, 2, "attn_norm.weight", 1);
    MK_AUTO g = { 0 };
    mk_u16(&g, "split.no", 1);
    mk_u16(&g, "split.count", 2);
    mk_tensor(&g, "blk.1.attn_norm.weight", VR_TYPE_F32, 128, 0, 0);
    mk_write(&g, scratch("w-00002-of-00002.gguf"));
    assert_refused(scratch("w-00001-of-00002.gguf"), "is 128 wide where w-00001-of-00002.gguf has 64");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixtures_match_index),
        cmocka_unit_test(test_nemotron),
        cmocka_unit_test(test_wants),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_recurrent),
        cmocka_unit_test(test_tied_embeddings),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_value_types),
        cmocka_unit_test(test_per_layer_arrays),
        cmocka_unit_test(test_mtp_layers),
        cmocka_unit_test(test_large_vocabulary),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_odd_models),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_split_missing),
        cmocka_unit_test(test_split_reordered),
        cmocka_unit_test(test_split_foreign),
        cmocka_unit_test(test_split_of_another_width),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
