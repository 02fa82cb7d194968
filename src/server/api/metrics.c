#include "server/api/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

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

void vr_metrics_print(const struct vr_front *f, struct vr_buf *out)
{
    const struct vr_metrics *m = &f->metrics;
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
    number(out, "text_tokens_total", "counter", "Generated tokens.", (double)m->text_tokens);
    number(out, "drafted_tokens_total", "counter", "Tokens proposed by the draft model.", (double)m->drafted_tokens);
    number(out, "accepted_tokens_total", "counter", "Proposed tokens that the model accepted.",
           (double)m->accepted_tokens);
    number(out, "cancelled_total", "counter", "Requests to the model whose client went away.", (double)m->cancelled);
    number(out, "stalled_total", "counter", "Clients dropped because they stopped reading.", (double)m->stalled);
    number(out, "refused_connections_total", "counter", "Connections refused because of --max-connections.",
           (double)m->refused_connections);
    number(out, "requests_in_flight", "gauge", "Requests to the model that the engine has.", f->calls.n);
    number(out, "choices_in_flight", "gauge", "Choices that those requests ask for.", f->calls.n_texts);
    number(out, "connections", "gauge", "Open connections.", f->conns.n);
    number(out, "output_waiting_bytes", "gauge", "Response bytes not yet read by clients.",
           (double)f->conns.output_bytes);
    number(out, "engine_up", "gauge", "1 if the model is loaded and ready.", f->engine.state == VR_WORKER_READY);
    number(out, "engine_loading_percent", "gauge", "Progress of loading the model.", f->engine.percent);
    number(out, "engine_starts_total", "counter", "Engine processes started.", (double)m->engine_starts);
    number(out, "engine_crashes_total", "counter", "Engine processes that crashed.", (double)m->engine_crashes);
    number(out, "engine_failures_total", "counter", "Engine processes that ended with a reported error.",
           (double)m->engine_failures);
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
    histogram(out, "first_token_seconds", "Time to first token (TTFT), from the first byte of the request.",
              &m->first_token_s);
    histogram(out, "request_seconds", "Time from the first byte of a request to the end of its response.",
              &m->request_s);
}
