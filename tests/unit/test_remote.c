/* What decides about strangers' bytes: URLs, headers, names, the hub's list, a download's state and its checksum. */
#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "remote/elsewhere.h"
#include "remote/partial.h"
#include "remote/sum.h"
#include "remote/url.h"

static void test_urls(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        uint16_t port;
        bool loopback;
    } good[] = {
        { "https://Hub.example/a/b.gguf", "hub.example", 443, false },
        { "http://127.0.0.1:8080", "127.0.0.1", 8080, true },
        { "http://[::1]:1/x?y", "::1", 1, true },
        { "HTTP://localhost/x", "localhost", 80, true },
        { "http://127.0.0.1.example/x", "127.0.0.1.example", 80, false },
        { "http://127.1/x", "127.1", 80, false },
    };
    static const char *const bad[] = { "ftp://h/x",       "https://",          "https://a b/",  "https://u:p@h/x",
                                       "https://h:0/x",   "https://h:99999/x", "https://h:x/x", "https://[::1/x",
                                       "https://h/\nX:y", "https://h\\@i/x",   "file:///etc/x", "hf:a/b",
                                       "https://[::1]x/", "https://:80/x",     "https://h:/x",  "" };
    struct vr_url u;
    for (size_t i = 0; i < VR_COUNT(good); i++) {
        assert_true(vr_url_parse(good[i].text, &u));
        assert_string_equal(u.host, good[i].host);
        assert_int_equal(u.port, good[i].port);
        assert_int_equal(vr_url_is_loopback(&u), good[i].loopback);
    }
    for (size_t i = 0; i < VR_COUNT(bad); i++)
        if (vr_url_parse(bad[i], &u)) fail_msg("'%s' was taken", bad[i]);
    assert_true(vr_url_same_origin("https://h/a", "https://H:443/b"));
    assert_false(vr_url_same_origin("https://h/a", "http://h/a"));
    assert_false(vr_url_same_origin("https://h/a", "https://h:444/a"));
    assert_false(vr_url_same_origin("https://h/a", "https://h.evil/a"));
    assert_false(vr_url_same_origin("https://h@evil/a", "https://h/a"));
}

static void test_files_of_urls(void **state)
{
    (void)state;
    static const struct {
        const char *url, *file; /* NULL: none */
    } cases[] = { { "https://h/a/b%20c.gguf?x=/y.gguf", "b c.gguf" },
                  { "https://h/", NULL },
                  { "https://h", NULL },
                  { "https://h/%2e%2e", NULL },
                  { "https://h/a%2fb", NULL },
                  { "https://h/a%00b", NULL },
                  { "https://h/.x", NULL },
                  { "https://h/a%", "a%" } };
    for (size_t i = 0; i < VR_COUNT(cases); i++) {
        struct vr_url u;
        char file[64];
        assert_true(vr_url_parse(cases[i].url, &u));
        assert_int_equal(vr_url_file(&u, file, sizeof file), cases[i].file != NULL);
        if (cases[i].file) assert_string_equal(file, cases[i].file);
    }
    assert_true(vr_url_safe_path("a/b-1.gguf"));
    assert_true(vr_url_safe_path("\xc2\xb5\xc3\xa9.gguf"));
    static const char *const bad[] = { "",   "/a",   "a/",        "a//b", "../a",           "a/../b",
                                       ".a", "a\nb", "a/b/c/d/e", "\xff", "a\xc2\x9b\x31mb" };
    for (size_t i = 0; i < VR_COUNT(bad); i++)
        if (vr_url_safe_path(bad[i])) fail_msg("'%s' was taken", bad[i]);
    VR_AUTO_BUF b = { 0 };
    vr_url_add_path(&b, "a b/c?#%\xc3\xa9");
    assert_string_equal(vr_buf_str(&b), "a%20b/c%3F%23%25%C3%A9");
}

