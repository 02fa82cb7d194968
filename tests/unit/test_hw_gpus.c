/* The table of known cards: plausible, in agreement with the rigs, and found by what people type. */
#include "test.h"

#include <dirent.h>
#include <math.h>
#include <jansson.h>

#include "base/text.h"
#include "hw/gpus.h"

static void test_rows(void **state)
{
    (void)state;
    size_t n = vr_gpu_count();
    assert_true(n >= 170);
    assert_null(vr_gpu_at(n));
    size_t n_amd = 0, n_intel = 0;
    for (size_t i = 0; i < n; i++) {
        const struct vr_gpu *g = vr_gpu_at(i);
        bool cuda = !strcmp(g->backend, "CUDA");
        n_amd += !strcmp(g->backend, "ROCm");
        n_intel += !strcmp(g->backend, "SYCL");
        assert_true(cuda || !strcmp(g->backend, "ROCm") || !strcmp(g->backend, "SYCL"));
        assert_true(!strncmp(g->name, cuda ? "NVIDIA " : !strcmp(g->backend, "ROCm") ? "AMD " : "Intel ", 4));
        assert_true(strlen(g->name) < sizeof((struct vr_device *)0)->name);
        assert_true(g->mib >= 2048 && g->mib <= 300 * 1024);
        assert_true(g->gbs >= 40 && g->gbs <= 8500);
        assert_true(g->tflops >= 1 && g->tflops <= 2600);
        assert_true(g->pcie_gen >= 3 && g->pcie_gen <= 6);
        assert_true(g->pcie_lanes == 4 || g->pcie_lanes == 8 || g->pcie_lanes == 16);
        if (cuda)
            assert_true(g->cc_major >= 6 && g->cc_major <= 12 && g->cc_minor <= 9);
        else
            assert_int_equal(g->cc_major, 0);
        /* the time to read all of it once: 14 ms (RTX 3070 Ti) to 471 ms (GB10) */
        double ms = g->mib * 1.048576 / g->gbs;
        if (ms < 13 || ms > 480) print_message("%s: %g ms to read its memory\n", g->name, ms);
        assert_true(ms >= 13 && ms <= 480);
    }
    assert_true(n_amd >= 50 && n_intel >= 10);
}

/* No name may stand for another row's: each is found by itself, and the words of no two are the same. */
static void test_unique(void **state)
{
    (void)state;
    for (size_t i = 0; i < vr_gpu_count(); i++) {
        const char *name = vr_gpu_at(i)->name;
        for (size_t j = 0; j < i; j++)
            if (vr_gpu_match(name, vr_gpu_at(j)->name) == VR_GPU_SAME) fail_msg("%s = %s", name, vr_gpu_at(j)->name);
        assert_ptr_equal(vr_gpu_meant(name, 0), vr_gpu_at(i));
        assert_ptr_equal(vr_gpu_meant(vr_gpu_short(name), 0), vr_gpu_at(i));
        assert_string_equal(vr_gpu_known(name, vr_gpu_at(i)->mib)->name, name);
    }
}

/* The driver's clock and bus width give the table's GB/s: the cards that NVML was seen to answer so. */
static void test_clock_rule(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double mhz, bits;
    } rows[] = {
        { "GTX 1080", 5005, 256 },  { "RTX 3090", 9751, 384 },        { "RTX 4090", 10501, 384 },
        { "RTX 5090", 14001, 512 }, { "RTX 4080 Laptop", 9001, 192 }, { "RTX 3060", 7501, 192 },
        { "A40", 7251, 384 },       { "Tesla T4", 5001, 256 },        { "A100-SXM4-80GB", 1593, 5120 },
        { "H100 SXM", 2619, 5120 }, { "V100-SXM2-32GB", 877, 4096 },  { "B200", 3996, 7680 },
        { "H200", 3201, 6016 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        const struct vr_gpu *g = vr_gpu_meant(rows[i].name, 0);
        assert_non_null(g);
        double gbs = rows[i].mhz * 2 * rows[i].bits / 8 / 1000;
        if (fabs(gbs / g->gbs - 1) > 0.01) fail_msg("%s: %g by clock, %g in the table", rows[i].name, gbs, g->gbs);
    }
}

