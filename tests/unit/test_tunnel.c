/* Keys, pairs, and what goes through a tunnel: both sides in one process, each in a thread of its own. */
#include "test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/file.h"
#include "tunnel/hello.h"
#include "tunnel/pump.h"

#define TIMEOUT_MS 60000

/* --- packets --- */

static void test_packets(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        long len;
    } rows[] = {
        { "", 0, 0 },
        { "\4", 1, 0 },
        { "\4\0\0\2a", 5, 0 },
        { "\4\0\0\2ab", 6, 6 },
        { "\4\0\0\2abc", 7, 6 },
        { "\5\0\0\0", 4, 4 },
        { "\5\0\0\1x", 5, -1 },        /* nothing comes with it */
        { "\0", 1, -1 },               /* no such kind */
        { "\x63", 1, -1 },             /* nor this */
        { "\4\1\0\1", 4, -1 },         /* longer than DATA may be */
        { "\2\x10\0\0", 4, 0 },        /* WELCOME may */
        { "\2\x10\0\1", 4, -1 },       /* but not so long */
        { "\x16\3\1\2\0\1", 6, -1 },   /* the first bytes of TLS */
        { "\16\x18\0\0\0\0\0", 7, -1 } /* of RPC */
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_packet p;
        assert_int_equal(vr_packet_parse((const uint8_t *)rows[i].bytes, rows[i].n, &p), rows[i].len);
    }
}

/* --- pairs --- */

static void test_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        int port; /* 0: refused */
    } rows[] = {
        { "attic", "attic", 7433 },
        { "attic:80", "attic", 80 },
        { "192.168.1.7:9", "192.168.1.7", 9 },
        { "::1", "::1", 7433 },
        { "[fe80::1]", "fe80::1", 7433 },
        { "[fe80::1]:22", "fe80::1", 22 },
        { "", "", 0 },
        { ":80", "", 0 },
        { "attic:", "", 0 },
        { "attic:65536", "", 0 },
        { "[::1", "", 0 },
        { "[::1]x", "", 0 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        char host[VR_HOST_NAME];
        uint16_t port;
        struct vr_err err = { 0 };
        bool ok = vr_node_address(rows[i].text, VR_NODE_PORT, host, &port, &err);
        assert_int_equal(ok, rows[i].port != 0);
        if (!ok) assert_contains(err.msg, "is not an address");
        if (ok) assert_string_equal(host, rows[i].host);
        if (ok) assert_int_equal(port, rows[i].port);
    }
    char name[VR_NODE_NAME];
    vr_node_name("a b/c\xff.example-of-a-long-name", name);
    assert_string_equal(name, "a-b-c-.exampl");
    vr_node_name("", name);
    assert_string_equal(name, "node");
}

static struct vr_pair pair_of(const char *name, char digit)
{
    struct vr_pair p = { .host = "10.0.0.1", .port = 7433 };
    snprintf(p.name, sizeof p.name, "%s", name);
    memset(p.fingerprint, digit, VR_FINGERPRINT - 1);
    return p;
}

