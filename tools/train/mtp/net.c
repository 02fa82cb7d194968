#include "net.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rhymes.h"

/* How a weight begins: ones, noise for its number of inputs, less of it where layers add up, or one for each head. */
enum start { ONES, NOISE, BRANCH, TABLE, RATES, STEPS };

static float normal(uint64_t *luck)
{
    float u = ((float)draw(luck, 1 << 24) + 1) / (1 << 24), v = (float)draw(luck, 1 << 24) / (1 << 24);
    return sqrtf(-2 * logf(u)) * cosf(6.2831853f * v);
}

static float first_value(enum start s, int cols, int i, uint64_t *luck)
{
    float spread = 0.7f / sqrtf((float)cols);
    switch (s) {
    case ONES: return 1;
    case TABLE: return 0.05f * normal(luck);
    case BRANCH: return spread * normal(luck) / sqrtf(2 * LAYERS);
    case RATES: return logf(1 + (float)i);
    case STEPS: return logf(expf(0.003f * powf(6, (float)i)) - 1); /* softplus gives 0.003, 0.018, 0.108 */
    default: return spread * normal(luck);
    }
}

static bool add(struct net *n, int il, const char *name, int rows, int cols, enum start s, uint64_t *luck)
{
    struct weight *w = &n->w[n->n++];
    size_t count = (size_t)rows * (size_t)cols;
    float *all = calloc(4 * count, sizeof *all);
    if (!all) return false;
    if (il < 0)
        snprintf(w->name, sizeof w->name, "%s", name);
    else
        snprintf(w->name, sizeof w->name, "blk.%d.%s", il, name);
    w->m = (struct mat){ all, all + count, rows, cols };
    w->mean = all + 2 * count;
    w->square = all + 3 * count;
    w->decays = rows > 1;
    for (size_t i = 0; i < count; i++) w->m.x[i] = first_value(s, cols, (int)i, luck);
    return true;
}

static bool add_delta(struct net *n, int il, uint64_t *luck)
{
    int all = STATE * STATE_HEADS;
    return add(n, il, "attn_qkv.weight", 3 * all, EMBD, NOISE, luck) &&
           add(n, il, "attn_gate.weight", all, EMBD, NOISE, luck) &&
           add(n, il, "ssm_conv1d.weight", 3 * all, KERNEL_SIZE, NOISE, luck) &&
           add(n, il, "ssm_dt.bias", 1, STATE_HEADS, STEPS, luck) && add(n, il, "ssm_a", 1, STATE_HEADS, RATES, luck) &&
           add(n, il, "ssm_beta.weight", STATE_HEADS, EMBD, NOISE, luck) &&
           add(n, il, "ssm_alpha.weight", STATE_HEADS, EMBD, NOISE, luck) &&
           add(n, il, "ssm_norm.weight", 1, STATE, ONES, luck) && add(n, il, "ssm_out.weight", EMBD, all, BRANCH, luck);
}

static bool add_attention(struct net *n, int il, uint64_t *luck)
{
    return add(n, il, "attn_q.weight", 2 * HEAD * HEADS, EMBD, NOISE, luck) &&
           add(n, il, "attn_k.weight", HEAD * KV, EMBD, NOISE, luck) &&
           add(n, il, "attn_v.weight", HEAD * KV, EMBD, NOISE, luck) &&
           add(n, il, "attn_output.weight", EMBD, HEAD * HEADS, BRANCH, luck) &&
           add(n, il, "attn_q_norm.weight", 1, HEAD, ONES, luck) &&
           add(n, il, "attn_k_norm.weight", 1, HEAD, ONES, luck);
}

static bool is_delta(int il) { return il < LAYERS && (il + 1) % EVERY; }

bool net_init(struct net *n, unsigned long seed)
{
    uint64_t luck = seed;
    bool ok = add(n, -1, "token_embd.weight", VOCAB, EMBD, TABLE, &luck) &&
              add(n, -1, "output_norm.weight", 1, EMBD, ONES, &luck);
    for (int il = 0; ok && il <= LAYERS; il++)
        ok = add(n, il, "attn_norm.weight", 1, EMBD, ONES, &luck) &&
             (is_delta(il) ? add_delta(n, il, &luck) : add_attention(n, il, &luck)) &&
             add(n, il, "post_attention_norm.weight", 1, EMBD, ONES, &luck) &&
             add(n, il, "ffn_gate.weight", FF, EMBD, NOISE, &luck) &&
             add(n, il, "ffn_up.weight", FF, EMBD, NOISE, &luck) &&
             add(n, il, "ffn_down.weight", EMBD, FF, BRANCH, &luck);
    return ok && add(n, LAYERS, "nextn.eh_proj.weight", EMBD, 2 * EMBD, NOISE, &luck) &&
           add(n, LAYERS, "nextn.enorm.weight", 1, EMBD, ONES, &luck) &&
           add(n, LAYERS, "nextn.hnorm.weight", 1, EMBD, ONES, &luck) &&
           add(n, LAYERS, "nextn.shared_head_norm.weight", 1, EMBD, ONES, &luck);
}

