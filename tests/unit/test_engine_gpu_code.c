/* For which GPUs a CUDA library has code: libraries of our own making, whole and broken, and the one that is fetched.
 */
#include "test.h"

#include <elf.h>
#include <glob.h>

#include "base/file.h"
#include "engine/llama/gpu_code.h"

/* A shared library's sections without the rest: names, strings, and containers of `codes` ("p75 n86": PTX for 7.5,
 * machine code for 8.6), each code with 24 bytes of content, two containers of all. */
static void make(struct vr_buf *out, const char *codes, const char *needs)
{
    static const char names[] = "\0.shstrtab\0.dynstr\0.nv_fatbin";
    VR_AUTO_BUF entries = { 0 };
    VR_AUTO_BUF fat = { 0 };
    for (const char *at = codes; *at; at += strcspn(at, " "), at += *at == ' ') {
        uint32_t e[16] = { 0 };
        e[0] = (*at == 'p' ? 1u : 2u) | 0x101u << 16;
        e[1] = sizeof e;
        e[2] = 24;
        e[7] = (uint32_t)atoi(at + 1);
        vr_buf_add(&entries, (const char *)e, sizeof e);
        vr_buf_addc(&entries, 'x', 24);
    }
    for (int i = 0; i < 2; i++) {
        uint32_t head[4] = { 0xBA55ED50u, 1 | 16u << 16, (uint32_t)entries.n, 0 };
        vr_buf_add(&fat, (const char *)head, sizeof head);
        vr_buf_add(&fat, entries.data, entries.n);
        vr_buf_addc(&fat, '\0', 8); /* a gap */
    }
    Elf64_Ehdr e = { .e_shoff = sizeof e, .e_shnum = 4, .e_shstrndx = 1 };
    memcpy(e.e_ident, ELFMAG, SELFMAG);
    uint64_t at = sizeof e + 4 * sizeof(Elf64_Shdr);
    Elf64_Shdr s[4] = { { 0 },
                        { .sh_name = 1, .sh_offset = at, .sh_size = sizeof names },
                        { .sh_name = 11, .sh_offset = at + sizeof names, .sh_size = strlen(needs) + 1 },
                        { .sh_name = 19, .sh_offset = at + sizeof names + strlen(needs) + 1, .sh_size = fat.n } };
    vr_buf_add(out, (const char *)&e, sizeof e);
    vr_buf_add(out, (const char *)s, sizeof s);
    vr_buf_add(out, names, sizeof names);
    vr_buf_add(out, needs, strlen(needs) + 1);
    vr_buf_add(out, fat.data, fat.n);
}

static bool read_bytes(const struct vr_buf *b, size_t n, struct vr_gpu_codes *out, struct vr_err *err)
{
    const char *path = scratch("library.so");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(b->data, 1, n, f), n);
    fclose(f);
    return vr_gpu_codes_read(path, out, err);
}

/* What the two prebuilt libraries of the engine have, and what that means for each generation. */
static const char cuda13[] = "p75 p80 p90 n86 n89 n120 n121", cuda12[] = "p50 p61 p70 p75 p80 n86";
static const struct {
    unsigned major, minor;
    enum vr_gpu_code with13, with12;
} gpus[] = {
    { 6, 1, VR_CODE_NONE, VR_CODE_PTX },      { 7, 0, VR_CODE_NONE, VR_CODE_PTX },
    { 7, 5, VR_CODE_PTX, VR_CODE_PTX },       { 8, 0, VR_CODE_PTX, VR_CODE_PTX },
    { 8, 6, VR_CODE_NATIVE, VR_CODE_NATIVE }, { 8, 7, VR_CODE_NATIVE, VR_CODE_NATIVE },
    { 8, 9, VR_CODE_NATIVE, VR_CODE_NATIVE }, { 9, 0, VR_CODE_PTX, VR_CODE_PTX },
    { 10, 0, VR_CODE_PTX, VR_CODE_PTX },      { 10, 3, VR_CODE_PTX, VR_CODE_PTX },
    { 12, 0, VR_CODE_NATIVE, VR_CODE_PTX },   { 12, 1, VR_CODE_NATIVE, VR_CODE_PTX },
};

static void test_generations(void **state)
{
    (void)state;
    for (int k = 12; k <= 13; k++) {
        VR_AUTO_BUF lib = { 0 };
        struct vr_gpu_codes c;
        struct vr_err err = { 0 };
        make(&lib, k == 13 ? cuda13 : cuda12, k == 13 ? "libcudart.so.13" : "libcudart.so.12");
        if (!read_bytes(&lib, lib.n, &c, &err)) fail_msg("%s", err.msg);
        assert_string_equal(c.runtime, k == 13 ? "13" : "12");
        for (size_t i = 0; i < VR_COUNT(gpus); i++)
            if (vr_gpu_codes_for(&c, gpus[i].major, gpus[i].minor) != (k == 13 ? gpus[i].with13 : gpus[i].with12))
                fail_msg("CUDA %d, compute capability %u.%u", k, gpus[i].major, gpus[i].minor);
    }
}

/* Cut off anywhere, and with any byte of its heads changed, it is read or refused. */
static void test_broken(void **state)
{
    (void)state;
    VR_AUTO_BUF lib = { 0 };
    struct vr_gpu_codes c;
    struct vr_err err;
    make(&lib, "p75 n86", "libcudart.so.13");
    for (size_t n = 1; n < lib.n; n++) {
        err = (struct vr_err){ 0 };
        if (!read_bytes(&lib, n, &c, &err)) assert_contains(err.msg, "it contains no GPU code");
        assert_true(c.n_ptx <= 1 && c.n_native <= 1);
    }
    for (size_t i = 0; i < lib.n; i++) {
        char was = lib.data[i];
        lib.data[i] = (char)~was;
        err = (struct vr_err){ 0 };
        if (!read_bytes(&lib, lib.n, &c, &err)) assert_true(*err.msg);
        lib.data[i] = was;
    }
    assert_false(vr_gpu_codes_read(scratch("nothing.so"), &c, &err));
    assert_contains(err.msg, "cannot be read");
}

/* The libraries that tools/engine-fetch brings say what the table above says. */
static void check_fetched(const char *where, bool is13, size_t *n)
{
    glob_t g = { 0 };
    struct vr_gpu_codes c;
    struct vr_err err = { 0 };
    if (glob(where, 0, NULL, &g) != 0) g.gl_pathc = 0;
    for (size_t k = 0; k < g.gl_pathc; k++, ++*n) {
        if (!vr_gpu_codes_read(g.gl_pathv[k], &c, &err)) fail_msg("%s", err.msg);
        assert_string_equal(c.runtime, is13 ? "13" : "12");
        for (size_t i = 0; i < VR_COUNT(gpus); i++)
            if (vr_gpu_codes_for(&c, gpus[i].major, gpus[i].minor) != (is13 ? gpus[i].with13 : gpus[i].with12))
                fail_msg("%s: compute capability %u.%u", g.gl_pathv[k], gpus[i].major, gpus[i].minor);
    }
    globfree(&g);
}

static void test_fetched(void **state)
{
    (void)state;
    size_t n = 0;
    check_fetched("build/engine/cuda-[0-9]*/libggml-cuda.so", true, &n);
    check_fetched("build/engine/cuda-ext-[0-9]*/libggml-cuda.so", false, &n);
    if (!n) skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generations),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_fetched),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
