#include "engine/wire/pattern.h"

#include <string.h>

#define NEVER_RAW "\"\\\\\\x00-\\x1F" /* in a class: what a JSON string cannot hold as it is */
#define ANY       "[^" NEVER_RAW "]"

struct cursor {
    const char *at, *end;
    struct vr_buf *out;
};

static bool has(const struct cursor *c, size_t n) { return (size_t)(c->end - c->at) >= n; }

/* \d and its like. NULL: it is none of them. */
static const char *members_of(char letter)
{
    switch (letter) {
    case 'd':
    case 'D': return "0-9";
    case 'w':
    case 'W': return "A-Za-z0-9_";
    case 's':
    case 'S': return " ";
    default: return NULL;
    }
}

static bool is_punctuation(char c) { return c && strchr("/_@#:=%&!~<>,;'` ", c); }

/* An escape outside of a class. */
static void write_escape(struct cursor *c)
{
    char e = c->at[1];
    const char *members = members_of(e);
    c->at += 2;
    if (members)
        vr_buf_addf(c->out, e >= 'a' ? "[%s]" : "[^%s" NEVER_RAW "]", members);
    else if (e == '\\')
        vr_buf_adds(c->out, "\\\\\\\\");
    else if (e == '"' || e == 'n' || e == 't' || e == 'r')
        vr_buf_addf(c->out, "\\\\%c", e); /* as JSON writes it */
    else if (is_punctuation(e))
        vr_buf_addc(c->out, e, 1);
    else if (e == '-')
        vr_buf_adds(c->out, "\\x2D");
    else
        vr_buf_addf(c->out, "\\%c", e);
}

/* One member of a class, of which those that a JSON string cannot hold are left out. */
static void write_member(struct cursor *c, bool negated)
{
    char e = c->at[0];
    if (e != '\\' || !has(c, 2)) {
        c->at++;
        if (e == '"' && !negated) return;
        vr_buf_addc(c->out, e, 1);
        return;
    }
    e = c->at[1];
    const char *members = members_of(e);
    c->at += 2;
    if (members && e >= 'a')
        vr_buf_adds(c->out, members);
    else if (e == '\\' || e == '"' || e == 'n' || e == 't' || e == 'r') {
        if (negated) vr_buf_addf(c->out, "\\%c", e);
    } else if (e == '-' || e == '^' || e == ']' || e == '[')
        vr_buf_addf(c->out, "\\x%02X", (unsigned)e);
    else if (is_punctuation(e) || (e && strchr(".+*?(){}|$", e)))
        vr_buf_addc(c->out, e, 1);
    else
        vr_buf_addf(c->out, "\\%c", e);
}

static void write_class(struct cursor *c)
{
    c->at++;
    bool negated = has(c, 1) && *c->at == '^';
    vr_buf_adds(c->out, negated ? "[^" : "[");
    if (negated) c->at++;
    if (has(c, 1) && *c->at == '-') { /* the first one is itself */
        vr_buf_adds(c->out, "\\x2D");
        c->at++;
    }
    while (has(c, 1) && *c->at != ']') {
        if (*c->at == '-' && has(c, 2) && c->at[1] == ']') { /* and so is the last */
            vr_buf_adds(c->out, "\\x2D");
            c->at++;
            continue;
        }
        write_member(c, negated);
    }
    if (has(c, 1)) c->at++;
    vr_buf_adds(c->out, negated ? NEVER_RAW "]" : "]");
}

/* "(?<name>" is "(". */
static void write_group(struct cursor *c)
{
    const char *end = has(c, 4) && memcmp(c->at, "(?<", 3) == 0 && c->at[3] != '=' && c->at[3] != '!'
                          ? memchr(c->at, '>', (size_t)(c->end - c->at))
                          : NULL;
    vr_buf_addc(c->out, '(', 1);
    c->at = end ? end + 1 : c->at + 1;
}

static void write_body(struct cursor *c)
{
    while (has(c, 1)) {
        char x = *c->at;
        if (x == '\\' && has(c, 2))
            write_escape(c);
        else if (x == '[')
            write_class(c);
        else if (x == '(')
            write_group(c);
        else {
            c->at++;
            if (x == '.')
                vr_buf_adds(c->out, ANY);
            else if (x == '"')
                vr_buf_adds(c->out, "\\\\\"");
            else
                vr_buf_addc(c->out, x, 1);
            /* whether a repetition is lazy changes nothing of what matches */
            if ((x == '*' || x == '+' || x == '?' || x == '}') && has(c, 1) && *c->at == '?') c->at++;
        }
    }
}

void vr_pattern_write(const char *pattern, size_t n, struct vr_buf *out)
{
    size_t slashes = 0;
    bool begins = n > 0 && pattern[0] == '^', ends = n > 1 && pattern[n - 1] == '$';
    for (size_t i = n; ends && i > 1 && pattern[i - 2] == '\\'; i--) slashes++;
    if (slashes % 2) ends = false;
    bool within = !begins || !ends;
    struct cursor c = { pattern + begins, pattern + n - ends, out };
    vr_buf_addf(out, "^%s%s", begins ? "" : ANY "*", within ? "(" : "");
    write_body(&c);
    vr_buf_addf(out, "%s%s$", within ? ")" : "", ends ? "" : ANY "*");
}

static bool is_value(const char *key)
{
    static const char *const values[] = { "const", "enum", "default", "example", "examples" };
    for (size_t i = 0; i < VR_COUNT(values); i++)
        if (strcmp(key, values[i]) == 0) return true;
    return false;
}

bool vr_patterns_write(json_t *v)
{
    const char *key;
    json_t *e;
    size_t i;
    json_array_foreach(v, i, e) if (!vr_patterns_write(e)) return false;
    json_object_foreach(v, key, e)
    {
        if (strcmp(key, "pattern") == 0 && json_is_string(e)) {
            VR_AUTO_BUF out = { 0 };
            vr_pattern_write(json_string_value(e), json_string_length(e), &out);
            if (out.failed || json_string_setn(e, vr_buf_str(&out), out.n) != 0) return false;
        } else if (!is_value(key) && !vr_patterns_write(e)) {
            return false;
        }
    }
    return true;
}
