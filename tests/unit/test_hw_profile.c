/* Profiles: the rigs come back byte for byte, and what cannot be gets a sentence with file and field. */
#include "test.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "hw/profile.h"

static struct vr_machine m, again;

static void test_rigs_round_trip(void **state)
{
    (void)state;
    DIR *dir = opendir("tests/fixtures/rigs");
    assert_non_null(dir);
    size_t n = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        if (!strstr(e->d_name, ".json")) continue;
        char path[512];
        snprintf(path, sizeof path, "tests/fixtures/rigs/%s", e->d_name);
        struct vr_err err = { 0 };
        VR_AUTO_BUF text = { 0 }, printed = { 0 };
        assert_true(vr_file_read(path, 1 << 20, &text, &err));
        if (!vr_profile_load(path, &m, &err)) fail_msg("%s", err.msg);
        vr_profile_print(&m, &printed);
        assert_string_equal(vr_buf_str(&printed), vr_buf_str(&text));
        n++;
    }
    closedir(dir);
    assert_int_equal(n, 6);
}

static void test_load(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    assert_true(vr_profile_load("tests/fixtures/rigs/laptop-4080m-2x3090ti.json", &m, &err));
    assert_int_equal(m.n_devices, 3);
    assert_string_equal(m.devices[1].id, "CUDA1");
    assert_int_equal(m.devices[1].free_bytes, 23287 * VR_MIB);
    assert_int_equal(m.devices[0].cc_minor, 9);
    assert_int_equal(m.host.cores, 16);
    assert_int_equal(m.devices[0].numa, -1);
    assert_false(vr_profile_load("tests/fixtures/rigs/none.json", &m, &err));
    assert_int_equal(err.code, VR_EIO);
    assert_non_null(strstr(err.msg, "tests/fixtures/rigs/none.json: No such file"));
}

static void fill(struct vr_machine *x)
{
    memset(x, 0, sizeof *x);
    snprintf(x->about, sizeof x->about, "a \"strange\" machine: \\ \xc3\xa4 \xe2\x82\xac");
    snprintf(x->driver, sizeof x->driver, "NVIDIA 580.65 (CUDA 13.0)");
    snprintf(x->note, sizeof x->note, "one\ntwo");
    x->host = (struct vr_host){ .ram_total_bytes = 67430195200,
                                .ram_free_bytes = 1,
                                .bandwidth_gbs = 1.0 / 3,
                                .cores = 16,
                                .threads = 32,
                                .numa_nodes = 2 };
    snprintf(x->host.cpu, sizeof x->host.cpu, "AMD EPYC 7302 16-Core Processor");
    for (unsigned i = 0; i < 3; i++) {
        struct vr_device *d = vr_machine_add(x);
        snprintf(d->name, sizeof d->name, "card %u", i);
        snprintf(d->backend, sizeof d->backend, "%s", i == 1 ? "ROCm" : "CUDA");
        snprintf(d->uuid, sizeof d->uuid, "GPU-%u", i);
        snprintf(d->pci, sizeof d->pci, "0000:0%u:00.0", i);
        d->total_bytes = 25757220863 + i; /* odd bytes */
        d->free_bytes = 12345678901 + i;
        d->bandwidth_gbs = 936.096;
        d->fp16_tflops = 0.1 * (i + 1);
        d->cc_major = 12;
        d->cc_minor = (uint16_t)i;
        d->pcie_gen = 1, d->pcie_gen_max = 5, d->pcie_lanes = 4, d->pcie_lanes_max = 16;
        d->numa = (int)i - 1;
    }
    snprintf(x->devices[2].note, sizeof x->devices[2].note, "the driver does not tell its memory");
    x->devices[2].total_bytes = x->devices[2].free_bytes = 0;
    x->links[x->n_links++] = (struct vr_link){ 0, 1, VR_LINK_NVLINK, 4, 56.248, true };
    x->links[x->n_links++] = (struct vr_link){ 0, 2, VR_LINK_SYSTEM, 0, 0, false };
    x->reduce_way = VR_REDUCE_NCCL;
    vr_machine_keep_reduction(x, &(struct vr_measured_reduction){ 5, { 31.25, 1.0 / 3, 170, 1300 }, VR_REDUCE_NCCL });
    vr_machine_keep_reduction(x, &(struct vr_measured_reduction){ 7, { 1, 2, 3, 4 } });
    vr_machine_number(x);
}

