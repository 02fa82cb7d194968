/* Arguments of calls are JSON inside a string, which templates may have parsed: there a special text can be spelled
 * with escapes. Where it is, the string is replaced by the same JSON without needless escapes, in which it can be
 * marked.
 *
 * A template that takes words out of a message can make a special text of two halves ("<|im_/thinkend|>" without
 * "/think"). For such templates every character of a message that a special text begins with gets a mark. */
#include "engine/content/marks.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"

enum { FIRST_NONCHARACTER = 0xFDD0, N_NONCHARACTERS = 32 };

struct rule { /* how a string is to be marked */
    unsigned kinds;
    bool wide; /* each first character of a special text */
};

static const struct rule plain = { VR_SPECIAL_ANY, false };

/* --- text --- */

static size_t char_len(const char *s, size_t n)
{
    size_t len = vr_utf8_len((const unsigned char *)s, n);
    return len ? len : 1;
}

static void mark_text(struct vr_marks *m, struct rule r, const char *s, size_t n, struct vr_buf *out)
{
    size_t from = 0;
    for (size_t i = 0; i < n;) {
        bool begins = vr_specials_begin(m->specials, r.kinds, s + i, n - i) > 0;
        bool marked = begins || (r.wide && vr_specials_first(m->specials, s[i]));
        i += char_len(s + i, n - i);
        if (!marked) continue;
        vr_buf_add(out, s + from, i - from);
        vr_buf_adds(out, m->mark);
        from = i;
        m->n++;
    }
    vr_buf_add(out, s + from, n - from);
}

static int hex4(const char *s, size_t n)
{
    int value = 0;
    if (n < 4) return -1;
    for (int i = 0; i < 4; i++) {
        int digit = s[i] >= '0' && s[i] <= '9'   ? s[i] - '0'
                    : s[i] >= 'a' && s[i] <= 'f' ? s[i] - 'a' + 10
                    : s[i] >= 'A' && s[i] <= 'F' ? s[i] - 'A' + 10
                                                 : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

static void add_utf8(struct vr_buf *out, unsigned code)
{
    char b[4];
    size_t n = 0;
    if (code < 0x80) {
        b[n++] = (char)code;
    } else if (code < 0x800) {
        b[n++] = (char)(0xC0 | code >> 6);
    } else if (code < 0x10000) {
        b[n++] = (char)(0xE0 | code >> 12);
        b[n++] = (char)(0x80 | (code >> 6 & 63));
    } else {
        b[n++] = (char)(0xF0 | code >> 18);
        b[n++] = (char)(0x80 | (code >> 12 & 63));
        b[n++] = (char)(0x80 | (code >> 6 & 63));
    }
    if (code >= 0x80) b[n++] = (char)(0x80 | (code & 63));
    vr_buf_add(out, b, n);
}

/* The escape at s, which begins with a backslash: the bytes that it takes, and its character, or -1 if it must stay. */
static size_t read_escape(const char *s, size_t n, int *code)
{
    *code = -1;
    if (n < 2) return n;
    if (s[1] == '/') return *code = '/', 2;
    int high = s[1] == 'u' ? hex4(s + 2, n - 2) : -1;
    if (high < 0) return 2;
    if (high >= 0xD800 && high < 0xDC00) {
        int low = n >= 12 && s[6] == '\\' && s[7] == 'u' ? hex4(s + 8, n - 8) : -1;
        if (low < 0xDC00 || low > 0xDFFF) return 6;
        *code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
        return 12;
    }
    if (high >= 0x20 && high != '"' && high != '\\' && !(high >= 0xDC00 && high < 0xE000)) *code = high;
    return 6;
}

/* JSON in a string, with its characters written as themselves where JSON allows it. */
static void without_escapes(const char *s, size_t n, struct vr_buf *out)
{
    for (size_t i = 0; i < n;) {
        const char *next = memchr(s + i, '\\', n - i);
        size_t len = next ? (size_t)(next - s) - i : n - i;
        vr_buf_add(out, s + i, len);
        i += len;
        if (!next) break;
        int code;
        len = read_escape(next, n - i, &code);
        if (code >= 0)
            add_utf8(out, (unsigned)code);
        else
            vr_buf_add(out, next, len);
        i += len;
    }
}

/* --- values --- */

static json_t *take_string(struct vr_marks *m, struct vr_buf *b)
{
    json_t *v = b->failed ? NULL : json_stringn(vr_buf_str(b), b->n);
    if (!v) m->failed = true;
    return v;
}

static json_t *mark_string(struct vr_marks *m, struct rule r, const json_t *v)
{
    VR_AUTO_BUF b = { 0 };
    mark_text(m, r, json_string_value(v), json_string_length(v), &b);
    return take_string(m, &b);
}

static json_t *mark_arguments(struct vr_marks *m, const json_t *v)
{
    VR_AUTO_BUF plainly = { 0 };
    without_escapes(json_string_value(v), json_string_length(v), &plainly);
    VR_AUTO_BUF b = { 0 };
    size_t before = m->n;
    mark_text(m, plain, vr_buf_str(&plainly), plainly.n, &b);
    if (plainly.failed) b.failed = true;
    return m->n > before || b.failed ? take_string(m, &b) : mark_string(m, plain, v);
}

static json_t *mark_value(struct vr_marks *m, struct rule r, const json_t *v);

static json_t *mark_object(struct vr_marks *m, struct rule r, const json_t *v)
{
    json_t *out = json_object(), *item;
    const char *key;
    json_object_foreach((json_t *)v, key, item)
    {
        VR_AUTO_BUF name = { 0 };
        mark_text(m, plain, key, strlen(key), &name);
        bool arguments = strcmp(key, "arguments") == 0 && json_is_string(item);
        json_t *copy = arguments ? mark_arguments(m, item) : mark_value(m, r, item);
        if (name.failed || json_object_set_new(out, vr_buf_str(&name), copy) != 0) m->failed = true;
    }
    return out;
}

static json_t *mark_value(struct vr_marks *m, struct rule r, const json_t *v)
{
    if (json_is_string(v)) return mark_string(m, r, v);
    if (json_is_object(v)) return mark_object(m, r, v);
    if (!json_is_array(v)) return json_incref((json_t *)v);
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(v); i++)
        if (json_array_append_new(out, mark_value(m, r, json_array_get(v, i))) != 0) m->failed = true;
    return out;
}

static json_t *finish(struct vr_marks *m, json_t *v)
{
    if (v && !m->failed) return v;
    json_decref(v);
    m->failed = true;
    return NULL;
}

json_t *vr_marks_value(struct vr_marks *m, const json_t *v) { return finish(m, mark_value(m, plain, v)); }

/* Text, or parts of which some are not: the marker of a picture stays whole, and so do the names of kinds. */
static json_t *mark_speech(struct vr_marks *m, struct rule r, const json_t *content)
{
    if (!json_is_array(content)) return mark_value(m, r, content);
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(content); i++) {
        json_t *part = json_array_get(content, i), *type = json_object_get(part, "type"), *copy = NULL;
        const char *word = json_string_value(type);
        if (word && strcmp(word, "text") == 0) {
            json_t *text = json_object_get(part, "text");
            copy = json_pack("{s:O, s:o}", "type", type, "text", mark_value(m, r, text));
        }
        if (json_array_append_new(out, copy ? copy : json_incref(part)) != 0) m->failed = true;
    }
    return out;
}

