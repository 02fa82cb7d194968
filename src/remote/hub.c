#include "remote/hub.h"

#include <ctype.h>
#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/text.h"
#include "base/vec.h"
#include "gguf/part_name.h"
#include "remote/url.h"

#define MAX_LISTING ((size_t)64 << 20)
#define MAX_TOKEN   1024
#define SILENCE_S   30
#define PARALLEL    16

/* --- the environment --- */

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* Where `hf auth login` puts it. */
static bool token_file(char *path, size_t n)
{
    static const struct {
        const char *variable, *below;
    } places[] = { { "HF_TOKEN_PATH", "" },
                   { "HF_HOME", "/token" },
                   { "XDG_CACHE_HOME", "/huggingface/token" },
                   { "HOME", "/.cache/huggingface/token" } };
    for (size_t i = 0; i < VR_COUNT(places); i++)
        if (variable(places[i].variable))
            return snprintf(path, n, "%s%s", variable(places[i].variable), places[i].below) < (int)n;
    return false;
}

/* A token is printable and has no blanks; another would change the request. */
static bool read_token(char *out, size_t n, struct vr_err *err)
{
    char path[1024];
    VR_AUTO_BUF text = { 0 };
    if (variable("HF_TOKEN"))
        vr_buf_adds(&text, variable("HF_TOKEN"));
    else if (!token_file(path, sizeof path) || !vr_file_readable(path) || !vr_file_read(path, MAX_TOKEN, &text, NULL))
        return *out = '\0', true;
    const char *s = vr_buf_str(&text);
    s += strspn(s, " \t\r\n");
    size_t len = strcspn(s, " \t\r\n");
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)s[i] <= ' ' || (unsigned char)s[i] >= 127)
            return vr_fail(err, VR_EUSAGE, "HF_TOKEN is not a token");
    if (len >= n || s[len + strspn(s + len, " \t\r\n")]) return vr_fail(err, VR_EUSAGE, "HF_TOKEN is not a token");
    memcpy(out, s, len);
    out[len] = '\0';
    return true;
}

bool vr_hub_setup(bool allow_http, struct vr_net_setup *out, struct vr_err *err)
{
    static char endpoint[512], token[MAX_TOKEN];
    const char *given = variable("HF_ENDPOINT"), *silence = variable("HF_HUB_DOWNLOAD_TIMEOUT");
    uint64_t seconds = SILENCE_S;
    struct vr_url u;
    snprintf(endpoint, sizeof endpoint, "%s", given ? given : VR_HUB);
    for (size_t n = strlen(endpoint); n && endpoint[n - 1] == '/'; n--) endpoint[n - 1] = '\0';
    if (!vr_url_parse(endpoint, &u) || strpbrk(endpoint, "?#"))
        return vr_fail(err, VR_EUSAGE, "HF_ENDPOINT: '%.200s' is not a URL such as %s", given, VR_HUB);
    if (silence && !vr_parse_u64(silence, 1, 3600, &seconds))
        return vr_fail(err, VR_EUSAGE, "HF_HUB_DOWNLOAD_TIMEOUT: '%.40s' is not a number of seconds from 1 to 3600",
                       silence);
    if (!read_token(token, sizeof token, err)) return false;
    *out = (struct vr_net_setup){ .endpoint = endpoint,
                                  .token = *token ? token : NULL,
                                  .allow_http = allow_http,
                                  .silence_s = (unsigned)seconds,
                                  .max_parallel = PARALLEL };
    return true;
}

/* --- names --- */

bool vr_remote_is(const char *text)
{
    static const char *const begin[] = { "hf:", "http://", "https://" };
    for (size_t i = 0; i < VR_COUNT(begin); i++)
        if (strncasecmp(text, begin[i], strlen(begin[i])) == 0) return true;
    return false;
}