/* Two figures of the rigs follow another rule than the table's, and are known: the RTX 2060's is with fp16 accumulate,
 * the RTX 4080 Laptop's is the desktop card's. */
static bool other_rule(const char *name, double rig)
{
    return (strstr(name, "2060") && rig == 52) || (strstr(name, "4080 Laptop") && rig == 97);
}

static void check_rig(const char *path)
{
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    size_t i;
    json_t *d;
    json_array_foreach(json_object_get(root, "devices"), i, d)
    {
        const char *name = json_string_value(json_object_get(d, "name"));
        double mib = json_number_value(json_object_get(d, "total_mib"));
        const struct vr_gpu *g = vr_gpu_known(name, (uint64_t)mib);
        assert_non_null(g);
        assert_string_equal(g->name, name);
        assert_true(fabs(mib / g->mib - 1) < 0.06); /* an A40 with ECC off has 5 % more than as shipped */
        assert_true(fabs(json_number_value(json_object_get(d, "bandwidth_gbs")) - g->gbs) < 1);
        double tflops = json_number_value(json_object_get(d, "fp16_tflops"));
        if (fabs(tflops - g->tflops) > 1 && !other_rule(name, tflops)) fail_msg("%s: %g", name, tflops);
        char cc[16];
        snprintf(cc, sizeof cc, "%u.%u", g->cc_major, g->cc_minor);
        assert_string_equal(cc, json_string_value(json_object_get(d, "compute_capability")));
        /* what we say is free on an idle card: within 1 % of the headless rigs. The laptop's cards drive screens, and
         * the A40 runs without the ECC that it is shipped with. */
        double free_mib = json_number_value(json_object_get(d, "free_mib"));
        double guess = (double)vr_device_free_guess(g->mib * VR_MIB) / (double)VR_MIB;
        if (!strstr(path, "laptop") && !strstr(name, "A40")) assert_true(fabs(guess / free_mib - 1) < 0.01);
    }
    json_decref(root);
}

static void test_rigs(void **state)
{
    (void)state;
    DIR *dir = opendir("tests/fixtures/rigs");
    assert_non_null(dir);
    size_t n = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        char path[512];
        if (!strstr(e->d_name, ".json")) continue;
        snprintf(path, sizeof path, "tests/fixtures/rigs/%s", e->d_name);
        check_rig(path);
        n++;
    }
    closedir(dir);
    assert_int_equal(n, 6);
}

