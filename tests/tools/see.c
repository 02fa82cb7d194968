/* What llama.cpp's own helper makes of a picture: the reference for ours.
 *
 *     see MODEL MMPROJ PICTURE PROMPT N        PROMPT holds <__media__> for the picture; N tokens, greedy, on standard
 * output */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llama.h>
#include <mtmd-helper.h>
#include <mtmd.h>

static void quiet(enum ggml_log_level level, const char *text, void *ctx)
{
    (void)ctx;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static void fail(const char *what)
{
    fprintf(stderr, "see: %s\n", what);
    exit(2);
}

static llama_token best(const float *v, int32_t n)
{
    llama_token at = 0;
    for (int32_t i = 1; i < n; i++)
        if (v[i] > v[at]) at = i;
    return at;
}

int main(int argc, char **argv)
{
    if (argc != 6) fail("usage: see MODEL MMPROJ PICTURE PROMPT N");
    llama_log_set(quiet, NULL);
    mtmd_log_set(quiet, NULL);
    mtmd_helper_log_set(quiet, NULL);
    ggml_backend_load_all_from_path(getenv("SEE_ENGINE"));
    struct llama_model_params mp = llama_model_default_params();
    mp.use_extra_bufts = false;
    struct llama_model *model = llama_model_load_from_file(argv[1], mp);
    struct llama_context_params cp = llama_context_default_params();
    cp.n_ctx = 2048;
    cp.n_batch = cp.n_ubatch = 512;
    cp.n_threads = cp.n_threads_batch = 1;
    cp.type_k = cp.type_v = GGML_TYPE_F32;
    cp.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    struct llama_context *ctx = model ? llama_init_from_model(model, cp) : NULL;
    struct mtmd_context_params ep = mtmd_context_params_default();
    ep.use_gpu = false;
    ep.n_threads = 1;
    ep.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    mtmd_context *vision = ctx ? mtmd_init_from_file(argv[2], model, ep) : NULL;
    if (!vision) fail("it does not load");
    mtmd_bitmap *picture =
        mtmd_helper_bitmap_init_from_file(vision, argv[3], false, mtmd_helper_init_opt_default()).bitmap;
    if (!picture) fail("the picture cannot be read");
    mtmd_input_chunks *chunks = mtmd_input_chunks_init();
    struct mtmd_input_text text = { argv[4], strlen(argv[4]), true, true };
    const mtmd_bitmap *pictures[] = { picture };
    if (mtmd_tokenize(vision, chunks, &text, pictures, 1) != 0) fail("the prompt does not tokenize");
    llama_pos pos = 0;
    if (mtmd_helper_eval_chunks(vision, ctx, chunks, 0, 0, 512, true, &pos) != 0) fail("the prompt does not compute");
    const struct llama_vocab *vocab = llama_model_get_vocab(model);
    for (int i = 0; i < atoi(argv[5]); i++) {
        llama_token token = best(llama_get_logits_ith(ctx, -1), llama_vocab_n_tokens(vocab));
        char piece[64];
        int n = llama_token_to_piece(vocab, token, piece, sizeof piece, 0, false);
        if (n > 0) fwrite(piece, 1, (size_t)n, stdout);
        llama_seq_id seq = 0, *seqs = &seq;
        int8_t logits = 1;
        int32_t one = 1;
        struct llama_batch b = { 1, &token, NULL, &pos, &one, &seqs, &logits };
        if (llama_decode(ctx, b) != 0) fail("a token does not compute");
        pos++;
    }
    mtmd_input_chunks_free(chunks);
    mtmd_bitmap_free(picture);
    mtmd_free(vision);
    llama_free(ctx);
    llama_model_free(model);
    return 0;
}
