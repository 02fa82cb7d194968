/* What was measured: kept, read again with suspicion, and taken over only where the machine is still the same. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "hw/profile.h"
#include "hw/select.h"

static struct vr_machine saved, now;

static void add_card(struct vr_machine *m, const char *name, const char *uuid, uint64_t mib)
{
    struct vr_device *d = vr_machine_add(m);
    snprintf(d->name, sizeof d->name, "%s", name);
    snprintf(d->backend, sizeof d->backend, "CUDA");
    snprintf(d->uuid, sizeof d->uuid, "%s", uuid);
    d->total_bytes = d->free_bytes = mib * VR_MIB;
}

static void measure(struct vr_measured *x, double gbs)
{
    snprintf(x->when, sizeof x->when, "2026-11-15T09:30:00Z");
    snprintf(x->engine, sizeof x->engine, "0.5.0");
    snprintf(x->driver, sizeof x->driver, "NVIDIA 580");
    x->runtime_bytes = 600 * VR_MIB + 12345;
    x->blas_bytes = 96 * VR_MIB;
    x->launch_us = 1.9, x->prompt_submit_us = 4.5, x->switch_us = 8, x->prompt_switch_us = 1.0 / 7;
    x->step_us = 1.0 / 3;
    x->product_us = 0.25, x->prompt_product_us = 17, x->attention_gbs = 3000, x->attention_tflops = 200;
    x->up_gbs = 50, x->up_us = 8, x->down_gbs = 51, x->down_us = 9;
    x->types[x->n_types++] =
        (struct vr_measured_type){ "q4_K", gbs, 150, gbs / 2, 60, 3, 31, 0.5, 0.75, 1.5, 4.25, 1.25, 405 };
    x->types[x->n_types++] = (struct vr_measured_type){ "f16", gbs * 1.1, 500, 0, 0, gbs * 2, 12.5 };
    x->cache_mib = 44.5;
    x->ops[x->n_ops++] =
        (struct vr_measured_op){ "FLASH_ATTN_EXT", "q8_0", 3.5, 1.5, 8192, 870, 0.1, 0, 240, 0.25, 0.125 };
    x->ops[x->n_ops++] = (struct vr_measured_op){ "RMS_NORM", "", 2.25, 0, 0, 0, 0, 1900, 0, 0 };
}

static void make_saved(void)
{
    memset(&saved, 0, sizeof saved);
    snprintf(saved.driver, sizeof saved.driver, "NVIDIA 580");
    snprintf(saved.host.cpu, sizeof saved.host.cpu, "a processor");
    saved.host.cores = 16;
    saved.host.ram_total_bytes = saved.host.ram_free_bytes = 65536 * VR_MIB;
    saved.host.bandwidth_gbs = 80;
    measure(&saved.host.measured, 80);
    measure(&saved.host.alone, 85);
    add_card(&saved, "A", "GPU-1", 24000);
    add_card(&saved, "A", "GPU-2", 24000);
    add_card(&saved, "B", "GPU-3", 12000);
    measure(&saved.devices[0].measured, 900);
    measure(&saved.devices[1].measured, 910);
    saved.links[saved.n_links++] = (struct vr_link){ .a = 0, .b = 1, .measured_gbs = 20, .measured_us = 11 };
    vr_machine_keep_reduction(&saved, &(struct vr_measured_reduction){ 3, { 30, 60, 200, 1500 } });
    vr_machine_keep_reduction(&saved, &(struct vr_measured_reduction){ 7, { 60, 90, 400, 2500 } });
    vr_machine_number(&saved);
}

static void test_round_trip(void **state)
{
    (void)state;
    make_saved();
    VR_AUTO_BUF text = { 0 };
    struct vr_err err = { 0 };
    vr_profile_print(&saved, &text);
    if (!vr_profile_parse("saved", vr_buf_str(&text), text.n, &now, &err)) fail_msg("%s", err.msg);
    assert_memory_equal(&now.devices[0].measured, &saved.devices[0].measured, sizeof saved.devices[0].measured);
    assert_memory_equal(&now.host.measured, &saved.host.measured, sizeof saved.host.measured);
    assert_memory_equal(&now.host.alone, &saved.host.alone, sizeof saved.host.alone);
    assert_string_equal(now.devices[2].measured.when, "");
    assert_true(now.links[0].measured_gbs == 20 && now.links[0].measured_us == 11);
    assert_null(strstr(vr_buf_str(&text), "\"expert_gbs\": 0"));
}

/* One card changed, one moved, the host the same. */
static void test_takes_over(void **state)
{
    (void)state;
    make_saved();
    memset(&now, 0, sizeof now);
    snprintf(now.driver, sizeof now.driver, "NVIDIA 580");
    now.host = saved.host;
    memset(&now.host.measured, 0, sizeof now.host.measured);
    now.host.bandwidth_gbs = 0;
    add_card(&now, "A", "GPU-2", 24000);
    add_card(&now, "C", "GPU-1", 24000); /* another card in the same place */
    add_card(&now, "A", "GPU-9", 24010); /* a new one of a known make */
    add_card(&now, "A", "GPU-8", 48000); /* a new one with other memory */
    add_card(&now, "B", "GPU-3", 12000); /* was there, never measured */
    vr_machine_number(&now);
    now.links[now.n_links++] = (struct vr_link){ .a = 0, .b = 2, .gbs = 5 };
    assert_int_equal(vr_machine_calibrate(&now, &saved, "0.5.0"), 2);
    assert_true(now.devices[0].measured.types[0].gbs == 910);
    assert_string_equal(now.devices[1].measured.when, "");
    assert_true(now.devices[2].measured.types[0].gbs == 900);
    assert_string_equal(now.devices[3].measured.when, "");
    assert_string_equal(now.devices[4].measured.when, "");
    assert_true(now.host.measured.types[0].gbs == 80 && now.host.bandwidth_gbs == 80);
    assert_int_equal(now.host.bandwidth_from, VR_FROM_BENCH);
    assert_true(now.links[0].measured_gbs == 20 && now.links[0].gbs == 5);
    assert_int_equal(now.n_reductions, 1); /* the other one's third card is none of those that were measured */
    assert_true(now.reductions[0].devices == 5 && now.reductions[0].us[3] == 1500);
    assert_string_equal(now.note, "");
    assert_int_equal(vr_device_reserve(&now.devices[0]), (600 + 96 + VR_RESERVE_MARGIN_MIB) * VR_MIB + 12345);
    assert_int_equal(vr_device_reserve(&now.devices[1]), VR_RESERVE_DEFAULT_MIB * VR_MIB);
}

