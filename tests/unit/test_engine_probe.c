/* The probe against what the real CUDA backend's host code allocated for the same placements (tests/oracle), to the
 * byte; its errors; and that it leaves nothing behind. */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <malloc.h>
#include <signal.h>
#include <sys/wait.h>

#include "engine_fixtures.h"
#include "gguf/type.h"
#include "gguf_maker.h"

#define MAX_OVERRIDES 16

/* A case of tests/oracle as a trial; the strings stay in the JSON. */
struct scenario {
    struct vr_vgpu_spec devices[VR_MAX_VGPUS + 1];
    struct vr_override overrides[MAX_OVERRIDES];
    struct vr_trial trial;
};

static uint64_t number(const json_t *o, const char *key, uint64_t fallback)
{
    const json_t *v = json_object_get(o, key);
    return json_is_boolean(v) ? json_is_true(v) : v ? (uint64_t)json_integer_value(v) : fallback;
}

static const char *text(const json_t *o, const char *key, const char *fallback)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : fallback;
}

static void read_devices(const json_t *c, struct scenario *s)
{
    const json_t *list = json_object_get(c, "devices");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *d = json_array_get(list, i);
        struct vr_vgpu_spec *v = &s->devices[i];
        int major = 0, minor = 0;
        sscanf(text(d, "cc", "0.0"), "%d.%d", &major, &minor);
        snprintf(v->name, sizeof v->name, "CUDA%u", (unsigned)i);
        snprintf(v->about, sizeof v->about, "%s", text(d, "name", "?"));
        v->total_bytes = number(d, "total_mib", 0) << 20;
        v->free_bytes = number(d, "free_mib", 0) << 20;
        v->cc = major * 100 + minor * 10;
    }
    s->trial.load.devices = s->devices;
    s->trial.load.n_devices = json_array_size(list);
}

static void read_case(const json_t *c, struct scenario *s)
{
    struct vr_load_params *t = &s->trial.load;
    *s = (struct scenario){ .trial = vr_trial_default() };
    read_devices(c, s);
    size_t i;
    json_t *v;
    json_array_foreach(json_object_get(c, "order"), i, v) t->order[t->n_order++] = (uint8_t)json_integer_value(v);
    json_array_foreach(json_object_get(c, "split"), i, v) t->split[i] = (float)json_number_value(v);
    json_array_foreach(json_object_get(c, "overrides"), i, v)
    {
        const json_t *where = json_array_get(v, 1);
        s->overrides[t->n_overrides++] =
            (struct vr_override){ json_string_value(json_array_get(v, 0)),
                                  json_is_integer(where) ? (int)json_integer_value(where) : VR_ON_CPU };
    }
    const char *flash = text(c, "flash", "auto");
    t->overrides = s->overrides;
    t->has_split = json_object_get(c, "split") != NULL;
    t->n_gpu_layers = (int)json_integer_value(json_object_get(c, "ngl"));
    t->pipeline = number(c, "pipeline", 1);
    t->n_outputs = (uint32_t)number(c, "n_outputs", number(c, "n_batch", 2048));
    t->flash_auto = strcmp(flash, "auto") == 0;
    t->op_offload = number(c, "op_offload", 1);
    t->context = (struct vr_context){
        .n_ctx = (uint32_t)number(c, "n_ctx", 4096),
        .n_batch = (uint32_t)number(c, "n_batch", 2048),
        .n_ubatch = (uint32_t)number(c, "n_ubatch", 512),
        .n_seq = (uint32_t)number(c, "n_seq", 1),
        .type_k = vr_type_by_name(text(c, "type_k", "f16")),
        .type_v = vr_type_by_name(text(c, "type_v", "f16")),
        .flash_attn = strcmp(flash, "on") == 0,
        .kv_unified = number(c, "kv_unified", 0),
        .swa_full = number(c, "swa_full", 0),
        .offload_kqv = number(c, "offload_kqv", 1),
    };
}

static bool same_use(const struct vr_use *u, const json_t *truth)
{
    return u->model_bytes == number(truth, "model", 0) && u->context_bytes == number(truth, "context", 0) &&
           u->compute_bytes == number(truth, "compute", 0);
}

