#include "remote/net.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/text.h"
#include "remote/curl.h"
#include "remote/url.h"

#define MAX_HOPS      10
#define MAX_TRIES     6
#define FIRST_WAIT_MS 250
#define MAX_WAIT_S    120 /* what a server may ask for */
#define CONNECT_S     20
#define PROGRESS      65536 /* bytes after which a new try is the first one again */
#define TICK_MS       200

struct vr_net {
    const struct vr_curl *curl;
    struct vr_net_setup setup;
    const char *ca_file;
    CURLM *multi;
    struct vr_fetch_request *first; /* all that was added and is not done, in their order */
    unsigned n_busy;
    uint64_t n_bytes;
};

/* One request's way to its bytes. */
struct vr_http_transfer {
    struct vr_net *net;
    CURL *easy; /* NULL: it waits */
    struct curl_slist *headers;
    char *url; /* asked now; NULL: from the start */
    unsigned tries, hops;
    uint64_t wait_until_ms, got_before; /* `got` when the last try began to count */
    bool accepted, satisfied, refused;  /* the answer is being taken; all is there; err says why it cannot be taken */
    /* of the answer */
    char range[96], version[160], sum[72], why[256], error[CURL_ERROR_SIZE];
};

void vr_source_done(struct vr_source *s)
{
    free(s->at);
    s->at = NULL;
}

bool vr_net_allowed(const struct vr_net_setup *setup, const char *url, struct vr_err *err)
{
    struct vr_url u;
    if (!vr_url_parse(url, &u)) return vr_fail(err, VR_EUSAGE, "%.200s: not a URL that can be fetched", url);
    if (u.tls || setup->allow_http || vr_url_is_loopback(&u)) return true;
    return vr_fail(
        err, VR_EUSAGE,
        "http://%s would send a model, and what is asked for, in the clear, where others can read and change "
        "it: use https, or --allow-http",
        u.host);
}

/* --- ends --- */

static void drop_easy(struct vr_http_transfer *t)
{
    const struct vr_curl *c = t->net->curl;
    if (!t->easy) return;
    c->curl_multi_remove_handle(t->net->multi, t->easy);
    c->curl_easy_cleanup(t->easy);
    c->curl_slist_free_all(t->headers);
    t->easy = NULL;
    t->headers = NULL;
    t->net->n_busy--;
}

static void drop(struct vr_fetch_request *r)
{
    struct vr_http_transfer *t = r->transfer;
    if (!t) return;
    struct vr_fetch_request **at = &t->net->first;
    while (*at != r) at = &(*at)->next;
    *at = r->next;
    drop_easy(t);
    free(t->url);
    free(t);
    r->transfer = NULL;
}

static void finish(struct vr_fetch_request *r, bool ok)
{
    drop(r);
    r->ok = ok;
    r->done(r);
}

static const char *host_of(const struct vr_fetch_request *r, struct vr_url *u)
{
    const char *url = r->transfer->url ? r->transfer->url : r->source->url;
    return vr_url_parse(url, u) ? u->host : "the server";
}

/* Once more, after a while, from the byte where it ended. `why` is said when that was once too often. */
static void again(struct vr_fetch_request *r, uint64_t wait_ms, const char *why)
{
    struct vr_http_transfer *t = r->transfer;
    struct vr_url u;
    if (r->got >= t->got_before + PROGRESS) t->tries = 0;
    t->got_before = r->got;
    if (++t->tries >= MAX_TRIES) {
        vr_fail(&r->err, VR_EIO, "%s: %s: %s; gave up after %d tries", r->source->name, host_of(r, &u), why, MAX_TRIES);
        return finish(r, false);
    }
    if (!r->end && r->got) {
        r->got = t->got_before = 0;
        if (!r->take(r, NULL, 0, &r->err)) return finish(r, false);
    }
    if (!wait_ms) wait_ms = (uint64_t)FIRST_WAIT_MS << (t->tries - 1);
    drop_easy(t);
    free(t->url);
    t->url = NULL;
    t->hops = 0;
    t->wait_until_ms = vr_now_ms() + wait_ms;
}

/* --- the answer --- */

