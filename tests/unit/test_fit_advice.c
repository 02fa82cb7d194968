/* Settings that the engine fails at: the error names them and a setting nearby that works, not the engine's source. */
#include "test.h"

#include "fit_stage.h"
#include "gguf_maker.h"
#include "scratch.h"

/* The header of phi-4: few tensors, from which the engine takes how many nodes its graphs may have. */
static void make_phi4(const char *path)
{
    static const struct {
        const char *key;
        uint32_t v;
    } keys[] = { { "block_count", 40 },          { "context_length", 16384 },
                 { "embedding_length", 5120 },   { "feed_forward_length", 17920 },
                 { "attention.head_count", 40 }, { "attention.head_count_kv", 10 },
                 { "rope.dimension_count", 128 } };
    static const struct {
        const char *name;
        uint64_t ne0, ne1;
    } tensors[] = { { "attn_norm", 5120, 0 }, { "attn_qkv", 5120, 7680 },    { "attn_output", 5120, 5120 },
                    { "ffn_norm", 5120, 0 },  { "ffn_up", 5120, 2 * 17920 }, { "ffn_down", 17920, 5120 } };
    MK_AUTO g = { 0 };
    char name[96];
    mk_str(&g, "general.architecture", "phi3");
    mk_str(&g, "general.name", "phi 4");
    mk_str(&g, "tokenizer.ggml.model", "no_vocab");
    for (size_t i = 0; i < VR_COUNT(keys); i++) {
        snprintf(name, sizeof name, "phi3.%s", keys[i].key);
        mk_u32(&g, name, keys[i].v);
    }
    mk_f32(&g, "phi3.attention.layer_norm_rms_epsilon", 1e-5f);
    mk_tensor(&g, "token_embd.weight", VR_TYPE_F16, 5120, 100352, 0);
    mk_tensor(&g, "output_norm.weight", VR_TYPE_F32, 5120, 0, 0);
    mk_tensor(&g, "output.weight", VR_TYPE_F16, 5120, 100352, 0);
    for (unsigned l = 0; l < 40; l++)
        for (size_t i = 0; i < VR_COUNT(tensors); i++) {
            snprintf(name, sizeof name, "blk.%u.%s.weight", l, tensors[i].name);
            mk_tensor(&g, name, tensors[i].ne1 ? VR_TYPE_F16 : VR_TYPE_F32, tensors[i].ne0, tensors[i].ne1, 0);
        }
    mk_write(&g, path);
}

static void open_stage(struct stage *s, const struct vr_model *m)
{
    stage_cards(s, "2x RTX 3090", UINT64_C(64) << 30);
    stage_ask(s, m, "index", 8192);
}

static void test_phi4_quantized_cache(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    static struct stage s;
    make_phi4(scratch("phi4.gguf"));
    VR_AUTO(vr_model) m = vr_model_open(scratch("phi4.gguf"), &err);
    if (!m) fail_msg("%s", err.msg);
    open_stage(&s, m);
    s.ask.context.type_k = s.ask.context.type_v = vr_type_by_name("q8_0");
    s.ask.context.n_seq = 4;
    VR_AUTO_OUTCOME o = { 0 };
    assert_false(vr_fit_plan(&s.ask, &(struct vr_goal){ 0 }, &o, &err));
    assert_int_equal(err.code, VR_EENGINE);
    assert_contains(err.msg, "phi4.gguf: the engine cannot run it with a q8_0 KV cache and 4 sequences");
    assert_contains(err.msg, "--cache-type-k f16 --cache-type-v f16 or --n-seq 1 works");
    assert_null(strstr(err.msg, "ggml"));

    /* and it is true */
    struct vr_err none = { 0 };
    s.ask.context.n_seq = 1;
    VR_AUTO_OUTCOME one = { 0 };
    if (!vr_fit_plan(&s.ask, &(struct vr_goal){ 0 }, &one, &none)) fail_msg("%s", none.msg);
    s.ask.context.n_seq = 4;
    s.ask.context.type_k = s.ask.context.type_v = VR_TYPE_F16;
    VR_AUTO_OUTCOME plain = { 0 };
    if (!vr_fit_plan(&s.ask, &(struct vr_goal){ 0 }, &plain, &none)) fail_msg("%s", none.msg);
}

/* What no setting helps against is told as it is. */
static void test_nothing_helps(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    static struct stage s;
    MK_AUTO g = { 0 };
    mk_llama(&g, 2); /* without an epsilon */
    mk_write(&g, scratch("odd.gguf"));
    VR_AUTO(vr_model) m = vr_model_open(scratch("odd.gguf"), &err);
    if (!m) fail_msg("%s", err.msg);
    open_stage(&s, m);
    s.ask.context.n_seq = 2;
    VR_AUTO_OUTCOME o = { 0 };
    assert_false(vr_fit_plan(&s.ask, &(struct vr_goal){ 0 }, &o, &err));
    assert_int_equal(err.code, VR_EENGINE);
    assert_contains(err.msg, "last message: error loading model");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_phi4_quantized_cache),
                                        cmocka_unit_test(test_nothing_helps) };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
