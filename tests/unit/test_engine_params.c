/* What is to be loaded: the rules that settle it, its form as a message, and that what `serve` sends to the engine is
 * what `plan` proved, to the byte, for large models that nobody can load here (tests/e2e/same_bytes.mjs loads small
 * ones). */
#include "test.h"

#include "base/text.h"
#include "engine/params/load_message.h"
#include "engine_fixtures.h"
#include "gguf_maker.h"
#include "scratch.h"

static void test_rules(void **state)
{
    (void)state;
    static const struct {
        struct {
            uint32_t n_ctx, n_seq, n_batch, n_ubatch, n_outputs;
            bool draft, embeddings, embedding_model;
        } is;
        struct {
            uint32_t n_seq, n_batch, n_ubatch, n_outputs;
            bool unified;
        } want;
    } rows[] = {
        { { 4096, 0, 0, 0, 0 }, { 1, 2048, 512, 1 } },
        { { 4096, 1, 512, 512, 0 }, { 1, 512, 512, 1 } },
        { { 4096, 64, 32, 512, 0 }, { 64, 64, 64, 64 } },  /* a token of each sequence */
        { { 4096, 4, 512, 2048, 0 }, { 4, 512, 512, 4 } }, /* a micro-batch is part of a batch */
        { { 4096, 1, 512, 512, 512 }, { 1, 512, 512, 512 } },
        { { 4096, 4, 512, 512, 2 }, { 4, 512, 512, 4 } }, /* all sequences may want a token in one step */
        { { 4096, 1, 8, 8, 100 }, { 1, 8, 8, 8 } },
        { { 4096, 2, 512, 512, 0, .draft = true }, { 2, 512, 512, 2 + 2 * 3 } },
        { { 4096, 16, 512, 512, 0, .draft = true }, { 16, 512, 512, 16 + 4 * 3 } },
        { { 4096, 2, 4, 4, 0, .draft = true }, { 2, 4, 4, 4 } },
        { { 4096, 2, 2, 2, 0, .draft = true }, { 2, 2, 2, 2 } }, /* no room for guesses */
        { { 4096, 1, 512, 512, 0, .embeddings = true }, { 1, 512, 512, 64 } },
        { { 4096, 100, 512, 512, 0, .embeddings = true }, { 100, 512, 512, 100 } },
        { { 4096, 1, 16, 16, 0, .embeddings = true }, { 1, 16, 16, 16 } },
        { { 4096, 2, 512, 64, 0, .embedding_model = true }, { 2, 4096, 4096, 4096, true } }, /* a text in one piece */
        { { 256, 1, 512, 64, 0, .embedding_model = true }, { 1, 512, 512, 512, true } },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_load_params p = vr_load_params_default();
        p.context.n_ctx = rows[i].is.n_ctx;
        p.context.n_seq = rows[i].is.n_seq;
        p.context.n_batch = rows[i].is.n_batch;
        p.context.n_ubatch = rows[i].is.n_ubatch;
        p.n_outputs = rows[i].is.n_outputs;
        p.spec = rows[i].is.draft ? VR_SPEC_DRAFT : VR_SPEC_OFF;
        p.embeddings = rows[i].is.embeddings;
        p.embedding_model = rows[i].is.embedding_model;
        for (int again = 0; again < 2; again++) { /* the second time changes nothing */
            vr_load_params_settle(&p);
            if (p.context.n_seq != rows[i].want.n_seq || p.context.n_batch != rows[i].want.n_batch ||
                p.context.n_ubatch != rows[i].want.n_ubatch || p.n_outputs != rows[i].want.n_outputs ||
                p.context.kv_unified != rows[i].want.unified)
                fail_msg("row %zu: %u sequences, batch %u, micro-batch %u, %u rows", i, p.context.n_seq,
                         p.context.n_batch, p.context.n_ubatch, p.n_outputs);
        }
    }
}

