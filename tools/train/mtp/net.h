/* The network: llama.cpp's architecture qwen35, three layers with a gated delta rule for one with attention, and a head
 * for multi-token prediction, which is such a layer with attention behind a token and the hidden state before it. */
#ifndef TRAIN_MTP_NET_H
#define TRAIN_MTP_NET_H

#include "tape.h"

enum {
    EMBD = 96,
    FF = 192,
    LAYERS = 8,
    EVERY = 4, /* the last of so many layers has attention */
    STATE = 32,
    STATE_HEADS = 3,
    HEAD = 64,
    HEADS = 2,
    KV = 1,
    N_ROT = 16,
    KERNEL_SIZE = 4,
    VOCAB = 288,
    GUESSES = 3 /* that the head learns to make one after the other */
};
#define EPS  1e-6f
#define BASE 10000.0f

struct weight {
    char name[48];
    struct mat m;
    float *mean, *square; /* Adam's */
    bool decays;
};

struct net {
    struct weight w[160];
    int n;
};

bool net_init(struct net *n, unsigned long seed);
const struct mat *net_weight(const struct net *n, const char *name);
/* Logits of every row, and of the head's guesses: one for each place before it that the head must do without. */
void net_run(const struct net *n, struct tape *t, const int *ids, int rows, struct mat *logits[1 + GUESSES]);

#endif
