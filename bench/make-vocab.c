/* Writes a small model with a vocabulary and as many merges: make-vocab FILE N */
#include "gguf_maker.h"

int main(int argc, char **argv)
{
    if (argc != 3) return fprintf(stderr, "usage: make-vocab FILE N\n"), 2;
    MK_AUTO g = { 0 };
    mk_llama(&g, 32);
    mk_vocab(&g, "tokenizer.ggml.tokens", "token", (size_t)atol(argv[2]));
    mk_vocab(&g, "tokenizer.ggml.merges", "tok en", (size_t)atol(argv[2]));
    mk_write(&g, argv[1]);
    return 0;
}