static void keep(char *out, size_t n, const char *value) { snprintf(out, n, "%s", value); }

/* For people: what a server says must not command their terminal. */
static void keep_sentence(char *out, size_t n, const char *value)
{
    keep(out, n, value);
    for (char *c = out; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c >= 127) *c = '?';
}

static size_t on_header(char *line, size_t size, size_t n, void *ctx)
{
    struct vr_fetch_request *r = ctx;
    struct vr_http_transfer *t = r->transfer;
    char text[1024];
    n *= size;
    if (n >= sizeof text) return n; /* none of those below */
    memcpy(text, line, n);
    text[n] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    char *value = strchr(text, ':');
    if (strncmp(text, "HTTP/", 5) == 0) t->range[0] = t->version[0] = t->why[0] = '\0';
    if (!value) return n;
    *value++ = '\0';
    value += strspn(value, " \t");
    if (strcasecmp(text, "content-range") == 0)
        keep(t->range, sizeof t->range, value);
    else if (strcasecmp(text, "etag") == 0)
        keep(t->version, sizeof t->version, value);
    else if (strcasecmp(text, "last-modified") == 0 && !t->version[0])
        keep(t->version, sizeof t->version, value);
    else if (strcasecmp(text, "x-error-message") == 0)
        keep_sentence(t->why, sizeof t->why, value);
    else if (strcasecmp(text, "x-linked-etag") == 0) { /* the hub's, about what it redirects to */
        char tag[sizeof t->sum];
        vr_etag_plain(value, tag, sizeof tag);
        if (vr_is_hex(tag, 64)) keep(t->sum, sizeof t->sum, tag);
    }
    return n;
}

static bool refuse(struct vr_fetch_request *r, enum vr_code code, const char *what)
{
    r->transfer->refused = true;
    return vr_fail(&r->err, code, "%s: %s", r->source->name, what);
}

/* Do these bytes belong where we would put them? */
static bool right_place(struct vr_fetch_request *r, long status, uint64_t *length)
{
    struct vr_http_transfer *t = r->transfer;
    uint64_t first = 0, last = 0;
    curl_off_t n = -1;
    if (status == 206) {
        if (!vr_content_range(t->range, &first, &last, length) || first != r->begin + r->got || !r->end)
            return refuse(r, VR_EIO, "the server sent a different range of bytes from the one requested");
        if (!*length) return refuse(r, VR_EIO, "the server does not report the length of the file");
        return true;
    }
    if (r->begin + r->got > 0)
        return refuse(r, VR_EIO, "the server cannot send parts of a file, which resuming and parallel downloads need");
    t->net->curl->curl_easy_getinfo(t->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &n);
    if (n < 0 && r->end) return refuse(r, VR_EIO, "the server does not report the length of the file");
    *length = n > 0 ? (uint64_t)n : 0;
    return true;
}

static bool same_version(struct vr_fetch_request *r, uint64_t length)
{
    struct vr_source *s = r->source;
    struct vr_http_transfer *t = r->transfer;
    struct vr_num is, was;
    char text[160];
    if (s->length && length && s->length != length) {
        snprintf(text, sizeof text, "the server has %s bytes of it, but %s were expected", vr_fmt_count(&is, length),
                 vr_fmt_count(&was, s->length));
        return refuse(r, VR_EIO, text);
    }
    if (!s->pinned && s->version[0] && strcmp(s->version, t->version) != 0)
        return refuse(r, VR_EIO, "the file changed on the server while it was being fetched; run it again");
    if (length) s->length = length;
    s->answered = true;
    if (!s->version[0]) keep(s->version, sizeof s->version, t->version);
    if (!s->sum[0]) keep(s->sum, sizeof s->sum, t->sum);
    if (!s->at && t->url) s->at = strdup(t->url); /* NULL costs a redirect */
    return true;
}

/* Before the first byte of a body that may be taken. */
static bool accept_answer(struct vr_fetch_request *r)
{
    long status = 0;
    uint64_t length = 0;
    r->transfer->net->curl->curl_easy_getinfo(r->transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200 && status != 206) return false;
    r->transfer->accepted = right_place(r, status, &length) && same_version(r, length);
    return r->transfer->accepted;
}

