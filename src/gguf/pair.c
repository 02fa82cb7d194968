/* The vocabularies are compared token by token in the files themselves, through two windows: neither is kept in memory.
 * Only what a header says is judged here; what it leaves to a tokenizer's defaults, the engine checks when it loads. */
#include "gguf/pair.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "gguf/cursor.h"
#include "gguf/head.h"

#define FIRST_COMPARED 5 /* the engine does not look at the first ones: padding and the like are often renamed */
#define LONGEST_TOKEN  65536

/* Architectures that are half a model: they read the hidden states of theirs, and draft in ways of their own. DSpark's
 * and DFlash 2's is DFlash's, and each has tensors more. */
static const struct half {
    const char *arch, *tensor, *what;
    bool used;
} halves[] = { { "eagle3", NULL, "an EAGLE-3 head", true },
               { "gemma4-assistant", NULL, "a Gemma 4 assistant", true },
               { "dflash", "markov_w1.weight", "a DSpark head", true },
               { "dflash", "selector_hidden.weight", "a DFlash 2 head", false },
               { "dflash", NULL, "a DFlash head", true } };

static const char *path_of(const struct vr_model *m) { return m->parts[0].path; }

/* Which one it is; NULL: a whole model. */
static const struct half *half(const struct vr_model *m)
{
    for (size_t i = 0; i < VR_COUNT(halves); i++)
        if (strcmp(m->arch, halves[i].arch) == 0 && (!halves[i].tensor || vr_model_tensor(m, halves[i].tensor)))
            return &halves[i];
    return NULL;
}

static bool is_recurrent(const struct vr_model *m)
{
    for (uint32_t i = 0; i < m->n_layers; i++)
        if (m->layers[i].role_bytes[VR_ROLE_RECURRENT]) return true;
    return false;
}

static const char *tokenizer_of(const struct vr_model *m)
{
    const struct vr_meta *e = vr_model_meta(m, "tokenizer.ggml.model");
    return e && e->string ? e->string : "";
}

/* --- token by token --- */

struct list {
    struct vr_cursor c;
    uint8_t window[VR_CURSOR_WINDOW];
    uint8_t text[LONGEST_TOKEN];
    uint64_t length; /* of the token that was read last */
};

static void list_free(struct list *l)
{
    if (l && l->c.fd > 0) close(l->c.fd);
    free(l);
}
VR_DEFINE_AUTO(list);

/* Opens the file at the first token. */
static struct list *list_open(const struct vr_model *m, const struct vr_meta *e, struct vr_err *err)
{
    struct list *l = calloc(1, sizeof *l);
    const char *path = m->parts[e->part].path;
    if (!l) return vr_fail_nomem(err, "comparing vocabularies"), NULL;
    l->c = (struct vr_cursor){ .fd = open(path, O_RDONLY | O_CLOEXEC),
                               .path = path,
                               .size = e->end, /* was checked against the file */
                               .window = l->window,
                               .what = "the value of",
                               .which = e->key };
    uint64_t head = 8 + strlen(e->key) + 4 + 4 + 8; /* key, type, type of its elements, number of them */
    if (l->c.fd < 0)
        vr_fail(err, VR_EIO, "%s: %s", path, strerror(errno));
    else if (vr_cursor_skip(&l->c, e->begin + head, err))
        return l;
    list_free(l);
    return NULL;
}

static bool list_next(struct list *l, struct vr_err *err)
{
    if (!vr_cursor_u64(&l->c, &l->length, err)) return false;
    if (l->length > sizeof l->text)
        return vr_fail(err, VR_EFORMAT, "%s: a token has %" PRIu64 " bytes: the file is corrupt", l->c.path, l->length);
    return vr_cursor_read(&l->c, l->text, (size_t)l->length, err);
}

static bool same_tokens(const struct vr_model *m, const struct vr_model *draft, struct vr_err *err)
{
    const struct vr_meta *a = vr_model_meta(m, "tokenizer.ggml.tokens"),
                         *b = vr_model_meta(draft, "tokenizer.ggml.tokens");
    if (!a || !b || a->elem_type != VR_V_STRING || b->elem_type != VR_V_STRING) return true; /* a header to plan with */
    VR_AUTO(list) x = list_open(m, a, err), *y = x ? list_open(draft, b, err) : NULL;
    if (!x || !y) return false;
    for (uint64_t i = 0; i < a->n && i < b->n; i++) {
        if (!list_next(x, err) || !list_next(y, err)) return false;
        bool same = x->length == y->length && memcmp(x->text, y->text, (size_t)x->length) == 0;
        if (!same && i >= FIRST_COMPARED)
            return vr_fail(err, VR_EUSAGE,
                           "%s cannot be the draft model of %s: token %" PRIu64
                           " differs; use a draft model of the same family",
                           path_of(draft), m->name, i);
    }
    return true;
}