static void test_pairs(void **state)
{
    (void)state;
    static struct vr_pairs p, q;
    struct vr_err err = { 0 };
    char token[VR_JOIN_TOKEN], fingerprint[VR_FINGERPRINT], secret[VR_SECRET];
    const char *dir = scratch("pairs");
    assert_true(vr_pairs_load(dir, &p, &err)); /* none yet */
    assert_int_equal(p.n_nodes + p.n_clients, 0);
    const struct vr_pair rows[] = { pair_of("attic", 'a'), pair_of("cellar", 'b'), pair_of("attic", 'c'),
                                    pair_of("roof", 'b') };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        assert_true(vr_pairs_add(p.nodes, &p.n_nodes, &rows[i], true, &err));
        assert_true(vr_pairs_add(p.clients, &p.n_clients, &rows[i], false, &err));
    }
    assert_int_equal(p.n_nodes, 2);   /* attic was set up anew, and cellar is called roof now */
    assert_int_equal(p.n_clients, 3); /* two machines that are both called attic stay two */
    p.n_clients = 0;
    memset(p.clients, 0, sizeof p.clients);
    assert_true(vr_join_offer(&p, rows[0].fingerprint, 1000, token, &err));
    assert_true(vr_pairs_save(dir, &p, &err) && vr_pairs_load(dir, &q, &err));
    assert_memory_equal(&p, &q, sizeof p);
    assert_string_equal(vr_pairs_by_name(&q, "attic")->fingerprint, rows[2].fingerprint);
    assert_string_equal(vr_pairs_by_name(&q, "10.0.0.1:7433")->name, "attic");
    assert_null(vr_pairs_by_name(&q, "10.0.0.1:7434"));
    assert_null(vr_pairs_by_key(q.nodes, q.n_nodes, rows[0].fingerprint));
    struct stat st;
    char file[600];
    snprintf(file, sizeof file, "%s/pairs.json", dir);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 077, 0);

    assert_true(vr_join_read(token, fingerprint, secret, &err));
    assert_string_equal(fingerprint, rows[0].fingerprint);
    assert_true(vr_join_is(&q, secret, 1000) && vr_join_is(&q, secret, 1000 + 86399));
    assert_false(vr_join_is(&q, secret, 1000 + 86400));
    secret[0] = secret[0] == '0' ? '1' : '0';
    assert_false(vr_join_is(&q, secret, 1000));
    q.join_sha256[0] = '\0';
    assert_false(vr_join_open(&q, 1000));
    token[20] = 'x';
    assert_false(vr_join_read(token, fingerprint, secret, &err));
    static const char *const bad[] = { "", "[]", "{\"nodes\":[{}]}",
                                       "{\"clients\":[{\"name\":\"a\",\"fingerprint\":\"1\"}]}",
                                       "{\"join\":{\"secret_sha256\":\"x\"}}" };
    for (size_t i = 0; i < VR_COUNT(bad); i++) {
        assert_false(vr_pairs_parse("p", bad[i], strlen(bad[i]), &q, &err));
        assert_contains(err.msg, "is damaged");
    }
}

/* --- keys --- */

static struct vr_identity attic, desk, thief;