static void test_embedding_models(void **state)
{
    (void)state;
    static const struct {
        int pooling, causal; /* -1: the file does not say */
        bool want;
    } rows[] = {
        { -1, -1, false }, { 0, -1, false }, { 0, 1, false }, { 1, -1, true }, { 3, 1, true }, { -1, 0, true }
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        MK_AUTO g = { 0 };
        struct vr_err err = { 0 };
        mk_llama(&g, 1);
        if (rows[i].pooling >= 0) mk_u32(&g, "llama.pooling_type", (uint32_t)rows[i].pooling);
        if (rows[i].causal >= 0) mk_bool(&g, "llama.attention.causal", rows[i].causal);
        mk_write(&g, scratch("model.gguf"));
        VR_AUTO(vr_model) m = vr_model_open(scratch("model.gguf"), &err);
        if (!m) fail_msg("%s", err.msg);
        assert_int_equal(vr_model_makes_embeddings(m), rows[i].want);
    }
}

/* --- the message --- */

static json_t *written(const struct vr_load_params *p)
{
    VR_AUTO_BUF text = { 0 };
    struct vr_err err = { 0 };
    if (!vr_load_params_write(p, &text, &err)) fail_msg("%s", err.msg);
    json_t *tree = json_loadb(text.data, text.n, 0, NULL);
    assert_non_null(tree);
    return tree;
}

static void test_round_trip(void **state)
{
    (void)state;
    static const struct vr_vgpu_spec devices[] = {
        { .name = "CUDA1", .about = "a card", .total_bytes = 24576 * VR_MIB, .free_bytes = 24000 * VR_MIB, .cc = 860 },
        { .name = "CUDA0",
          .about = "another",
          .total_bytes = 12345678 * 2,
          .free_bytes = 12345678,
          .cc = 750,
          .run_bytes = VR_MIB,
          .borrowed = VR_BORROWED_CPU,
          .like_cuda = true }
    };
    struct vr_load_node node = { .pair = { .name = "attic", .host = "fe80::1", .port = 7433 },
                                 .devices = { "CUDA0", "CPU0" },
                                 .n_devices = 2 };
    memset(node.pair.fingerprint, 'a', VR_FINGERPRINT - 1);
    const struct vr_override overrides[] = { { "ffn_.*_exps", VR_ON_CPU }, { "blk\\.1\\.", 1 } };
    struct vr_load_params p = vr_load_params_default();
    p.model = "/tmp/\xff\xfe'\"name.gguf"; /* no text */
    p.draft = "/tmp/ünder.gguf";
    p.draft_device = "CUDA1";
    const struct vr_lora loras[] = { { "/tmp/\xff.gguf", 0.5f }, { "b.gguf", -1 } };
    p.loras = loras;
    p.n_loras = VR_COUNT(loras);
    p.spec = VR_SPEC_DRAFT;
    p.steer = false;
    p.devices = p.vgpus = devices;
    p.n_devices = p.n_vgpus = VR_COUNT(devices);
    p.nodes = &node;
    p.n_nodes = 1;
    p.node_seconds = 5;
    p.n_order = 2;
    p.order[1] = 1;
    p.has_split = true;
    p.split[0] = 0.25f, p.split[1] = 7;
    p.split_mode = VR_SPLIT_NONE;
    p.n_gpu_layers = 33;
    p.overrides = overrides;
    p.n_overrides = VR_COUNT(overrides);
    p.pipeline = p.op_offload = p.mmap = p.extra_bufts = p.flash_auto = false;
    p.context = (struct vr_context){ .n_ctx = 5000,
                                     .n_seq = 3,
                                     .n_batch = 100,
                                     .n_ubatch = 50,
                                     .n_rollback = 2,
                                     .type_k = vr_type_by_name("q8_0"),
                                     .type_v = vr_type_by_name("iq4_nl"),
                                     .flash_attn = true,
                                     .kv_unified = true,
                                     .swa_full = true,
                                     .load_mtp = true };
    p.n_outputs = 7, p.threads = 3, p.threads_batch = 5, p.n_draft = 9;
    p.mlock = p.embeddings = true;
    VR_AUTO_ARENA arena = { 0 };
    struct vr_load_params q;
    struct vr_err err = { 0 };
    json_t *first = written(&p);
    if (!vr_load_params_read(first, &arena, &q, &err)) fail_msg("%s", err.msg);
    assert_string_equal(q.model, p.model);
    assert_int_equal(q.n_devices, 2);
    assert_memory_equal(q.vgpus, devices, sizeof devices);
    assert_int_equal(q.n_nodes, 1);
    assert_memory_equal(q.nodes, &node, sizeof node);
    assert_int_equal(q.overrides[1].device, 1);
    assert_int_equal(q.n_loras, 2);
    assert_string_equal(q.loras[0].path, loras[0].path);
    assert_true(q.loras[1].scale == -1);
    assert_memory_equal(&q.context, &p.context, sizeof p.context);
    assert_memory_equal(q.split, p.split, sizeof p.split);
    json_t *second = written(&q); /* all the rest */
    assert_true(json_equal(first, second));
    json_decref(first);
    json_decref(second);
}

