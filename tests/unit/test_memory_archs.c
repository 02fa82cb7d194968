/* The cache of every architecture against the engine's own figures, row by row in test_memory_archs.def. */
#include "test.h"

#include <inttypes.h>

#include "gguf_maker.h"
#include "memory/footprint.h"

#define REFUSED                                                                                                        \
    {                                                                                                                  \
        UINT64_MAX, UINT64_MAX                                                                                         \
    }

static const struct vr_context settings[] = {
    { 5000, 4, 512, 512, 0, VR_TYPE_F16, VR_TYPE_F16, .flash_attn = true },
    { 8192, 4, 2048, 512, 0, 8 /* q8_0 */, VR_TYPE_F16, .flash_attn = true, .kv_unified = true },
    { 2048, 1, 2048, 512, 0, VR_TYPE_F16, VR_TYPE_F16, .flash_attn = false },
    { 32768, 1, 512, 128, 0, 2, 2 /* q4_0 */, .flash_attn = true },
    { 4096, 2, 512, 512, 3, VR_TYPE_F16, VR_TYPE_F16, .flash_attn = true, .kv_unified = true },
};

static const struct row {
    const char *arch, *keys;
    struct {
        uint64_t gpu, host;
    } bytes[VR_COUNT(settings)];
} rows[] = {
#define KV(arch, keys, ...) { arch, keys, { __VA_ARGS__ } },
#include "test_memory_archs.def"
#undef KV
};

/* The keys of every model here, unless its row says otherwise: also those that its architecture must not look at. */
static const char base[] = "context_length=256 block_count=13 embedding_length=256 feed_forward_length=384 "
                           "leading_dense_block_count=1 attention.head_count=2 attention.head_count_kv=2 "
                           "attention.sliding_window=700 attention.indexer.key_length=128 "
                           "attention.indexer.top_k=131072 ssm.conv_kernel=4 ssm.inner_size=512 ssm.state_size=128 "
                           "ssm.group_count=2 wkv.head_size=128 shortconv.l_cache=3 kda.head_dim=128";

/* "a=1 b=2,3 c=4," -> a number and two lists; `instead` holds the row's keys, which go before these. */
static void add_keys(struct maker *g, const char *arch, const char *keys, const char *instead)
{
    char copy[4096], *save;
    snprintf(copy, sizeof copy, "%s", keys);
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *value = strchr(word, '=') + 1, name[128], key[192];
        snprintf(name, sizeof name, " %.*s", (int)(value - word), word); /* " a=" */
        char all[4096];
        snprintf(all, sizeof all, " %s", instead);
        if (strstr(all, name) || !*value) continue;
        snprintf(key, sizeof key, "%s.%.*s", arch, (int)(value - word) - 1, word);
        int32_t list[64];
        size_t n = 0;
        for (char *at = value; *at && n < VR_COUNT(list); at += *at == ',') list[n++] = (int32_t)strtol(at, &at, 10);
        if (!strchr(value, ','))
            mk_u32(g, key, (uint32_t)list[0]);
        else
            mk_i32s(g, key, list, n);
    }
}

static struct vr_model *make(const char *arch, const char *keys)
{
    MK_AUTO g = { 0 };
    mk_str(&g, "general.architecture", arch);
    mk_str(&g, "general.name", arch);
    add_keys(&g, arch, keys, "");
    add_keys(&g, arch, base, keys);
    mk_tensor(&g, "token_embd.weight", VR_TYPE_F16, 256, 100, 0);
    mk_tensor(&g, "output.weight", VR_TYPE_F16, 256, 100, 0);
    const char *path = scratch("arch.gguf");
    mk_write(&g, path);
    struct vr_err err = { 0 };
    struct vr_model *m = vr_model_open(path, &err);
    if (!m) fail_msg("%s: %s", arch, err.msg);
    return m;
}

static void check_row(const struct row *r, const struct vr_model *m, size_t i)
{
    struct vr_context c = settings[i];
    c.offload_kqv = true;
    struct vr_err err = { 0 };
    VR_AUTO_FOOTPRINT f;
    bool ok = vr_footprint_compute(m, &c, &f, &err);
    uint64_t gpu = ok ? f.kv_gpu_bytes + f.state_gpu_bytes : UINT64_MAX;
    uint64_t host = ok ? f.kv_host_bytes + f.state_host_bytes : UINT64_MAX;
    if (gpu != r->bytes[i].gpu || host != r->bytes[i].host)
        fail_msg("%s (%s), settings %zu: %" PRIu64 " and %" PRIu64 " bytes, the engine says %" PRIu64 " and %" PRIu64
                 "%s%s",
                 r->arch, r->keys, i, gpu, host, r->bytes[i].gpu, r->bytes[i].host, ok ? "" : ": ", err.msg);
    if (ok) assert_true(f.exact);
}

static void test_every_architecture(void **state)
{
    (void)state;
    for (size_t r = 0; r < VR_COUNT(rows); r++) {
        VR_AUTO(vr_model) m = make(rows[r].arch, rows[r].keys);
        for (size_t i = 0; i < VR_COUNT(settings); i++) check_row(&rows[r], m, i);
    }
}

/* No row of the table without the engine's word for it; draft models need a target, so there is none for them. */
static void test_every_row_is_proven(void **state)
{
    (void)state;
    static const char *const names[] = {
#define ARCH(name, ...) name,
#include "memory/archs.def"
#undef ARCH
    };
    for (size_t i = 0; i < VR_COUNT(names); i++) {
        bool found = false;
        for (size_t r = 0; r < VR_COUNT(rows); r++) found |= strcmp(rows[r].arch, names[i]) == 0;
        bool draft = strcmp(names[i], "eagle3") == 0 || strcmp(names[i], "dflash") == 0 ||
                     strcmp(names[i], "gemma4-assistant") == 0;
        if (found == draft) fail_msg("%s: %s", names[i], draft ? "a draft model with a row" : "no row");
    }
}

/* A name that the engine of this version does not know gets the plain rule, and is told apart. */
static void test_unknown_is_not_exact(void **state)
{
    (void)state;
    struct vr_context c = settings[0];
    VR_AUTO(vr_model) m = make("brand-new", "");
    VR_AUTO_FOOTPRINT f;
    assert_true(vr_footprint_compute(m, &c, &f, NULL));
    assert_false(f.exact);
    assert_contains(f.inexact, "is unknown and is treated");
    assert_int_equal(f.kv_host_bytes, rows[0].bytes[0].host); /* the plain rule */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_architecture),
        cmocka_unit_test(test_every_row_is_proven),
        cmocka_unit_test(test_unknown_is_not_exact),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