/* A name as the hub allows it; it becomes one of a folder. */
static bool take_name(const char **at, const char *end, char *out, size_t n)
{
    size_t len = strcspn(*at, end);
    if (len == 0 || len >= n || **at == '.' || **at == '-') return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)(*at)[i]) && !strchr("-._", (*at)[i])) return false;
    memcpy(out, *at, len);
    out[len] = '\0';
    *at += len;
    return true;
}

/* The hub's page of a repository or of a file in it, as one copies it from a browser. */
static bool parse_page(const char *text, const char *endpoint, struct vr_remote *out)
{
    static const char *const before[] = { "/resolve/main/", "/blob/main/" };
    const char *at = text + strlen(endpoint);
    if (strncasecmp(text, endpoint, strlen(endpoint)) != 0 || *at++ != '/') return false;
    if (!take_name(&at, "/", out->owner, sizeof out->owner) || *at++ != '/') return false;
    if (!take_name(&at, "/?#", out->name, sizeof out->name)) return false;
    if (!*at || strcmp(at, "/") == 0) return true;
    for (size_t i = 0; i < VR_COUNT(before); i++) {
        size_t n = strlen(before[i]);
        if (strncmp(at, before[i], n) != 0 || strchr(at, '%')) continue;
        snprintf(out->word, sizeof out->word, "%.*s", (int)strcspn(at + n, "?#"), at + n);
        return vr_url_safe_path(out->word);
    }
    return false;
}

bool vr_remote_parse(const char *text, const char *endpoint, struct vr_remote *out, struct vr_err *err)
{
    *out = (struct vr_remote){ .text = text };
    if (strncasecmp(text, "hf:", 3) != 0) {
        struct vr_url u;
        if (parse_page(text, endpoint, out)) return true;
        *out = (struct vr_remote){ .text = text };
        return vr_url_parse(text, &u) || vr_fail(err, VR_EUSAGE, "%.200s: not a URL that can be fetched", text);
    }
    const char *at = text + 3;
    bool ok = take_name(&at, "/", out->owner, sizeof out->owner) && *at++ == '/' &&
              take_name(&at, ":", out->name, sizeof out->name);
    if (ok && *at == ':')
        ok = snprintf(out->word, sizeof out->word, "%s", at + 1) < (int)sizeof out->word && vr_url_safe_path(out->word);
    return ok || vr_fail(err, VR_EUSAGE,
                         "'%.200s': models on the hub are called hf:OWNER/NAME, hf:OWNER/NAME:QUANT or "
                         "hf:OWNER/NAME:FILE",
                         text);
}

bool vr_remote_means(const char *stem, const char *word)
{
    size_t n = strlen(stem), k;
    unsigned no, parts;
    if (!vr_gguf_name(word, &k, &no, &parts)) k = strlen(word);
    if (k == 0 || k > n || strncasecmp(stem + n - k, word, k) != 0) return false;
    return k == n || strchr("/-._", stem[n - k - 1]);
}

/* --- repositories --- */

void vr_repo_done(struct vr_repo *r)
{
    free(r->files);
    vr_arena_done(&r->arena);
    *r = (struct vr_repo){ 0 };
}

static bool add_file(struct vr_repo *out, const json_t *file, struct vr_err *err)
{
    size_t stem;
    unsigned no, parts;
    const char *path = json_string_value(json_object_get(file, "rfilename"));
    const json_t *lfs = json_object_get(file, "lfs"), *size = json_object_get(lfs, "size");
    const char *sum = json_string_value(json_object_get(lfs, "sha256"));
    if (!path || !vr_gguf_name(path, &stem, &no, &parts)) return true;
    if (!vr_url_safe_path(path)) return vr_fail(err, VR_EFORMAT, "the hub lists a file whose name cannot be used");
    if (!sum) sum = json_string_value(json_object_get(file, "blobId"));
    if (!size) size = json_object_get(file, "size");
    if (!sum || !(vr_is_hex(sum, 64) || vr_is_hex(sum, 40)) || !json_is_integer(size) || json_integer_value(size) <= 0)
        return vr_fail(err, VR_EFORMAT, "the hub does not report the length and checksum of %s", path);
    struct vr_repo_file f = { .path = vr_arena_strdup(&out->arena, path),
                              .bytes = (uint64_t)json_integer_value(size),
                              .sum = vr_arena_strdup(&out->arena, sum) };
    if (!f.path || !f.sum || !VR_ROOM(out, files)) return vr_fail_nomem(err, "reading the hub's answer");
    for (uint32_t i = 0; i < out->n_files; i++)
        if (strcmp(out->files[i].path, f.path) == 0) return vr_fail(err, VR_EFORMAT, "the hub lists %s twice", path);
    out->files[out->n_files++] = f;
    return true;
}

