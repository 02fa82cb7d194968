#include "server/dialect/transcription.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "engine/wire/picture.h"
#include "server/dialect/fields.h"
#include "server/http/multipart.h"

#define MOST_TEXT (64 << 10) /* bytes of a field that is no file */

static const struct vr_field_row fields[] = {
#include "server/dialect/transcription.def"
};

/* OpenAI's has these alone: it is always English. */
static const struct vr_field_row translation_fields[] = { SAME(model) OWN(file) OWN(prompt) OWN(response_format)
                                                              OWN(stream) OWN(temperature) OWN(max_tokens) OWN(seed) };

/* --- the form --- */

static json_t *file_value(struct vr_slice data, struct vr_refusal *why)
{
    if (!vr_sound_is((const uint8_t *)data.p, data.n))
        return vr_refuse(why, "file", "invalid_value", "'file' is neither a WAV nor an MP3 nor a FLAC file"), NULL;
    unsigned char *text = data.n < INT_MAX / 2 ? malloc((data.n + 2) / 3 * 4 + 1) : NULL;
    int n = text ? EVP_EncodeBlock(text, (const unsigned char *)data.p, (int)data.n) : 0;
    json_t *v = text ? json_stringn_nocheck((const char *)text, (size_t)n) : NULL;
    free(text);
    if (!v) vr_refuse_nomem(why);
    return v;
}

static json_t *text_value(struct vr_slice data, const char *name, struct vr_refusal *why)
{
    if (data.n > MOST_TEXT)
        return vr_refuse(why, name, "invalid_value", "'%s' has more than %d bytes", name, MOST_TEXT), NULL;
    json_t *v = memchr(data.p, '\0', data.n) ? NULL : json_stringn(data.p, data.n);
    if (!v) vr_refuse(why, name, "invalid_utf8", "'%s' is not UTF-8 text", name);
    return v;
}

static bool add_to_form(json_t *form, const struct vr_form_part *part, struct vr_refusal *why)
{
    char name[64];
    size_t n = part->name.n;
    bool list = n > 2 && memcmp(part->name.p + n - 2, "[]", 2) == 0;
    if (list) n -= 2;
    if (n >= sizeof name || memchr(part->name.p, '\0', n))
        return vr_refuse(why, NULL, "unknown_parameter", "the form has a field whose name is not known");
    memcpy(name, part->name.p, n);
    name[n] = '\0';
    json_t *before = json_object_get(form, name);
    if (before && !(list && json_is_array(before)))
        return vr_refuse(why, name, "invalid_value", "'%s' is given twice", name);
    json_t *v = strcmp(name, "file") == 0 && !list ? file_value(part->data, why) : text_value(part->data, name, why);
    if (!v) return false;
    if (!list)
        return json_object_set_new(form, name, v) == 0 || vr_refuse(why, NULL, "invalid_utf8", "a name is no text");
    if (!before && json_object_set_new(form, name, before = json_array()) != 0)
        return json_decref(v), vr_refuse(why, NULL, "invalid_utf8", "a name is no text");
    return json_array_append_new(before, v) == 0 || vr_refuse_nomem(why);
}

json_t *vr_form_parse(const char *data, size_t n, const char *boundary, struct vr_refusal *why)
{
    struct vr_multipart m;
    struct vr_form_part part;
    const char *bad = NULL;
    enum vr_part_next next = VR_PART_BAD;
    if (!*boundary)
        return vr_refuse(why, NULL, "invalid_content_type",
                         "the body must be a form with a file: Content-Type: multipart/form-data; boundary=..."),
               NULL;
    json_t *form = json_object();
    bool ok = form || vr_refuse_nomem(why);
    vr_multipart_open(&m, data, n, boundary);
    while (ok && (next = vr_multipart_next(&m, &part, &bad)) == VR_PART) ok = add_to_form(form, &part, why);
    if (ok && next == VR_PART_BAD) ok = vr_refuse(why, NULL, "invalid_form", "%s", bad);
    if (ok) return form;
    json_decref(form);
    return NULL;
}

/* --- what it asks for --- */

/* A form has texts alone: a number is one that is spelled. An empty text is the same as none. */
static bool read_number(const json_t *form, const char *name, json_t *out, struct vr_translation *t)
{
    const char *text = vr_get_text(form, name);
    if (!text || !*text) return true;
    json_t *v = json_loads(text, JSON_DECODE_ANY, NULL);
    if (json_is_number(v)) return vr_put(t, out, name, v), true;
    json_decref(v);
    return vr_refuse(t->why, name, "invalid_type", "'%s' must be a number", name);
}

