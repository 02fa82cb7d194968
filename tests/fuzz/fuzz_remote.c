/* What a hub, a server or a user says about files elsewhere: the first byte chooses the reader. Whatever is taken must
 * be harmless: a host that can be compared, a path that stays below its folder, a range within its file. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "remote/hub.h"
#include "remote/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* No part of it is empty, hidden or a way up. */
static void must_stay_below(const char *path)
{
    if (!*path || *path == '/') abort();
    for (const char *at = path; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        if (!*at || *at == '/' || *at == '.') abort();
}

static void check_url(const char *text)
{
    struct vr_url u;
    char file[256];
    if (!vr_url_parse(text, &u)) return;
    if (!u.host[0] || strpbrk(u.host, "/@?# \r\n") || u.port == 0) abort();
    if (!vr_url_same_origin(text, text)) abort();
    if (!vr_url_file(&u, file, sizeof file)) return;
    must_stay_below(file);
    if (strchr(file, '/')) abort();
}

static void check_header(const char *text)
{
    uint64_t first, last, length;
    char tag[40];
    if (vr_content_range(text, &first, &last, &length) && (first > last || (length && last >= length))) abort();
    vr_etag_plain(text, tag, sizeof tag);
    if (strlen(tag) > strlen(text)) abort();
}

static void check_name(const char *text)
{
    struct vr_remote r;
    struct vr_err err = { 0 };
    if (!vr_remote_parse(text, "https://hub.example", &r, &err)) {
        if (!err.msg[0]) abort();
        return;
    }
    if (!*r.owner) return;
    must_stay_below(r.owner);
    must_stay_below(r.name);
    if (strchr(r.owner, '/') || strchr(r.name, '/')) abort();
    if (*r.word) must_stay_below(r.word);
}

static void check_list(const char *text, size_t n)
{
    VR_AUTO_REPO repo = { 0 };
    struct vr_err err = { 0 };
    if (!vr_repo_parse(text, n, &repo, &err)) {
        if (!err.msg[0] || repo.n_files) abort();
        return;
    }
    for (uint32_t i = 0; i < repo.n_files; i++) {
        must_stay_below(repo.files[i].path);
        if (strpbrk(repo.files[i].sum, "/.") || !repo.files[i].bytes) abort();
    }
    if (strlen(repo.commit) != 40 || strpbrk(repo.commit, "/.")) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) return 0;
    VR_AUTO_FREE char *text = strndup((const char *)data + 1, n - 1);
    if (!text) return 0;
    switch (data[0]) {
    case 'u': check_url(text); break;
    case 'h': check_header(text); break;
    case 'n': check_name(text); break;
    default: check_list((const char *)data + 1, n - 1); break;
    }
    return 0;
}
