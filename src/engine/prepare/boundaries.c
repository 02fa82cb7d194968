#include "engine/prepare/boundaries.h"

#include <string.h>

enum {
    USERS = 8,  /* messages of the user */
    TELLS = 256 /* bytes of a message by which it is found */
};

/* --- offsets --- */

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Templates take white space off messages. */
static struct vr_span trimmed(const json_t *text)
{
    struct vr_span s = { json_string_value(text), json_string_length(text) };
    while (s.n && is_space(s.data[0])) s.data++, s.n--;
    while (s.n && is_space(s.data[s.n - 1])) s.n--;
    return s;
}

/* The first or the last text of a message; empty where there is none. */
static struct vr_span text_of(const json_t *message, bool last)
{
    const json_t *content = json_object_get(message, "content");
    struct vr_span none = { "", 0 };
    if (json_is_string(content)) return trimmed(content);
    size_t n = json_array_size(content);
    for (size_t i = 0; i < n; i++) {
        const json_t *text = json_object_get(json_array_get(content, last ? n - 1 - i : i), "text");
        if (json_is_string(text)) return trimmed(text);
    }
    return none;
}

/* Where `what` is for the last time before `end`; SIZE_MAX: nowhere. */
static size_t find_last(const char *text, size_t end, struct vr_span what)
{
    if (what.n == 0 || what.n > end) return SIZE_MAX;
    for (size_t at = end - what.n + 1; at-- > 0;)
        if (text[at] == what.data[0] && memcmp(text + at, what.data, what.n) == 0) return at;
    return SIZE_MAX;
}

static bool is_user(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && strcmp(role, "user") == 0;
}

/* Behind the end of a message that ends before *end; *end becomes where its text begins, as far as that was looked at.
 * SIZE_MAX: not found. */
static size_t behind(const json_t *message, struct vr_span text, size_t *end)
{
    struct vr_span s = text_of(message, true);
    size_t tail = s.n < TELLS ? s.n : TELLS;
    size_t at = find_last(text.data, *end, (struct vr_span){ s.data + s.n - tail, tail });
    if (at == SIZE_MAX) return SIZE_MAX;
    *end = at;
    return at + tail;
}

static size_t before(const json_t *message, struct vr_span text, size_t end)
{
    struct vr_span s = text_of(message, false);
    if (s.n > TELLS) s.n = TELLS;
    return find_last(text.data, end, s);
}

size_t vr_boundaries_offsets(const json_t *messages, struct vr_span text, struct vr_span begun,
                             size_t out[VR_MOST_BOUNDARIES])
{
    size_t found[VR_MOST_BOUNDARIES], n = 0, end = text.n, users = 0;
    bool ends = begun.n && begun.n < text.n && memcmp(text.data + text.n - begun.n, begun.data, begun.n) == 0;
    if (ends) found[n++] = end = text.n - begun.n;
    for (size_t i = json_array_size(messages); i-- > 0 && users < USERS;) {
        const json_t *message = json_array_get(messages, i);
        if (!is_user(message)) continue;
        size_t at = behind(message, text, &end);
        if (at == SIZE_MAX) continue;
        found[n++] = at;
        if (users++ > 0) continue;
        at = before(message, text, at);
        if (at != SIZE_MAX && at < found[n - 1]) found[n++] = at;
    }
    for (size_t i = 0; i < n; i++) out[i] = found[n - 1 - i];
    return n;
}

/* --- tokens --- */

/* Bytes that a token adds to the text. */
static size_t length(const struct llama_vocab *vocab, llama_token token)
{
    char piece[256];
    int32_t n = llama_token_to_piece(vocab, token, piece, sizeof piece, 0, true);
    return (size_t)(n < 0 ? -n : n);
}

size_t vr_boundaries_find(const struct llama_vocab *vocab, const json_t *messages, struct vr_span text,
                          struct vr_span begun, struct vr_ids tokens, uint32_t out[VR_MOST_BOUNDARIES])
{
    size_t at[VR_MOST_BOUNDARIES], n_at = vr_boundaries_offsets(messages, text, begun, at), i = 0, n = 0;
    uint64_t passed = 0;
    char bos[64];
    int32_t n_bos = tokens.n ? llama_token_to_piece(vocab, tokens.ids[0], bos, sizeof bos, 0, true) : 0;
    bool added = tokens.n && tokens.ids[0] == llama_vocab_bos(vocab) && n_bos > 0 &&
                 ((size_t)n_bos > text.n || memcmp(bos, text.data, (size_t)n_bos) != 0); /* it is not in the text */
    for (uint32_t k = added; k < tokens.n && i < n_at; k++) {
        passed += length(vocab, tokens.ids[k]);
        for (; i < n_at && passed > at[i]; i++)
            if (k > 0 && (n == 0 || out[n - 1] < k)) out[n++] = k;
    }
    return n;
}
