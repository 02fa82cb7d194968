#include "gguf/role.h"

#include <ctype.h>
#include <string.h>

enum where { LAYER, OUTSIDE };
enum how { PREFIX, SUFFIX, CONTAINS };

static const struct {
    enum where where;
    enum how how;
    const char *text;
    enum vr_role role;
} rules[] = {
#define RULE(where, how, text, role) { where, how, text, role },
#include "gguf/role_rules.def"
#undef RULE
};

static const char *const role_names[VR_N_ROLES] = {
#define ROLE(id, name) [id] = name,
#include "gguf/roles.def"
#undef ROLE
};

const char *vr_role_name(enum vr_role role) { return role_names[role]; }

/* Behind "blk.N." (or the encoder's and decoder's), with N in *layer; NULL when the name is not of a layer. */
static const char *in_layer(const char *name, int32_t *layer)
{
    if (strncmp(name, "enc.", 4) == 0 || strncmp(name, "dec.", 4) == 0) name += 4;
    if (strncmp(name, "blk.", 4) != 0 || !isdigit((unsigned char)name[4])) return NULL;
    int32_t n = 0;
    const char *p = name + 4;
    for (; isdigit((unsigned char)*p); p++) {
        if (n > 99999) return NULL;
        n = n * 10 + (*p - '0');
    }
    if (*p != '.') return NULL;
    *layer = n;
    return p + 1;
}

int32_t vr_role_layer(const char *tensor_name)
{
    int32_t layer = -1;
    in_layer(tensor_name, &layer);
    return layer;
}

/* Without what stands behind the last dot, unless that is an expert's number ("ffn_up.7.weight" keeps "ffn_up.7"). */
static size_t stem_length(const char *s)
{
    const char *dot = strrchr(s, '.');
    return dot ? (size_t)(dot - s) : strlen(s);
}

static bool matches(enum how how, const char *stem, size_t n, const char *text)
{
    size_t m = strlen(text);
    if (m > n) return false;
    switch (how) {
    case PREFIX: return memcmp(stem, text, m) == 0;
    case SUFFIX: return memcmp(stem + n - m, text, m) == 0;
    case CONTAINS: return memmem(stem, n, text, m) != NULL;
    }
    return false;
}

enum vr_role vr_role_of(const char *tensor_name)
{
    int32_t layer;
    const char *stem = in_layer(tensor_name, &layer);
    enum where where = stem ? LAYER : OUTSIDE;
    if (!stem) stem = tensor_name;
    size_t n = stem_length(stem);
    for (size_t i = 0; i < VR_COUNT(rules); i++)
        if (rules[i].where == where && matches(rules[i].how, stem, n, rules[i].text)) return rules[i].role;
    return VR_ROLE_OTHER;
}
