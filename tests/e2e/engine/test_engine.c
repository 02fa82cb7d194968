/* The engine process, end to end: a small model made on the spot, real frames, real computation; GPUs are virtual ones
 * that execute. $ENGINE_MAIN is the program, $TINY_MODEL and $TINY_MMPROJ the tools that make
 * models. */
#include "test_engine.h"

char dense[300], moe[300], think[300], vectors[300], vision[300];
const char *const memory_kinds[N_KINDS] = { "llama", "gemma3", "qwen35", "mamba", "deepseek2" };
static const int kind_layers[N_KINDS] = { 2, 6, 3, 2, 2 }; /* a window's pattern has six, a hybrid's three */
char kind_files[N_KINDS][300];
static const char *const calm_kinds[N_CALM][2] = { { "calm-llama", "--arch llama" },
                                                   { "calm-gemma3", "--arch gemma3 --window 32" },
                                                   { "calm-mtp", "--arch qwen35 --mtp 1" } };
char calm_files[N_CALM][300];
static const char *const sliced_kinds[N_SLICED] = { "llama --layers 2", "gemma3 --layers 6", "qwen35 --layers 3" };
char sliced_files[N_SLICED][300];
static char dir[256];

static void make(const char *tool, char *path, const char *name, const char *options)
{
    char command[1024];
    snprintf(path, 300, "%s/%s.gguf", dir, name);
    snprintf(command, sizeof command, "%s %s %s", getenv(tool), path, options);
    if (system(command) != 0) fail_msg("cannot make a model: %s", command);
}

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "%s/engine-e2e-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(dir) || !getenv("TINY_MODEL") || !getenv("TINY_MMPROJ")) return -1;
    make("TINY_MODEL", dense, "dense", "--ctx 65536 --type f32");
    make("TINY_MODEL", moe, "moe", "--experts 4 --used 2 --type f32");
    make("TINY_MODEL", think, "think", "--template think");
    make("TINY_MODEL", vectors, "vectors", "--embedding");
    for (int i = 0; i < N_KINDS; i++) {
        char options[200];
        snprintf(options, sizeof options,
                 "--arch %s --layers %d --embd 64 --ff 128 --window 64 --ctx 65536 --type f32 --template think",
                 memory_kinds[i], kind_layers[i]);
        make("TINY_MODEL", kind_files[i], memory_kinds[i], options);
    }
    for (int i = 0; i < N_CALM; i++) {
        char options[200];
        snprintf(options, sizeof options, "%s --calm --embd 64 --ff 128 --ctx 65536 --type f32", calm_kinds[i][1]);
        make("TINY_MODEL", calm_files[i], calm_kinds[i][0], options);
    }
    for (int i = 0; i < N_SLICED; i++) {
        char name[20], options[200];
        snprintf(name, sizeof name, "sliced-%d", i);
        snprintf(options, sizeof options,
                 "--arch %s --embd 256 --heads 4 --kv 4 --ff 128 --window 64 --ctx 65536 --type f32", sliced_kinds[i]);
        make("TINY_MODEL", sliced_files[i], name, options);
    }
    make("TINY_MMPROJ", vision, "vision", "--layers 8 --embd 384 --ff 1536 --image 448"); /* slow ones */
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[400];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

void up(struct client *c, const char *model, const char *more)
{
    client_start(c, "{'model': '%s', " PLAIN "%s}", model, more);
    if (!c->ready) fail_msg("not up: %s", json_string_value(json_object_get(c->failed, "message")));
}

void down(struct client *c) { assert_int_equal(client_stop(c, 0), 0); }

void ask_status(struct client *c)
{
    json_decref(c->status);
    c->status = NULL;
    client_send(c, VR_WIRE_STATS, 0, NULL, 0);
    while (!c->status) client_read(c, 1000);
}

char *ask_text(struct client *c, const char *body)
{
    struct answer a;
    client_ask(c, &a, 1, "{%s}", body);
    client_wait(c, &a);
    if (a.error) fail_msg("%s: %s", body, json_string_value(json_object_get(a.error, "message")));
    char *text = strdup(vr_buf_str(&a.text[0]));
    answer_done(&a);
    return text;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_text_everywhere),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_load_refusals),
        cmocka_unit_test(test_planned_splits),
        cmocka_unit_test(test_stream_is_the_same),
        cmocka_unit_test(test_echo_tokens_and_prompts),
        cmocka_unit_test(test_characters_are_whole),
        cmocka_unit_test(test_seeds_and_choices),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_embeddings),
        cmocka_unit_test(test_prefix_reuse),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_cells_run_out),
        cmocka_unit_test(test_context_is_full),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_fairness),
        cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_histories),
        cmocka_unit_test(test_restarts),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_streams_beside_a_picture),
        cmocka_unit_test(test_cancel_a_picture),
        cmocka_unit_test(test_json_schema),
        cmocka_unit_test(test_tools),
        cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_hostile_grammars),
        cmocka_unit_test(test_guesses),
        cmocka_unit_test(test_guesses_side_by_side),
        cmocka_unit_test(test_guesses_and_the_cache),
        cmocka_unit_test(test_guesses_keep_the_distribution),
        cmocka_unit_test(test_guess_refusals),
        cmocka_unit_test(test_hang_up_and_nonsense),
        cmocka_unit_test(test_stop_finishes_streams),
        cmocka_unit_test(test_front_that_does_not_read),
    };
    const char *only = argc == 2 ? argv[1] : getenv("ONLY");
    if (only) cmocka_set_test_filter(only);
    return cmocka_run_group_tests(tests, setup, teardown);
}