static void test_everything_round_trips(void **state)
{
    (void)state;
    const char *path = scratch("profile.json");
    struct vr_err err = { 0 };
    fill(&m);
    assert_true(vr_profile_save(path, &m, &err));
    if (!vr_profile_load(path, &again, &err)) fail_msg("%s", err.msg);
    VR_AUTO_BUF a = { 0 }, b = { 0 };
    vr_profile_print(&m, &a);
    vr_profile_print(&again, &b);
    assert_string_equal(vr_buf_str(&a), vr_buf_str(&b));
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(again.devices[i].total_bytes, m.devices[i].total_bytes);
        assert_int_equal(again.devices[i].free_bytes, m.devices[i].free_bytes);
        assert_true(again.devices[i].bandwidth_gbs == m.devices[i].bandwidth_gbs);
        assert_true(again.devices[i].fp16_tflops == m.devices[i].fp16_tflops);
        assert_int_equal(again.devices[i].numa, m.devices[i].numa);
        assert_string_equal(again.devices[i].id, m.devices[i].id);
        assert_string_equal(again.devices[i].note, m.devices[i].note);
    }
    assert_int_equal(again.host.ram_free_bytes, 1);
    assert_true(again.host.bandwidth_gbs == 1.0 / 3);
    assert_string_equal(again.about, m.about);
    assert_string_equal(again.note, "one\ntwo");
    assert_int_equal(again.n_links, 2);
    assert_int_equal(again.links[0].n_nvlinks, 4);
    assert_int_equal(again.links[1].kind, VR_LINK_SYSTEM);
    assert_int_equal(again.reduce_way, VR_REDUCE_NCCL);
    assert_int_equal(again.n_reductions, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct vr_measured_reduction *x = &again.reductions[i], *y = &m.reductions[i];
        assert_true(x->devices == y->devices && x->way == y->way);
        assert_memory_equal(x->us, y->us, sizeof y->us);
    }
    assert_false(vr_profile_save("/nonexistent/x.json", &m, &err));
    assert_int_equal(err.code, VR_EIO);
}

#define HOST      "\"host\":{\"ram_total_mib\":1000}"
#define DEV(more) "{" HOST ",\"devices\":[{\"name\":\"x\",\"backend\":\"CUDA\",\"total_mib\":100" more "}]}"
#define LINK(link)                                                                                                     \
    "{" HOST                                                                                                           \
    ",\"devices\":[{\"name\":\"RTX 3090\",\"total_mib\":9},{\"name\":\"RTX 3090\",\"total_mib\":9}],\"links\":[" link  \
    "]}"

#define REDUCTION(row) LINK("],\"reductions\":[" row)

static void test_defaults(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    const char *text =
        "{" HOST ",\"calibration\":{\"x\":1},\"devices\":[{\"name\":\"RTX 3090\",\"total_mib\":24576,\"id\":"
        "\"CUDA7\"}],\"links\":[]}";
    if (!vr_profile_parse("rig.json", text, strlen(text), &m, &err)) fail_msg("%s", err.msg);
    assert_int_equal(m.host.ram_free_bytes, 1000 * VR_MIB);
    assert_int_equal(m.devices[0].free_bytes, 24576 * VR_MIB);
    assert_string_equal(m.devices[0].backend, "CUDA");
    assert_string_equal(m.devices[0].id, "CUDA0");
    assert_true(m.devices[0].bandwidth_gbs == 936);
    assert_int_equal(m.devices[0].cc_major, 8);
}

