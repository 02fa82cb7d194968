/* Every allocation of a plan fails in turn: each failure is an error, nothing leaks (ASan looks), and nobody gets half
 * a plan. The child that makes the dry run has memory enough. */
#include "test.h"

#include "nomem.h"

#include "fit/choices.h"
#include "fit_stage.h"

static struct stage the, four;

static void set_stage(struct stage *s, const char *model, const char *rig)
{
    stage_rig(s, rig);
    stage_model(s, model);
    stage_ask(s, s->model, NULL, 4096);
}

static int setup(void **state)
{
    (void)state;
    set_stage(&the, "qwen3-30b-a3b", "3060-12g-64g-ram");
    set_stage(&four, "llama-3.1-8b", "2x3090-2x3060");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    vr_model_free(the.model);
    vr_model_free(four.model);
    return 0;
}

static bool told(const struct vr_err *err, bool ok)
{
    if (!ok && err->code != VR_ENOMEM) fail_msg("another error (%ld): %s", nomem_calls, err->msg);
    return ok;
}

static bool plan(void)
{
    static struct vr_outcome o;
    struct vr_err err = { 0 };
    memset(&o, 0, sizeof o);
    const struct vr_goal goal = { 0 };
    bool ok = vr_fit_plan(&the.ask, &goal, &o, &err) && vr_outcome_explain(&the.ask, &goal.fixed, &o, &err);
    vr_outcome_done(&o);
    return told(&err, ok);
}

static bool choose(void)
{
    static struct vr_outcome o;
    struct vr_err err = { 0 };
    memset(&o, 0, sizeof o);
    const struct vr_open open = { .n_ubatch = true, .host_weights = true, .offload_min = true };
    bool ok = vr_fit_choose(&the.ask, &(struct vr_goal){ 0 }, &open, &o, &err);
    vr_outcome_done(&o);
    return told(&err, ok);
}

/* With every split to choose from, on four cards: a split is planned, too. */
static bool spread(void)
{
    static struct vr_outcome o;
    struct vr_err err = { 0 };
    memset(&o, 0, sizeof o);
    bool ok = vr_fit_plan(&four.ask, &(struct vr_goal){ .splits = VR_SPLITS_ALL }, &o, &err);
    if (ok) assert_int_equal(o.trial.split_mode, VR_SPLIT_TENSOR);
    vr_outcome_done(&o);
    return told(&err, ok);
}

static bool given(void)
{
    static struct vr_outcome o;
    struct vr_err err = { 0 };
    memset(&o, 0, sizeof o);
    const struct vr_given g = { .n_gpu_layers = 10, .overrides = "ffn_.*_exps=CPU" };
    VR_AUTO_FREE int *where = NULL;
    bool ok = vr_fit_given(&the.ask, &g, &o, &err);
    if (ok) {
        where = __real_calloc(the.model->n_tensors, sizeof *where);
        ok = vr_outcome_where(&the.ask, &o, where, &err);
    }
    vr_outcome_done(&o);
    return told(&err, ok);
}

static bool llama(void)
{
    static struct vr_outcome o;
    struct vr_err err = { 0 };
    memset(&o, 0, sizeof o);
    bool ok = vr_fit_llama(&the.ask, &o, &err);
    vr_outcome_done(&o);
    return told(&err, ok);
}

static void test_plan(void **state)
{
    (void)state;
    nomem_each("plan", plan, getenv("NOMEM_ALL") ? 1 : 61 * EACH, false);
}

static void test_choose(void **state)
{
    (void)state;
    nomem_each("choices", choose, getenv("NOMEM_ALL") ? 1 : 199 * EACH, false);
}

static void test_spread(void **state)
{
    (void)state;
    nomem_each("spread", spread, getenv("NOMEM_ALL") ? 1 : 23 * EACH, false);
}

static void test_given(void **state)
{
    (void)state;
    nomem_each("given", given, getenv("NOMEM_ALL") ? 1 : 3, false);
}

static void test_llama(void **state)
{
    (void)state;
    nomem_each("llama.cpp's fit", llama, getenv("NOMEM_ALL") ? 1 : 3, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_plan), cmocka_unit_test(test_choose),
                                        cmocka_unit_test(test_spread), cmocka_unit_test(test_given),
                                        cmocka_unit_test(test_llama) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
