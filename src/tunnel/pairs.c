#include "tunnel/pairs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <jansson.h>
#include <openssl/crypto.h>

#include "base/file.h"
#include "base/text.h"

#define FILE_NAME "pairs.json"
#define MAX_BYTES ((size_t)256 << 10)
#define TOKEN     "vram-node-"
#define JOIN_S    86400

/* --- the file --- */

static bool read_pair(const json_t *j, bool is_node, struct vr_pair *out)
{
    const char *name = json_string_value(json_object_get(j, "name")),
               *host = json_string_value(json_object_get(j, "host")),
               *fingerprint = json_string_value(json_object_get(j, "fingerprint"));
    json_int_t port = json_integer_value(json_object_get(j, "port"));
    *out = (struct vr_pair){ 0 };
    if (!name || !fingerprint || !vr_fingerprint_is(fingerprint)) return false;
    vr_node_name(name, out->name);
    snprintf(out->fingerprint, sizeof out->fingerprint, "%s", fingerprint);
    if (!is_node) return true;
    if (!host || !*host || strlen(host) >= sizeof out->host || port < 1 || port > 65535) return false;
    snprintf(out->host, sizeof out->host, "%s", host);
    out->port = (uint16_t)port;
    return true;
}

static bool read_pairs(const json_t *list, bool are_nodes, struct vr_pair *out, size_t *n)
{
    if (json_array_size(list) > VR_MAX_PAIRS) return false;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!read_pair(json_array_get(list, i), are_nodes, &out[(*n)++])) return false;
    return true;
}

bool vr_pairs_parse(const char *path, const char *text, size_t n, struct vr_pairs *out, struct vr_err *err)
{
    *out = (struct vr_pairs){ 0 };
    json_t *j = json_loadb(text, n, 0, NULL), *join = json_object_get(j, "join");
    const char *hash = json_string_value(json_object_get(join, "secret_sha256"));
    bool ok = json_is_object(j) && read_pairs(json_object_get(j, "nodes"), true, out->nodes, &out->n_nodes) &&
              read_pairs(json_object_get(j, "clients"), false, out->clients, &out->n_clients) &&
              (!hash || vr_fingerprint_is(hash));
    if (ok && hash) {
        snprintf(out->join_sha256, sizeof out->join_sha256, "%s", hash);
        out->join_until = json_integer_value(json_object_get(join, "until"));
    }
    json_decref(j);
    return ok || vr_fail(err, VR_EFORMAT, "%s is damaged: remove it, and pair the machines again", path);
}

static bool path_in(const char *dir, char *out, size_t n, struct vr_err *err)
{
    return snprintf(out, n, "%s/" FILE_NAME, dir) < (int)n || vr_fail(err, VR_EUSAGE, "%s: the name is too long", dir);
}

bool vr_pairs_load(const char *dir, struct vr_pairs *out, struct vr_err *err)
{
    char path[560];
    VR_AUTO_BUF text = { 0 };
    *out = (struct vr_pairs){ 0 };
    if (!path_in(dir, path, sizeof path, err)) return false;
    if (access(path, F_OK) != 0 && errno == ENOENT) return true;
    return vr_file_read(path, MAX_BYTES, &text, err) && vr_pairs_parse(path, vr_buf_str(&text), text.n, out, err);
}

int vr_pairs_lock(const char *dir, struct vr_err *err)
{
    char path[560];
    snprintf(path, sizeof path, "%s/lock", dir);
    if (!vr_file_make_parents(path, err)) return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX) == 0) return fd;
    vr_fail(err, VR_EIO, "%s: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    return -1;
}

static json_t *write_pairs(const struct vr_pair *list, size_t n, bool are_nodes)
{
    json_t *out = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *j = json_pack("{s:s, s:s}", "name", list[i].name, "fingerprint", list[i].fingerprint);
        if (are_nodes) json_object_update_new(j, json_pack("{s:s, s:i}", "host", list[i].host, "port", list[i].port));
        json_array_append_new(out, j);
    }
    return out;
}

bool vr_pairs_save(const char *dir, const struct vr_pairs *p, struct vr_err *err)
{
    char path[560];
    if (!path_in(dir, path, sizeof path, err) || !vr_file_make_parents(path, err)) return false;
    json_t *j = json_pack("{s:o, s:o}", "nodes", write_pairs(p->nodes, p->n_nodes, true), "clients",
                          write_pairs(p->clients, p->n_clients, false));
    if (p->join_sha256[0])
        json_object_set_new(
            j, "join", json_pack("{s:s, s:I}", "secret_sha256", p->join_sha256, "until", (json_int_t)p->join_until));
    VR_AUTO_FREE char *text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;
    json_decref(j);
    if (!text) return vr_fail_nomem(err, "writing the list of paired machines");
    mode_t mask = umask(077); /* whose keys are known is nobody else's business */
    bool ok = vr_file_write(path, text, strlen(text), err);
    umask(mask);
    return ok;
}

/* --- the list --- */

