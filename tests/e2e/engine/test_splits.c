/* Planned on random virtual cards with every split mode to choose from, then loaded and executed: on each card no more
 * than its budget is there to be had, and the engine allocates what the plan says. Cards are so slow here that
 * splitting pays off for small models. $VR_RANDOM_SPLITS cases, from $VR_RANDOM_SEED. */
#include "test_engine.h"

#include "engine/llama/cpu.h"
#include "engine/params/load_message.h"
#include "fit/fit.h"

struct splits {
    struct vr_model *model;
    struct vr_machine machine;
    struct vr_budgets budgets;
    struct vr_speeds speeds;
    struct vr_fit_ask ask;
    char path[320];
};

static char cpu[600]; /* the CPU backend's variant, tested once for all engines */

static size_t pick(unsigned *seed, size_t n) { return (size_t)rand_r(seed) % n; }

static void make_model(struct splits *s, unsigned *seed, char *options, size_t size)
{
    static const char *const types[] = { "f16", "q8_0", "f32" };
    size_t kv = 1 + pick(seed, 4), heads = kv * (1 + pick(seed, 2)),
           experts = pick(seed, 3) ? 0 : 4 + 4 * pick(seed, 2);
    snprintf(options, size, "--layers %zu --embd %zu --heads %zu --kv %zu --ff %zu --experts %zu --type %s --seed %u",
             2 + pick(seed, 3), 64 * heads, heads, kv, 256 * (1 + pick(seed, 4)), experts, types[pick(seed, 3)],
             1 + (unsigned)pick(seed, 1000));
    snprintf(s->path, sizeof s->path, "%.300s-splits", dense);
    char command[1200];
    struct vr_err err = { 0 };
    snprintf(command, sizeof command, "%s %s %s", getenv("TINY_MODEL"), s->path, options);
    if (system(command) != 0) fail_msg("cannot make a model: %s", command);
    s->model = vr_model_open(s->path, &err);
    if (!s->model) fail_msg("%s", err.msg);
}

/* Two to four cards, some alike; from ample to less than the model needs. */
static void make_machine(struct splits *s, unsigned *seed)
{
    static const uint32_t gbs[] = { 1, 2, 3 };
    s->machine.n_devices = 2 + pick(seed, 3);
    s->machine.host = (struct vr_host){ .ram_free_bytes = UINT64_C(8) << 30, .cores = 1, .bandwidth_gbs = 0.2 };
    for (size_t i = 0; i < s->machine.n_devices; i++) {
        struct vr_device *d = &s->machine.devices[i];
        *d = (struct vr_device){ .cc_major = 8, .cc_minor = 6, .bandwidth_gbs = gbs[pick(seed, 3)], .fp16_tflops = 1 };
        snprintf(d->backend, sizeof d->backend, "CUDA");
        snprintf(d->name, sizeof d->name, "NVIDIA made up %.0f", d->bandwidth_gbs);
        d->free_bytes = (40 + pick(seed, 80)) << 20;
        d->total_bytes = 2 * d->free_bytes;
    }
    vr_machine_number(&s->machine);
    struct vr_err err = { 0 };
    if (!vr_budgets_select(&s->machine, &(struct vr_select){ .reserve_mib = "1" }, &s->budgets, &err))
        fail_msg("%s", err.msg);
    vr_speeds_guess(&s->machine, &s->speeds);
}

static void make_ask(struct splits *s, unsigned *seed)
{
    static const uint32_t contexts[] = { 512, 2048, 8192 };
    s->ask = (struct vr_fit_ask){ .model = s->model,
                                  .machine = &s->machine,
                                  .budgets = &s->budgets,
                                  .speeds = &s->speeds,
                                  .context = VR_CONTEXT_DEFAULT,
                                  .flash_auto = true,
                                  .fill = 0.5 };
    s->ask.context.n_ctx = contexts[pick(seed, 3)];
    s->ask.context.n_seq = 1 + (uint32_t)pick(seed, 3);
    s->ask.context.n_batch = s->ask.context.n_ubatch = 128;
    if (pick(seed, 3) == 0) s->ask.context.type_k = s->ask.context.type_v = vr_type_by_name("q8_0");
}