/* Roles are a few words that the front has checked, and templates make tokens of them. */
static json_t *mark_message(struct vr_marks *m, const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role")), *key;
    bool assistant = role && strcmp(role, "assistant") == 0;
    struct rule said = { assistant ? VR_SPECIAL_CONTROL : VR_SPECIAL_ANY,
                         !assistant && vr_specials_may_join(m->specials) };
    json_t *out = json_object(), *item;
    json_object_foreach((json_t *)message, key, item)
    {
        bool speech = strcmp(key, "content") == 0 || strcmp(key, "reasoning_content") == 0;
        json_t *copy = strcmp(key, "role") == 0 ? json_incref(item)
                       : speech                 ? mark_speech(m, said, item)
                                                : mark_value(m, plain, item);
        if (json_object_set_new(out, key, copy) != 0) m->failed = true;
    }
    return out;
}

json_t *vr_marks_messages(struct vr_marks *m, const json_t *messages)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(messages); i++)
        if (json_array_append_new(out, mark_message(m, json_array_get(messages, i))) != 0) m->failed = true;
    return finish(m, out);
}

/* --- before and after --- */

bool vr_marks_needed(const struct vr_specials *s, const char *json)
{
    size_t n = json ? strlen(json) : 0;
    if (n && vr_specials_hide(s)) return true;
    for (size_t i = 0; i < n; i++) {
        if (vr_specials_begin(s, VR_SPECIAL_ANY, json + i, n - i)) return true;
        if (json[i] == '\\' && (json[i + 1] == 'u' || json[i + 1] == '/')) return true; /* perhaps inside arguments */
        if (vr_specials_may_join(s) && vr_specials_first(s, json[i])) return true;
    }
    return false;
}

static void spell(const char *mark, char escaped[8])
{
    const unsigned char *b = (const unsigned char *)mark;
    snprintf(escaped, 8, "\\u%04x", (b[0] & 15u) << 12 | (b[1] & 63u) << 6 | (b[2] & 63u));
}

bool vr_marks_init(struct vr_marks *m, const struct vr_specials *s, const char *const *texts, size_t n)
{
    *m = (struct vr_marks){ .specials = s };
    for (unsigned i = 0; i < N_NONCHARACTERS; i++) {
        VR_AUTO_BUF b = { 0 };
        char escaped[8];
        add_utf8(&b, FIRST_NONCHARACTER + i);
        snprintf(m->mark, sizeof m->mark, "%s", vr_buf_str(&b));
        spell(m->mark, escaped);
        bool used = b.failed;
        for (size_t k = 0; k < n; k++)
            used = used || (texts[k] && (strstr(texts[k], m->mark) || strcasestr(texts[k], escaped)));
        if (!used) return true;
    }
    return false;
}

/* `from` in a text becomes `to`. */
static void replace(const char *text, size_t n, const char *from, const char *to, struct vr_buf *out)
{
    size_t len = strlen(from);
    const char *end = text + n, *at;
    while ((at = memmem(text, (size_t)(end - text), from, len))) {
        vr_buf_add(out, text, (size_t)(at - text));
        vr_buf_adds(out, to);
        text = at + len;
    }
    vr_buf_add(out, text, (size_t)(end - text));
}

void vr_marks_rendered(const struct vr_marks *m, const char *text, size_t n, struct vr_buf *out)
{
    char escaped[8];
    spell(m->mark, escaped);
    replace(text, n, escaped, m->mark, out);
}

void vr_marks_remove(const struct vr_marks *m, const char *text, size_t n, struct vr_buf *out)
{
    replace(text, n, m->mark, "", out);
}