/* How many bytes are still to come; UINT64_MAX: until it ends. */
static uint64_t missing(const struct vr_fetch_request *r)
{
    uint64_t end = r->end && r->source->length && r->end > r->source->length ? r->source->length : r->end;
    return r->end ? end - r->begin - r->got : UINT64_MAX;
}

static size_t on_body(char *data, size_t size, size_t n, void *ctx)
{
    struct vr_fetch_request *r = ctx;
    struct vr_http_transfer *t = r->transfer;
    n *= size;
    t->net->n_bytes += n;
    if (!t->accepted && !t->refused && !accept_answer(r) && !t->refused) return n; /* the text of an error */
    if (t->refused) return 0;
    uint64_t want = missing(r);
    size_t part = n < want ? n : (size_t)want;
    if (part && !r->take(r, data, part, &r->err)) {
        t->refused = true;
        return 0;
    }
    r->got += part;
    t->satisfied = r->end && missing(r) == 0;
    return part == n ? n : 0; /* more than was asked for is cut off */
}

/* --- what follows from it --- */

static void redirect(struct vr_fetch_request *r)
{
    struct vr_http_transfer *t = r->transfer;
    char *to = NULL;
    t->net->curl->curl_easy_getinfo(t->easy, CURLINFO_REDIRECT_URL, &to);
    if (!to || ++t->hops > MAX_HOPS) {
        vr_fail(&r->err, VR_EIO, "%s: %s", r->source->name,
                to ? "too many redirects" : "a redirect that leads nowhere");
        return finish(r, false);
    }
    if (!vr_net_allowed(&t->net->setup, to, &r->err)) return finish(r, false);
    struct vr_url from, next;
    const char *here = t->url ? t->url : r->source->url;
    if (vr_url_parse(here, &from) && vr_url_parse(to, &next) && from.tls && !next.tls) {
        vr_fail(&r->err, VR_EIO, "%s: %s redirects from https to http", r->source->name, from.host);
        return finish(r, false);
    }
    char *copy = strdup(to);
    drop_easy(t);
    free(t->url);
    t->url = copy;
    t->wait_until_ms = 0;
    if (copy) return;
    vr_fail_nomem(&r->err, "following a redirect");
    finish(r, false);
}

static const struct {
    long status;
    enum vr_code code;
    const char *what;
} refusals[] = {
    { 401, VR_EUSAGE, "it is private or gated, or does not exist: set HF_TOKEN to a token that may read it" },
    { 403, VR_EUSAGE, "the token, or its lack, gives no access: a gated model must be requested on its page first" },
    { 404, VR_EUSAGE, "it does not exist there" },
    { 410, VR_EUSAGE, "it is gone" },
    { 416, VR_EIO, "the file is shorter than it was said to be" },
};

/* A status that is no success, from the place that was asked first: what a redirect led to may only have expired. */
static void failed_status(struct vr_fetch_request *r, long status)
{
    struct vr_http_transfer *t = r->transfer;
    struct vr_source *s = r->source;
    struct vr_url u;
    char why[320];
    curl_off_t after = 0;
    t->net->curl->curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &after);
    snprintf(why, sizeof why, "HTTP status %ld%s%s", status, t->why[0] ? ": " : "", t->why);
    if (status == 429 || status == 408 || status >= 500) {
        if (after <= MAX_WAIT_S) return again(r, after > 0 ? (uint64_t)after * 1000 : 0, why);
        vr_fail(&r->err, VR_EIO, "%s: %s: %s; it asks to wait %" PRId64 " seconds: run it again then", s->name,
                host_of(r, &u), why, (int64_t)after);
        return finish(r, false);
    }
    bool elsewhere = t->url && strcmp(t->url, s->url) != 0;
    if (elsewhere) {
        if (s->at && strcmp(s->at, t->url) == 0) vr_source_done(s);
        return again(r, 1, why);
    }
    const char *what = why;
    enum vr_code code = VR_EIO;
    for (size_t i = 0; i < VR_COUNT(refusals); i++)
        if (refusals[i].status == status) what = refusals[i].what, code = refusals[i].code;
    vr_fail(&r->err, code, "%s: %s: %s", s->name, host_of(r, &u), what);
    if (what != why) vr_fail_more(&r->err, " (%s)", why);
    finish(r, false);
}

