/* The hub: where it is, by which name a model is asked for there, and what a repository holds.
 *
 *     hf:OWNER/NAME            a repository
 *     hf:OWNER/NAME:QUANT      its file of that quantization, e.g. Q4_K_M
 *     hf:OWNER/NAME:FILE       a file of it; of a split model, any part, or the name without the number of the part
 *     https://…                a file anywhere; the hub's own pages and files are taken as hf: is */
#ifndef VR_REMOTE_HUB_H
#define VR_REMOTE_HUB_H

#include "base/arena.h"
#include "remote/net.h"

#define VR_HUB "https://huggingface.co" /* without HF_ENDPOINT */

/* What the environment says: HF_ENDPOINT, HF_TOKEN (or the file that the hub's own program keeps it in),
 * HF_HUB_DOWNLOAD_TIMEOUT. The texts stay until the program ends. */
bool vr_hub_setup(bool allow_http, struct vr_net_setup *out, struct vr_err *err) VR_MUST_CHECK;

struct vr_remote {
    char owner[100], name[100]; /* "" for a URL elsewhere */
    char word[512];             /* QUANT or FILE; "": none */
    const char *text;           /* as it was given */
};

bool vr_remote_is(const char *text);
bool vr_remote_parse(const char *text, const char *endpoint, struct vr_remote *out, struct vr_err *err) VR_MUST_CHECK;

/* Whether `stem`, a path in the repository without ".gguf" and the number of its part, is what the word means. */
bool vr_remote_means(const char *stem, const char *word);

struct vr_repo_file {
    const char *path; /* below the repository; safe to be made below a folder */
    uint64_t bytes;
    const char *sum;     /* SHA-256 (64 digits), or git's own (40) of a file that is not in LFS; "": not known */
    const char *version; /* what the server of a URL calls this content; NULL: not asked */
};

struct vr_repo {
    char commit[41];
    struct vr_repo_file *files; /* its GGUF files */
    uint32_t n_files, cap_files;
    struct vr_arena arena;
};
void vr_repo_done(struct vr_repo *r);
#define VR_AUTO_REPO VR_CLEANUP(vr_repo_done) struct vr_repo

/* What the hub says about a repository, as its text and by asking for it. */
bool vr_repo_parse(const char *json, size_t n, struct vr_repo *out, struct vr_err *err) VR_MUST_CHECK;
bool vr_repo_ask(struct vr_net *net, const char *endpoint, const struct vr_remote *r, struct vr_repo *out,
                 struct vr_err *err) VR_MUST_CHECK;
/* ".../OWNER/NAME/resolve/COMMIT/PATH"; the arena's. NULL: memory is out. */
const char *vr_repo_url(struct vr_repo *repo, const char *endpoint, const struct vr_remote *r, const char *path);

#endif
