/* Keys, hosts and origins. */
#include "test.h"

#include "server/http/auth.h"
#include "server/server.h"

static struct vr_auth *make(const char *const *keys, const char *const *origins, const char *const *hosts,
                            const char *bound)
{
    struct vr_err err;
    struct vr_auth *a =
        vr_auth_new(&(struct vr_auth_config){ .keys = keys, .origins = origins, .hosts = hosts, .bound = bound }, &err);
    assert_non_null(a);
    return a;
}

static struct vr_slice slice(const char *s) { return (struct vr_slice){ s, s ? strlen(s) : 0 }; }

static void test_keys(void **state)
{
    (void)state;
    struct vr_auth *a = make((const char *const[]){ "one", "two", NULL }, NULL, NULL, "0.0.0.0");
    static const struct {
        const char *authorization, *api_key;
        bool ok;
    } rows[] = { { NULL, NULL, false },         { "Bearer one", NULL, true }, { "Bearer two", NULL, true },
                 { "bearer two", NULL, true },  { NULL, "one", true },        { "Bearer", NULL, false },
                 { "Bearer ", NULL, false },    { "Bearer on", NULL, false }, { "Bearer onex", NULL, false },
                 { "Basic one", NULL, false },  { "one", NULL, false },       { NULL, "", false },
                 { "Bearer no", "one", false }, { "Basic x", "one", true } };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_head h = { .authorization = slice(rows[i].authorization), .api_key = slice(rows[i].api_key) };
        if ((vr_auth_key(a, &h) != 0) != rows[i].ok) fail_msg("row %zu", i);
    }
    assert_true(vr_auth_has_keys(a));
    assert_true(vr_auth_host_ok(a, slice("evil.example")));
    vr_auth_free(a);
}

static void test_shared(void **state)
{
    (void)state;
    const char *const one[] = { "a", NULL }, *const two[] = { "a", "b", NULL };
    const struct {
        const char *const *keys;
        const char *bound;
        bool shared;
    } rows[] = { { NULL, "127.0.0.1", false }, { NULL, "0.0.0.0", true },  { one, "0.0.0.0", false },
                 { one, "::1", false },        { two, "127.0.0.1", true }, { two, "0.0.0.0", true } };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_auth *a = make(rows[i].keys, NULL, NULL, rows[i].bound);
        if (vr_auth_is_shared(a) != rows[i].shared) fail_msg("row %zu", i);
        vr_auth_free(a);
    }
}

static unsigned key_of(const struct vr_auth *a, const char *key)
{
    return vr_auth_key(a, &(struct vr_head){ .api_key = slice(key) });
}

/* Keys are known by numbers, which stay theirs when the list changes and are given to no other key. */
static void test_numbers(void **state)
{
    (void)state;
    struct vr_auth *a = make((const char *const[]){ "one", "two", "three", NULL }, NULL, NULL, "0.0.0.0");
    struct vr_auth *b = make((const char *const[]){ "three", "four", "one", "one", NULL }, NULL, NULL, "0.0.0.0");
    struct vr_auth *c = make((const char *const[]){ "two", "four", "five", NULL }, NULL, NULL, "0.0.0.0");
    struct vr_auth *none = make(NULL, NULL, NULL, "127.0.0.1");
    assert_int_equal(key_of(a, "one"), 1);
    assert_int_equal(key_of(a, "three"), 3);
    assert_int_equal(key_of(a, "four"), 0);
    vr_auth_follow(b, a);
    assert_int_equal(key_of(b, "one"), 1);
    assert_int_equal(key_of(b, "two"), 0);
    assert_int_equal(key_of(b, "three"), 3);
    assert_int_equal(key_of(b, "four"), 4);
    vr_auth_follow(c, b);
    assert_int_equal(key_of(c, "four"), 4);
    assert_true(key_of(c, "two") > 4 && key_of(c, "five") > 4 && key_of(c, "two") != key_of(c, "five"));
    assert_int_equal(key_of(none, "one"), 0);
    vr_auth_free(a);
    vr_auth_free(b);
    vr_auth_free(c);
    vr_auth_free(none);
}

