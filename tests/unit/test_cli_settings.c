/* Settings from files, the environment and the command line: which one counts, and what is refused. */
#include "test.h"

#include <unistd.h>

#include "cli/options.h"
#include "cli/settings.h"
#include "test_hw_tree.h"

static struct vr_options o;
static struct vr_err err;

static bool parse(const char *command, const char *const *words)
{
    char *argv[8];
    int n = 0;
    for (; words[n]; n++) argv[n] = (char *)words[n];
    err = (struct vr_err){ 0 };
    return vr_options_parse(vr_command_find(command), n, argv, &o, &err);
}
#define PARSE(command, ...) parse(command, (const char *const[]){ __VA_ARGS__, NULL })

static void refuses(const char *text, const char *why)
{
    tree_put("bad", text);
    if (PARSE("plan", "--config", scratch("bad"))) fail_msg("'%s' was taken", text);
    assert_contains(err.msg, why);
    assert_int_equal(err.code, VR_EUSAGE);
}

static int no_home(void **state)
{
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    return scratch_setup(state);
}

static void test_order(void **state)
{
    (void)state;
    tree_put("home/vram-llm/config", "  n-ctx=1000 \n\n# n-ctx = 1\n; n-ctx = 2\nmodel = mine.gguf\nno-mmap = yes\n"
                                     "[serve]\nn-seq = 4\nport = 9000\n[ plan ]\nn-seq = 7");
    setenv("XDG_CONFIG_HOME", scratch("home"), 1);
    assert_true(PARSE("plan", "--json"));
    assert_int_equal(o.n_ctx, 1000);
    assert_int_equal(o.n_seq, 7);
    assert_int_equal(o.port, 8080);
    assert_string_equal(o.model, "mine.gguf");
    assert_true(o.no_mmap && o.json);
    assert_int_equal(o.settings->n_items, 6);
    assert_contains(o.settings->items[3].source, "/home/vram-llm/config, line 8");

    setenv("VRAM_LLM_N_CTX", "2000", 1);
    setenv("VRAM_LLM_N_SEQ", "", 1);
    assert_true(PARSE("serve", "other.gguf", "--no-mmap=no"));
    assert_int_equal(o.n_ctx, 2000);
    assert_int_equal(o.n_seq, 4);
    assert_int_equal(o.port, 9000);
    assert_string_equal(o.model, "other.gguf");
    assert_false(o.no_mmap);
    assert_true(PARSE("plan", "-c", "3000"));
    assert_int_equal(o.n_ctx, 3000);
    assert_true(PARSE("plan", "--config", "none"));
    assert_int_equal(o.n_ctx, 2000);
    assert_null(o.model);
    unsetenv("VRAM_LLM_N_CTX");
    tree_put("third", "n-ctx = 4000");
    assert_true(PARSE("plan", "--config", scratch("third")));
    assert_int_equal(o.n_ctx, 4000);
    assert_int_equal(o.n_seq, 1);
    assert_false(PARSE("analyze", "--model", "a.gguf", "b.gguf"));
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
}

static void test_refused(void **state)
{
    (void)state;
    refuses("n-ctz = 5", "bad, line 1: unknown setting 'n-ctz'; did you mean n-ctx?");
    refuses("\n[bogus]", "bad, line 2: the section [bogus] does not name a command");
    refuses("[serve", "a section is written [NAME]");
    refuses("mlock = maybe", "'maybe' is neither yes nor no"); /* an option of serve alone */
    refuses("[plan]\nmlock = yes", "mlock is not an option of 'plan'");
    refuses("api-key = x", "api-key-file");
    refuses("help = yes", "unknown setting 'help'");
    refuses("hello", "NAME = VALUE");
    refuses("= 5", "NAME = VALUE");
    refuses("n-ctx = -1", "bad, line 1: --n-ctx: '-1' is not an integer");
    refuses("split-mode = sideways", "is not one of");
    refuses("model =", "requires a value");
    setenv("VRAM_LLM_N_CTX", "x", 1);
    assert_false(PARSE("plan", "--json"));
    assert_contains(err.msg, "VRAM_LLM_N_CTX: --n-ctx: 'x' is not an integer");
    unsetenv("VRAM_LLM_N_CTX");
    assert_false(PARSE("plan", "--config", "/nowhere/at/all"));
    assert_contains(err.msg, "/nowhere/at/all: No such file");
    setenv("VRAM_LLM_API_KEY", "secret", 1); /* serve takes it by itself */
    assert_true(PARSE("serve", "--config=none"));
    assert_null(o.api_key);
    unsetenv("VRAM_LLM_API_KEY");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_order), cmocka_unit_test(test_refused) };
    return cmocka_run_group_tests(tests, no_home, scratch_teardown);
}
