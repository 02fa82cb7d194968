/* The engine process, end to end: a small model made on the spot, real frames, real computation; GPUs are virtual ones
 * that execute. $ENGINE_MAIN is the program, $TINY_MODEL and $TINY_MMPROJ the tools that make
 * models. */
#include "test_engine.h"

char dense[300], moe[300], think[300], vectors[300], vision[300];
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
        cmocka_unit_test(test_streams_beside_a_picture),
        cmocka_unit_test(test_cancel_a_picture),
        cmocka_unit_test(test_json_schema),
        cmocka_unit_test(test_tools),
        cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_hostile_grammars),
        cmocka_unit_test(test_hang_up_and_nonsense),
        cmocka_unit_test(test_stop_finishes_streams),
        cmocka_unit_test(test_front_that_does_not_read),
    };
    if (argc == 2) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, setup, teardown);
}
