#include "test.h"

#include "gguf/role.h"

static void test_roles(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t layer;
        enum vr_role role;
    } rows[] = {
        { "token_embd.weight", -1, VR_ROLE_INPUT },
        { "token_embd_norm.weight", -1, VR_ROLE_INPUT },
        { "position_embd.weight", -1, VR_ROLE_INPUT },
        { "per_layer_token_embd.weight", -1, VR_ROLE_INPUT },
        { "output.weight", -1, VR_ROLE_OUTPUT },
        { "output_norm.weight", -1, VR_ROLE_OUTPUT },
        { "cls.output.weight", -1, VR_ROLE_OUTPUT },
        { "rope_freqs.weight", -1, VR_ROLE_OTHER },
        { "blk.0.attn_norm.weight", 0, VR_ROLE_NORM },
        { "blk.0.attn_q.weight", 0, VR_ROLE_ATTENTION },
        { "blk.12.attn_k.bias", 12, VR_ROLE_ATTENTION },
        { "blk.12.attn_q_norm.weight", 12, VR_ROLE_NORM },
        { "blk.12.attn_kv_a_mqa.weight", 12, VR_ROLE_ATTENTION },
        { "blk.12.attn_sinks.weight", 12, VR_ROLE_ATTENTION },
        { "blk.12.indexer.attn_k.weight", 12, VR_ROLE_ATTENTION },
        { "blk.12.indexer.k_norm.weight", 12, VR_ROLE_NORM },
        { "blk.511.ffn_up.weight", 511, VR_ROLE_FFN },
        { "blk.1.ffn_norm.weight", 1, VR_ROLE_NORM },
        { "blk.1.post_ffw_norm.weight", 1, VR_ROLE_NORM },
        { "blk.1.ffn_gate_inp.weight", 1, VR_ROLE_ROUTER },
        { "blk.1.exp_probs_b.bias", 1, VR_ROLE_ROUTER },
        { "blk.1.ffn_gate_inp_shexp.weight", 1, VR_ROLE_SHARED_EXPERT },
        { "blk.1.ffn_down_exps.weight", 1, VR_ROLE_EXPERT },
        { "blk.1.ffn_down_exps.bias", 1, VR_ROLE_EXPERT },
        { "blk.1.ffn_gate_up_exps.weight", 1, VR_ROLE_EXPERT },
        { "blk.1.ffn_up_chexps.weight", 1, VR_ROLE_EXPERT },
        { "blk.1.ffn_gate.7.weight", 1, VR_ROLE_EXPERT },
        { "blk.1.ffn_up_shexp.weight", 1, VR_ROLE_SHARED_EXPERT },
        { "blk.1.ssm_in.weight", 1, VR_ROLE_RECURRENT },
        { "blk.1.ssm_a", 1, VR_ROLE_RECURRENT },
        { "blk.1.ssm_norm.weight", 1, VR_ROLE_NORM },
        { "blk.1.time_mix_key.weight", 1, VR_ROLE_RECURRENT },
        { "blk.1.time_mix_ln.weight", 1, VR_ROLE_NORM },
        { "blk.1.channel_mix_key.weight", 1, VR_ROLE_FFN },
        { "blk.1.shortconv.conv.weight", 1, VR_ROLE_RECURRENT },
        { "blk.46.nextn.eh_proj.weight", 46, VR_ROLE_OTHER },
        { "blk.46.nextn.enorm.weight", 46, VR_ROLE_NORM },
        { "enc.blk.3.attn_q.weight", 3, VR_ROLE_ATTENTION },
        { "dec.blk.3.cross_attn_q.weight", 3, VR_ROLE_ATTENTION },
        { "enc.output_norm.weight", -1, VR_ROLE_OUTPUT },
        { "v.blk.3.attn_q.weight", -1, VR_ROLE_OTHER },
        { "blk.x.attn_q.weight", -1, VR_ROLE_OTHER },
        { "blk.3", -1, VR_ROLE_OTHER },
        { "blk.99999999999999999999.attn_q", -1, VR_ROLE_OTHER },
        { "mystery", -1, VR_ROLE_OTHER },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        if (vr_role_of(rows[i].name) != rows[i].role)
            fail_msg("%s is %s", rows[i].name, vr_role_name(vr_role_of(rows[i].name)));
        if (vr_role_layer(rows[i].name) != rows[i].layer)
            fail_msg("%s: layer %d", rows[i].name, vr_role_layer(rows[i].name));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_roles) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
