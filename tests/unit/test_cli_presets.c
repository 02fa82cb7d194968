/* Presets: llama-server's names for our options, what [*] gives to all, and what is refused, with its line. */
#include "test.h"

#include "base/buf.h"
#include "cli/input/presets.h"
#include "test_hw_tree.h"

static struct vr_presets p;
static struct vr_err err;

static bool parse(const char *text)
{
    vr_presets_done(&p);
    err = (struct vr_err){ 0 };
    return vr_presets_parse(text, "x.ini", &p, &err);
}

static void takes(const char *text)
{
    if (!parse(text)) fail_msg("%s: %s", text, err.msg);
}

static int clean_up(void **state)
{
    vr_presets_done(&p);
    return scratch_teardown(state);
}

/* The arguments of preset i, with spaces between them. */
static const char *line(size_t i)
{
    static struct vr_buf text;
    vr_buf_done(&text);
    for (int k = 0; k < p.items[i].argc; k++) vr_buf_addf(&text, "%s%s", k ? " " : "", p.items[i].argv[k]);
    assert_null(p.items[i].argv[p.items[i].argc]);
    return vr_buf_str(&text);
}

static void test_llama_servers_example(void **state)
{
    (void)state;
    takes("version = 1\n\n; for all\n[*]\nc = 8192\nn-gpu-layers = 8\n\n"
          "[ggml-org/MY-MODEL-GGUF:Q8_0] # with a comment\nchat-template = chatml\nn-gpu-layers = 123 ; another\n"
          "jinja = true\nc = 4096\nLLAMA_ARG_CACHE_RAM = 0\nmodel-draft = ./my-models/draft.gguf\n"
          "model-draft = /Users/abc/my-models/draft.gguf\r\n"
          "[custom_model]\nmodel = /Users/abc/my-awesome-model-Q4_K_M.gguf\nload-on-startup = 1\nalias = one, two "
          "words ,,three\n");
    assert_int_equal(p.n, 2);
    assert_string_equal(p.items[0].name, "ggml-org/MY-MODEL-GGUF:Q8_0");
    assert_string_equal(p.items[0].model, p.items[0].name);
    assert_string_equal(line(0), "--chat-template chatml --n-gpu-layers 123 --n-ctx 4096 --cache-ram 0 --draft "
                                 "/Users/abc/my-models/draft.gguf");
    assert_true(p.items[0].is_default && !p.items[0].preload && !p.items[0].pin);
    assert_string_equal(p.items[1].model, "/Users/abc/my-awesome-model-Q4_K_M.gguf");
    assert_string_equal(line(1), "--n-ctx 8192 --n-gpu-layers 8");
    assert_true(p.items[1].preload && !p.items[1].is_default);
    assert_int_equal(p.items[1].n_aliases, 3);
    assert_string_equal(p.items[1].aliases[1], "two words");
    assert_string_equal(p.items[1].aliases[2], "three");
}

