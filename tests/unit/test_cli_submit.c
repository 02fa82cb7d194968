/* Rows that are shared: what they say, what they must not say, and that they can be read back. */
#include "test.h"

#include <jansson.h>
#include <pwd.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/command/submit.h"
#include "engine_fixtures.h"
#include "hw/profile.h"
#include "scratch.h"

static const struct vr_compared speeds[] = { { VR_DECODE, 64, 128, 44.5, 40.25 }, { VR_PREFILL, 2048, 512, 300, 600 } };

/* The rows of a plan, as bench would write them. */
static void write_rows(const char *model, const char *rig, const char *overrides, const char *path)
{
    struct vr_err err = { 0 };
    char profile[128];
    VR_AUTO(vr_machine) m = vr_machine_new(&err);
    VR_AUTO(vr_model) x = vr_model_open(fixture_path(model), &err);
    VR_AUTO_FREE struct vr_speeds *s = malloc(sizeof *s);
    struct vr_budgets budgets;
    VR_AUTO_OUTCOME o = { 0 };
    snprintf(profile, sizeof profile, "tests/fixtures/rigs/%s.json", rig);
    if (!m || !x || !s || !vr_profile_load(profile, m, &err) ||
        !vr_budgets_select(m, &(struct vr_select){ 0 }, &budgets, &err))
        fail_msg("%s", err.msg);
    vr_speeds_of(m, s);
    struct vr_fit_ask ask = { .model = x,
                              .machine = m,
                              .budgets = &budgets,
                              .speeds = s,
                              .context = VR_CONTEXT_DEFAULT,
                              .flash_auto = true,
                              .fill = 0.5 };
    if (!vr_fit_given(&ask, &(struct vr_given){ .n_gpu_layers = -1, .overrides = overrides }, &o, &err))
        fail_msg("%s", err.msg);
    const struct vr_submission sub = { .model = x, .machine = m, .outcome = &o, .rows = speeds, .n = 2 };
    if (!vr_submit(&sub, path, &err)) fail_msg("%s", err.msg);
}

static const char *text(const json_t *row, const char *key)
{
    const char *s = json_string_value(json_object_get(row, key));
    return s ? s : "";
}

static void test_rows(void **state)
{
    (void)state;
    const char *path = scratch("rows.jsonl");
    struct vr_err err = { 0 };
    VR_AUTO_BUF file = { 0 };
    unlink(path);
    write_rows("qwen3-30b-a3b", "3060-12g-64g-ram", "exps=CPU", path);
    write_rows("llama-3.3-70b", "2x3090-2x3060", NULL, path); /* appended */
    if (!vr_file_read(path, 1 << 20, &file, &err)) fail_msg("%s", err.msg);
    char *save = NULL, *line = strtok_r(file.data, "\n", &save);
    json_t *row = json_loads(line, 0, NULL);
    assert_string_equal(text(row, "quant"), "Q4_K_M");
    assert_string_equal(text(row, "kind"), "moe");
    assert_string_equal(text(row, "split"), "none");
    assert_string_equal(text(row, "generation"), "Ampere");
    assert_string_equal(text(row, "on_cpu"), "tensors");
    assert_string_equal(text(row, "overrides"), "exps=CPU");
    assert_string_equal(text(row, "n_gpu_layers"), "all");
    assert_int_equal(json_integer_value(json_object_get(row, "depth")), 64);
    assert_int_equal(json_integer_value(json_object_get(row, "tg_tokens")), 128);
    assert_true(json_number_value(json_object_get(row, "tg_tok_s")) == 40.25);
    assert_true(json_number_value(json_object_get(row, "predicted_tok_s")) == 44.5);
    assert_null(json_object_get(row, "pp_tok_s"));
    json_decref(row);
    size_t n = 1;
    for (; (line = strtok_r(NULL, "\n", &save)); n++) {
        row = json_loads(line, 0, NULL);
        assert_non_null(row);
        if (n == 3) {
            assert_int_equal(json_array_size(json_object_get(row, "gpus")), 4);
            assert_string_equal(text(row, "split"), "layer");
            assert_true(json_is_true(json_object_get(row, "unequal")));
            assert_true(json_number_value(json_object_get(row, "pp_tok_s")) == 600);
        }
        json_decref(row);
    }
    assert_int_equal(n, 4);
}

/* No host name, no user, no folder, no UUID: also not from the names in the file. */
static void test_nothing_personal(void **state)
{
    (void)state;
    const char *path = scratch("private.jsonl");
    struct vr_err err = { 0 };
    VR_AUTO_BUF file = { 0 };
    char host[256] = "";
    unlink(path);
    write_rows("llama-3.3-70b", "2x3090-2x3060", NULL, path);
    if (!vr_file_read(path, 1 << 20, &file, &err)) fail_msg("%s", err.msg);
    gethostname(host, sizeof host - 1);
    const struct passwd *user = getpwuid(getuid());
    if (strlen(host) > 3) assert_null(strstr(vr_buf_str(&file), host));
    if (user && strlen(user->pw_dir) > 1) assert_null(strstr(vr_buf_str(&file), user->pw_dir));
    assert_null(strstr(vr_buf_str(&file), getenv("VR_MODELS")));
    assert_null(strstr(vr_buf_str(&file), "GPU-"));
    assert_null(strstr(vr_buf_str(&file), ".gguf"));
}

static void test_compare(void **state)
{
    (void)state;
    const char *path = scratch("compare.jsonl");
    struct vr_err err = { 0 };
    VR_AUTO_BUF out = { 0 }, none = { 0 };
    unlink(path);
    write_rows("llama-3.3-70b", "2x3090-2x3060", NULL, path);
    if (!vr_submit_compare(path, false, &out, &err)) fail_msg("%s", err.msg);
    const char *s = vr_buf_str(&out);
    assert_non_null(strstr(s, "2x RTX 3090 + 2x RTX 3060"));
    assert_non_null(strstr(s, "+11 %"));
    assert_non_null(strstr(s, "-50 %"));
    assert_non_null(strstr(s, "token generation: 1 row, 1 within 25 %"));
    assert_non_null(strstr(s, "prompt processing: 1 row, 0 within 40 %"));
    static const char *const bad[] = { "", "[]\n", "{\"gpus\":\n", "no rows at all" };
    for (size_t i = 0; i < VR_COUNT(bad); i++) {
        if (!vr_file_write(path, bad[i], strlen(bad[i]), &err)) fail_msg("%s", err.msg);
        if (vr_submit_compare(path, false, &none, &err)) fail_msg("'%s' was taken for rows", bad[i]);
        assert_int_equal(err.code, VR_EFORMAT);
        err = (struct vr_err){ 0 };
    }
    /* rows that others wrote have no prediction, or are of other things */
    const char *published =
        "{\"gpus\":[\"NVIDIA GeForce RTX 3090\"],\"tg_tok_s\":5,\"model\":7}\n{\"gpus\":{},\"pp_tok_s\":\"x\"}\n";
    if (!vr_file_write(path, published, strlen(published), &err)) fail_msg("%s", err.msg);
    if (!vr_submit_compare(path, false, &none, &err)) fail_msg("%s", err.msg);
    assert_non_null(strstr(vr_buf_str(&none), "2 rows without a prediction"));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows), cmocka_unit_test(test_nothing_personal),
                                        cmocka_unit_test(test_compare) };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