static void test_hosts(void **state)
{
    (void)state;
    struct vr_auth *a = make(NULL, NULL, (const char *const[]){ "box.example", NULL }, "gpu.lan");
    static const struct {
        const char *host;
        bool ok;
    } rows[] = {
        { "localhost", true },     { "localhost:8080", true }, { "x.localhost", true },  { "127.0.0.1", true },
        { "10.0.0.1:80", true },   { "[::1]", true },          { "[fe80::1]:80", true }, { "BOX.example", true },
        { "gpu.lan:1", true },     { "evil.example", false },  { "localhost:x", false }, { "[::1]x", false },
        { "[evil]", false },       { "1.2.3.4.5", false },     { ":80", false },         { "", false },
        { "notlocalhost", false }, { "localhost.evil", false }
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++)
        if (vr_auth_host_ok(a, slice(rows[i].host)) != rows[i].ok) fail_msg("%s", rows[i].host);
    assert_true(vr_auth_host_ok(a, (struct vr_slice){ 0 })); /* HTTP/1.0 */
    vr_auth_free(a);
}

static void test_origins(void **state)
{
    (void)state;
    static const struct {
        const char *bound, *listed, *origin, *host;
        bool ok;
    } rows[] = {
        { "127.0.0.1", NULL, "http://localhost:3000", "localhost:8080", true },
        { "127.0.0.1", NULL, "http://evil.example", "localhost:8080", false },
        { "127.0.0.1", NULL, "null", "localhost", false },
        { "127.0.0.1", "https://a.example", "https://a.example", "localhost", true },
        { "127.0.0.1", "https://a.example", "http://a.example", "localhost", false },
        { "127.0.0.1", "*", "https://any.example", "localhost", true },
        { "127.0.0.1,::1", NULL, "http://localhost:3000", "localhost:8080", true },
        { "127.0.0.1,10.0.0.1", NULL, "http://localhost:3000", "10.0.0.1:8080", false },
        { "0.0.0.0", NULL, "http://localhost:3000", "10.0.0.1:8080", false },
        { "0.0.0.0", NULL, "http://10.0.0.1:8080", "10.0.0.1:8080", true },
        { "0.0.0.0", NULL, "", "10.0.0.1:8080", false },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_auth *a = make(NULL, (const char *const[]){ rows[i].listed, NULL }, NULL, rows[i].bound);
        if (vr_auth_origin_ok(a, slice(rows[i].origin), slice(rows[i].host)) != rows[i].ok) fail_msg("row %zu", i);
        vr_auth_free(a);
    }
}

static void test_loopback(void **state)
{
    (void)state;
    assert_true(vr_hosts_are_loopback("127.0.0.1") && vr_hosts_are_loopback("127.9.9.9") &&
                vr_hosts_are_loopback("::1"));
    assert_true(vr_hosts_are_loopback("localhost") && vr_hosts_are_loopback("LocalHost"));
    assert_false(vr_hosts_are_loopback("0.0.0.0") || vr_hosts_are_loopback("::") || vr_hosts_are_loopback("128.0.0.1"));
    assert_true(vr_hosts_are_loopback("127.0.0.1,::1"));
    assert_false(vr_hosts_are_loopback("127.0.0.1,10.0.0.1") || vr_hosts_are_loopback("10.0.0.1,localhost"));
    assert_false(vr_hosts_are_loopback("127.0.0.1,") || vr_hosts_are_loopback(","));
    assert_false(vr_hosts_are_loopback("localhost.example") || vr_hosts_are_loopback(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_keys),    cmocka_unit_test(test_shared),
                                        cmocka_unit_test(test_numbers), cmocka_unit_test(test_hosts),
                                        cmocka_unit_test(test_origins), cmocka_unit_test(test_loopback) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