static void test_messages_refused(void **state)
{
    (void)state;
    static const struct {
        const char *load, *says;
    } rows[] = {
        { "[]", "not a JSON object" },
        { "{}", "\"model\" is missing" },
        { "{'model':'x','n_ctx':-1}", "\"n_ctx\" must be an integer from 0" },
        { "{'model':'x','n_seq':0}", "\"n_seq\" must be" },
        { "{'model':'x','mmap':1}", "\"mmap\" must be true or false" },
        { "{'model':7}", "\"model\" must be a string" },
        { "{'model':{'hex':'2f0'}, 'draft':{'hex':'zz'}}", "\"draft\" is not the bytes" },
        { "{'model':{'hex':'2f00'}}", "\"model\" is not the bytes" },
        { "{'model':'x','type_k':'q9'}", "\"type_k\" cannot be 'q9'" },
        { "{'model':'x','split_mode':'row'}", "\"split_mode\" cannot be 'row'" },
        { "{'model':'x','flash_attn':true}", "\"flash_attn\" cannot be" },
        { "{'model':'x','devices':['CUDA0'],'tensor_split':[1,2]}", "longer than \"devices\"" },
        { "{'model':'x','devices':['CUDA0'],'tensor_split':[-1]}", "not negative" },
        { "{'model':'x','devices':[7]}", "names of devices" },
        { "{'model':'x','overrides':[{'pattern':'x','device':'CUDA0'}]}", "a \"device\" that is there" },
        { "{'model':'x','overrides':[{'device':'CPU'}]}", "needs a \"pattern\"" },
        { "{'model':'x','vgpus':[{'name':'CUDA0'}]}", "a virtual GPU needs" },
        { "{'model':'x','vgpus':{}}", "\"vgpus\" must be an array" },
        { "{'model':'x','loras':[{'path':'y'}]}", "needs a \"path\" and a \"scale\"" },
        { "{'model':'x','loras':[{'scale':1}]}", "\"path\" must be a string" },
        { "{'model':'x','loras':[0,0,0,0,0,0,0,0,0]}", "9 LoRA adapters, at most 8" },
        { "{'model':'x','nodes':[{'name':'a'}]}", "node 0 needs a name, an address" },
        { "{'model':'x','nodes':7}", "\"nodes\" must be an array" },
        { "{'model':'x','colour':'red'}", "\"colour\" is not known" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        char text[256];
        snprintf(text, sizeof text, "%s", rows[i].load);
        for (char *c = text; *c; c++)
            if (*c == '\'') *c = '"';
        json_t *load = json_loads(text, 0, NULL);
        VR_AUTO_ARENA arena = { 0 };
        struct vr_load_params p;
        struct vr_err err = { 0 };
        if (vr_load_params_read(load, &arena, &p, &err)) fail_msg("%s was taken", text);
        assert_int_equal(err.code, VR_EUSAGE);
        assert_contains(err.msg, rows[i].says);
        json_decref(load);
    }
}

/* --- what is sent is what was proven --- */

/* The program's JSON; NULL when it ends with an error. */
static json_t *run(const char *command, const char *options, const char *rig, const char *path)
{
    char line[2048];
    snprintf(line, sizeof line,
             "echo '{\"devices\":{},\"fails\":0}' | %s/vram-llm %s %s --machine tests/fixtures/rigs/%s.json '%s' "
             "2>/dev/null",
             getenv("VR_BUILD"), command, options, rig, path);
    FILE *f = popen(line, "r");
    assert_non_null(f);
    json_t *tree = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL);
    while (fgetc(f) != EOF) continue;
    if (pclose(f) == 0 && tree) return tree;
    json_decref(tree);
    return NULL;
}

/* A draft head has small micro-batches, with logits for all of their tokens, and is given no more features at once than
 * its graph has room for. */