static void test_values(void **state)
{
    (void)state;
    takes("[*]\nttl = 60\npin = yes\nmmap = off\nmlock = on\n[a]\nngl = all\nnp = -1\nfa = 1\nmmap = on\ndefault = no\n"
          "[b]\nidle-unload = 0\nttl = -1\npin = disabled\nhf-repo = owner/name:Q4_K_M\ndefault = yes\nmlock = 0\n"
          "[c]\nhf = owner/name:Q4_K_M\nhf-file = sub/x.gguf\nno-kv-unified = true\ndevices = 0,1\n");
    assert_string_equal(line(0), "--mlock=on --n-gpu-layers -1 --n-seq 1 --flash-attn on --no-mmap=no");
    assert_int_equal(p.items[0].ttl_s, 60);
    assert_true(p.items[0].pin && !p.items[0].is_default);
    assert_string_equal(line(1), "--no-mmap=yes --mlock=0");
    assert_int_equal(p.items[1].ttl_s, 0);
    assert_true(!p.items[1].pin && p.items[1].is_default);
    assert_string_equal(p.items[1].model, "hf:owner/name:Q4_K_M");
    assert_string_equal(p.items[2].model, "hf:owner/name:sub/x.gguf");
    assert_string_equal(line(2), "--no-mmap=yes --mlock=on --kv-unified=no --devices 0,1");
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } rows[] = {
        { "", "x.ini: there is no [NAME] section" },
        { "[*]\nc = 5", "no [NAME] section" },
        { "c = 5", "line 1: settings belong into a section" },
        { "[a]\n\nctx-sise = 5", "x.ini, line 3: unknown key 'ctx-sise'; did you mean ctx-size?" },
        { "[a]\nn-bacth = 5", "did you mean n-batch?" },
        { "[a]\nzzzzzzzz = 5", "unknown key 'zzzzzzzz'" },
        { "[a]\nc = many", "line 2: --n-ctx: 'many' is not an integer" },
        { "[a]\nc =", "line 2: c has no value" },
        { "[a]\nc = # 5", "line 2: c has no value" },
        { "[a]\nmlock = maybe", "'maybe' is neither yes nor no" },
        { "[a]\nmmap = maybe", "line 2: mmap: 'maybe' is neither yes nor no" },
        { "[a]\nsplit-mode = half", "is not one of" },
        { "[a]\njinja = no", "jinja is always on here" },
        { "[a]\nswa-full = yes", "swa-full is always off here" },
        { "[a]\ntemp = 0.7", "line 2: temp cannot be set for a model: clients send sampling parameters" },
        { "[a]\nport = 80", "line 2: port is set for the server, not for a model: give --port" },
        { "[a]\ngpus = none", "gpus is set for the server" },
        { "[a]\npreset = x", "preset is set for the server" },
        { "[a]\nhelp = yes", "help is set for the server" },
        { "[a]\nn-cpu-moe = 3", "the planner chooses" },
        { "[a]\nttl = soon", "ttl is a number of seconds" },
        { "[*]\nmodel = x.gguf", "model is for a single model and cannot be set in [*]" },
        { "[a]\n[b]\n[a]", "line 3: there is already a section [a]" },
        { "[*]\n[*]", "there is already a section [*]" },
        { "[a]\nalias = b\n[b]", "two models are called 'b'" },
        { "[a]\nalias = a", "two models are called 'a'" },
        { "[a]\ndefault = yes\n[b]\ndefault = yes", "[a] and [b] are both the default model" },
        { "[a]\nmodel = x\nhf-repo = o/n", "has a model and an hf-repo" },
        { "[a]\nhf-file = x", "an hf-file without an hf-repo" },
        { "[a", "line 1: a section is written [NAME]" },
        { "[a] b", "line 1: a section is written [NAME]" },
        { "[ ]", "the name of a model has 1 to 255 bytes" },
        { "[a]\nwhat", "line 2: a setting is written NAME = VALUE" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        if (parse(rows[i].text)) fail_msg("'%s' was taken", rows[i].text);
        assert_contains(err.msg, rows[i].why);
        assert_int_equal(err.code, VR_EUSAGE);
    }
}

static void test_limits(void **state)
{
    (void)state;
    VR_AUTO_BUF text = { 0 };
    for (int i = 0; i < 1000; i++) vr_buf_addf(&text, "[m%d]\n", i);
    takes(vr_buf_str(&text));
    assert_int_equal(p.n, 1000);
    vr_buf_adds(&text, "[one more]");
    assert_false(parse(vr_buf_str(&text)));
    assert_contains(err.msg, "line 1001: more than 1,000 models");
    vr_buf_done(&text);
    vr_buf_adds(&text, "[a]\nalias = ");
    for (int i = 0; i < 33; i++) vr_buf_addf(&text, "x%d,", i);
    assert_false(parse(vr_buf_str(&text)));
    assert_contains(err.msg, "more than 32 aliases");
    vr_buf_done(&text);
    vr_buf_adds(&text, "[a]\nmodel = /");
    vr_buf_addc(&text, 'x', 3000); /* libinih would cut it */
    takes(vr_buf_str(&text));
    assert_int_equal(strlen(p.items[0].model), 3001);
}

static void test_files(void **state)
{
    (void)state;
    vr_presets_done(&p);
    tree_put("good.ini", "[a]\nmodel = a.gguf\n");
    assert_true(vr_presets_read(scratch("good.ini"), &p, &err));
    assert_string_equal(p.items[0].model, "a.gguf");
    vr_presets_done(&p);
    tree_put("bad.ini", "[a]\nmodle = a.gguf\n");
    assert_false(vr_presets_read(scratch("bad.ini"), &p, &err));
    assert_contains(err.msg, "bad.ini, line 2: unknown key 'modle'; did you mean model?");
    vr_presets_done(&p);
    assert_false(vr_presets_read(scratch("none.ini"), &p, &err));
    assert_int_equal(err.code, VR_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_servers_example),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, scratch_setup, clean_up);
}