static void test_headers(void **state)
{
    (void)state;
    uint64_t a, b, n;
    assert_true(vr_content_range("bytes 0-99/1234", &a, &b, &n));
    assert_true(a == 0 && b == 99 && n == 1234);
    assert_true(vr_content_range("bytes 5-5/*", &a, &b, &n));
    assert_true(a == 5 && n == 0);
    static const char *const bad[] = { "bytes */1234",
                                       "bytes 9-5/10",
                                       "bytes 0-10/10",
                                       "bytes 0-9/10x",
                                       "0-9/10",
                                       "bytes -1-2/3",
                                       "bytes 0-9",
                                       "bytes 0-9/99999999999999999999",
                                       "",
                                       "bytes 0 -9/10" };
    for (size_t i = 0; i < VR_COUNT(bad); i++)
        if (vr_content_range(bad[i], &a, &b, &n)) fail_msg("'%s' was taken", bad[i]);
    char tag[8];
    vr_etag_plain("W/\"abc\"", tag, sizeof tag);
    assert_string_equal(tag, "abc");
    vr_etag_plain("\"0123456789\"", tag, sizeof tag);
    assert_string_equal(tag, "0123456");
    vr_etag_plain("\"", tag, sizeof tag);
    assert_string_equal(tag, "\"");
}

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *text, *owner, *name, *word; /* owner NULL: refused; "": a URL elsewhere */
    } cases[] = {
        { "hf:org/Name-GGUF", "org", "Name-GGUF", "" },
        { "HF:org/Name.1:Q4_K_M", "org", "Name.1", "Q4_K_M" },
        { "hf:org/Name:sub/File.gguf", "org", "Name", "sub/File.gguf" },
        { "https://hub.example/org/Name", "org", "Name", "" },
        { "https://hub.example/org/Name/blob/main/sub/F.gguf?x", "org", "Name", "sub/F.gguf" },
        { "https://hub.example/org/Name/resolve/v2/F.gguf", "", "", "" },
        { "https://hub.example.evil/org/Name/resolve/main/F.gguf", "", "", "" },
        { "https://else.example/F.gguf", "", "", "" },
        { "hf:org", NULL, NULL, NULL },
        { "hf:/x", NULL, NULL, NULL },
        { "hf:../x", NULL, NULL, NULL },
        { "hf:a/b/c", NULL, NULL, NULL },
        { "hf:a/b:", NULL, NULL, NULL },
        { "hf:a/b:../c", NULL, NULL, NULL },
        { "hf:a/b c", NULL, NULL, NULL },
    };
    for (size_t i = 0; i < VR_COUNT(cases); i++) {
        struct vr_remote r;
        struct vr_err err = { 0 };
        bool ok = vr_remote_parse(cases[i].text, "https://hub.example", &r, &err);
        if (ok != (cases[i].owner != NULL)) fail_msg("%s: %s", cases[i].text, err.msg);
        if (!ok) continue;
        assert_string_equal(r.owner, cases[i].owner);
        assert_string_equal(r.name, cases[i].name);
        assert_string_equal(r.word, cases[i].word);
    }
    assert_true(vr_remote_is("hf:x") && vr_remote_is("HTTPS://x") && !vr_remote_is("hf") && !vr_remote_is("httpsx"));
    assert_true(vr_remote_means("Llama-8B-Q4_K_M", "q4_k_m"));
    assert_true(vr_remote_means("UD-Q4_K_XL/Llama-UD-Q4_K_XL", "Q4_K_XL"));
    assert_true(vr_remote_means("sub/Llama-Q4_0", "sub/Llama-Q4_0-00001-of-00002.gguf"));
    assert_false(vr_remote_means("Llama-IQ4_0", "Q4_0"));
    assert_false(vr_remote_means("Llama-Q4_0", ""));
    assert_false(vr_remote_means("Llama-Q4_0", "x/Llama-Q4_0"));
}

#define SUM    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define COMMIT "0123456789abcdef0123456789abcdef01234567"