static json_int_t member(const json_t *list, const char *name, const char *key)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *d = json_array_get(list, i);
        if (strcmp(json_string_value(json_object_get(d, "name")), name) == 0)
            return json_integer_value(json_object_get(d, key));
    }
    return 0;
}

/* Loads the plan on cards that have its budgets and no more, and has it say something. */
static void execute(const struct splits *s, struct vr_outcome *o, const char *what)
{
    struct vr_vgpu_spec cards[VR_MAX_VGPUS];
    struct vr_err err = { 0 };
    for (size_t i = 0; i < s->budgets.n; i++) {
        cards[i] = o->specs[i];
        cards[i].free_bytes = s->budgets.items[i].budget_bytes;
    }
    o->trial.vgpus = cards;
    o->trial.n_vgpus = s->budgets.n;
    o->trial.model = s->path;
    o->trial.extra_bufts = o->trial.mmap = false;
    o->trial.threads = o->trial.threads_batch = 1;
    o->trial.cpu = cpu;
    VR_AUTO_BUF load = { 0 };
    if (!vr_load_params_write(&o->trial, &load, &err)) fail_msg("%s", err.msg);
    struct client c;
    client_start(&c, "%s", vr_buf_str(&load));
    if (!c.ready)
        fail_msg("%s: not up: %s\n%s", what, json_string_value(json_object_get(c.failed, "message")),
                 vr_buf_str(&load));
    struct answer a;
    client_ask(&c, &a, 1, "{'kind': 'completion', 'prompt': 'the rain in spain', 'max_tokens': 4, 'ignore_eos': true}");
    client_wait(&c, &a);
    if (a.error) fail_msg("%s: %s", what, json_string_value(json_object_get(a.error, "message")));
    assert_int_equal(a.end[0].completion_tokens, 4);
    answer_done(&a);
    const json_t *devices = json_object_get(c.ready, "devices");
    for (size_t i = 0; i < o->verdict.n_devices; i++) {
        const struct vr_judged *j = &o->verdict.devices[i];
        const char *id = s->machine.devices[j->device].id;
        if (member(devices, id, "model_bytes") != (json_int_t)j->use.model_bytes ||
            member(devices, id, "context_bytes") != (json_int_t)j->use.context_bytes ||
            member(devices, id, "compute_bytes") != (json_int_t)j->use.compute_bytes)
            fail_msg("%s: %s has not what was planned: %s", what, id, json_dumps(devices, 0));
    }
    down(&c);
}

void test_planned_splits(void **state)
{
    (void)state;
    const char *many = getenv("VR_RANDOM_SPLITS"), *other = getenv("VR_RANDOM_SEED");
    unsigned seed = other ? (unsigned)atoi(other) : 1, n = many ? (unsigned)atoi(many) : 8, spread = 0, planned = 0;
    struct vr_err none = { 0 };
    if (!vr_cpu_choose(cpu, sizeof cpu, &none)) fail_msg("%s", none.msg);
    for (unsigned i = 0; i < n; i++) {
        static struct splits s;
        char options[256], what[400];
        s = (struct splits){ 0 };
        make_model(&s, &seed, options, sizeof options);
        make_machine(&s, &seed);
        make_ask(&s, &seed);
        struct vr_goal goal = { .optimize = (enum vr_optimize)pick(&seed, VR_N_GOALS), .splits = VR_SPLITS_ALL };
        VR_AUTO_OUTCOME o = { 0 };
        struct vr_err err = { 0 };
        snprintf(what, sizeof what, "case %u: %s, %zu cards", i, options, s.machine.n_devices);
        if (vr_fit_plan(&s.ask, &goal, &o, &err)) {
            planned++;
            spread += o.trial.split_mode == VR_SPLIT_TENSOR;
            execute(&s, &o, what);
        } else if (err.code != VR_ENOFIT) {
            fail_msg("%s: %s", what, err.msg);
        }
        vr_model_free(s.model);
        unlink(s.path);
    }
    print_message("%u of %u were planned and executed, %u in split mode tensor\n", planned, n, spread);
    assert_true(planned > n / 2 && spread > n / 8);
}