/* Prints what differs; 0 when nothing does. */
static int compare(const struct vr_proof *p, const json_t *truth, long id)
{
    int n = 0;
    const json_t *devices = json_object_get(truth, "devices");
    for (size_t i = 0; i <= p->n_devices; i++) {
        const struct vr_use *u = i < p->n_devices ? &p->devices[i] : &p->host;
        const json_t *t = i < p->n_devices ? json_array_get(devices, i) : json_object_get(truth, "host");
        if (same_use(u, t)) continue;
        print_error("case %ld, device %zu: model %llu %llu, context %llu %llu, compute %llu %llu\n", id, i,
                    (unsigned long long)u->model_bytes, (unsigned long long)number(t, "model", 0),
                    (unsigned long long)u->context_bytes, (unsigned long long)number(t, "context", 0),
                    (unsigned long long)u->compute_bytes, (unsigned long long)number(t, "compute", 0));
        n++;
    }
    if (p->n_copies != number(truth, "copies", 0) || p->pipeline != number(truth, "pipeline", 0)) {
        print_error("case %ld: pipeline %d, %u copies\n", id, p->pipeline, p->n_copies);
        n++;
    }
    const json_t *nodes = json_object_get(truth, "nodes"), *splits = json_object_get(truth, "splits");
    uint64_t want_nodes = (uint64_t)json_integer_value(json_array_get(nodes, 1)); /* prompt, token */
    uint64_t want_splits = (uint64_t)json_integer_value(json_array_get(splits, 1));
    const struct vr_works *w = &p->works;
    if (w->n_rows && (w->n_nodes[VR_DECODE] != want_nodes || w->n_splits[VR_DECODE] != want_splits)) {
        print_error("case %ld: %u nodes in %u splits, not %llu in %llu\n", id, w->n_nodes[VR_DECODE],
                    w->n_splits[VR_DECODE], (unsigned long long)want_nodes, (unsigned long long)want_splits);
        n++;
    }
    return n;
}

/* VR_TRUTH names a larger file of the same kind (make oracle writes one). */
static void test_matches_the_cuda_backend(void **state)
{
    (void)state;
    const char *path = getenv("VR_TRUTH") ? getenv("VR_TRUTH") : "tests/fixtures/engine/truth.jsonl";
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("%s: cannot read it", path);
    VR_AUTO_FREE char *line = NULL;
    size_t cap = 0;
    int n = 0, n_errors = 0, n_bad = 0;
    double ms = 0;
    for (unsigned i = 0; getline(&line, &cap, f) > 0; i++) {
        if (i % EACH) continue;
        json_t *all = json_loads(line, 0, NULL), *c = json_object_get(all, "case"),
               *truth = json_object_get(all, "answer");
        struct scenario s;
        read_case(c, &s);
        s.trial.want_work = n % 3 != 0;
        struct vr_proof p = { 0 };
        struct vr_err err = { 0 };
        long id = (long)number(c, "id", 0);
        bool ok = vr_probe(prober(text(c, "model", "?")), &s.trial, &p, &err);
        bool want = json_object_get(truth, "error") == NULL;
        if (ok != want) {
            print_error("case %ld: '%s', not '%s'\n", id, ok ? "answered" : err.msg, text(truth, "error", "answered"));
            n_bad++;
        } else if (ok) {
            n_bad += compare(&p, truth, id) > 0;
        } else {
            n_errors++;
        }
        n++;
        ms += p.ms;
        vr_proof_done(&p);
        json_decref(all);
    }
    fclose(f);
    print_message("%d placements, %d of them refused as there, %d differ, %.1f ms each\n", n, n_errors, n_bad, ms / n);
    assert_true(n >= 50 / EACH);
    assert_int_equal(n_bad, 0);
}

/* One header for all parts and without words: the engine allocates the same as for the files themselves. */
static void test_stripped_is_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < VR_COUNT(fixture_names); i += EACH) {
        struct vr_trial t = trial_on(3, 24000);
        struct vr_proof a = { 0 }, b = { 0 };
        struct vr_err err = { 0 };
        struct vr_prober whole = *prober(fixture_names[i]);
        whole.path = fixture_path(fixture_names[i]);
        if (!vr_probe(prober(fixture_names[i]), &t, &a, &err)) fail_msg("%s", err.msg);
        if (!vr_probe(&whole, &t, &b, &err)) fail_msg("%s", err.msg);
        assert_memory_equal(a.devices, b.devices, sizeof a.devices);
        assert_memory_equal(&a.host, &b.host, sizeof a.host);
        assert_true(a.devices[2].model_bytes > 0);
    }
}