/* --- special tokens --- */

/* "bos" and "eos": whether they are added, and which token they are, where both files say so. */
static bool same_special(const struct vr_model *m, const struct vr_model *draft, const char *which, struct vr_err *err)
{
    char add[64], id[64];
    snprintf(add, sizeof add, "tokenizer.ggml.add_%s_token", which);
    snprintf(id, sizeof id, "tokenizer.ggml.%s_token_id", which);
    uint64_t add_m = vr_model_u64(m, add, 0, 2), add_d = vr_model_u64(draft, add, 0, 2);
    uint64_t id_m = vr_model_u64(m, id, 0, UINT64_MAX), id_d = vr_model_u64(draft, id, 0, UINT64_MAX);
    if (add_m < 2 && add_d < 2 && add_m != add_d)
        return vr_fail(err, VR_EUSAGE, "%s cannot be the draft model of %s: only one of them adds a '%s' token",
                       path_of(draft), m->name, which);
    if (add_m == 1 && add_d == 1 && id_m != UINT64_MAX && id_d != UINT64_MAX && id_m != id_d)
        return vr_fail(err, VR_EUSAGE,
                       "%s cannot be the draft model of %s: its '%s' is token %" PRIu64 ", the model's is %" PRIu64,
                       path_of(draft), m->name, which, id_d, id_m);
    return true;
}

bool vr_pair_model(const struct vr_model *m, struct vr_err *err)
{
    if (vr_model_is_adapter(m))
        return vr_fail(err, VR_EUSAGE, "%s is an adapter, not a model: give the model, and this file with --lora",
                       path_of(m));
    if (half(m))
        return vr_fail(err, VR_EUSAGE, "%s is %s, not a model: give the model, and this file with --draft", path_of(m),
                       half(m)->what);
    if (strcmp(m->arch, "clip") != 0) return true;
    return vr_fail(err, VR_EUSAGE,
                   "%s is a vision projector (mmproj), not a model: give the model, and this file with --mmproj",
                   path_of(m));
}

bool vr_pair_draft(const struct vr_model *m, const struct vr_model *draft, struct vr_err *err)
{
    if (strcmp(draft->arch, "clip") == 0)
        return vr_fail(err, VR_EUSAGE, "%s is a vision projector (mmproj), not a draft model: give it with --mmproj",
                       path_of(draft));
    const struct half *head = half(draft);
    if (head && !head->used)
        return vr_fail(err, VR_EUSAGE,
                       "%s is %s; only complete models, EAGLE-3, DFlash and DSpark heads and Gemma 4 assistants are "
                       "supported with --draft",
                       path_of(draft), head->what);
    if (is_recurrent(draft))
        return vr_fail(err, VR_EUSAGE,
                       "%s is recurrent: its state cannot be rolled back when drafted tokens are rejected, so it "
                       "cannot be a draft model",
                       path_of(draft));
    if (strcmp(tokenizer_of(m), tokenizer_of(draft)) != 0)
        return vr_fail(err, VR_EUSAGE, "%s cannot be the draft model of %s: its tokenizer is '%s', the model's is '%s'",
                       path_of(draft), m->name, tokenizer_of(draft), tokenizer_of(m));
    if (head && !vr_head_check(m, draft, err)) return false;
    uint32_t more = m->n_vocab > draft->n_vocab ? m->n_vocab - draft->n_vocab : draft->n_vocab - m->n_vocab;
    if (more > (head ? 0 : VR_DRAFT_VOCAB_SLACK)) /* a head's logits are those of the model's tokens */
        return vr_fail(err, VR_EUSAGE,
                       "%s cannot be the draft model of %s: its vocabulary has %" PRIu32
                       " tokens, the model's has %" PRIu32 "; use a draft model of the same family",
                       path_of(draft), m->name, draft->n_vocab, m->n_vocab);
    return same_special(m, draft, "bos", err) && same_special(m, draft, "eos", err) && same_tokens(m, draft, err);
}

/* The name of the model's tensor that one of an adapter is for, and which of the two it is: 'a', 'b', or 0. */
static char lora_half(const char *name, char *out, size_t n)
{
    size_t len = strlen(name), tail = strlen(".lora_a");
    if (len <= tail || len - tail >= n || strncmp(name + len - tail, ".lora_", tail - 1) != 0) return 0;
    memcpy(out, name, len - tail);
    out[len - tail] = '\0';
    return name[len - 1] == 'a' || name[len - 1] == 'b' ? name[len - 1] : 0;
}