/* The same computer with its cards hidden: the host is alone. */
static void test_without_cards(void **state)
{
    (void)state;
    make_saved();
    memset(&now, 0, sizeof now);
    now.host = saved.host;
    memset(&now.host.measured, 0, sizeof now.host.measured);
    memset(&now.host.alone, 0, sizeof now.host.alone);
    assert_int_equal(vr_machine_calibrate(&now, &saved, "0.5.0"), 0);
    assert_true(now.host.measured.types[0].gbs == 85);
}

/* Speeds of another driver or engine are better than none; its memory is not to be trusted. */
static void test_other_software(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        make_saved();
        memset(&now, 0, sizeof now);
        snprintf(now.driver, sizeof now.driver, "%s", which ? "NVIDIA 580" : "NVIDIA 590");
        snprintf(now.host.cpu, sizeof now.host.cpu, "another processor");
        add_card(&now, "A", "GPU-1", 24000);
        vr_machine_number(&now);
        assert_int_equal(vr_machine_calibrate(&now, &saved, which ? "0.6.0" : "0.5.0"), 1);
        assert_true(now.devices[0].measured.types[0].gbs == 900);
        assert_int_equal(vr_device_reserve(&now.devices[0]), VR_RESERVE_DEFAULT_MIB * VR_MIB);
        assert_non_null(strstr(now.note, which ? "CUDA0 was calibrated with another engine: run 'vram-llm bench' again."
                                               : "CUDA0 was calibrated with another driver"));
        assert_string_equal(now.host.measured.when, "");
    }
}

/* The middle of two times; the better one when they are far apart, and the only one there is. */
static void test_again(void **state)
{
    (void)state;
    static const struct {
        double rate, row_ns, again, row_ns_again, want, want_row_ns;
    } rows[] = { { 60, 2, 50, 4, 600.0 / 11, 3 }, { 50, 2, 60, 4, 600.0 / 11, 3 }, { 60, 2, 40, 4, 60, 2 },
                 { 40, 2, 60, 4, 60, 4 },         { 0, 0, 60, 4, 60, 4 },          { 60, 2, 0, 0, 60, 2 } };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        double rate = rows[i].rate, row_ns = rows[i].row_ns, alone = rows[i].rate;
        vr_rate_again(&rate, rows[i].again, &row_ns, rows[i].row_ns_again);
        vr_rate_again(&alone, rows[i].again, NULL, 0);
        if (fabs(rate - rows[i].want) > 1e-9 || alone != rate || row_ns != rows[i].want_row_ns)
            fail_msg("row %zu: %g and %g", i, rate, row_ns);
    }
}