static void test_malformed(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        { "", "rig.json: not valid JSON: line 1" },
        { "{", "rig.json: not valid JSON" },
        { "[]", "rig.json: a machine profile is one object" },
        { "3", "a machine profile is one object" },
        { "{}", "rig.json: host is missing" },
        { "{" HOST "}", "rig.json: devices is missing" },
        { "{\"host\":3,\"devices\":[]}", "rig.json: host must be an object" },
        { "{\"host\":{},\"devices\":[]}", "rig.json: host.ram_total_mib is missing" },
        { "{\"host\":{\"ram_total_mib\":-1},\"devices\":[]}", "host.ram_total_mib is -1, but cannot be less than 1" },
        { "{\"host\":{\"ram_total_mib\":1e30},\"devices\":[]}", "host.ram_total_mib is 1e+30, which is not between" },
        { "{\"host\":{\"ram_total_mib\":1e999},\"devices\":[]}", "not valid JSON" },
        { "{\"host\":{\"ram_total_mib\":99999999999999999999},\"devices\":[]}", "not valid JSON" },
        { "{\"host\":{\"ram_total_mib\":\"64\"},\"devices\":[]}", "host.ram_total_mib must be a number" },
        { "{\"host\":{\"ram_total_mib\":64,\"ram_free_mib\":65},\"devices\":[]}",
          "host.ram_free_mib is larger than ram_total_mib (65 > 64)" },
        { "{\"host\":{\"ram_total_mib\":64,\"cores\":1.5},\"devices\":[]}",
          "host.cores is 1.5, but must be an integer" },
        { "{\"host\":{\"ram_total_mib\":64,\"core\":4},\"devices\":[]}",
          "host.core is not a field; did you mean cores?" },
        { "{" HOST ",\"devices\":{}}", "rig.json: devices must be a list" },
        { "{" HOST ",\"devices\":[3]}", "rig.json: devices[0] must be an object" },
        { "{" HOST ",\"devices\":[{}]}", "devices[0].name is missing" },
        { "{" HOST ",\"devices\":[{\"name\":\"x\"}]}", "devices[0].total_mib is missing" },
        { "{" HOST ",\"devices\":[{\"name\":\"\",\"total_mib\":1}]}", "devices[0].name is empty" },
        { "{" HOST ",\"devices\":[{\"name\":7,\"total_mib\":1}]}", "devices[0].name must be a string" },
        { "{" HOST ",\"devices\":[{\"name\":\"x\",\"total_mib\":1}]}", "devices[0].backend is missing (CUDA, ROCm" },
        { "{" HOST ",\"devices\":[{\"name\":\"x\",\"total_mib\":0}]}",
          "devices[0].total_mib is 0: a device has memory" },
        { DEV(",\"free_mib\":101"), "rig.json: devices[0].free_mib is larger than total_mib (101 > 100)" },
        { DEV(",\"free_mib\":-1"), "devices[0].free_mib is -1, but cannot be less than 0" },
        { DEV(",\"free_mb\":50"), "devices[0].free_mb is not a field; did you mean free_mib?" },
        { DEV(",\"name\":\"y\""), "not valid JSON" }, /* the same key twice */
        { DEV(",\"bandwidth_gbs\":-936"), "devices[0].bandwidth_gbs is -936" },
        { DEV(",\"bandwidth_gbs\":1e6"), "devices[0].bandwidth_gbs is 1000000, which is not between 0 and 100000" },
        { DEV(",\"bandwidth_gbs\":null"), "devices[0].bandwidth_gbs must be a number" },
        { DEV(",\"compute_capability\":8.6"), "devices[0].compute_capability must be a string like \"8.6\"" },
        { DEV(",\"compute_capability\":\"8\""), "compute_capability must be a string like" },
        { DEV(",\"compute_capability\":\"8.6x\""), "compute_capability must be a string like" },
        { DEV(",\"compute_capability\":\"-8.6\""), "compute_capability must be a string like" },
        { DEV(",\"compute_capability\":\"8.-6\""), "compute_capability must be a string like" },
        { DEV(",\"compute_capability\":\"8. 6\""), "compute_capability must be a string like" },
        { DEV(",\"compute_capability\":\"8.600\""), "compute_capability must be a string like" },
        { DEV(",\"pcie_gen\":70000"), "devices[0].pcie_gen is 70000, which is not between 0 and 8" },
        { DEV(",\"pcie_lanes\":4.5"), "devices[0].pcie_lanes is 4.5, but must be an integer" },
        { DEV(",\"numa\":-2"), "devices[0].numa is -2, which is not between -1 and 1023" },
        { DEV(",\"uuid\":\"a\\u001b[31m\""), "devices[0].uuid contains a control character (0x1b)" },
        { DEV(",\"uuid\":\"a\\u009b31m\""), "devices[0].uuid contains a control character (0x9b)" },
        { DEV(",\"uuid\":\"a\\u0000b\""), "not valid JSON" },
        { DEV(",\"pci\":\"0123456789012345678901234567890123456789\""),
          "devices[0].pci is 40 bytes long, but at most 31" },
        { DEV("}, {\"name\":\"y\",\"backend\":\"../x\",\"total_mib\":1"),
          "devices[1].backend must be a word like CUDA" },
        { DEV(",\"note\":\"\xff\""), "not valid JSON" },
        { "{" HOST ",\"devices\":[],\"links\":3}", "rig.json: links must be a list" },
        { LINK("{\"a\":0}"), "links[0].b is missing" },
        { REDUCTION("{\"devices\":[0,1],\"us\":[1,2,3]}"), "reductions[0].us must be a list of 4 numbers" },
        { REDUCTION("{\"devices\":[0,1],\"us\":[1,2,0,4]}"), "reductions[0].us must be times in microseconds" },
        { REDUCTION("{\"devices\":[0,1],\"us\":[1,2,\"3\",4]}"), "reductions[0].us must be times in microseconds" },
        { REDUCTION("{\"devices\":[0,2],\"us\":[1,2,3,4]}"), "reductions[0].devices must be indices of the 2 devices" },
        { REDUCTION("{\"devices\":[1,1],\"us\":[1,2,3,4]}"), "reductions[0].devices must be a list of at least two" },
        { REDUCTION("{\"devices\":[0,1],\"us\":[1,2,3,4],\"way\":1}"), "reductions[0].way must be one of pair, nccl" },
        { REDUCTION("3"), "reductions[0].devices must be a list of at least two" },
        { LINK("],\"reductions\":{},\"x\":["), "reductions must be a list" },
        { LINK("],\"reduce_way\":\"magic\",\"x\":["), "reduce_way must be one of pair, nccl, butterfly" },
        { LINK("{\"a\":1,\"b\":1}"), "links[0].a is 1, but must be less than b (1)" },
        { LINK("{\"a\":0,\"b\":2}"), "links[0].b is 2, but there are only 2 devices" },
        { LINK("{\"a\":0,\"b\":400}"), "links[0].b is 400, which is not between" },
        { LINK("{\"a\":0,\"b\":1},{\"a\":0,\"b\":1}"), "links[1].a and b (0 and 1) are linked twice" },
        { LINK("{\"a\":0,\"b\":1,\"kind\":\"string\"}"), "links[0].kind must be one of nvlink" },
        { LINK("{\"a\":0,\"b\":1,\"p2p\":1}"), "links[0].p2p must be true or false" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_err err = { 0 };
        if (vr_profile_parse("rig.json", rows[i].text, strlen(rows[i].text), &m, &err))
            fail_msg("taken: %s", rows[i].text);
        assert_int_equal(err.code, VR_EFORMAT);
        if (!strstr(err.msg, rows[i].says)) fail_msg("%s\n  %s", rows[i].text, err.msg);
    }
}

static void test_too_much(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    VR_AUTO_BUF text = { 0 };
    vr_buf_adds(&text, "{" HOST ",\"devices\":[");
    for (int i = 0; i < 33; i++) vr_buf_addf(&text, "%s{\"name\":\"RTX 3090\",\"total_mib\":1}", i ? "," : "");
    vr_buf_adds(&text, "]}");
    assert_false(vr_profile_parse("rig.json", text.data, text.n, &m, &err));
    assert_non_null(strstr(err.msg, "rig.json: devices has 33 entries, at most 32"));
    vr_buf_clear(&text);
    vr_buf_addc(&text, '[', 100000); /* no stack is deep enough for what a file may hold */
    assert_false(vr_profile_parse("rig.json", text.data, text.n, &m, &err));
    assert_non_null(strstr(err.msg, "not valid JSON"));

    vr_buf_addc(&text, ' ', (1 << 20) + 1 - text.n);
    assert_true(vr_file_write(scratch("large.json"), text.data, text.n, &err));
    assert_false(vr_profile_load(scratch("large.json"), &m, &err));
    assert_non_null(strstr(err.msg, "larger than 1048576 bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rigs_round_trip),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_everything_round_trips),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_too_much),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
