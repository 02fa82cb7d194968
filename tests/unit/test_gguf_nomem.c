/* Every allocation of the reader fails in turn (the linker wraps malloc and its kin): each failure is an error, nothing
 * leaks (ASan looks), and without a failure the model opens. */
#include "test.h"

#include "gguf_maker.h"

static long countdown = -1; /* allocations until one fails; negative: none does */
static long n_calls;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static bool fails(void)
{
    n_calls++;
    return countdown >= 0 && countdown-- == 0;
}
void *__wrap_malloc(size_t n) { return fails() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *p, size_t n) { return fails() ? NULL : __real_realloc(p, n); }

static void open_with_failures(const char *path)
{
    struct vr_err err = { 0 };
    n_calls = 0;
    countdown = -1;
    vr_model_free(vr_model_open(path, &err));
    assert_int_equal(err.code, VR_OK);
    long total = n_calls;
    assert_true(total > 3);
    for (long i = 0; i < total; i++) {
        err = (struct vr_err){ 0 };
        countdown = i;
        struct vr_model *m = vr_model_open(path, &err);
        countdown = -1;
        if (m) fail_msg("%s: allocation %ld of %ld failed unnoticed", path, i, total);
        if (err.code != VR_ENOMEM) fail_msg("%s: allocation %ld: %s", path, i, err.msg);
    }
}

static void test_single_file(void **state)
{
    (void)state;
    MK_AUTO g = { 0 };
    mk_llama(&g, 40); /* more than one block of the arena */
    mk_write(&g, scratch("one.gguf"));
    open_with_failures(scratch("one.gguf"));
}

static void test_parts(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s/Kimi-K2.5-UD-IQ3_XXS-00003-of-00009.gguf", getenv("VR_MODELS"));
    open_with_failures(path);
}

/* A missing part is still told when the list of names cannot be built. */
static void test_missing_part(void **state)
{
    (void)state;
    MK_AUTO g = { 0 };
    mk_llama(&g, 1);
    mk_u16(&g, "split.no", 0);
    mk_u16(&g, "split.count", 2);
    mk_write(&g, scratch("p-00001-of-00002.gguf"));
    struct vr_err err = { 0 };
    n_calls = 0;
    assert_null(vr_model_open(scratch("p-00001-of-00002.gguf"), &err));
    assert_int_equal(err.code, VR_EIO);
    long total = n_calls;
    for (long i = 0; i < total; i++) {
        countdown = i;
        struct vr_model *m = vr_model_open(scratch("p-00001-of-00002.gguf"), &err);
        countdown = -1;
        assert_null(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_file),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_missing_part),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