static void test_draft_head(void **state)
{
    (void)state;
    struct vr_load_params p = vr_load_params_default();
    p.spec = VR_SPEC_EAGLE3;
    p.context.n_ctx = 4096, p.context.n_seq = 4, p.context.n_batch = 2048, p.context.n_ubatch = 512;
    p.taps[0] = 3, p.n_taps = 3;
    vr_load_params_settle(&p);
    struct vr_load_params h = vr_draft_params(&p, NULL);
    vr_load_params_settle(&h);
    assert_true(h.head == VR_SPEC_EAGLE3 && h.n_taps == 0 && h.spec == VR_SPEC_OFF && h.context.n_rollback == 0);
    assert_true(h.context.n_ubatch < 512 && h.context.n_batch == h.context.n_ubatch);
    assert_int_equal(h.n_outputs, h.context.n_batch);
    assert_int_equal(p.n_outputs, 4 + 4 * 3);
    p.spec = VR_SPEC_ASSISTANT; /* which is fed nothing */
    h = vr_draft_params(&p, NULL);
    vr_load_params_settle(&h);
    assert_true(h.head == VR_SPEC_ASSISTANT && h.n_outputs == 4);
    assert_true(h.context.n_ubatch == 4 && h.context.n_batch == 4);
    p.spec = VR_SPEC_DFLASH; /* the blocks of all streams, whatever micro-batches the model has */
    p.context.n_ubatch = 16;
    h = vr_draft_params(&p, NULL);
    assert_true(h.head == VR_SPEC_DFLASH && h.context.n_ubatch == 128 && h.context.n_batch == 128);
    assert_int_equal(vr_spec_passes(VR_SPEC_DFLASH, 7), 1);
    assert_int_equal(vr_spec_passes(VR_SPEC_DFLASH, 0), 0);
    assert_int_equal(vr_spec_passes(VR_SPEC_EAGLE3, 3), 3);
    p.context.n_ubatch = 512;
    p.spec = VR_SPEC_DRAFT;
    h = vr_draft_params(&p, NULL);
    assert_true(!h.head && h.context.n_ubatch == 512 && h.context.n_batch == 2048);
    static const uint32_t rows[][4] = { { 128, 3 * 64, 64, 42 }, { 128, 3 * 64, 32, 21 }, { 2, 3 * 64, 64, 1 },
                                        { 128, 64, 64, 128 },    { 128, 32, 64, 128 },    { 128, 0, 64, 128 } };
    for (size_t i = 0; i < VR_COUNT(rows); i++)
        assert_int_equal(vr_head_rows(rows[i][0], rows[i][1], rows[i][2]), rows[i][3]);
}

static void assert_bytes(const struct vr_use *u, const json_t *told, const char *what, const char *which)
{
    const char *const kinds[] = { "model_bytes", "context_bytes", "compute_bytes" };
    const uint64_t ours[] = { u->model_bytes, u->context_bytes, u->compute_bytes };
    for (size_t i = 0; i < 3; i++)
        if (json_integer_value(json_object_get(told, kinds[i])) != (json_int_t)ours[i])
            fail_msg("%s, %s: %s is %" JSON_INTEGER_FORMAT " by plan and %llu as sent", what, which, kinds[i],
                     json_integer_value(json_object_get(told, kinds[i])), (unsigned long long)ours[i]);
}

static const struct vr_vgpu_spec *vgpu(const struct vr_load_params *p, const char *name)
{
    for (size_t i = 0; i < p->n_vgpus; i++)
        if (strcmp(p->vgpus[i].name, name) == 0) return &p->vgpus[i];
    return NULL;
}

/* A dry run of the message, against the plan. */
static void compare(const json_t *load, const json_t *plan, const char *model, const char *what)
{
    VR_AUTO_ARENA arena = { 0 };
    struct vr_err err = { 0 };
    struct vr_trial t = vr_trial_default();
    struct vr_proof proof = { 0 };
    struct vr_vgpu_spec devices[VR_MAX_VGPUS];
    if (!vr_load_params_read(load, &arena, &t.load, &err)) fail_msg("%s: %s", what, err.msg);
    for (size_t i = 0; i < t.load.n_devices; i++) devices[i] = *vgpu(&t.load, t.load.devices[i].name);
    t.load.devices = devices;
    if (!vr_probe(prober(model), &t, &proof, &err)) fail_msg("%s: %s", what, err.msg);
    const json_t *rows = json_object_get(plan, "devices");
    assert_int_equal(json_array_size(rows), t.load.n_order);
    for (size_t i = 0; i < t.load.n_order; i++)
        assert_bytes(&proof.devices[t.load.order[i]], json_array_get(rows, i), what, devices[t.load.order[i]].name);
    assert_bytes(&proof.host, json_object_get(plan, "host"), what, "host");
    vr_proof_done(&proof);
    if (!t.load.spec) return;
    const json_t *draft = json_array_get(json_object_get(plan, "companions"), 0);
    bool host = !t.load.draft_device[0];
    t.load = vr_draft_params(&t.load, host ? NULL : vgpu(&t.load, t.load.draft_device));
    if (!vr_probe(prober("llama-3.1-8b"), &t, &proof, &err)) fail_msg("%s: %s", what, err.msg);
    assert_bytes(host ? &proof.host : &proof.devices[0], draft, what, "draft");
    vr_proof_done(&proof);
}

