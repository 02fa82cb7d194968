/* A stripped header says the same about every tensor and every hyper-parameter, and nothing about words. */
#include "test.h"

#include <dirent.h>
#include <sys/stat.h>

#include "gguf/strip.h"
#include "gguf_maker.h"

static struct vr_model *open_model(const char *path)
{
    struct vr_err err = { 0 };
    struct vr_model *m = vr_model_open(path, &err);
    if (!m) fail_msg("%s", err.msg);
    return m;
}

static struct vr_model *open_stripped(const struct vr_model *m, int *fd)
{
    struct vr_err err = { 0 };
    char path[64];
    *fd = vr_model_strip(m, &err);
    if (*fd < 0) fail_msg("%s", err.msg);
    snprintf(path, sizeof path, "/proc/self/fd/%d", *fd);
    return open_model(path);
}

static void check_same_tensors(const struct vr_model *a, const struct vr_model *b)
{
    assert_int_equal(a->n_tensors, b->n_tensors);
    assert_int_equal(b->n_parts, 1);
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        const struct vr_tensor *x = &a->tensors[i], *y = &b->tensors[i];
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->type, y->type);
        assert_int_equal(x->n_dims, y->n_dims);
        assert_memory_equal(x->ne, y->ne, sizeof x->ne);
        assert_int_equal(x->bytes, y->bytes);
    }
    assert_int_equal(a->n_vocab, b->n_vocab);
    assert_int_equal(a->n_layers, b->n_layers);
    assert_int_equal(a->tensor_bytes, b->tensor_bytes);
    assert_string_equal(a->arch, b->arch);
}

/* Every hyper-parameter is there with its value, in b too. */
static void check_same_meta(const struct vr_model *a, const struct vr_model *b)
{
    for (uint32_t i = 0; i < a->n_meta; i++) {
        const struct vr_meta *x = &a->meta[i];
        if (strncmp(x->key, "tokenizer.", 10) == 0 || strncmp(x->key, "split.", 6) == 0 ||
            strcmp(x->key, "general.alignment") == 0)
            continue;
        const struct vr_meta *y = vr_model_meta(b, x->key);
        if (!y) fail_msg("'%s' is gone", x->key);
        assert_int_equal(x->n, y->n);
        for (uint64_t k = 0; x->f64 && k < x->n; k++) assert_true(x->f64[k] == y->f64[k]);
        if (x->string) assert_string_equal(x->string, y->string);
    }
    assert_string_equal(vr_model_meta(b, "tokenizer.ggml.model")->string, "no_vocab");
    assert_null(vr_model_meta(b, "split.count"));
    assert_null(vr_model_meta(b, "tokenizer.ggml.tokens"));
}

static void test_fixtures(void **state)
{
    (void)state;
    DIR *d = opendir("tests/fixtures/models");
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (!strstr(e->d_name, ".gguf") || (strstr(e->d_name, "-of-") && !strstr(e->d_name, "-00001-of-"))) continue;
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", getenv("VR_MODELS"), e->d_name);
        VR_AUTO(vr_model) a = open_model(path);
        VR_AUTO_CLOSE int fd = -1;
        VR_AUTO(vr_model) b = open_stripped(a, &fd);
        check_same_tensors(a, b);
        check_same_meta(a, b);
        struct stat st;
        assert_int_equal(fstat(fd, &st), 0);
        assert_true((uint64_t)st.st_size >= a->tensor_bytes);
        assert_true(st.st_blocks * 512 < 512 * 1024); /* the rest is a hole */
        n++;
    }
    closedir(d);
    assert_int_equal(n, 10);
}

/* A vocabulary, its scores, a long template: all gone; the count is kept, also where the file said another. */
static void test_vocabulary_goes(void **state)
{
    (void)state;
    MK_AUTO g = { .align = 64 };
    mk_str(&g, "general.architecture", "llama");
    mk_u32(&g, "general.alignment", 64);
    mk_u32(&g, "llama.vocab_size", 7);
    mk_u32(&g, "llama.block_count", 1);
    mk_u32(&g, "llama.embedding_length", 64);
    mk_u32(&g, "llama.attention.head_count", 2);
    mk_u32(&g, "llama.context_length", 128);
    mk_u32(&g, "llama.feed_forward_length", 64);
    mk_str(&g, "tokenizer.ggml.model", "gpt2");
    mk_vocab(&g, "tokenizer.ggml.tokens", "token", 5000);
    mk_u32(&g, "tokenizer.ggml.token_type_count", 2);
    mk_u32(&g, "tokenizer.ggml.bos_token_id", 1);
    VR_AUTO_BUF template = { 0 };
    vr_buf_addc(&template, 'x', 100000);
    mk_str(&g, "tokenizer.chat_template", vr_buf_str(&template));
    mk_tensor(&g, "token_embd.weight", VR_TYPE_F16, 64, 5000, 0);
    mk_tensor(&g, "blk.0.attn_norm.weight", VR_TYPE_F32, 3, 0, 0); /* an odd size: the next one is padded */
    mk_tensor(&g, "blk.0.ffn_norm.weight", VR_TYPE_F32, 64, 0, 0);
    mk_write(&g, scratch("vocab.gguf"));
    VR_AUTO(vr_model) a = open_model(scratch("vocab.gguf"));
    VR_AUTO_CLOSE int fd = -1;
    VR_AUTO(vr_model) b = open_stripped(a, &fd);
    check_same_tensors(a, b);
    assert_int_equal(vr_model_u64(b, "llama.vocab_size", 0, 0), 5000);
    assert_int_equal(vr_model_u64(b, "tokenizer.ggml.token_type_count", 0, 0), 2);
    assert_null(vr_model_meta(b, "tokenizer.chat_template"));
    assert_null(vr_model_meta(b, "tokenizer.ggml.tokens"));
    assert_string_equal(vr_model_meta(b, "tokenizer.ggml.model")->string, "no_vocab");
    assert_true(b->tensors[0].offset < 2000);
}

static void test_file_that_changed(void **state)
{
    (void)state;
    MK_AUTO g = { 0 };
    mk_str(&g, "general.architecture", "llama");
    mk_u32(&g, "llama.block_count", 1);
    mk_u32(&g, "llama.embedding_length", 64);
    mk_u32(&g, "llama.attention.head_count", 2);
    mk_tensor(&g, "token_embd.weight", VR_TYPE_F16, 64, 10, 0);
    mk_write(&g, scratch("shrinks.gguf"));
    VR_AUTO(vr_model) m = open_model(scratch("shrinks.gguf"));
    struct vr_err err = { 0 };
    assert_int_equal(truncate(scratch("shrinks.gguf"), 40), 0);
    assert_int_equal(vr_model_strip(m, &err), -1);
    assert_contains(err.msg, "the file was truncated");
    unlink(scratch("shrinks.gguf"));
    assert_int_equal(vr_model_strip(m, &err), -1);
    assert_contains(err.msg, "No such file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixtures),
        cmocka_unit_test(test_vocabulary_goes),
        cmocka_unit_test(test_file_that_changed),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