/* What no second try makes better. */
static bool is_final(CURLcode c)
{
    return c == CURLE_PEER_FAILED_VERIFICATION || c == CURLE_SSL_CACERT_BADFILE || c == CURLE_URL_MALFORMAT ||
           c == CURLE_UNSUPPORTED_PROTOCOL || c == CURLE_OUT_OF_MEMORY || c == CURLE_COULDNT_RESOLVE_PROXY;
}

static void conclude(struct vr_fetch_request *r, CURLcode result)
{
    struct vr_http_transfer *t = r->transfer;
    const struct vr_curl *c = t->net->curl;
    struct vr_url u;
    long status = 0;
    c->curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    if (t->refused) return finish(r, false);
    if (t->satisfied) return finish(r, true);
    if (result != CURLE_OK) {
        const char *why = t->error[0] ? t->error : c->curl_easy_strerror(result);
        if (!is_final(result)) return again(r, 0, why);
        vr_fail(&r->err, VR_EIO, "%s: %s: %s", r->source->name, host_of(r, &u), why);
        return finish(r, false);
    }
    if (status >= 300 && status < 400 && status != 304) return redirect(r);
    if (status != 200 && status != 206) return failed_status(r, status);
    if (!t->accepted && !accept_answer(r)) return finish(r, false); /* an empty body */
    if (r->end && missing(r)) return again(r, 0, "the server sent too few bytes");
    finish(r, true);
}

/* --- asking --- */

static bool add_header(struct vr_http_transfer *t, const char *text)
{
    struct curl_slist *more = t->net->curl->curl_slist_append(t->headers, text);
    if (more) t->headers = more;
    return more != NULL;
}

static bool set_up(struct vr_fetch_request *r, const char *url)
{
    struct vr_http_transfer *t = r->transfer;
    const struct vr_curl *c = t->net->curl;
    const struct vr_net_setup *s = &t->net->setup;
    char range[64], token[1200];
    bool ok = c->curl_easy_setopt(t->easy, CURLOPT_URL, url) == CURLE_OK;
    c->curl_easy_setopt(t->easy, CURLOPT_PRIVATE, (void *)r);
    c->curl_easy_setopt(t->easy, CURLOPT_NOSIGNAL, 1L);
    c->curl_easy_setopt(t->easy, CURLOPT_HTTP_VERSION,
                        (long)CURL_HTTP_VERSION_1_1); /* ranges on one connection share it */
    c->curl_easy_setopt(t->easy, CURLOPT_USERAGENT, "vram-llm/" VR_VERSION);
    c->curl_easy_setopt(t->easy, CURLOPT_HEADERFUNCTION, on_header);
    c->curl_easy_setopt(t->easy, CURLOPT_HEADERDATA, (void *)r);
    c->curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, on_body);
    c->curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, (void *)r);
    c->curl_easy_setopt(t->easy, CURLOPT_BUFFERSIZE, 512L * 1024);
    c->curl_easy_setopt(t->easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    c->curl_easy_setopt(t->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    c->curl_easy_setopt(t->easy, CURLOPT_LOW_SPEED_TIME, (long)s->silence_s);
    c->curl_easy_setopt(t->easy, CURLOPT_ERRORBUFFER, t->error);
    if (t->net->ca_file) c->curl_easy_setopt(t->easy, CURLOPT_CAINFO, t->net->ca_file);
    if (r->end) {
        snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, r->begin + r->got, r->end - 1);
        ok = ok && c->curl_easy_setopt(t->easy, CURLOPT_RANGE, range) == CURLE_OK;
    }
    if (s->token && vr_url_same_origin(url, s->endpoint)) {
        snprintf(token, sizeof token, "Authorization: Bearer %s", s->token);
        ok = ok && add_header(t, token);
    }
    c->curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
    return ok;
}