static void test_repositories(void **state)
{
    (void)state;
    static const struct {
        const char *files, *what; /* NULL: it is taken */
        uint32_t n;
    } cases[] = {
        { "{\"rfilename\":\"a.gguf\",\"lfs\":{\"sha256\":\"" SUM "\",\"size\":9}}", NULL, 1 },
        { "{\"rfilename\":\"README.md\"},{\"rfilename\":\"a.gguf\",\"size\":9,\"blobId\":\"" COMMIT "\"}", NULL, 1 },
        { "7, null, {}, {\"rfilename\":7}", NULL, 0 },
        { "{\"rfilename\":\"a.gguf\",\"lfs\":{\"sha256\":\"" SUM "0\",\"size\":9}}", "checksum", 0 },
        { "{\"rfilename\":\"a.gguf\",\"lfs\":{\"sha256\":\"" SUM "\",\"size\":-9}}", "checksum", 0 },
        { "{\"rfilename\":\"../a.gguf\",\"lfs\":{\"sha256\":\"" SUM "\",\"size\":9}}", "cannot be used", 0 },
        { "{\"rfilename\":\"a.gguf\",\"lfs\":{\"sha256\":\"" SUM "\",\"size\":9}},"
          "{\"rfilename\":\"a.gguf\",\"lfs\":{\"sha256\":\"" SUM "\",\"size\":9}}",
          "twice", 0 },
    };
    for (size_t i = 0; i < VR_COUNT(cases); i++) {
        VR_AUTO_REPO repo = { 0 };
        struct vr_err err = { 0 };
        VR_AUTO_BUF text = { 0 };
        vr_buf_addf(&text, "{\"sha\":\"" COMMIT "\",\"siblings\":[%s]}", cases[i].files);
        bool ok = vr_repo_parse(vr_buf_str(&text), text.n, &repo, &err);
        assert_int_equal(ok, cases[i].what == NULL);
        if (!ok) assert_contains(err.msg, cases[i].what);
        assert_int_equal(repo.n_files, cases[i].n);
    }
    VR_AUTO_REPO repo = { 0 };
    struct vr_err err = { 0 };
    assert_false(vr_repo_parse("{\"sha\":\"../x\",\"siblings\":[]}", 28, &repo, &err));
}

/* A download that ends goes on with what its state says; another content begins anew. */
static void test_partial(void **state)
{
    (void)state;
    struct vr_partial p, q;
    struct vr_err err = { 0 };
    char path[512];
    snprintf(path, sizeof path, "%s", scratch("deep/file"));
    uint64_t length = 9 * 1024 * 1024 + 5;
    static const uint64_t too_long[] = { (UINT64_C(64) << 40) + 1, UINT64_C(1) << 58, INT64_MAX };
    for (size_t i = 0; i < VR_COUNT(too_long); i++) {
        assert_false(vr_partial_open(&p, path, too_long[i], SUM, &err));
        assert_contains(err.msg, "more than any model has");
        vr_partial_close(&p);
    }
    assert_true(vr_partial_open(&p, path, length, SUM, &err));
    assert_int_equal(p.n_chunks, 3);
    assert_int_equal(vr_partial_size(&p, 2), 1024 * 1024 + 5);
    assert_true(vr_partial_add(&p, 1, "hello", 5, &err));
    assert_true(vr_partial_add(&p, 1, " you", 4, &err));
    assert_int_equal(vr_partial_front(&p), 0);
    assert_true(vr_partial_add(&p, 0, "abc", 3, &err));
    assert_int_equal(vr_partial_front(&p), 3);
    assert_false(vr_partial_open(&q, path, length, SUM, &err));
    assert_contains(err.msg, "another process");
    vr_partial_close(&q);
    vr_partial_close(&p);

    assert_true(vr_partial_open(&p, path, length, SUM, &err));
    assert_int_equal(p.done_bytes, 12);
    assert_int_equal(p.done[1], 9);
    char got[10] = "";
    assert_int_equal(pread(p.fd, got, 9, p.chunk), 9);
    assert_string_equal(got, "hello you");
    vr_partial_close(&p);

    assert_true(vr_partial_open(&p, path, length, COMMIT, &err)); /* another content */
    assert_int_equal(p.done_bytes, 0);
    assert_true(vr_partial_add(&p, 2, "xyz", 3, &err));
    vr_partial_close(&p);
    int fd = open(scratch("deep/file.vram-llm-state"), O_RDWR);
    uint32_t absurd = UINT32_MAX;
    assert_int_equal(pwrite(fd, &absurd, 4, 256), 4);
    close(fd);
    assert_true(vr_partial_open(&p, path, length, COMMIT, &err)); /* a state that cannot be */
    assert_int_equal(p.done_bytes, 0);
    vr_partial_close(&p);
    assert_true(vr_partial_open(&p, path, 4, "\"v1\"", &err)); /* no checksum: what is known of it is its version */
    assert_true(vr_partial_add(&p, 0, "ab", 2, &err));
    vr_partial_close(&p);
    assert_true(vr_partial_open(&p, path, 4, "\"v1\"", &err));
    assert_int_equal(p.done_bytes, 2);
    assert_true(vr_partial_add(&p, 0, "cd", 2, &err));
    assert_false(vr_partial_add(&p, 0, "e", 1, &err));
    assert_true(vr_partial_keep(&p, path, &err));
    vr_partial_close(&p);
    VR_AUTO_BUF text = { 0 };
    assert_true(vr_file_read(path, 100, &text, &err));
    assert_string_equal(vr_buf_str(&text), "abcd");
    assert_int_not_equal(access(scratch("deep/file.vram-llm-state"), F_OK), 0);
    assert_true(vr_partial_open(&p, path, 4, "", &err)); /* nothing is known: never resumed */
    assert_true(vr_partial_add(&p, 0, "ab", 2, &err));
    vr_partial_close(&p);
    assert_true(vr_partial_open(&p, path, 4, "", &err));
    assert_int_equal(p.done_bytes, 0);
    vr_partial_remove(&p);
    vr_partial_close(&p);
}

