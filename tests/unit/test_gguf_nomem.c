/* Every allocation of the reader fails in turn (the linker wraps malloc and its kin): each failure is an error, nothing
 * leaks (ASan looks), and without a failure the model opens. */
#include "test.h"

#include "gguf_maker.h"
#include "nomem.h"

static const char *path;

static bool open_it(void)
{
    struct vr_err err = { 0 };
    struct vr_model *m = vr_model_open(path, &err);
    if (!m && err.code != VR_ENOMEM) fail_msg("%s: %s", path, err.msg);
    vr_model_free(m);
    return m != NULL;
}

static void open_with_failures(const char *file)
{
    path = file;
    nomem_each(file, open_it, 1, false);
    assert_true(nomem_calls > 3);
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
    char file[512];
    snprintf(file, sizeof file, "%s/Kimi-K2.5-UD-IQ3_XXS-00003-of-00009.gguf", getenv("VR_MODELS"));
    open_with_failures(file);
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
    nomem_calls = 0;
    assert_null(vr_model_open(scratch("p-00001-of-00002.gguf"), &err));
    assert_int_equal(err.code, VR_EIO);
    long total = nomem_calls;
    for (long i = 0; i < total; i++) {
        nomem_in = i;
        struct vr_model *m = vr_model_open(scratch("p-00001-of-00002.gguf"), &err);
        nomem_in = -1;
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