/* --- what goes wrong --- */

/* A model that the reader takes and the engine may not: of one layer, with or without the rest of its tensors. */
static void make_model(const char *path, bool whole, uint32_t n_rot)
{
    static const struct {
        const char *key;
        uint32_t v;
    } keys[] = { { "vocab_size", 64 },
                 { "block_count", 1 },
                 { "context_length", 512 },
                 { "embedding_length", 64 },
                 { "feed_forward_length", 64 },
                 { "attention.head_count", 2 },
                 { "attention.head_count_kv", 1 },
                 { "expert_count", 4 },
                 { "expert_used_count", 2 },
                 { "expert_feed_forward_length", 32 } };
    static const struct {
        const char *name;
        uint64_t ne[3];
    } tensors[] = { { "output_norm", { 64 } },
                    { "blk.0.attn_norm", { 64 } },
                    { "blk.0.attn_q", { 64, 64 } },
                    { "blk.0.attn_k", { 64, 32 } },
                    { "blk.0.attn_v", { 64, 32 } },
                    { "blk.0.attn_output", { 64, 64 } },
                    { "blk.0.attn_q_norm", { 32 } },
                    { "blk.0.attn_k_norm", { 32 } },
                    { "blk.0.ffn_norm", { 64 } },
                    { "blk.0.ffn_gate_inp", { 64, 4 } },
                    { "blk.0.ffn_gate_exps", { 64, 32, 4 } },
                    { "blk.0.ffn_down_exps", { 32, 64, 4 } },
                    { "blk.0.ffn_up_exps", { 64, 32, 4 } } };
    MK_AUTO g = { 0 };
    char name[96];
    mk_str(&g, "general.architecture", "qwen3moe");
    mk_str(&g, "tokenizer.ggml.model", "no_vocab");
    for (size_t i = 0; i < VR_COUNT(keys); i++) {
        snprintf(name, sizeof name, "qwen3moe.%s", keys[i].key);
        mk_u32(&g, name, keys[i].v);
    }
    mk_u32(&g, "qwen3moe.rope.dimension_count", n_rot);
    mk_f32(&g, "qwen3moe.attention.layer_norm_rms_epsilon", 1e-5f);
    mk_tensor(&g, "token_embd.weight", VR_TYPE_F32, 64, 64, 0);
    for (size_t i = 0; whole && i < VR_COUNT(tensors); i++) {
        snprintf(name, sizeof name, "%s.weight", tensors[i].name);
        mk_tensor(&g, name, VR_TYPE_F32, tensors[i].ne[0], tensors[i].ne[1], tensors[i].ne[2]);
    }
    mk_write(&g, path);
}

static void expect_error(const struct vr_prober *p, const struct vr_trial *t, const char *const *parts)
{
    struct vr_proof proof = { 0 };
    struct vr_err err = { 0 };
    if (vr_probe(p, t, &proof, &err)) fail_msg("it answered");
    assert_int_equal(err.code, VR_EENGINE);
    for (; *parts; parts++) assert_contains(err.msg, *parts);
}
#define EXPECT_ERROR(p, t, ...) expect_error(p, t, (const char *const[]){ __VA_ARGS__, NULL })

static void test_engine_refuses(void **state)
{
    (void)state;
    struct vr_trial t = trial_on(2, 24000);
    t.load.flash_auto = false;
    t.load.context.flash_attn = false;
    t.load.context.type_v = vr_type_by_name("q8_0");
    EXPECT_ERROR(prober("llama-3.1-8b"), &t, "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf: ", "cannot create a context",
                 "last message: ", "quantized V cache requires flash_attn");
    VR_CLEANUP(vr_prober_close) struct vr_prober p;
    make_model(scratch("missing.gguf"), false, 32);
    open_prober(scratch("missing.gguf"), &p);
    t = trial_on(1, 24000);
    EXPECT_ERROR(&p, &t, "missing.gguf: the engine cannot load this model", "tensor 'output_norm.weight' not found");
}

