/* Numbers as people write them, words as people mistype them. */
#include "test.h"

#include "base/text.h"

#include <float.h>
#include <math.h>

static void test_count(void **state)
{
    (void)state;
    static const struct {
        uint64_t n;
        const char *s;
    } rows[] = {
        { 0, "0" },
        { 7, "7" },
        { 999, "999" },
        { 1000, "1,000" },
        { 99999, "99,999" },
        { 100000, "100,000" },
        { 1234567, "1,234,567" },
        { 1000000000, "1,000,000,000" },
        { UINT64_MAX, "18,446,744,073,709,551,615" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_num out;
        const char *s = vr_fmt_count(&out, rows[i].n);
        assert_ptr_equal(s, out.s);
        assert_string_equal(s, rows[i].s);
    }
}

static void test_real(void **state)
{
    (void)state;
    static const struct {
        double x;
        int decimals;
        const char *s;
    } rows[] = {
        { 0, 1, "0.0" },        { 31.24, 1, "31.2" }, { 999.96, 1, "1,000.0" },          { 2015.6, 1, "2,015.6" },
        { 2015.6, 0, "2,016" }, { -150, 0, "-150" },  { -1234567.8, 1, "-1,234,567.8" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_num out;
        assert_string_equal(vr_fmt_real(&out, rows[i].x, rows[i].decimals), rows[i].s);
    }
}

static void test_mib(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        int decimals;
        const char *s;
    } rows[] = {
        { 0, 2, "0.00" },
        { 0, 0, "0" },
        { 1, 2, "0.00" },
        { 5242, 2, "0.00" }, /* 0.004999 */
        { 5243, 2, "0.01" }, /* 0.005000 and a bit */
        { VR_MIB, 0, "1" },
        { VR_MIB, 2, "1.00" },
        { VR_MIB / 2 + 1, 0, "1" },
        { VR_MIB / 2 - 1, 0, "0" },
        { VR_MIB * 3 / 2, 1, "1.5" },
        { 1000 * VR_MIB - 1, 2, "1,000.00" }, /* rounding makes a new group */
        { 1000 * VR_MIB - 1, 0, "1,000" },
        { 999 * VR_MIB, 1, "999.0" },
        { 29026874491, 2, "27,682.18" },
        { 24 * VR_GIB, 0, "24,576" },
        { UINT64_MAX, 2, "17,592,186,044,416.00" },
        { UINT64_MAX, 6, "17,592,186,044,416.000000" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_num out;
        assert_string_equal(vr_fmt_mib(&out, rows[i].bytes, rows[i].decimals), rows[i].s);
    }
}

static void test_bytes(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *s;
    } rows[] = {
        { 0, "0 B" },
        { 512, "512 B" },
        { 1023, "1,023 B" },
        { 1024, "1.00 KiB" },
        { 1536, "1.50 KiB" },
        { VR_MIB - 6, "1,023.99 KiB" },
        { VR_MIB - 1, "1.00 MiB" }, /* not 1,024.00 KiB */
        { VR_MIB, "1.00 MiB" },
        { 909177651, "867.06 MiB" },
        { VR_GIB - 1, "1.00 GiB" },
        { 52989159014, "49.35 GiB" },
        { 1024 * VR_GIB - 1, "1.00 TiB" },
        { 1024 * VR_GIB, "1.00 TiB" },
        { UINT64_MAX, "16,777,216.00 TiB" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_num out;
        assert_string_equal(vr_fmt_bytes(&out, rows[i].bytes), rows[i].s);
    }
}

static void test_short(void **state)
{
    (void)state;
    static const struct {
        double n;
        const char *s;
    } rows[] = {
        { 0, "0" },
        { 999, "999" },
        { 999.4, "999" },
        { 999.7, "1.00 K" },
        { 1000, "1.00 K" },
        { 8192, "8.19 K" },
        { 999994, "999.99 K" },
        { 999999, "1.00 M" },
        { 134515008, "134.52 M" },
        { 70553706560, "70.55 B" },
        { 999999999999, "1.00 T" },
        { 1.04e12, "1.04 T" },
        { 5e16, "50000.00 T" },
        { -1500, "-1.50 K" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_num out;
        assert_string_equal(vr_fmt_short(&out, rows[i].n), rows[i].s);
    }
    struct vr_num out;
    vr_fmt_short(&out, DBL_MAX); /* cut, not overrun */
    assert_true(strlen(out.s) < sizeof out.s);
}

static void test_parse_u64(void **state)
{
    (void)state;
    static const struct {
        const char *s;
        uint64_t min, max;
        bool ok;
        uint64_t v;
    } rows[] = {
        { "0", 0, 10, true, 0 },
        { "10", 0, 10, true, 10 },
        { "11", 0, 10, false },
        { "4", 5, 10, false },
        { "5", 5, 10, true, 5 },
        { "007", 0, 10, true, 7 }, /* decimal, not octal */
        { "010", 0, 100, true, 10 },
        { "18446744073709551615", 0, UINT64_MAX, true, UINT64_MAX },
        { "18446744073709551616", 0, UINT64_MAX, false },
        { "99999999999999999999999", 0, UINT64_MAX, false },
        { "", 0, UINT64_MAX, false },
        { " 1", 0, UINT64_MAX, false },
        { "1 ", 0, UINT64_MAX, false },
        { "\t1", 0, UINT64_MAX, false },
        { "+1", 0, UINT64_MAX, false },
        { "-1", 0, UINT64_MAX, false },
        { "-0", 0, UINT64_MAX, false },
        { "0x10", 0, UINT64_MAX, false },
        { "1e3", 0, UINT64_MAX, false },
        { "1.0", 0, UINT64_MAX, false },
        { "1,000", 0, UINT64_MAX, false },
        { "1k", 0, UINT64_MAX, false },
        { "all", 0, UINT64_MAX, false },
        { "\xd9\xa3", 0, UINT64_MAX, false }, /* a digit, but not ours */
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        uint64_t v = 4711;
        bool ok = vr_parse_u64(rows[i].s, rows[i].min, rows[i].max, &v);
        if (ok != rows[i].ok || v != (ok ? rows[i].v : 4711))
            fail_msg("'%s': %d, %llu", rows[i].s, ok, (unsigned long long)v);
    }
}

static void test_parse_double(void **state)
{
    (void)state;
    static const struct {
        const char *s;
        bool ok;
        double v;
    } rows[] = {
        { "0", true, 0 },
        { "0.35", true, 0.35 },
        { ".5", true, 0.5 },
        { "5.", true, 5 },
        { "-2.5", true, -2.5 },
        { "1e3", true, 1000 },
        { "1E+3", true, 1000 },
        { "25e-2", true, 0.25 },
        { "1008.4", true, 1008.4 },
        { "1e308", true, 1e308 },
        { "1e309", false },
        { "-1e309", false },
        { "", false },
        { ".", false },
        { "-", false },
        { "e5", false },
        { "1e", false },
        { "1e+", false },
        { "--1", false },
        { "+1", false },
        { "1-1", false },
        { "1.2.3", false },
        { " 1", false },
        { "1 ", false },
        { "1,5", false },
        { "0x10", false },
        { "0x1p3", false },
        { "inf", false },
        { "-inf", false },
        { "infinity", false },
        { "nan", false },
        { "-nan", false },
        { "nan(1)", false },
        { "1f", false },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        double v = 4711;
        bool ok = vr_parse_double(rows[i].s, &v);
        if (ok != rows[i].ok || fabs(v - (ok ? rows[i].v : 4711)) > 0) fail_msg("'%s': %d, %g", rows[i].s, ok, v);
    }
}

static const char *const options[] = {
    "", /* the title of a section: never what was meant */
    "model",      "host",         "port",        "n-ctx",          "n-batch",      "n-ubatch",        "n-gpu-layers",
    "gpus",       "devices",      "reserve-mib", "min-budget-mib", "device-order", "machine",         "json",
    "split-mode", "tensor-split", "optimize",    "cache-type-k",   "cache-type-v", "override-tensor",
};
static const char *const gpus[] = {
    "RTX 3090", "RTX 3090 Ti", "RTX 4080 Laptop", "RTX A6000", "RTX 5090", "H100 PCIe"
};

static void test_nearest(void **state)
{
    (void)state;
    static const struct {
        const char *word, *meant; /* NULL: nothing is close */
        bool gpu;
    } rows[] = {
        { "n-ctz", "n-ctx" },
        { "n_ctx", "n-ctx" },
        { "nctx", "n-ctx" },
        { "N-CTX", "n-ctx" },
        { "ctx", "n-ctx" },
        { "modle", "model" },
        { "mdel", "model" },
        { "models", "model" },
        { "hots", "host" },
        { "pot", "port" },
        { "prot", "port" },
        { "batch", "n-batch" },
        { "gpu", "gpus" },
        { "device", "devices" },
        { "deviec-ordre", "device-order" },
        { "reserve", "reserve-mib" },
        { "min_buget_mib", "min-budget-mib" },
        { "tensorsplit", "tensor-split" },
        { "optimise", "optimize" },
        { "cache-type-w", "cache-type-k" }, /* of two as near, the first */
        { "overide-tensor", "override-tensor" },
        { "", NULL },
        { "--", NULL },
        { "x", NULL },
        { "k", NULL },
        { "foo", NULL },
        { "cpu", NULL }, /* two edits from gpus, and something else */
        { "zzzz", NULL },
        { "seed", NULL },
        { "verbose", NULL },
        { "temperature", NULL },
        { "supercalifragilistic", NULL },
        { "override-abcdef", NULL }, /* more than half is right, but not two thirds */
        { "RTX 3090Ti", "RTX 3090 Ti", true },
        { "rtx3090ti", "RTX 3090 Ti", true },
        { "rtx-3090", "RTX 3090", true },
        { "RTX 4080 Labtop", "RTX 4080 Laptop", true },
        { "RTX 5900", "RTX 5090", true },
        { "RTXA6000", "RTX A6000", true },
        { "H100PCI", "H100 PCIe", true },
        { "Banana Pi", NULL, true },
        { "Arc B580", NULL, true },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        const char *const *names = rows[i].gpu ? gpus : options;
        size_t n = rows[i].gpu ? VR_COUNT(gpus) : VR_COUNT(options);
        int at = vr_nearest(rows[i].word, n, vr_nearest_in_array, names);
        assert_true(at >= -1 && at < (int)n);
        const char *got = at < 0 ? "(none)" : names[at], *want = rows[i].meant ? rows[i].meant : "(none)";
        if (strcmp(got, want) != 0) fail_msg("'%s' became '%s', not '%s'", rows[i].word, got, want);
    }
    assert_int_equal(vr_nearest("n-ctx", 0, vr_nearest_in_array, options), -1);
}

/* Words longer than what is compared: cut, not overrun. */
static void test_nearest_long(void **state)
{
    (void)state;
    char a[300], b[300];
    memset(a, 'a', sizeof a - 1);
    memset(b, 'b', sizeof b - 1);
    a[sizeof a - 1] = b[sizeof b - 1] = '\0';
    const char *const names[] = { b, a, "short" };
    assert_int_equal(vr_nearest(a, 3, vr_nearest_in_array, names), 1);
    assert_int_equal(vr_nearest("shortt", 3, vr_nearest_in_array, names), 2);
    memset(a, '-', sizeof a - 1);
    assert_int_equal(vr_nearest(a, 3, vr_nearest_in_array, names), -1);
}

static void test_width(void **state)
{
    (void)state;
    static const struct {
        const char *s;
        size_t n;
    } rows[] = {
        { "", 0 },           { "abc", 3 },     { "Zürich", 6 },
        { "─│", 2 },         { "🙂", 1 },    { "\033[31mred\033[0m", 3 },
        { "\033[1;31m", 0 }, { "\033[31", 0 }, { "\033x", 2 },
        { "a\033[0mb", 2 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) assert_int_equal(vr_text_width(rows[i].s), rows[i].n);
}

/* Cut before the first byte of a character, never after it. */
static void test_fit(void **state)
{
    (void)state;
    char out[5];
    static const struct {
        const char *s, *fits;
    } rows[] = { { "", "" },
                 { "abc", "abc" },
                 { "abcd", "abcd" },
                 { "abcde", "abcd" },
                 { "abc\xc3\xa4", "abc" },
                 { "ab\xc3\xa4", "ab\xc3\xa4" },
                 { "ab\xe2\x82\xac", "ab" },
                 { "\xf0\x9f\x98\x80x", "\xf0\x9f\x98\x80" } };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        vr_text_fit(out, sizeof out, rows[i].s);
        assert_string_equal(out, rows[i].fits);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_count),        cmocka_unit_test(test_real),    cmocka_unit_test(test_mib),
        cmocka_unit_test(test_bytes),        cmocka_unit_test(test_short),   cmocka_unit_test(test_parse_u64),
        cmocka_unit_test(test_parse_double), cmocka_unit_test(test_nearest), cmocka_unit_test(test_nearest_long),
        cmocka_unit_test(test_width),        cmocka_unit_test(test_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
