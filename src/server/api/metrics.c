#include "server/api/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <jansson.h>

#include "base/log.h"
#include "server/front.h"
#include "server/http/routes.h"

static const double bounds[VR_N_BUCKETS] = { 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300 };

void vr_histogram_add(struct vr_histogram *h, double seconds)
{
    size_t i = 0;
    while (i < VR_N_BUCKETS && seconds > bounds[i]) i++;
    h->buckets[i]++;
    h->n++;
    h->sum += seconds;
}

static void head(struct vr_buf *out, const char *name, const char *type, const char *help)
{
    vr_buf_addf(out, "# HELP vram_llm_%s %s\n# TYPE vram_llm_%s %s\n", name, help, name, type);
}

static void number(struct vr_buf *out, const char *name, const char *type, const char *help, double value)
{
    head(out, name, type, help);
    vr_buf_addf(out, "vram_llm_%s %.15g\n", name, value);
}

static void histogram(struct vr_buf *out, const char *name, const char *help, const struct vr_histogram *h)
{
    uint64_t sum = 0;
    head(out, name, "histogram", help);
    for (size_t i = 0; i < VR_N_BUCKETS; i++) {
        sum += h->buckets[i];
        vr_buf_addf(out, "vram_llm_%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, bounds[i], sum);
    }
    vr_buf_addf(out,
                "vram_llm_%s_bucket{le=\"+Inf\"} %" PRIu64 "\nvram_llm_%s_sum %.6f\nvram_llm_%s_count %" PRIu64 "\n",
                name, h->n, name, h->sum, name, h->n);
}

static uint64_t resident_bytes(void)
{
    VR_AUTO_FCLOSE FILE *f = fopen("/proc/self/statm", "re");
    unsigned long size, resident;
    if (!f || fscanf(f, "%lu %lu", &size, &resident) != 2) return 0;
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* What the engines said last of their prompt caches; nothing before one has. */
static void print_cache(const struct vr_front *f, struct vr_buf *out)
{
    static const struct {
        const char *key, *name, *kind, *help;
    } rows[] = {
        { "bytes", "cache_bytes", "gauge", "Host memory of cached prompts and checkpoints." },
        { "limit_bytes", "cache_limit_bytes", "gauge", "Most host memory they may take (--cache-ram)." },
        { "prompts", "cache_prompts", "gauge", "Cached prompts, in host memory or on disk." },
        { "checkpoints", "cache_checkpoints", "gauge", "Checkpoints of sequences in slots." },
        { "saved_tokens", "cache_saved_tokens_total", "counter", "Tokens that slots gave up and host memory took." },
        { "restored_tokens", "cache_restored_tokens_total", "counter",
          "Tokens brought back from host memory or disk." },
        { "recomputed_tokens", "cache_recomputed_tokens_total", "counter",
          "Prompt tokens that were known and had to be computed again." },
        { "disk_bytes", "cache_disk_bytes", "gauge", "Disk space of cached prompts." },
        { "disk_limit_bytes", "cache_disk_limit_bytes", "gauge", "Most disk space they may take (--cache-disk)." },
        { "disk_prompts", "cache_disk_prompts", "gauge", "Cached prompts on disk (--cache-dir)." },
    };
    double sums[VR_COUNT(rows)] = { 0 };
    bool any = false;
    for (size_t k = 0; k < f->n_models; k++) {
        const struct vr_buf *said = &f->models[k].engine.status;
        json_t *status = said->n ? json_loadb(said->data, said->n, 0, NULL) : NULL;
        const json_t *cache = json_object_get(status, "cache");
        any |= cache != NULL;
        for (size_t i = 0; i < VR_COUNT(rows); i++)
            sums[i] += (double)json_integer_value(json_object_get(cache, rows[i].key));
        json_decref(status);
    }
    for (size_t i = 0; any && i < VR_COUNT(rows); i++) number(out, rows[i].name, rows[i].kind, rows[i].help, sums[i]);
}

/* The same of the default model's guesses. */
static void print_speculation(const struct vr_worker *e, struct vr_buf *out)
{
    json_t *status = json_loadb(vr_buf_str(&e->status), e->status.n, 0, NULL);
    const json_t *spec = json_object_get(status, "spec"), *gain = json_object_get(spec, "gain");
    if (gain) {
        number(out, "speculation_acceptance", "gauge", "How many of the latest guesses were right, from 0 to 1.",
               json_number_value(json_object_get(spec, "acceptance")));
        number(out, "speculation_gain", "gauge",
               "Token generation with the guesses that are made now, as a multiple of that without; 1: none are made.",
               json_number_value(gain));
    }
    json_decref(status);
}

/* Machines that lend devices, as the plan knows them. */
static void print_nodes(const struct vr_load *load, struct vr_buf *out)
{
    static const struct {
        const char *name, *help, *key;
        double unit;
    } rows[] = {
        { "node_round_trip_seconds", "A round trip to a node (--nodes).", "round_trip_ms", 1e-3 },
        { "node_bytes_per_second", "Bandwidth of the link to a node, one way.", "gbs", 1e9 },
        { "node_lent_bytes", "Memory that a node lends.", "lent_bytes", 1 },
        { "node_used_bytes", "Memory of a node that the model uses.", "used_bytes", 1 },
    };
    bool any = false;
    for (size_t i = 0; load && i < load->n_devices; i++) any |= strchr(load->devices[i].id, '/') != NULL;
    json_t *plan = any ? json_loadb(vr_buf_str(&load->plan_json), load->plan_json.n, 0, NULL) : NULL;
    const json_t *nodes = json_object_get(plan, "nodes"), *node;
    size_t k;
    for (size_t i = 0; i < VR_COUNT(rows) && json_array_size(nodes); i++) {
        head(out, rows[i].name, "gauge", rows[i].help);
        json_array_foreach(nodes, k, node) /* a node's name has no character that a label would have to escape */
            vr_buf_addf(out, "vram_llm_%s{node=\"%s\"} %.15g\n", rows[i].name,
                        json_string_value(json_object_get(node, "name")),
                        rows[i].unit * json_number_value(json_object_get(node, rows[i].key)));
    }
    json_decref(plan);
}

static double value_of(const struct vr_served *m, const char *name)
{
    const struct vr_worker *e = &m->engine;
#define MODEL_METRIC(its_name, type, help, value)                                                                      \
    if (strcmp(name, its_name) == 0) return (double)(value);
#include "server/api/model_metrics.def"
#undef MODEL_METRIC
    return 0;
}

/* The model's id as the value of a label: a JSON string has the same escapes, but for control characters. */
static void print_models(const struct vr_front *f, struct vr_buf *out)
{
    static const struct {
        const char *name, *type, *help;
    } rows[] = {
#define MODEL_METRIC(name, type, help, value) { name, type, help },
#include "server/api/model_metrics.def"
#undef MODEL_METRIC
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        head(out, rows[i].name, rows[i].type, rows[i].help);
        for (size_t k = 0; k < f->n_models; k++)
            vr_buf_addf(out, "vram_llm_%s{model=%s} %.15g\n", rows[i].name, vr_buf_str(&f->models[k].id_json),
                        value_of(&f->models[k], rows[i].name));
    }
}

static void print_engine(const struct vr_worker *one, const struct vr_metrics *m, struct vr_buf *out)
{
    number(out, "engine_up", "gauge", "1 if the model is loaded and ready (of several, one).",
           one->state == VR_WORKER_READY);
    number(out, "node_devices", "gauge", "Devices of other machines (--nodes) that the model is placed on.",
           one->load ? (double)vr_load_borrowed(one->load) : 0);
    print_nodes(one->load, out);
    number(out, "engine_loading_percent", "gauge", "Progress of loading the model.", one->percent);
    number(out, "preparing_requests", "gauge", "Requests that are being read: templates, schemas, tokens, images.",
           one->pulse.preparing);
    number(out, "engine_stalled_seconds", "gauge", "Time for which there has been work and nothing was computed.",
           one->pulse.stalled_ms / 1e3);
    number(out, "engine_starts_total", "counter", "Engine processes started.", (double)m->engine_starts);
    number(out, "engine_crashes_total", "counter", "Engine processes that crashed.", (double)m->engine_crashes);
    number(out, "engine_failures_total", "counter", "Engine processes that ended with a reported error.",
           (double)m->engine_failures);
}

/* The server's own process. */
static void print_process(const struct vr_front *f, struct vr_buf *out)
{
    number(out, "log_lines_dropped_total", "counter", "Log lines that could not be written.", (double)vr_log_dropped());
    number(out, "resident_bytes", "gauge", "Resident memory of the server process, without the engine.",
           (double)resident_bytes());
    struct rusage use;
    if (getrusage(RUSAGE_SELF, &use) == 0)
        number(out, "cpu_seconds_total", "counter", "CPU time of the server process, without the engine.",
               (double)use.ru_utime.tv_sec + (double)use.ru_stime.tv_sec +
                   (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6);
    number(out, "uptime_seconds", "gauge", "Time since the server started.",
           (double)(vr_now_ms() - f->started_ms) / 1e3);
}

void vr_metrics_print(struct vr_front *f, struct vr_buf *out)
{
    const struct vr_metrics *m = &f->metrics;
    const struct vr_worker *one = &vr_served_default(f, true)->engine;
    head(out, "http_requests_total", "counter",
         "HTTP requests answered, by family and status (499: the client went away).");
    for (size_t i = 0; i < VR_N_FAMILIES; i++)
        for (size_t s = 0; s < VR_COUNT(m->by_status[0]); s++)
            if (m->by_status[i][s])
                vr_buf_addf(out, "vram_llm_http_requests_total{family=\"%s\",status=\"%zu\"} %" PRIu64 "\n",
                            vr_family_name((enum vr_family)i), s, m->by_status[i][s]);
    number(out, "prompt_tokens_total", "counter", "Prompt tokens.", (double)m->prompt_tokens);
    number(out, "cached_tokens_total", "counter", "Prompt tokens taken from the prefix cache.",
           (double)m->cached_tokens);
    print_cache(f, out);
    number(out, "text_tokens_total", "counter", "Generated tokens.", (double)m->text_tokens);
    number(out, "drafted_tokens_total", "counter", "Tokens guessed by speculative decoding.",
           (double)m->drafted_tokens);
    number(out, "accepted_tokens_total", "counter", "Guessed tokens that the model accepted.",
           (double)m->accepted_tokens);
    print_speculation(one, out);
    number(out, "cancelled_total", "counter", "Requests to the model whose client went away.", (double)m->cancelled);
    number(out, "stalled_total", "counter", "Clients dropped because they stopped reading.", (double)m->stalled);
    number(out, "refused_connections_total", "counter", "Connections refused because of --max-connections.",
           (double)m->refused_connections);
    number(out, "closed_idle_total", "counter", "Idle connections closed to make room for another client's.",
           (double)m->closed_idle);
    number(out, "displaced_total", "counter", "Requests and bodies that made room for a client with fewer.",
           (double)m->displaced);
    number(out, "requests_in_flight", "gauge", "Requests to the model, running or waiting.", f->calls.n);
    number(out, "requests_waiting", "gauge", "Those that wait for their turn.", (double)vr_calls_waiting(f));
    number(out, "choices_in_flight", "gauge", "Choices that those requests ask for.", f->calls.n_texts);
    number(out, "connections", "gauge", "Open connections.", f->conns.n);
    number(out, "clients", "gauge", "Clients (API keys or addresses) seen recently.", (double)f->clients.n);
    number(out, "body_bytes", "gauge", "Memory of request bodies that are read or wait.",
           (double)f->clients.body_bytes);
    number(out, "output_waiting_bytes", "gauge", "Response bytes not yet read by clients.",
           (double)f->conns.output_bytes);
    print_engine(one, m, out);
    print_process(f, out);
    print_models(f, out);
    histogram(out, "first_token_seconds", "Time to first token (TTFT), from the first byte of the request.",
              &m->first_token_s);
    histogram(out, "queue_seconds", "Time that requests waited for their turn.", &m->queue_s);
    histogram(out, "request_seconds", "Time from the first byte of a request to the end of its response.",
              &m->request_s);
}