static void test_engine_aborts(void **state)
{
    (void)state;
    VR_CLEANUP(vr_prober_close) struct vr_prober p;
    make_model(scratch("aborts.gguf"), true, 16); /* fewer than a head has, which this architecture asserts */
    open_prober(scratch("aborts.gguf"), &p);
    struct vr_trial t = trial_on(1, 24000);
    EXPECT_ERROR(&p, &t, "aborts.gguf: the engine's dry run failed (killed by signal 6 (Aborted)); last message: ",
                 "GGML_ASSERT(n_embd_head == n_rot) failed");
    make_model(scratch("works.gguf"), true, 32); /* and with as many, it is a model */
    vr_prober_close(&p);
    open_prober(scratch("works.gguf"), &p);
    struct vr_proof proof = { 0 };
    struct vr_err err = { 0 };
    if (!vr_probe(&p, &t, &proof, &err)) fail_msg("%s", err.msg);
}

static void test_deadline(void **state)
{
    (void)state;
    struct vr_trial t = trial_on(8, 24000);
    t.timeout_ms = 3;
    EXPECT_ERROR(prober("kimi-k2.5"), &t, "Kimi-K2.5-UD-IQ3_XXS-00001-of-00009.gguf: ", "ran longer than 3 ms");
}

static void test_impossible_trials(void **state)
{
    (void)state;
    struct vr_proof proof = { 0 };
    struct vr_err err = { 0 };
    struct vr_trial t = trial_on(2, 24000);
    t.load.n_order = 16;
    assert_false(vr_probe(prober("llama-3.1-8b"), &t, &proof, &err));
    assert_int_equal(err.code, VR_EUSAGE);
    assert_contains(err.msg, "16 devices: the engine supports at most 15");
    t.load.n_order = 1;
    t.load.order[0] = 2;
    assert_false(vr_probe(prober("llama-3.1-8b"), &t, &proof, &err));
    assert_contains(err.msg, "names device 2");
    t = trial_on(1, 24000);
    t.load.overrides = &(struct vr_override){ "ffn", 1 };
    t.load.n_overrides = 1;
    assert_false(vr_probe(prober("llama-3.1-8b"), &t, &proof, &err));
    assert_contains(err.msg, "override 'ffn' names device 1 of 1");
}

static void test_cpu_only(void **state)
{
    (void)state;
    struct vr_trial t = trial_on(0, 0);
    struct vr_proof p = { 0 };
    struct vr_err err = { 0 };
    t.want_work = true;
    if (!vr_probe(prober("llama-3.1-8b"), &t, &p, &err)) fail_msg("%s", err.msg);
    assert_int_equal(p.n_devices, 0);
    assert_int_equal(p.host.model_bytes, 4912898304); /* the file's tensors: the host pads to 32 bytes, as the file */
    assert_int_equal(p.host.context_bytes, 4096 * 32 * 2 * 1024 * 2);
    assert_true(p.host.compute_bytes > 0);
    assert_int_equal(p.works.n_splits[VR_DECODE], 1);
    vr_proof_done(&p);
}

/* --- what is left behind --- */

static int count_dir(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

static int count_children(void)
{
    errno = 0;
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == -1 && errno == ECHILD ? 0 : 1;
}

static void test_300_probes_leave_nothing(void **state)
{
    (void)state;
    VR_CLEANUP(vr_prober_close) struct vr_prober p;
    open_prober(fixture_path("llama-3.1-8b"), &p);
    struct vr_trial t = trial_on(2, 24000);
    struct vr_proof proof = { 0 };
    struct vr_err err = { 0 };
    int fds = count_dir("/proc/self/fd"), files = count_dir(scratch_dir);
    size_t memory = 0;
    double ms = 0;
    for (int i = 0; i < 300; i++) {
        t.want_work = i % 2;
        t.load.context.n_ctx = 512 + 256 * (uint32_t)(i % 16);
        if (!vr_probe(&p, &t, &proof, &err)) fail_msg("probe %d: %s", i, err.msg);
        ms += proof.ms;
        vr_proof_done(&proof);
        if (i == 20) memory = mallinfo2().uordblks;
    }
    print_message("%.1f ms each\n", ms / 300);
    assert_int_equal(count_dir("/proc/self/fd"), fds);
    assert_int_equal(count_dir(scratch_dir), files);
    assert_int_equal(count_children(), 0);
    assert_true(mallinfo2().uordblks <= memory + 4096);
}

/* Kills every child of this process, again and again, until it is killed itself. */
static pid_t start_killer(useconds_t every)
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0) return pid;
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, parent);
    for (uint32_t seed = every;;) {
        seed = seed * 1664525u + 1013904223u;
        usleep(1 + (seed >> 8) % every);
        FILE *f = fopen(path, "r");
        if (!f || getppid() != parent) _exit(0);
        size_t n = fread(text, 1, sizeof text - 1, f);
        fclose(f);
        text[n] = '\0';
        for (char *at = text, *end; (n = strtoul(at, &end, 10)) > 0; at = end)
            if ((pid_t)n != getpid()) kill((pid_t)n, SIGKILL);
    }
}