static void test_meant(void **state)
{
    (void)state;
    static const struct {
        const char *typed;
        uint64_t mib;
        const char *name; /* NULL: nothing by that name */
    } rows[] = {
        { "3090ti", 0, "NVIDIA GeForce RTX 3090 Ti" },
        { "rtx-3090", 0, "NVIDIA GeForce RTX 3090" },
        { "GeForce RTX3090", 0, "NVIDIA GeForce RTX 3090" },
        { "4080 mobile", 0, "NVIDIA GeForce RTX 4080 Laptop GPU" },
        { "4080M", 0, "NVIDIA GeForce RTX 4080 Laptop GPU" },
        { "4070 Ti S", 0, NULL },
        { "4070S", 0, "NVIDIA GeForce RTX 4070 SUPER" },
        { "4070 ti super", 0, "NVIDIA GeForce RTX 4070 Ti SUPER" },
        /* memory sizes */
        { "RTX 3060", 0, "NVIDIA GeForce RTX 3060" },
        { "3060 12GB", 0, "NVIDIA GeForce RTX 3060" },
        { "3060 8 GB", 0, "NVIDIA GeForce RTX 3060 8GB" },
        { "RTX 3060", 8192, "NVIDIA GeForce RTX 3060 8GB" },
        { "4060ti 16g", 0, "NVIDIA GeForce RTX 4060 Ti 16GB" },
        { "1060", 0, "NVIDIA GeForce GTX 1060 3GB" },
        { "A100", 0, "NVIDIA A100-PCIE-40GB" },
        { "A100 80GB", 0, "NVIDIA A100 80GB PCIe" },
        { "A100", 80000, "NVIDIA A100 80GB PCIe" },
        { "A100 SXM 80GB", 0, "NVIDIA A100-SXM4-80GB" },
        { "A100 SXM", 0, "NVIDIA A100-SXM4-40GB" },
        { "A770", 0, "Intel Arc A770" },
        { "Intel(R) Arc(TM) A770 Graphics", 8192, "Intel Arc A770 8GB" },
        { "MI50 32GB", 0, "AMD Instinct MI50 32GB" },
        { "GH200 480GB", 0, "NVIDIA GH200 480GB" },
        { "GH200 144GB", 0, "NVIDIA GH200 144G HBM3e" },
        /* families and aliases */
        { "H100", 0, "NVIDIA H100 PCIe" },
        { "H100 SXM", 0, "NVIDIA H100 80GB HBM3" },
        { "RTX PRO 6000", 0, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition" },
        { "RTX 6000", 0, "NVIDIA Quadro RTX 6000" },
        { "6000 Ada", 0, "NVIDIA RTX 6000 Ada Generation" },
        { "A6000", 0, "NVIDIA RTX A6000" },
        { "W7900", 0, "AMD Radeon PRO W7900" },
        { "W7800", 0, "AMD Radeon PRO W7800" },
        { "PRO 5000", 0, "NVIDIA RTX PRO 5000 Blackwell" },
        { "PRO 4000", 0, "NVIDIA RTX PRO 4000 Blackwell" },
        { "PRO 5000 72GB", 0, "NVIDIA RTX PRO 5000 72GB Blackwell" },
        { "R9700", 0, "AMD Radeon AI PRO R9700" },
        { "7900 xtx", 0, "AMD Radeon RX 7900 XTX" },
        { "B60", 0, "Intel Arc Pro B60" },
        { "Strix Halo", 0, "AMD Radeon 8060S Graphics" },
        { "DGX Spark", 0, "NVIDIA GB10" },
        { "P40", 0, "NVIDIA Tesla P40" },
        { "L40S", 0, "NVIDIA L40S" },
        /* nothing */
        { "100", 0, NULL },
        { "A", 0, NULL },
        { "30", 0, NULL },
        { "RTX", 0, NULL },
        { "laptop", 0, NULL },
        { "RX 7700", 0, NULL },
        { "4050", 0, NULL },
        { "X", 0, NULL },
        { "", 0, NULL },
        { "MI25X", 0, NULL },
        { "RTX 3095", 0, NULL },
        { "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33", 0, NULL },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        const struct vr_gpu *g = vr_gpu_meant(rows[i].typed, rows[i].mib);
        if (!g || !rows[i].name) {
            if (g || rows[i].name) fail_msg("%s: %s", rows[i].typed, g ? g->name : "nothing");
            continue;
        }
        assert_string_equal(g->name, rows[i].name);
    }
}

/* A driver's name must be the card's whole name: "A10G" is no A10, a virtual GPU is no card. */
static void test_known(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t mib;
        const char *row;
    } rows[] = {
        { "NVIDIA GeForce RTX 3060", 8192, "NVIDIA GeForce RTX 3060 8GB" },
        { "NVIDIA GeForce RTX 3060", 12288, "NVIDIA GeForce RTX 3060" },
        { "GeForce RTX 2080 Ti", 11019, "NVIDIA GeForce RTX 2080 Ti" },
        { "NVIDIA GeForce RTX 3080 Laptop GPU", 16384, "NVIDIA GeForce RTX 3080 Laptop GPU 16GB" },
        { "NVIDIA A10G", 23028, "NVIDIA A10G" },
        { "Tesla V100-SXM2-32GB", 32510, "NVIDIA Tesla V100-SXM2-32GB" },
        { "NVIDIA A100", 40960, NULL },
        { "GRID A100-10C", 10240, NULL },
        { "NVIDIA A40-48Q", 49152, NULL },
        { "llvmpipe", 0, NULL },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        const struct vr_gpu *g = vr_gpu_known(rows[i].name, rows[i].mib);
        if (!rows[i].row)
            assert_null(g);
        else
            assert_string_equal(g ? g->name : "nothing", rows[i].row);
    }
}