static void test_identity(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    struct stat st;
    const char *dirs[] = { scratch("attic"), scratch("desk"), scratch("thief") };
    struct vr_identity *all[] = { &attic, &desk, &thief };
    for (size_t i = 0; i < VR_COUNT(all); i++)
        if (!vr_identity_open(dirs[i], all[i], &err)) fail_msg("%s", err.msg);
    assert_int_equal(stat(scratch("attic/identity.pem"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    VR_AUTO_IDENTITY again = { 0 };
    assert_true(vr_identity_open(scratch("attic"), &again, &err));
    assert_string_equal(again.fingerprint, attic.fingerprint);
    assert_string_not_equal(attic.fingerprint, desk.fingerprint);
    assert_true(vr_fingerprint_is(attic.fingerprint));
    vr_identity_done(&again);
    chmod(scratch("attic/identity.pem"), 0640);
    assert_false(vr_identity_open(scratch("attic"), &again, &err));
    assert_contains(err.msg, "other users can access this key (mode 640): chmod 600 it");
    mkdir(scratch("broken"), 0700);
    assert_true(vr_file_write(scratch("broken/identity.pem"), "none", 4, &err));
    chmod(scratch("broken/identity.pem"), 0600);
    assert_false(vr_identity_open(scratch("broken"), &again, &err));
    assert_contains(err.msg, "does not hold a key");
}

/* --- connections --- */

struct side {
    const struct vr_identity *self;
    const char *expects; /* the fingerprint that it knows */
    bool server;
    int fd, local; /* local: what is pumped; -1: nothing */
    int silent_ms;
    _Atomic uint64_t *sent;
    struct vr_secure *s;
    struct vr_err err;
    enum vr_pump_end end;
    pthread_t thread;
};

static bool expected(void *ctx, const char *fingerprint) { return strcmp(ctx, fingerprint) == 0; }

static void *run_side(void *ctx)
{
    struct side *x = ctx;
    const struct vr_secure_ask ask = { .self = x->self,
                                       .server = x->server,
                                       .known = expected,
                                       .ctx = (void *)(uintptr_t)x->expects,
                                       .peer = x->server ? "desk" : "node attic",
                                       .timeout_ms = TIMEOUT_MS };
    x->s = vr_secure_open(x->fd, &ask, &x->err);
    if (x->s && x->local >= 0) x->end = vr_pump_run(x->s, x->local, x->silent_ms, x->sent);
    if (x->local >= 0 && x->s) vr_secure_free(VR_TAKE(x->s));
    return NULL;
}

static void start(struct side *a, struct side *b)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    a->fd = pair[0];
    b->fd = pair[1];
    assert_int_equal(pthread_create(&a->thread, NULL, run_side, a), 0);
    assert_int_equal(pthread_create(&b->thread, NULL, run_side, b), 0);
}

static void finish(struct side *a, struct side *b)
{
    pthread_join(a->thread, NULL);
    pthread_join(b->thread, NULL);
}

static void test_handshake(void **state)
{
    (void)state;
    struct side node = { .self = &attic, .expects = desk.fingerprint, .server = true, .local = -1 };
    struct side client = { .self = &desk, .expects = attic.fingerprint, .local = -1 };
    start(&node, &client);
    finish(&node, &client);
    assert_true(node.s && client.s);
    assert_string_equal(vr_secure_peer(node.s), desk.fingerprint);
    assert_string_equal(vr_secure_peer(client.s), attic.fingerprint);

    VR_AUTO_BUF b = { 0 };
    struct vr_packet p;
    struct vr_err err = { 0 };
    vr_packet_add(&b, VR_PACKET_ECHO, "abc", 3);
    vr_packet_add(&b, VR_PACKET_BEAT, NULL, 0);
    assert_true(vr_secure_send(client.s, &b, TIMEOUT_MS, &err));
    assert_true(vr_secure_next(node.s, &p, TIMEOUT_MS, &err) && p.kind == VR_PACKET_ECHO && p.n == 3);
    assert_memory_equal(p.data, "abc", 3);
    assert_true(vr_secure_next(node.s, &p, TIMEOUT_MS, &err) && p.kind == VR_PACKET_BEAT);
    assert_false(vr_secure_next(node.s, &p, 1, &err));
    assert_contains(err.msg, "desk does not answer");
    vr_secure_free(client.s);
    assert_false(vr_secure_next(node.s, &p, TIMEOUT_MS, &err));
    assert_contains(err.msg, "desk closed the connection");
    vr_secure_free(node.s);
}

static void test_wrong_keys(void **state)
{
    (void)state;
    struct vr_packet p;
    struct vr_err err = { 0 };
    { /* a node that is another one */
        struct side node = { .self = &thief, .expects = desk.fingerprint, .server = true, .local = -1 };
        struct side client = { .self = &desk, .expects = attic.fingerprint, .local = -1 };
        start(&node, &client);
        finish(&node, &client);
        assert_true(!client.s && !node.s);
        assert_contains(client.err.msg, "node attic has a different key from the one it was paired with");
    }
    { /* a client that nobody let in hears it with the first answer */
        struct side node = { .self = &attic, .expects = desk.fingerprint, .server = true, .local = -1 };
        struct side client = { .self = &thief, .expects = attic.fingerprint, .local = -1 };
        start(&node, &client);
        finish(&node, &client);
        assert_true(!node.s && client.s);
        assert_contains(node.err.msg, "desk has a key that is not paired");
        assert_false(vr_secure_next(client.s, &p, TIMEOUT_MS, &err));
        assert_contains(err.msg, "node attic does not know the key of this machine");
        vr_secure_free(client.s);
    }
    { /* no TLS at all */
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        struct side node = { .self = &attic, .expects = desk.fingerprint, .server = true, .local = -1, .fd = pair[0] };
        assert_int_equal(write(pair[1], "\16\x18\0\0\0\0\0\0\0", 9), 9);
        run_side(&node);
        assert_null(node.s);
        assert_contains(node.err.msg, "does not speak TLS 1.3");
        close(pair[1]);
    }
}

/* --- the pump --- */

#define MANY ((size_t)3 << 20)

static void *write_many(void *ctx)
{
    int fd = *(int *)ctx;
    char block[1000];
    for (size_t at = 0; at < MANY;) {
        size_t n = MANY - at < sizeof block ? MANY - at : sizeof block;
        for (size_t i = 0; i < n; i++) block[i] = (char)((at + i) * 7 % 251);
        ssize_t k = write(fd, block, n);
        if (k <= 0) return "the pump stopped taking";
        at += (size_t)k;
    }
    return NULL;
}

static void expect_many(int fd)
{
    unsigned char block[4096];
    for (size_t at = 0; at < MANY;) {
        ssize_t n = read(fd, block, MANY - at < sizeof block ? MANY - at : sizeof block);
        assert_true(n > 0);
        for (ssize_t i = 0; i < n; i++)
            if (block[i] != (at + (size_t)i) * 7 % 251) fail_msg("byte %zu is another one", at + (size_t)i);
        at += (size_t)n;
    }
}

static _Atomic uint64_t sent; /* by the client */

struct tunnel {
    struct side node, client;
    int at_node, at_client; /* the ends outside */
};

static void open_tunnel(struct tunnel *t, int silent_ms)
{
    int a[2], b[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, a), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, b), 0);
    *t = (struct tunnel){ .node = { .self = &attic, .expects = desk.fingerprint, .server = true, .local = a[0] },
                          .client = { .self = &desk, .expects = attic.fingerprint, .local = b[0], .sent = &sent },
                          .at_node = a[1],
                          .at_client = b[1] };
    t->node.silent_ms = t->client.silent_ms = silent_ms;
    start(&t->node, &t->client);
}