static bool read_stream(const json_t *form, json_t *out, struct vr_translation *t)
{
    const char *text = vr_get_text(form, "stream");
    bool on = vr_is(text, "true") || vr_is(text, "1");
    if (text && *text && !on && !vr_is(text, "false") && !vr_is(text, "0"))
        return vr_refuse(t->why, "stream", "invalid_type", "'stream' must be true or false");
    if (on) vr_put(t, out, "stream", json_true());
    return true;
}

static bool read_format(const json_t *form, struct vr_translation *t)
{
    const char *format = vr_get_text(form, "response_format");
    if (vr_is(format, "text"))
        vr_put(t, t->memo, VR_MEMO_PLAIN, json_true());
    else if (vr_is(format, "verbose_json") || vr_is(format, "srt") || vr_is(format, "vtt"))
        return vr_refuse(t->why, "response_format", "unsupported_value",
                         "'response_format' must be json or text: the model gives no times, which %s needs", format);
    else if (vr_is(format, "diarized_json"))
        return vr_refuse(t->why, "response_format", "unsupported_value",
                         "'response_format' must be json or text: the model does not tell speakers apart");
    else if (format && *format && !vr_is(format, "json"))
        return vr_refuse(t->why, "response_format", "invalid_value", "'response_format' must be json or text");
    return true;
}

static bool read_include(const json_t *form, json_t *out, struct vr_translation *t)
{
    const json_t *all = vr_get(form, "include");
    if (all && !json_is_array(all))
        return vr_refuse(t->why, "include", "invalid_type", "'include' must be sent as 'include[]'");
    for (size_t i = 0; i < json_array_size(all); i++) {
        if (!vr_is(json_string_value(json_array_get(all, i)), "logprobs"))
            return vr_refuse(t->why, "include", "invalid_value", "'include[]' must be logprobs");
        vr_put(t, out, "logprobs", json_true());
    }
    return true;
}

/* Becomes a part of what the model is asked. */
static bool read_language(const json_t *form, const char **out, struct vr_translation *t)
{
    const char *s = vr_get_text(form, "language");
    *out = s && *s ? s : NULL;
    if (!*out) return true;
    for (size_t i = 0; s[i]; i++)
        if (i >= 32 || !((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || s[i] == '-' || s[i] == '_'))
            return vr_refuse(t->why, "language", "invalid_value", "'language' must be a code such as en or pt-BR");
    return true;
}

/* One message: what to do, and the sound. Without `words` the engine has its own. */
static void put_message(json_t *out, const char *words, const char *language, json_t *file, struct vr_translation *t)
{
    json_t *text =
        language ? json_sprintf("%s (language: %s)", words ? words : "", language) : json_string(words ? words : "");
    t->asr = words ? "asked" : "ask";
    vr_put(t, out, "messages",
           json_pack("[{s:s,s:[{s:s,s:o},{s:s,s:{s:O}}]}]", "role", "user", "content", "type", "text", "text", text,
                     "type", "input_audio", "input_audio", "data", file));
}

static json_t *translate(json_t *form, const struct vr_field_row *rows, size_t n, const char *words,
                         struct vr_translation *t)
{
    json_t *out = json_object(), *file = vr_get(form, "file");
    const char *language, *prompt = vr_get_text(form, "prompt");
    t->memo = json_object();
    bool ok = out && t->memo && vr_fields_read(form, rows, n, "", out, t);
    if (ok && !file) ok = vr_refuse(t->why, "file", "missing_required_parameter", "'file' is missing");
    vr_put(t, out, "temperature", json_integer(0)); /* as OpenAI's, which is told no other */
    ok = ok && read_format(form, t) && read_stream(form, out, t) && read_include(form, out, t) &&
         read_number(form, "temperature", out, t) && read_number(form, "max_tokens", out, t) &&
         read_number(form, "seed", out, t) && read_language(form, &language, t);
    if (ok) put_message(out, prompt && *prompt ? prompt : words, language, file, t);
    if (ok) return out;
    json_decref(out);
    return NULL;
}

json_t *vr_transcription_translate(json_t *form, struct vr_translation *t)
{
    return translate(form, fields, VR_COUNT(fields), NULL, t);
}

json_t *vr_audio_translation_translate(json_t *form, struct vr_translation *t)
{
    return translate(form, translation_fields, VR_COUNT(translation_fields),
                     "Translate what is said into English. Answer with the translation alone.", t);
}