static void test_killed_at_random(void **state)
{
    (void)state;
    static const useconds_t every[] = { 500, 10000, 40000, 400000 };
    struct vr_trial t = trial_on(4, 24000);
    struct vr_prober *p = prober("qwen3-30b-a3b");
    int fds = count_dir("/proc/self/fd"), n_killed = 0, n_answered = 0;
    t.want_work = true;
    for (size_t k = 0; k < VR_COUNT(every); k++) {
        pid_t killer = start_killer(every[k]);
        for (int i = 0; i < 25; i++) {
            struct vr_proof proof = { 0 };
            struct vr_err err = { 0 };
            if (vr_probe(p, &t, &proof, &err)) {
                assert_int_equal(proof.n_devices, 4); /* a whole answer */
                assert_true(proof.works.n_rows > 0);
                n_answered++;
            } else {
                assert_int_equal(err.code, VR_EENGINE);
                assert_contains(err.msg, "Qwen3-30B-A3B-Q4_K_M.gguf: ");
                assert_contains(err.msg, "killed by signal 9 (Killed)");
                n_killed++;
            }
            vr_proof_done(&proof);
        }
        kill(killer, SIGKILL);
        waitpid(killer, NULL, 0);
    }
    print_message("%d killed, %d answered first\n", n_killed, n_answered);
    assert_true(n_killed >= 10);
    assert_int_equal(count_dir("/proc/self/fd"), fds);
    assert_int_equal(count_children(), 0);
    struct vr_proof proof = { 0 };
    struct vr_err err = { 0 };
    if (!vr_probe(p, &t, &proof, &err)) fail_msg("%s", err.msg); /* and the next one works */
    vr_proof_done(&proof);
}

/* --- llama.cpp's own fit --- */

static void test_their_fit(void **state)
{
    (void)state;
    struct vr_trial t = trial_on(3, 20000);
    struct vr_fitted f = { 0 };
    struct vr_err err = { 0 };
    uint64_t margins[3] = { 1 << 30, 1 << 30, 1 << 30 };
    t.load.context.n_ctx = 2048;
    t.load.context.n_batch = 2048;
    if (!vr_probe_fit(prober("nemotron-super-49b"), &t, margins, &f, &err)) fail_msg("%s", err.msg);
    print_message("%u dry runs, %.0f ms, %d layers, %zu overrides\n", f.dry_runs, f.ms, f.n_gpu_layers, f.n_overrides);
    assert_true(f.fits);
    assert_true(f.dry_runs >= 2);
    assert_true(f.ms > 0);
    /* its placement, proven: nothing is over the margin */
    t.load.n_gpu_layers = f.n_gpu_layers;
    memcpy(t.load.split, f.split, sizeof t.load.split);
    t.load.has_split = true;
    t.load.overrides = f.overrides;
    t.load.n_overrides = f.n_overrides;
    struct vr_proof p = { 0 };
    if (!vr_probe(prober("nemotron-super-49b"), &t, &p, &err)) fail_msg("%s", err.msg);
    for (size_t i = 0; i < 3; i++) {
        uint64_t sum = p.devices[i].model_bytes + p.devices[i].context_bytes + p.devices[i].compute_bytes;
        assert_true(p.devices[i].model_bytes > 0);
        assert_true(sum <= (UINT64_C(20000) << 20) - margins[i] / 2);
    }
    vr_proof_done(&p);
    vr_fitted_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matches_the_cuda_backend),
        cmocka_unit_test(test_stripped_is_the_same),
        cmocka_unit_test(test_engine_refuses),
        cmocka_unit_test(test_engine_aborts),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_impossible_trials),
        cmocka_unit_test(test_cpu_only),
        cmocka_unit_test(test_300_probes_leave_nothing),
        cmocka_unit_test(test_killed_at_random),
        cmocka_unit_test(test_their_fit),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