/* Megabytes both ways at once, whole; then one end is closed, and both sides know. */
static void test_pump(void **state)
{
    (void)state;
    struct tunnel t;
    pthread_t writers[2];
    void *why[2];
    sent = 0;
    open_tunnel(&t, TIMEOUT_MS);
    pthread_create(&writers[0], NULL, write_many, &t.at_node);
    pthread_create(&writers[1], NULL, write_many, &t.at_client);
    expect_many(t.at_client);
    expect_many(t.at_node);
    for (int i = 0; i < 2; i++) pthread_join(writers[i], &why[i]);
    assert_true(!why[0] && !why[1]);
    close(t.at_client);
    finish(&t.node, &t.client);
    assert_int_equal(t.client.end, VR_PUMP_LOCAL);
    assert_int_equal(t.node.end, VR_PUMP_PEER);
    assert_int_equal(sent, MANY);
    close(t.at_node);
    close(t.node.local);
    close(t.client.local);
}

/* A peer that says nothing is gone; one that only says that it is there is not. */
static void test_silence(void **state)
{
    (void)state;
    struct tunnel t;
    open_tunnel(&t, 2000);
    char byte;
    const struct timeval longer = { .tv_sec = 3 }, patient = { .tv_sec = 60 };
    setsockopt(t.at_client, SOL_SOCKET, SO_RCVTIMEO, &longer, sizeof longer);
    assert_true(read(t.at_client, &byte, 1) < 0); /* nobody speaks for longer than that, and nothing ends */
    setsockopt(t.at_client, SOL_SOCKET, SO_RCVTIMEO, &patient, sizeof patient);
    assert_int_equal(write(t.at_node, "x", 1), 1);
    assert_int_equal(read(t.at_client, &byte, 1), 1);
    close(t.at_node);
    finish(&t.node, &t.client);
    close(t.at_client);

    struct side node = { .self = &attic, .expects = desk.fingerprint, .server = true, .local = -1 };
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    struct side client = { .self = &desk, .expects = attic.fingerprint, .local = pair[0], .silent_ms = 50 };
    start(&node, &client);
    finish(&node, &client);
    assert_int_equal(client.end, VR_PUMP_SILENT);
    vr_secure_free(node.s);
    close(pair[0]);
    close(pair[1]);
}