/* Every fixture on every rig, each pair with two sets of options. */
static void test_sent_is_proven(void **state)
{
    (void)state;
    static const char *const rigs[] = {
        "10x3090-x8-x4",        "2x3090-2x3060", "3060-12g-64g-ram", "3090-2060", "8gpu-5090-4090-a40-a6000",
        "laptop-4080m-2x3090ti"
    };
    static const char *const options[] = {
        "",
        "--n-seq 4 --n-ctx 16384",
        "--n-seq 64 --n-batch 32",
        "--n-batch 2048 --n-ubatch 1024 --no-mmap",
        "--cache-type-k q8_0 --cache-type-v q8_0 --flash-attn on",
        "--embeddings --n-ubatch 256",
        "--tensor-split free --reserve-mib 0",
    };
    size_t compared = 0, k = 0;
    for (size_t f = 0; f < VR_COUNT(fixture_names); f++)
        for (size_t r = 0; r < 2 * VR_COUNT(rigs); r++) {
            if ((f * 2 * VR_COUNT(rigs) + r) % EACH) continue;
            const char *rig = rigs[r / 2];
            bool drafts = strcmp(fixture_names[f], "llama-3.3-70b") == 0;
            char what[256], all[1024];
            snprintf(all, sizeof all, "%s", options[k++ % VR_COUNT(options)]);
            if (drafts)
                snprintf(all + strlen(all), sizeof all - strlen(all), " --draft '%s'", fixture_path("llama-3.1-8b"));
            snprintf(what, sizeof what, "%s on %s with '%.120s'", fixture_names[f], rig, all);
            json_t *plan = run("plan --json", all, rig, fixture_path(fixture_names[f]));
            json_t *sent = run("load-plan", all, rig, fixture_path(fixture_names[f]));
            if (!plan != !sent) fail_msg("%s: %s alone says that it fits", what, plan ? "plan" : "serve");
            if (!plan) continue; /* neither fits */
            json_t *served = json_object_get(sent, "plan");
            json_object_del(plan, "plan_ms");
            json_object_del(served, "plan_ms");
            if (!json_equal(plan, served)) fail_msg("%s: plan and serve differ", what);
            compare(json_object_get(sent, "load"), plan, fixture_names[f], what);
            json_decref(plan);
            json_decref(sent);
            compared++;
        }
    assert_true(compared > 80 / EACH);
}

/* A file whose name is no text is planned and sent like any other. */
static void test_any_file_name(void **state)
{
    (void)state;
    MK_AUTO g = { 0 };
    mk_llama(&g, 2);
    mk_f32(&g, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    mk_write(&g, scratch("caf\xe9.gguf"));
    json_t *plan = run("plan --json", "", "3090-2060", scratch("caf\xe9.gguf"));
    json_t *sent = run("load-plan", "", "3090-2060", scratch("caf\xe9.gguf"));
    assert_non_null(plan);
    assert_non_null(sent);
    VR_AUTO_ARENA arena = { 0 };
    struct vr_load_params p;
    struct vr_err err = { 0 };
    if (!vr_load_params_read(json_object_get(sent, "load"), &arena, &p, &err)) fail_msg("%s", err.msg);
    assert_int_equal(access(p.model, R_OK), 0);
    json_decref(plan);
    json_decref(sent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draft_head),       cmocka_unit_test(test_rules),
        cmocka_unit_test(test_embedding_models), cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_messages_refused), cmocka_unit_test(test_sent_is_proven),
        cmocka_unit_test(test_any_file_name),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