bool vr_pairs_add(struct vr_pair *list, size_t *n, const struct vr_pair *one, bool by_name, struct vr_err *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++)
        if (strcmp(list[i].fingerprint, one->fingerprint) != 0 && !(by_name && strcmp(list[i].name, one->name) == 0))
            list[kept++] = list[i];
    if (kept == VR_MAX_PAIRS)
        return vr_fail(err, VR_EUSAGE, "%d machines are paired already, which is the limit", VR_MAX_PAIRS);
    list[kept++] = *one;
    *n = kept;
    return true;
}

const struct vr_pair *vr_pairs_by_key(const struct vr_pair *list, size_t n, const char *fingerprint)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].fingerprint, fingerprint) == 0) return &list[i];
    return NULL;
}

const struct vr_pair *vr_pairs_by_name(const struct vr_pairs *p, const char *text)
{
    char host[VR_HOST_NAME];
    uint16_t port;
    struct vr_err ignored;
    for (size_t i = 0; i < p->n_nodes; i++)
        if (strcmp(p->nodes[i].name, text) == 0) return &p->nodes[i];
    if (!vr_node_address(text, 0, host, &port, &ignored)) return NULL;
    for (size_t i = 0; i < p->n_nodes; i++)
        if (strcasecmp(p->nodes[i].host, host) == 0 && (port == 0 || port == p->nodes[i].port)) return &p->nodes[i];
    return NULL;
}

void vr_node_name(const char *text, char out[VR_NODE_NAME])
{
    size_t n = 0;
    for (; text[n] && n + 1 < VR_NODE_NAME; n++) {
        char c = text[n];
        bool fine = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || strchr("-_.", c);
        out[n] = fine ? c : '-';
    }
    out[n] = '\0';
    if (!n) snprintf(out, VR_NODE_NAME, "node");
}

bool vr_node_address(const char *text, uint16_t port_else, char host[VR_HOST_NAME], uint16_t *port, struct vr_err *err)
{
    bool v6 = text[0] == '[';
    const char *begin = text + v6, *end = v6 ? strchr(begin, ']') : strrchr(begin, ':');
    const char *colon = v6 ? (end && end[1] == ':' ? end + 1 : NULL) : end;
    uint64_t number = port_else;
    if (!v6 && end && memchr(begin, ':', (size_t)(end - begin))) end = colon = NULL; /* an IPv6 address, bare */
    size_t n = end ? (size_t)(end - begin) : strlen(begin);
    bool ok = n > 0 && n < VR_HOST_NAME && !(v6 && (!end || (end[1] && end[1] != ':')));
    if (!ok || (colon && !vr_parse_u64(colon + 1, 0, 65535, &number)))
        return vr_fail(err, VR_EUSAGE, "'%s' is not an address like 192.168.1.7 or 192.168.1.7:%d", text, VR_NODE_PORT);
    snprintf(host, VR_HOST_NAME, "%.*s", (int)n, begin);
    *port = (uint16_t)number;
    return true;
}

/* --- joining --- */

bool vr_join_offer(struct vr_pairs *p, const char *fingerprint, int64_t now, char token[VR_JOIN_TOKEN],
                   struct vr_err *err)
{
    char secret[VR_SECRET];
    if (!vr_random_hex(secret, (VR_SECRET - 1) / 2, err)) return false;
    if (!vr_sha256_hex(secret, VR_SECRET - 1, p->join_sha256))
        return vr_fail(err, VR_EINTERNAL, "OpenSSL could not make a hash");
    p->join_until = now + JOIN_S;
    snprintf(token, VR_JOIN_TOKEN, TOKEN "%s-%s", fingerprint, secret);
    return true;
}

bool vr_join_read(const char *token, char fingerprint[VR_FINGERPRINT], char secret[VR_SECRET], struct vr_err *err)
{
    size_t head = strlen(TOKEN), n = VR_FINGERPRINT - 1;
    if (strlen(token) == head + n + 1 + VR_SECRET - 1 && strncmp(token, TOKEN, head) == 0 && token[head + n] == '-') {
        snprintf(fingerprint, VR_FINGERPRINT, "%.*s", (int)n, token + head);
        snprintf(secret, VR_SECRET, "%s", token + head + n + 1);
        if (vr_fingerprint_is(fingerprint) && strspn(secret, "0123456789abcdef") == VR_SECRET - 1) return true;
    }
    return vr_fail(err, VR_EUSAGE,
                   "--join: that is not a join token; 'vram-llm node --init' shows one on the machine that lends");
}

bool vr_join_open(const struct vr_pairs *p, int64_t now) { return p->join_sha256[0] && now < p->join_until; }

bool vr_join_is(const struct vr_pairs *p, const char *secret, int64_t now)
{
    char hash[VR_FINGERPRINT];
    return vr_join_open(p, now) && vr_sha256_hex(secret, strlen(secret), hash) &&
           CRYPTO_memcmp(hash, p->join_sha256, VR_FINGERPRINT) == 0;
}