static void test_hostile(void **state)
{
    (void)state;
    static const struct {
        const char *measured, *says;
    } rows[] = {
        { "3", "devices[0].measured must be an object" },
        { "{}", "devices[0].measured.when is missing" },
        { "{\"when\": \"x\", \"ops\": 3}", "devices[0].measured.ops must be a list" },
        { "{\"when\": \"x\", \"ops\": [ { \"us\": 3 } ]}", "devices[0].measured.ops[0].name is missing" },
        { "{\"when\": \"\"}", "devices[0].measured.when is empty" },
        { "{\"when\": \"x\", \"launch_us\": -1}", "devices[0].measured.launch_us is -1, but cannot be less than 0" },
        { "{\"when\": \"x\", \"launch_us\": 1e300}", "launch_us is 1e+300" },
        { "{\"when\": \"x\", \"runtime_mib\": 1e9}", "runtime_mib is 1000000000" },
        { "{\"when\": \"x\", \"lunch_us\": 1}", "lunch_us is not a field; did you mean launch_us?" },
        { "{\"when\": \"x\", \"types\": 3}", "devices[0].measured.types must be a list" },
        { "{\"when\": \"x\", \"types\": [3]}", "devices[0].measured.types[0] must be an object" },
        { "{\"when\": \"x\", \"types\": [{\"gbs\": 3}]}", "devices[0].measured.types[0].name is missing" },
        { "{\"when\": \"x\", \"types\": [{\"name\": \"\"}]}", "devices[0].measured.types[0].name is empty" },
        { "{\"when\": \"x\", \"types\": [{\"name\": \"q4_K\", \"gbs\": \"fast\"}]}", "types[0].gbs must be a number" },
        { "{\"when\": \"x\", \"types\": [{\"name\": \"a name that is far too long\"}]}",
          "types[0].name is 27 bytes long" },
        { "{\"when\": \"\\u001b[31m\"}", "devices[0].measured.when contains a control character" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        char text[512];
        struct vr_err err = { 0 };
        int n = snprintf(text, sizeof text,
                         "{\"host\": {\"ram_total_mib\": 1}, \"devices\": [{\"name\": \"A\", \"backend\": \"CUDA\", "
                         "\"total_mib\": 1000, \"measured\": %s}]}",
                         rows[i].measured);
        assert_false(vr_profile_parse("rig.json", text, (size_t)n, &now, &err));
        if (!strstr(err.msg, rows[i].says)) fail_msg("row %zu: %s", i, err.msg);
    }
    /* more types than there is room for */
    VR_AUTO_BUF text = { 0 };
    struct vr_err err = { 0 };
    vr_buf_adds(&text,
                "{\"devices\": [], \"host\": {\"ram_total_mib\": 1, \"measured\": {\"when\": \"x\", \"types\": [");
    for (int i = 0; i <= VR_MAX_MEASURED_TYPES; i++) vr_buf_addf(&text, "%s{\"name\": \"t%d\"}", i ? "," : "", i);
    vr_buf_adds(&text, "]}}}");
    assert_false(vr_profile_parse("rig.json", vr_buf_str(&text), text.n, &now, &err));
    assert_non_null(strstr(err.msg, "host.measured.types has 49 entries, at most 48"));
}

static void test_path(void **state)
{
    (void)state;
    char path[64];
    setenv("XDG_DATA_HOME", "/data", 1);
    assert_true(vr_profile_own_path(path, sizeof path));
    assert_string_equal(path, "/data/vram-llm/machine.json");
    assert_false(vr_profile_own_path(path, 10));
    setenv("XDG_DATA_HOME", "relative", 1);
    setenv("HOME", "/home/me", 1);
    assert_true(vr_profile_own_path(path, sizeof path));
    assert_string_equal(path, "/home/me/.local/share/vram-llm/machine.json");
    unsetenv("HOME");
    assert_false(vr_profile_own_path(path, sizeof path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_takes_over), cmocka_unit_test(test_without_cards),
        cmocka_unit_test(test_other_software), cmocka_unit_test(test_hostile),    cmocka_unit_test(test_path),
        cmocka_unit_test(test_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
