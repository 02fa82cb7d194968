/* What the files of these tests share: the models, an engine that is up, and the list of tests. */
#ifndef TEST_ENGINE_H
#define TEST_ENGINE_H

#include "test.h"

#include "client.h"

/* With f32 everywhere a text does not depend on what else is in the batch: noise has no clear favourites. */
#define PLAIN  "'extra_bufts': false, 'threads': 1, 'type_k': 'f32', 'type_v': 'f32', 'flash_attn': 'off'"
#define FOUR   ", 'n_seq': 4, 'n_ctx': 4096"
#define DEVICE ", 'vgpus': [{'name':'CUDA0','mib':64}], 'devices': ['CUDA0'], 'tensor_split': [7], 'n_gpu_layers': 7"
#define GREEDY                                                                                                         \
    "'kind': 'completion', 'prompt': 'the rain in spain and then another one', 'max_tokens': 48, 'temperature': 0"

extern char dense[300], moe[300], think[300], vectors[300], vision[300]; /* files */
#define N_KINDS 5
extern const char *const memory_kinds[N_KINDS]; /* of memory: attention, window, hybrid, recurrent, MLA */
extern char kind_files[N_KINDS][300];

#define N_CALM 3
extern char calm_files[N_CALM]
                      [300]; /* whose next token is often guessed right: attention, window, hybrid with an MTP head */
#define N_SLICED 3
extern char sliced_files[N_SLICED][300]; /* that can be cut for split mode tensor: attention, window, hybrid */

/* An engine with that model and more of a LOAD message; fails the test when it does not come up. */
void up(struct client *c, const char *model, const char *more);
void down(struct client *c);
/* What it tells of itself now, in c->status. */
void ask_status(struct client *c);
/* A request that ends well; its text. */
char *ask_text(struct client *c, const char *body);

void test_same_text_everywhere(void **state);
void test_out_of_memory(void **state);
void test_load_refusals(void **state);
void test_planned_splits(void **state);
void test_stream_is_the_same(void **state);
void test_echo_tokens_and_prompts(void **state);
void test_characters_are_whole(void **state);
void test_seeds_and_choices(void **state);
void test_logprobs(void **state);
void test_embeddings(void **state);
void test_prefix_reuse(void **state);
void test_many_at_once(void **state);
void test_cells_run_out(void **state);
void test_context_is_full(void **state);
void test_cancel(void **state);
void test_fairness(void **state);
void test_neighbours(void **state);
void test_gaps(void **state);
void test_histories(void **state);
void test_restarts(void **state);
void test_slices(void **state);
void test_turns(void **state);
void test_streams_beside_a_picture(void **state);
void test_cancel_a_picture(void **state);
void test_json_schema(void **state);
void test_tools(void **state);
void test_reasoning(void **state);
void test_refusals(void **state);
void test_hostile_grammars(void **state);
void test_guesses(void **state);
void test_guesses_side_by_side(void **state);
void test_guesses_and_the_cache(void **state);
void test_guesses_keep_the_distribution(void **state);
void test_guess_refusals(void **state);
void test_hang_up_and_nonsense(void **state);
void test_stop_finishes_streams(void **state);
void test_front_that_does_not_read(void **state);

#endif