/* As the engine multiplies: weight (in x out), a (in x rank), b (rank x out); token embeddings are turned around. */
static bool lora_matches(const struct vr_tensor *w, const struct vr_tensor *a, const struct vr_tensor *b)
{
    if (strcmp(w->name, "token_embd.weight") == 0) return w->ne[0] == b->ne[1] && w->ne[1] == a->ne[1];
    return w->ne[0] == a->ne[0] && w->ne[1] == b->ne[1] && a->ne[1] == b->ne[0];
}

static bool check_lora_tensor(const struct vr_model *m, const struct vr_model *lora, const struct vr_tensor *t,
                              struct vr_err *err)
{
    char base[256], other[300];
    char half = lora_half(t->name, base, sizeof base);
    size_t n = strlen(t->name);
    if (!half && n > 12 && strcmp(t->name + n - 12, "_norm.weight") == 0) return true; /* which the engine leaves out */
    if (!half)
        return vr_fail(err, VR_EUSAGE, "%s: the tensor '%s' is none of a LoRA adapter (.lora_a, .lora_b)",
                       path_of(lora), t->name);
    const struct vr_tensor *w = vr_model_tensor(m, base);
    if (!w)
        return vr_fail(err, VR_EUSAGE, "%s is a LoRA adapter of another model: %s has no tensor '%s'", path_of(lora),
                       m->name, base);
    snprintf(other, sizeof other, "%s.lora_%c", base, half == 'a' ? 'b' : 'a');
    const struct vr_tensor *o = vr_model_tensor(lora, other);
    if (!o) return vr_fail(err, VR_EUSAGE, "%s: the tensor '%s' is missing", path_of(lora), other);
    if (lora_matches(w, half == 'a' ? t : o, half == 'a' ? o : t)) return true;
    return vr_fail(err, VR_EUSAGE, "%s is a LoRA adapter of another model: '%s' does not have the shape that %s needs",
                   path_of(lora), t->name, m->name);
}

bool vr_pair_lora(const struct vr_model *m, const struct vr_model *lora, struct vr_err *err)
{
    const struct vr_meta *kind = vr_model_meta(lora, "adapter.type");
    const struct vr_meta *alpha = vr_model_meta(lora, "adapter.lora.alpha");
    if (!vr_model_is_adapter(lora) || !kind || !kind->string || strcmp(kind->string, "lora") != 0)
        return vr_fail(err, VR_EUSAGE, "%s is not a LoRA adapter", path_of(lora));
    if (strcmp(lora->arch, m->arch) != 0)
        return vr_fail(err, VR_EUSAGE, "%s is a LoRA adapter of a '%s' model, and %s is a '%s' model", path_of(lora),
                       lora->arch, m->name, m->arch);
    if (vr_model_meta(lora, "adapter.alora.invocation_tokens"))
        return vr_fail(err, VR_EUSAGE, "%s is an activated LoRA (aLoRA) adapter; only plain ones are supported",
                       path_of(lora));
    if (alpha && alpha->type != VR_V_F32)
        return vr_fail(err, VR_EUSAGE, "%s: adapter.lora.alpha is not a 32-bit number", path_of(lora));
    if (lora->n_tensors == 0 || lora->n_parts != 1)
        return vr_fail(err, VR_EUSAGE, "%s: a LoRA adapter is one file with tensors", path_of(lora));
    for (uint32_t i = 0; i < lora->n_tensors; i++)
        if (!check_lora_tensor(m, lora, &lora->tensors[i], err)) return false;
    return true;
}

bool vr_pair_mmproj(const struct vr_model *mmproj, struct vr_err *err)
{
    if (strcmp(mmproj->arch, "clip") == 0) return true;
    return vr_fail(err, VR_EUSAGE,
                   "%s is a '%s' model, not a vision projector (mmproj), which is usually called mmproj-*.gguf",
                   path_of(mmproj), mmproj->arch);
}

bool vr_pair_width(const struct vr_model *m, const struct vr_model *mmproj, uint32_t width, struct vr_err *err)
{
    /* some models read further embeddings into deeper layers: they come side by side */
    uint64_t want = (uint64_t)m->n_embd * (1 + vr_model_u64(m, ".n_deepstack_layers", 0, 0));
    if (width == want) return true;
    return vr_fail(err, VR_EUSAGE,
                   "%s belongs to another model: its embeddings have %" PRIu32 " dimensions, those of %s have %" PRIu64,
                   path_of(mmproj), width, m->name, want);
}