const struct mat *net_weight(const struct net *n, const char *name)
{
    for (int i = 0; i < n->n; i++)
        if (strcmp(n->w[i].name, name) == 0) return &n->w[i].m;
    fprintf(stderr, "no weight '%s'\n", name);
    exit(1);
}

static const struct mat *of(const struct net *n, int il, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%d.%s", il, name);
    return net_weight(n, full);
}

static struct mat *delta_net(const struct net *n, struct tape *t, const struct mat *x, int il)
{
    enum { ALL = STATE * STATE_HEADS };
    const struct mat *qkv =
        op_silu(t, op_conv(t, op_mul(t, x, of(n, il, "attn_qkv.weight")), of(n, il, "ssm_conv1d.weight")));
    const struct delta d = {
        .q = op_norm(t, op_take(t, qkv, 3 * ALL, 0, ALL), NULL, STATE, EPS),
        .k = op_norm(t, op_take(t, qkv, 3 * ALL, ALL, ALL), NULL, STATE, EPS),
        .v = op_take(t, qkv, 3 * ALL, 2 * ALL, ALL),
        .beta = op_mul(t, x, of(n, il, "ssm_beta.weight")),
        .decay = op_mul(t, x, of(n, il, "ssm_alpha.weight")),
        .dt = of(n, il, "ssm_dt.bias"),
        .a_log = of(n, il, "ssm_a"),
        .width = STATE,
    };
    const struct mat *gate = op_mul(t, x, of(n, il, "attn_gate.weight"));
    const struct mat *y = op_norm(t, op_delta(t, &d), of(n, il, "ssm_norm.weight"), STATE, EPS);
    return op_mul(t, op_silu_mul(t, gate, y), of(n, il, "ssm_out.weight"));
}

static struct mat *attention(const struct net *n, struct tape *t, const struct mat *x, int il)
{
    const struct mat *both = op_mul(t, x, of(n, il, "attn_q.weight")); /* of each head: query, gate */
    const struct mat *q = op_norm(t, op_take(t, both, 2 * HEAD, 0, HEAD), of(n, il, "attn_q_norm.weight"), HEAD, EPS);
    const struct mat *k =
        op_norm(t, op_mul(t, x, of(n, il, "attn_k.weight")), of(n, il, "attn_k_norm.weight"), HEAD, EPS);
    const struct mat *v = op_mul(t, x, of(n, il, "attn_v.weight"));
    const struct mat *y = op_attend(t, op_rope(t, q, HEAD, N_ROT, BASE), op_rope(t, k, HEAD, N_ROT, BASE), v, HEAD);
    y = op_sigmoid_mul(t, op_take(t, both, 2 * HEAD, HEAD, HEAD), y);
    return op_mul(t, y, of(n, il, "attn_output.weight"));
}

static const struct mat *layer(const struct net *n, struct tape *t, const struct mat *x, int il)
{
    const struct mat *h = op_norm(t, x, of(n, il, "attn_norm.weight"), EMBD, EPS);
    x = op_add(t, x, is_delta(il) ? delta_net(n, t, h, il) : attention(n, t, h, il));
    h = op_norm(t, x, of(n, il, "post_attention_norm.weight"), EMBD, EPS);
    h = op_silu_mul(t, op_mul(t, h, of(n, il, "ffn_gate.weight")), op_mul(t, h, of(n, il, "ffn_up.weight")));
    return op_add(t, x, op_mul(t, h, of(n, il, "ffn_down.weight")));
}

static const struct mat *head(const struct net *n, struct tape *t, const struct mat *token, const struct mat *hidden)
{
    const struct mat *e = op_norm(t, token, of(n, LAYERS, "nextn.enorm.weight"), EMBD, EPS);
    const struct mat *h = op_norm(t, op_later(t, hidden), of(n, LAYERS, "nextn.hnorm.weight"), EMBD, EPS);
    const struct mat *x = layer(n, t, op_mul(t, op_join(t, e, h), of(n, LAYERS, "nextn.eh_proj.weight")), LAYERS);
    return op_norm(t, x, of(n, LAYERS, "nextn.shared_head_norm.weight"), EMBD, EPS);
}

void net_run(const struct net *n, struct tape *t, const int *ids, int rows, struct mat *logits[1 + GUESSES])
{
    const struct mat *table = net_weight(n, "token_embd.weight"), *token = op_embed(t, table, ids, rows), *x = token;
    for (int il = 0; il < LAYERS; il++) x = layer(n, t, x, il);
    const struct mat *hidden = op_norm(t, x, net_weight(n, "output_norm.weight"), EMBD, EPS);
    logits[0] = op_mul(t, hidden, table);
    for (int i = 1; i <= GUESSES; i++) {
        hidden = head(n, t, token, hidden);
        logits[i] = op_mul(t, hidden, table);
    }
}