static bool begin(struct vr_fetch_request *r)
{
    struct vr_http_transfer *t = r->transfer;
    struct vr_net *net = t->net;
    if (!t->url && r->source->at) t->url = strdup(r->source->at);
    t->accepted = t->satisfied = t->refused = false;
    t->error[0] = '\0';
    t->easy = net->curl->curl_easy_init();
    if (!t->easy) return vr_fail_nomem(&r->err, "fetching a file");
    net->n_busy++;
    if (!set_up(r, t->url ? t->url : r->source->url)) return vr_fail_nomem(&r->err, "fetching a file");
    return net->curl->curl_multi_add_handle(net->multi, t->easy) == CURLM_OK ||
           vr_fail(&r->err, VR_EINTERNAL, "%s: libcurl takes no more requests", r->source->name);
}

/* Those whose turn it is; how long until the next one's, in ms. */
static int begin_due(struct vr_net *net)
{
    uint64_t now = vr_now_ms(), wait = TICK_MS;
    for (struct vr_fetch_request *r = net->first, *next; r && net->n_busy < net->setup.max_parallel; r = next) {
        next = r->next;
        struct vr_http_transfer *t = r->transfer;
        if (t->easy) continue;
        if (t->wait_until_ms > now)
            wait = t->wait_until_ms - now < wait ? t->wait_until_ms - now : wait;
        else if (!begin(r)) {
            finish(r, false);
            return 0; /* it may have changed the list */
        }
    }
    return (int)wait;
}

void vr_net_add(struct vr_net *net, struct vr_fetch_request *r)
{
    struct vr_fetch_request **at = &net->first;
    r->got = 0;
    r->ok = false;
    r->err = (struct vr_err){ 0 };
    r->next = NULL;
    r->transfer = calloc(1, sizeof *r->transfer);
    if (!r->transfer) {
        vr_fail_nomem(&r->err, "fetching a file");
        r->done(r);
        return;
    }
    r->transfer->net = net;
    while (*at) at = &(*at)->next;
    *at = r;
}

void vr_net_stop(struct vr_net *net)
{
    while (net->first) drop(net->first);
}

void vr_net_run(struct vr_net *net, void (*tick)(void *ctx), void *ctx)
{
    const struct vr_curl *c = net->curl;
    for (uint64_t ticked = 0; net->first;) {
        int wait = begin_due(net), n = 0;
        CURLMsg *m;
        c->curl_multi_perform(net->multi, &n);
        while ((m = c->curl_multi_info_read(net->multi, &n))) {
            char *r = NULL;
            if (m->msg != CURLMSG_DONE) continue;
            CURLcode result = m->data.result;
            c->curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &r);
            conclude((struct vr_fetch_request *)(void *)r, result);
            wait = 0;
        }
        if (tick && vr_now_ms() >= ticked + TICK_MS) {
            ticked = vr_now_ms();
            tick(ctx);
        }
        if (wait && net->first) c->curl_multi_poll(net->multi, NULL, 0, wait, &n);
    }
    if (tick) tick(ctx);
}

uint64_t vr_net_bytes(const struct vr_net *net) { return net->n_bytes; }

struct vr_net *vr_net_open(const struct vr_net_setup *setup, struct vr_err *err)
{
    const struct vr_curl *c = vr_curl_load(err);
    if (!c || !vr_net_allowed(setup, setup->endpoint, err)) return NULL;
    struct vr_net *net = calloc(1, sizeof *net);
    if (!net) return vr_fail_nomem(err, "opening a connection"), NULL;
    *net = (struct vr_net){ .curl = c, .setup = *setup, .multi = c->curl_multi_init() };
    static const char *const ca[] = { "CURL_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE" };
    for (size_t i = 0; i < VR_COUNT(ca) && !net->ca_file; i++) net->ca_file = getenv(ca[i]);
    if (net->ca_file && !*net->ca_file) net->ca_file = NULL;
    if (net->multi) return net;
    free(net);
    return vr_fail_nomem(err, "opening a connection"), NULL;
}

void vr_net_free(struct vr_net *net)
{
    if (!net) return;
    vr_net_stop(net);
    net->curl->curl_multi_cleanup(net->multi);
    free(net);
}