#define MAX_FILES 4096

bool vr_repo_parse(const char *text, size_t n, struct vr_repo *out, struct vr_err *err)
{
    *out = (struct vr_repo){ 0 };
    json_t *all = json_loadb(text, n, 0, NULL), *files = json_object_get(all, "siblings"), *file;
    const char *commit = json_string_value(json_object_get(all, "sha"));
    size_t i;
    bool ok = commit && vr_is_hex(commit, 40) && json_is_array(files);
    if (!ok) vr_fail(err, VR_EFORMAT, "the hub's answer is not a list of files");
    if (ok && json_array_size(files) > MAX_FILES)
        ok = vr_fail(err, VR_EFORMAT, "the repository has more than %d files", MAX_FILES);
    if (ok) memcpy(out->commit, commit, sizeof out->commit);
    if (ok) json_array_foreach(files, i, file) ok = ok && add_file(out, file, err);
    json_decref(all);
    if (!ok) vr_repo_done(out);
    return ok;
}

static bool take_text(struct vr_fetch_request *r, const void *data, size_t n, struct vr_err *err)
{
    struct vr_buf *b = r->ctx;
    if (!data) vr_buf_clear(b);
    vr_buf_add(b, data, n);
    return !b->failed || vr_fail(err, VR_EFORMAT, "%s: the hub's answer is too long", r->source->name);
}

static void text_done(struct vr_fetch_request *r) { (void)r; }

bool vr_repo_ask(struct vr_net *net, const char *endpoint, const struct vr_remote *r, struct vr_repo *out,
                 struct vr_err *err)
{
    char url[VR_MAX_URL], name[256];
    VR_AUTO_BUF text = { .max = MAX_LISTING };
    snprintf(url, sizeof url, "%s/api/models/%s/%s/revision/main?blobs=true", endpoint, r->owner, r->name);
    snprintf(name, sizeof name, "hf:%s/%s", r->owner, r->name);
    struct vr_source source = { .url = url, .name = name, .pinned = true };
    struct vr_fetch_request q = { .source = &source, .take = take_text, .done = text_done, .ctx = &text };
    vr_net_add(net, &q);
    vr_net_run(net, NULL, NULL);
    vr_source_done(&source);
    if (!q.ok) return vr_fail(err, q.err.code, "%s", q.err.msg);
    struct vr_err why = { 0 };
    if (!vr_repo_parse(vr_buf_str(&text), text.n, out, &why)) return vr_fail(err, why.code, "%s: %s", name, why.msg);
    if (out->n_files) return true;
    vr_repo_done(out);
    return vr_fail(err, VR_EUSAGE, "%s has no GGUF files: look for a repository whose name ends in -GGUF", name);
}

const char *vr_repo_url(struct vr_repo *repo, const char *endpoint, const struct vr_remote *r, const char *path)
{
    VR_AUTO_BUF url = { 0 };
    vr_buf_addf(&url, "%s/%s/%s/resolve/%s/", endpoint, r->owner, r->name, repo->commit);
    vr_url_add_path(&url, path);
    return url.failed ? NULL : vr_arena_strdup(&repo->arena, vr_buf_str(&url));
}