/* What has no place in a tunnel ends it. */
static void test_broken(void **state)
{
    (void)state;
    static const char *const rows[] = { "\1\0\0\2{}", "\x63\0\0\0", "\5\0\0\1x" };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        struct side node = { .self = &attic, .expects = desk.fingerprint, .server = true, .local = -1 };
        struct side client = { .self = &desk, .expects = attic.fingerprint, .local = pair[0], .silent_ms = TIMEOUT_MS };
        start(&node, &client);
        pthread_join(node.thread, NULL);
        VR_AUTO_BUF b = { 0 };
        struct vr_err err = { 0 };
        vr_buf_add(&b, rows[i], i == 1 ? 4 : 5);
        assert_true(node.s && vr_secure_send(node.s, &b, TIMEOUT_MS, &err));
        if (i == 0) { /* the rest of it */
            vr_buf_clear(&b);
            vr_buf_add(&b, "}", 1);
            assert_true(vr_secure_send(node.s, &b, TIMEOUT_MS, &err));
        }
        pthread_join(client.thread, NULL);
        assert_int_equal(client.end, VR_PUMP_BROKEN);
        vr_secure_free(node.s);
        close(pair[0]);
        close(pair[1]);
    }
}

/* --- the first exchange --- */

static void test_hello(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool ok;
    } rows[] = {
        { "{'want':'look','name':'desk','program':'1','engine':'2','rpc':'3'}", true },
        { "{'want':'lend','name':'desk','program':'1','engine':'2','rpc':'3','devices':['CUDA0']}", true },
        { "{'want':'lend','name':'desk','program':'1','engine':'2','rpc':'3','devices':[]}", false },
        { "{'want':'lend','name':'desk','program':'1','engine':'2','rpc':'3','devices':['']}", false },
        { "{'want':'lend','name':'desk','program':'1','engine':'2','rpc':'3','devices':[7]}", false },
        { "{'want':'join','name':'desk','program':'1','engine':'2','rpc':'3'}", false },
        { "{'want':'join','name':'desk','program':'1','engine':'2','rpc':'3','secret':'s'}", true },
        { "{'want':'take','name':'desk','program':'1','engine':'2','rpc':'3'}", false },
        { "{'want':'look','name':'desk','program':'1','engine':'2'}", false },
        { "{'want':'look','name':'desk','program':'1','engine':'2','rpc':'0123456789abcdef'}", false },
        { "[]", false },
        { "", false },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        char text[256];
        struct vr_hello h;
        snprintf(text, sizeof text, "%s", rows[i].text);
        for (char *c = text; *c; c++) *c = *c == '\'' ? '"' : *c;
        if (vr_hello_read(text, strlen(text), &h) != rows[i].ok) fail_msg("%s", rows[i].text);
    }
    const struct vr_versions a = { "0.1.0", "0.5.0", "7.0.0" }, b = { "0.2.0", "0.5.0", "7.0.0" },
                             c = { "0.1.0", "0.4.0", "7.0.0" };
    struct vr_err err = { 0 };
    assert_true(vr_versions_match(&a, "desk", &b, "attic", &err)); /* ours may differ, the engine's not */
    assert_false(vr_versions_match(&a, "desk", &c, "attic", &err));
    assert_string_equal(err.msg,
                        "desk runs vram-llm 0.1.0 with llama.cpp 0.5.0 (RPC 7.0.0), attic runs 0.1.0 with 0.4.0 "
                        "(RPC 7.0.0): install the same version on both");
}

static int teardown(void **state)
{
    vr_identity_done(&attic);
    vr_identity_done(&desk);
    vr_identity_done(&thief);
    return scratch_teardown(state);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* as the program does */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packets),  cmocka_unit_test(test_addresses), cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_identity), cmocka_unit_test(test_handshake), cmocka_unit_test(test_wrong_keys),
        cmocka_unit_test(test_pump),     cmocka_unit_test(test_silence),   cmocka_unit_test(test_broken),
        cmocka_unit_test(test_hello),
    };
    return cmocka_run_group_tests(tests, scratch_setup, teardown);
}