/* The checksum follows a file that grows, and stops when it is told to. */
static void test_sum(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    char hex[65];
    int fd = open(scratch("sum"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(write(fd, "abc", 3), 3);
    struct vr_sum *s = vr_sum_start(fd, 3, 64, &err);
    vr_sum_allow(s, 1);
    vr_sum_allow(s, 3);
    assert_true(vr_sum_wait(s, hex, &err));
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    vr_sum_free(s);
    s = vr_sum_start(fd, 3, 40, &err); /* git hash-object */
    vr_sum_allow(s, 3);
    assert_true(vr_sum_wait(s, hex, &err));
    assert_string_equal(hex, "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f");
    vr_sum_free(s);
    s = vr_sum_start(fd, 3, 64, &err);
    vr_sum_allow(s, 2);
    vr_sum_free(s);
    s = vr_sum_start(fd, 5, 64, &err); /* shorter than it was said to be */
    vr_sum_allow(s, 5);
    assert_false(vr_sum_wait(s, hex, &err));
    vr_sum_free(s);
    close(fd);
}

/* The parts of a model have their own URLs and one folder; what is no part's number is nothing of that. */
static void test_parts(void **state)
{
    (void)state;
    static const struct {
        const char *url, *second, *sibling, *stranger; /* NULL: not asked */
    } cases[] = {
        { "https://h/a/best-of-both-00001-of-00003.gguf?x=-00001-of-",
          "https://h/a/best-of-both-00002-of-00003.gguf?x=-00001-of-",
          "https://h/a/best-of-both-00003-of-00003.gguf?x=-00001-of-",
          "https://h/a/rest-of-both-00001-of-00003.gguf?x=-00001-of-" },
        { "https://h/team-of-9/m.gguf", NULL, NULL, "https://h/beam-of-9/m.gguf" },
        { "https://h/m-00001-of-00002.gguf/m-00001-of-00002.gguf",
          "https://h/m-00001-of-00002.gguf/m-00002-of-00002.gguf", NULL,
          "https://h/m-00002-of-00002.gguf/m-00001-of-00002.gguf" },
    };
    assert_int_equal(setenv("XDG_CACHE_HOME", "/nowhere", 1), 0);
    for (size_t i = 0; i < VR_COUNT(cases); i++) {
        struct vr_err err = { 0 };
        VR_AUTO_ELSEWHERE e = { 0 }, sibling = { 0 }, stranger = { 0 };
        if (!vr_elsewhere_open(&e, cases[i].url, false, &err)) fail_msg("%s", err.msg);
        assert_string_equal(e.urls[0], cases[i].url);
        if (cases[i].second) assert_string_equal(e.urls[1], cases[i].second);
        if (cases[i].sibling) {
            assert_true(vr_elsewhere_open(&sibling, cases[i].sibling, false, &err));
            assert_string_equal(sibling.heads, e.heads);
        }
        assert_true(vr_elsewhere_open(&stranger, cases[i].stranger, false, &err));
        assert_string_not_equal(stranger.heads, e.heads);
    }
    struct vr_err err = { 0 };
    VR_AUTO_ELSEWHERE e = { 0 };
    assert_false(vr_elsewhere_open(&e, "https://h/m%2D00001-of-00002.gguf", false, &err));
    assert_contains(err.msg, "00001-of-00002.gguf");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urls),  cmocka_unit_test(test_files_of_urls), cmocka_unit_test(test_headers),
        cmocka_unit_test(test_names), cmocka_unit_test(test_repositories),  cmocka_unit_test(test_partial),
        cmocka_unit_test(test_sum),   cmocka_unit_test(test_parts),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
