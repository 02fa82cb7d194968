/* Fills the tensors of a GGUF file (a header stretched to full size, tools/stretch) with noise that decodes to finite
 * numbers of a sane size: something that loads and computes as the real model would, in seconds.
 *
 *     random-fill FILE...
 *
 * One block of noise is quantized per type and repeated, from another row on in each tensor. Vectors (norms) are around
 * 1. What a token is embedded as is larger than all that layers add: else noise makes all tokens alike after a dozen
 * layers, and they all choose the same experts, as those of a trained model do not. */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ggml.h>
#include <gguf.h>

enum { VALUES = 1 << 20, ROW = 4096, TILE = 8 << 20, THREADS = 16 };

enum kind { MATRIX, VECTOR, EMBEDDING, KINDS };

static struct {
    char *bytes; /* a whole number of blocks, about TILE */
    size_t n;
} tiles[KINDS][GGML_TYPE_COUNT];

static void die(const char *what)
{
    fprintf(stderr, "random-fill: %s\n", what);
    exit(1);
}

static void make_tile(enum kind kind, enum ggml_type type)
{
    static float values[VALUES], ones[ROW];
    uint32_t seed = 1;
    if (tiles[kind][type].bytes) return;
    for (size_t i = 0; i < VALUES; i++) {
        seed = seed * 1664525u + 1013904223u;
        float noise = (float)(seed >> 8) / (float)(1 << 24) - 0.5f;
        values[i] = kind == VECTOR ? 1 + noise / 8 : kind == EMBEDDING ? noise * 16 : noise / 16;
    }
    for (size_t i = 0; i < ROW; i++) ones[i] = 1;
    size_t one = ggml_row_size(type, VALUES), times = TILE / one + 1;
    char *bytes = malloc(one * times);
    if (!bytes) die("out of memory");
    ggml_quantize_chunk(type, values, bytes, 0, VALUES / ROW, ROW, ggml_is_quantized(type) ? ones : NULL);
    for (size_t i = 1; i < times; i++) memcpy(bytes + i * one, bytes, one);
    tiles[kind][type].bytes = bytes;
    tiles[kind][type].n = one * times;
}

struct file {
    int fd;
    struct gguf_context *g;
    struct ggml_context *ctx;
    int64_t next;
    pthread_mutex_t lock;
};

static enum kind kind_of(const struct ggml_tensor *t)
{
    if (strcmp(t->name, "token_embd.weight") == 0) return EMBEDDING;
    return ggml_n_dims(t) == 1 ? VECTOR : MATRIX;
}

static void *fill(void *arg)
{
    struct file *f = arg;
    for (;;) {
        pthread_mutex_lock(&f->lock);
        int64_t i = f->next++;
        pthread_mutex_unlock(&f->lock);
        if (i >= gguf_get_n_tensors(f->g)) return NULL;
        const struct ggml_tensor *t = ggml_get_tensor(f->ctx, gguf_get_tensor_name(f->g, i));
        const char *tile = tiles[kind_of(t)][t->type].bytes;
        size_t room = tiles[kind_of(t)][t->type].n;
        size_t n = ggml_nbytes(t), at = gguf_get_data_offset(f->g) + gguf_get_tensor_offset(f->g, i);
        size_t from = (size_t)i * 37 % (VALUES / ROW) * ggml_row_size(t->type, ROW);
        for (; n; from = 0) {
            size_t part = n < room - from ? n : room - from;
            ssize_t k = pwrite(f->fd, tile + from, part, (off_t)at);
            if (k <= 0 || (size_t)k != part) die("cannot write");
            at += part;
            n -= part;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 2) die("no file");
    for (int a = 1; a < argc; a++) {
        struct file f = { .fd = open(argv[a], O_WRONLY), .lock = PTHREAD_MUTEX_INITIALIZER };
        f.g = gguf_init_from_file(argv[a], (struct gguf_init_params){ true, &f.ctx });
        if (!f.g || f.fd < 0) die("cannot read the file");
        for (int64_t i = 0; i < gguf_get_n_tensors(f.g); i++) {
            const struct ggml_tensor *t = ggml_get_tensor(f.ctx, gguf_get_tensor_name(f.g, i));
            make_tile(kind_of(t), t->type);
        }
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            if (pthread_create(&threads[i], NULL, fill, &f)) die("no threads");
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        close(f.fd);
        gguf_free(f.g);
        ggml_free(f.ctx);
    }
    return 0;
}