static void test_nearest(void **state)
{
    (void)state;
    assert_string_equal(vr_gpu_nearest("RTX 3095"), "RTX 3090");
    assert_string_equal(vr_gpu_nearest("rtx 3900 ti"), "RTX 3090 Ti");
    assert_string_equal(vr_gpu_nearest("L40SX"), "L40S");
    assert_null(vr_gpu_nearest("Voodoo Banshee"));
    assert_string_equal(vr_gpu_short("NVIDIA GeForce RTX 3090"), "RTX 3090");
    assert_string_equal(vr_gpu_short("AMD Instinct MI50"), "Instinct MI50");
    assert_string_equal(vr_gpu_short("NVIDIA"), "NVIDIA");
    assert_string_equal(vr_gpu_short(""), "");
}

/* A label names its row and no other; a name that means several sizes means one with each of them. */
static void test_labels(void **state)
{
    (void)state;
    size_t asked = 0;
    for (size_t i = 0; i < vr_gpu_count(); i++) {
        const struct vr_gpu *g = vr_gpu_at(i);
        char label[128];
        unsigned gib[VR_GPU_SIZES];
        vr_gpu_label(g, label, sizeof label);
        assert_ptr_equal(vr_gpu_meant(label, 0), g);
        if (vr_gpu_sizes(label, gib) > 1) fail_msg("%s is no label", label);
        size_t n = vr_gpu_sizes(g->name, gib);
        bool own = n < 2;
        for (size_t k = 0; k < n; k++) {
            char sized[128];
            snprintf(sized, sizeof sized, "%s %uGB", g->name, gib[k]);
            const struct vr_gpu *h = vr_gpu_meant(sized, 0);
            assert_non_null(h);
            assert_int_equal(vr_gpu_gib(h), gib[k]);
            own = own || gib[k] == vr_gpu_gib(g);
        }
        assert_true(own);
        asked += n > 1;
    }
    assert_int_equal(asked,
                     15); /* rows whose own name does not say which: those of gpus.def that have a sized sibling */
}

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *typed;
        size_t n;
        unsigned gib[VR_GPU_SIZES];
    } rows[] = {
        { "RTX 3090", 1, { 24 } },     { "RTX 5060 Ti", 2, { 8, 16 } }, { "RTX 5060 Ti 16GB", 0, { 0 } },
        { "A100", 2, { 40, 80 } },     { "A100 SXM", 2, { 40, 80 } },   { "V100", 2, { 16, 32 } },
        { "H100", 1, { 80 } },         { "H100 NVL", 1, { 94 } },       { "GH200 480GB", 0, { 0 } },
        { "PRO 5000", 2, { 48, 72 } }, { "1060", 2, { 3, 6 } },         { "Strix Halo", 1, { 96 } },
        { "no such card", 0, { 0 } },  { "RTX PRO 6000", 1, { 96 } },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        unsigned gib[VR_GPU_SIZES];
        size_t n = vr_gpu_sizes(rows[i].typed, gib);
        if (n != rows[i].n) fail_msg("%s: %zu sizes", rows[i].typed, n);
        for (size_t k = 0; k < n; k++) assert_int_equal(gib[k], rows[i].gib[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),    cmocka_unit_test(test_unique), cmocka_unit_test(test_clock_rule),
        cmocka_unit_test(test_rigs),    cmocka_unit_test(test_meant),  cmocka_unit_test(test_known),
        cmocka_unit_test(test_nearest), cmocka_unit_test(test_labels), cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
