/* Runs cases (oracle.h) through llama.cpp, each in a child of its own, so that an abort of the engine is one line of
 * output and the devices of one case are gone before the next.
 *
 * The parent loads the libraries; the child registers the case's devices, loads the model without allocating
 * (no_alloc), makes a context, and then reserves the graphs again in the order in which a real load does: prompt,
 * token, prompt. The scheduler that holds the truth has no public handle: ggml_backend_sched_new is called through
 * the dynamic linker, so this program's own definition of it comes first and remembers what it returned.
 * --real loads without no_alloc instead, which is what the dry run must equal. */
#include "oracle.h"

#include <dlfcn.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <exception>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "ggml.h"
#include "llama-ext.h"
#include "llama.h"

static ggml_backend_sched_t last_sched;
static std::vector<ggml_backend_t> sched_backends;

extern "C" ggml_backend_sched_t ggml_backend_sched_new(ggml_backend_t *backends, ggml_backend_buffer_type_t *bufts,
                                                       int n, size_t graph_size, bool parallel, bool op_offload)
{
    typedef ggml_backend_sched_t fn(ggml_backend_t *, ggml_backend_buffer_type_t *, int, size_t, bool, bool);
    static fn *real = (fn *)dlsym(RTLD_NEXT, "ggml_backend_sched_new");
    last_sched = real(backends, bufts, n, graph_size, parallel, op_offload);
    sched_backends.assign(backends, backends + n);
    return last_sched;
}

/* A real load maps the file and asks for all its pages. Nobody reads them here, and 400 GB of holes take a minute. */
extern "C" void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) noexcept
{
    return (void *)syscall(SYS_mmap, at, n, prot, flags & ~MAP_POPULATE, fd, offset);
}

extern "C" int posix_madvise(void *, size_t, int) noexcept { return 0; }

struct notes { /* shared with the parent: what the engine said last, before it could not say more */
    char error[1024];
    int flash; /* -1 not asked, else what "auto" became */
};
static struct notes *notes;

static void on_log(ggml_log_level level, const char *text, void *)
{
    if (strstr(text, "Flash Attention enabled")) notes->flash = 1;
    if (strstr(text, "Flash Attention not supported")) notes->flash = 0;
    if (level != GGML_LOG_LEVEL_ERROR) return;
    snprintf(notes->error, sizeof(notes->error), "%s", text);
    notes->error[strcspn(notes->error, "\n")] = 0;
}

static void on_abort(const char *text) { snprintf(notes->error, sizeof(notes->error), "abort: %s", text); }

static double now_ms()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static long get_int(json_t *c, const char *key, long fallback)
{
    json_t *v = json_object_get(c, key);
    return json_is_boolean(v) ? json_is_true(v) : v ? (long)json_integer_value(v) : fallback;
}

static ggml_type get_type(json_t *c, const char *key)
{
    const char *name = json_string_value(json_object_get(c, key));
    for (int t = 0; name && t < GGML_TYPE_COUNT; t++)
        if (ggml_type_name((ggml_type)t) && !strcmp(ggml_type_name((ggml_type)t), name)) return (ggml_type)t;
    return GGML_TYPE_F16;
}

static std::vector<oracle_device> get_devices(json_t *c)
{
    std::vector<oracle_device> out;
    size_t i;
    json_t *d;
    json_array_foreach(json_object_get(c, "devices"), i, d)
    {
        oracle_device o = {};
        snprintf(o.name, sizeof(o.name), "%s", json_string_value(json_object_get(d, "name")));
        o.total_mib = (uint64_t)get_int(d, "total_mib", 0);
        o.free_mib = (uint64_t)get_int(d, "free_mib", 0);
        sscanf(json_string_value(json_object_get(d, "cc")), "%d.%d", &o.cc_major, &o.cc_minor);
        out.push_back(o);
    }
    return out;
}

struct target { /* which backend answers */
    bool vgpu, real;
    std::string so; /* the backend's library */
};

static std::vector<ggml_backend_dev_t> add_devices(const target &t, const std::vector<oracle_device> &devices)
{
    size_t before = ggml_backend_dev_count();
    std::string spec;
    for (const oracle_device &d : devices) {
        char s[256];
        snprintf(s, sizeof(s), "%s:%lu:%lu:%d.%d;", d.name, d.total_mib, d.free_mib, d.cc_major, d.cc_minor);
        spec += s;
    }
    setenv("VR_STUB_CUDA", spec.c_str(), 1);
    if (t.vgpu ? !oracle_vgpu_register(devices.data(), devices.size()) : !ggml_backend_load(t.so.c_str()))
        throw std::string("the backend did not load");
    std::vector<ggml_backend_dev_t> out;
    for (size_t i = before; i < ggml_backend_dev_count(); i++) out.push_back(ggml_backend_dev_get(i));
    if (out.size() != devices.size()) throw std::string("the backend shows another number of devices");
    return out;
}

struct bytes {
    size_t model, context, compute;
};

static void set_bytes(json_t *o, const bytes &b)
{
    json_object_set_new(o, "model", json_integer((json_int_t)b.model));
    json_object_set_new(o, "context", json_integer((json_int_t)b.context));
    json_object_set_new(o, "compute", json_integer((json_int_t)b.compute));
}

static llama_model *load(const target &t, json_t *c, const char *path, const std::vector<ggml_backend_dev_t> &machine)
{
    static std::vector<ggml_backend_dev_t> order;
    static std::vector<float> split(16, 0.0f);
    static std::vector<std::string> patterns;
    static std::vector<llama_model_tensor_buft_override> overrides;
    size_t i;
    json_t *v, *list = json_object_get(c, "order");
    for (i = 0; i < (list ? json_array_size(list) : machine.size()); i++)
        order.push_back(machine.at(list ? (size_t)json_integer_value(json_array_get(list, i)) : i));
    order.push_back(nullptr);
    json_array_foreach(json_object_get(c, "split"), i, v) split.at(i) = (float)json_number_value(v);

    llama_model_params p = llama_model_default_params();
    json_array_foreach(json_object_get(c, "overrides"), i, v)
    {
        json_t *where = json_array_get(v, 1);
        patterns.push_back(json_string_value(json_array_get(v, 0)));
        overrides.push_back({ nullptr, json_is_integer(where)
                                           ? ggml_backend_dev_buffer_type(machine.at((size_t)json_integer_value(where)))
                                           : ggml_backend_cpu_buffer_type() });
    }
    if (!get_int(c, "pipeline", 1) && patterns.empty()) {
        patterns.push_back("^no tensor has this name$");
        overrides.push_back({ nullptr, ggml_backend_cpu_buffer_type() });
    }
    for (i = 0; i < patterns.size(); i++) overrides[i].pattern = patterns[i].c_str();
    overrides.push_back({ nullptr, nullptr });

    p.devices = order.data();
    if (json_object_get(c, "split")) p.tensor_split = split.data();
    if (overrides.size() > 1) p.tensor_buft_overrides = overrides.data();
    p.n_gpu_layers = (int32_t)get_int(c, "ngl", -1);
    p.use_extra_bufts = false;
    p.no_alloc = !t.real;
    p.load_mode = LLAMA_LOAD_MODE_NONE;
    if (t.real && get_int(c, "mmap", 0)) p.load_mode = LLAMA_LOAD_MODE_MMAP;
    return llama_model_load_from_file(path, p);
}

static llama_context *make_context(json_t *c, llama_model *model)
{
    llama_context_params p = llama_context_default_params();
    p.n_ctx = (uint32_t)get_int(c, "n_ctx", 4096);
    p.n_batch = (uint32_t)get_int(c, "n_batch", 2048);
    p.n_ubatch = (uint32_t)get_int(c, "n_ubatch", 512);
    p.n_seq_max = (uint32_t)get_int(c, "n_seq", 1);
    p.n_outputs_max = (uint32_t)get_int(c, "n_outputs", 0);
    p.n_threads = p.n_threads_batch = 1;
    const char *flash = json_string_value(json_object_get(c, "flash"));
    p.flash_attn_type = !flash || !strcmp(flash, "auto") ? LLAMA_FLASH_ATTN_TYPE_AUTO
                        : !strcmp(flash, "on")           ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                                                         : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    p.type_k = get_type(c, "type_k");
    p.type_v = get_type(c, "type_v");
    p.kv_unified = get_int(c, "kv_unified", 0);
    p.swa_full = get_int(c, "swa_full", 0);
    p.op_offload = get_int(c, "op_offload", 1);
    p.offload_kqv = get_int(c, "offload_kqv", 1);
    return llama_init_from_model(model, p);
}

/* Reserves as llama_context::sched_reserve() does, and notes splits and nodes of both graphs. */
static void reserve(json_t *c, llama_context *ctx, json_t *answer)
{
    uint32_t n_seq = llama_n_seq_max(ctx), n_tokens = llama_n_ctx(ctx);
    if (n_tokens > llama_n_ubatch(ctx)) n_tokens = llama_n_ubatch(ctx);
    uint32_t n_outputs = (uint32_t)get_int(c, "n_outputs", 0);
    if (!n_outputs) n_outputs = llama_n_batch(ctx);
    if (n_outputs > n_tokens) n_outputs = n_tokens;
    json_t *splits = json_array(), *nodes = json_array();
    for (int i = 0; i < 3; i++) {
        bool prompt = i != 1;
        ggml_cgraph *g = llama_graph_reserve(ctx, prompt ? n_tokens : n_seq, n_seq, prompt ? n_outputs : n_seq);
        if (!g) throw std::string(notes->error);
        if (i == 2) break;
        json_array_append_new(splits, json_integer(ggml_backend_sched_get_n_splits(last_sched)));
        json_array_append_new(nodes, json_integer(ggml_graph_n_nodes(g)));
    }
    json_object_set_new(answer, "splits", splits);
    json_object_set_new(answer, "nodes", nodes);
}

static void run_case(const target &t, json_t *c, const char *path, json_t *answer)
{
    std::vector<ggml_backend_dev_t> machine = add_devices(t, get_devices(c));
    llama_model *model = load(t, c, path, machine);
    if (!model) throw std::string(notes->error[0] ? notes->error : "the model did not load");
    llama_context *ctx = make_context(c, model);
    if (!ctx) throw std::string(notes->error[0] ? notes->error : "no context");

    std::vector<bytes> devices(machine.size() + 1); /* the host is last */
    std::vector<size_t> first(devices.size());
    auto place = [&](ggml_backend_buffer_type_t buft) {
        size_t i = 0;
        while (i < machine.size() && ggml_backend_dev_buffer_type(machine[i]) != buft) i++;
        return i;
    };
    for (const auto &[buft, b] : llama_get_memory_breakdown(ctx)) {
        devices[place(buft)].model += b.model;
        devices[place(buft)].context += b.context;
        first[place(buft)] += b.compute;
    }
    if (!t.real) reserve(c, ctx, answer);
    for (ggml_backend_t b : sched_backends)
        devices[place(ggml_backend_sched_get_buffer_type(last_sched, b))].compute +=
            ggml_backend_sched_get_buffer_size(last_sched, b);
    json_t *list = json_array(), *host = json_object(), *inflated = json_array();
    for (size_t i = 0; i < machine.size(); i++) {
        json_t *o = json_object();
        set_bytes(o, devices[i]);
        typedef uint64_t used_fn(int);
        used_fn *used = (used_fn *)dlsym(RTLD_DEFAULT, "vr_stub_cuda_used");
        if (t.real && used) json_object_set_new(o, "malloc", json_integer((json_int_t)used((int)i)));
        json_array_append_new(list, o);
    }
    for (size_t n : first) json_array_append_new(inflated, json_integer((json_int_t)n));
    set_bytes(host, devices.back());
    json_object_set_new(answer, "devices", list);
    json_object_set_new(answer, "host", host);
    json_object_set_new(answer, "first_compute", inflated);
    int copies = ggml_backend_sched_get_n_copies(last_sched);
    json_object_set_new(answer, "pipeline", json_boolean(copies > 1));
    json_object_set_new(answer, "copies", json_integer(copies));
    if (notes->flash >= 0) json_object_set_new(answer, "flash_auto", json_boolean(notes->flash));
}

struct child {
    pid_t pid;
    FILE *out;
    struct notes *notes;
};

static void be_child(const target &t, json_t *c, const char *path, int fd)
{
    double start = now_ms();
    if (!getenv("ORACLE_VERBOSE")) {
        llama_log_set(on_log, nullptr);
        ggml_set_abort_callback(on_abort);
    }
    json_t *answer = json_object();
    try {
        run_case(t, c, path, answer);
    } catch (const std::string &e) {
        json_object_set_new(answer, "error", json_string(e.c_str()));
    } catch (const std::exception &e) {
        json_object_set_new(answer, "error", json_string(e.what()));
    }
    json_object_set_new(answer, "ms", json_real((now_ms() - start)));
    FILE *f = fdopen(fd, "w");
    json_dumpf(answer, f, JSON_COMPACT | JSON_REAL_PRECISION(4));
    fclose(f);
    _exit(0); /* the engine is not taken down: that costs as much as the case */
}

static child start(const target &t, json_t *c, const char *path, struct notes *shared)
{
    int fds[2];
    memset(shared, 0, sizeof(*shared));
    shared->flash = -1;
    fflush(stdout);
    pid_t pid = pipe(fds) == 0 ? fork() : -1;
    if (pid < 0) {
        perror("oracle");
        exit(1);
    }
    if (pid == 0) {
        notes = shared;
        close(fds[0]);
        be_child(t, c, path, fds[1]);
    }
    close(fds[1]);
    return { pid, fdopen(fds[0], "r"), shared };
}

/* The child's answer, or what became of the child. */
static json_t *finish(const child &ch)
{
    json_t *answer = json_loadf(ch.out, 0, nullptr);
    fclose(ch.out);
    int status = 0;
    waitpid(ch.pid, &status, 0);
    if (answer) return answer;
    char text[1200];
    snprintf(text, sizeof(text), "%s (signal %d)", ch.notes->error, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    return json_pack("{ss}", "error", text);
}

static const char *const compared[] = { "devices", "host", "pipeline", "copies", "splits", "nodes", "flash_auto" };

static bool same(json_t *a, json_t *b, std::string *what)
{
    bool ea = json_object_get(a, "error") != nullptr, eb = json_object_get(b, "error") != nullptr;
    if (ea != eb) *what = "error";
    for (const char *key : compared) {
        json_t *x = json_object_get(a, key), *y = json_object_get(b, key);
        if (!(x ? y && json_equal(x, y) : !y)) *what += std::string(what->empty() ? "" : ",") + key;
    }
    return what->empty();
}

static int usage()
{
    fprintf(stderr,
            "usage: oracle --cases N [--seed S]                  prints cases\n"
            "       oracle --run cuda|vgpu|both [--real] < CASES  prints answers; both: differences only\n"
            "options: --engine DIR (libggml-cpu-*.so)  --cuda FILE (libggml-cuda.so)  --cudart 13|12  --stubs DIR\n"
            "         --fixtures DIR (tests/fixtures)\n");
    return 2;
}

struct options {
    std::string engine = "build/engine", cuda = "build/engine/libggml-cuda.so", stubs = "build/oracle",
                fixtures = "tests/fixtures", cudart = "13", run;
    size_t n_cases = 0;
    uint64_t seed = 1;
    bool real = false;
};

static bool parse(int argc, char **argv, options *o)
{
    for (int i = 1; i < argc; i++) {
        std::string a = argv[i];
        if (a == "--real") {
            o->real = true;
            continue;
        }
        if (i + 1 == argc) return false;
        const char *v = argv[++i];
        if (a == "--cases")
            o->n_cases = strtoul(v, nullptr, 10);
        else if (a == "--seed")
            o->seed = strtoul(v, nullptr, 10);
        else if (a == "--run")
            o->run = v;
        else if (a == "--engine")
            o->engine = v;
        else if (a == "--cuda")
            o->cuda = v;
        else if (a == "--cudart")
            o->cudart = v;
        else if (a == "--stubs")
            o->stubs = v;
        else if (a == "--fixtures")
            o->fixtures = v;
        else
            return false;
    }
    return o->n_cases || !o->run.empty();
}

/* Loaded once here: a child's load of the same file is then only a matter of registering its devices. */
static bool load_libraries(const options &o, bool cuda)
{
    std::string cpu = o.engine + "/libggml-cpu-x64.so"; /* runs everywhere; nothing is computed */
    if (!ggml_backend_load(cpu.c_str())) {
        fprintf(stderr, "%s does not load\n", cpu.c_str());
        return false;
    }
    const std::string libraries[] = { o.stubs + "/libcudart.so." + o.cudart, o.stubs + "/libcublas.so." + o.cudart,
                                      o.stubs + "/libcuda.so.1", o.cuda };
    for (const std::string &path : libraries) {
        if (cuda && !dlopen(path.c_str(), RTLD_NOW | (path == o.cuda ? RTLD_LOCAL : RTLD_GLOBAL))) {
            fprintf(stderr, "%s\n", dlerror());
            return false;
        }
    }
    return true;
}

static volatile sig_atomic_t stopped;

static void on_signal(int) { stopped = 1; }

struct tally {
    size_t n, n_refused, n_differ;
    double ms[2];
};

static void run_line(const options &o, struct oracle_models *models, const char *line, struct notes *shared, tally *sum)
{
    bool both = o.run == "both", on[2] = { both || o.run == "cuda", both || o.run == "vgpu" };
    json_t *c = json_loads(line, 0, nullptr), *answers[2] = { nullptr, nullptr };
    const char *name = json_string_value(json_object_get(c, "model"));
    char path[1024];
    child children[2];
    if (!name || !oracle_models_path(models, o.fixtures.c_str(), name, path, sizeof(path))) {
        fprintf(stderr, "not a case: %s", line);
        sum->n_differ++;
        json_decref(c);
        return;
    }
    for (int i = 0; i < 2; i++) /* both run at once */
        if (on[i]) children[i] = start({ i == 1, o.real, o.cuda }, c, path, &shared[i]);
    json_t *out = json_pack("{sO}", "case", c);
    for (int i = 0; i < 2; i++) {
        if (!on[i]) continue;
        answers[i] = finish(children[i]);
        sum->ms[i] += json_number_value(json_object_get(answers[i], "ms"));
        json_object_set(out, !both ? "answer" : i ? "vgpu" : "cuda", answers[i]);
    }
    std::string what;
    sum->n++;
    sum->n_refused += json_object_get(answers[on[0] ? 0 : 1], "error") != nullptr;
    if (both && !same(answers[0], answers[1], &what)) {
        sum->n_differ++;
        json_object_set_new(out, "differ", json_string(what.c_str()));
    }
    if (!stopped && (!both || !what.empty())) {
        json_dumpf(out, stdout, JSON_COMPACT | JSON_REAL_PRECISION(4));
        putchar('\n');
    }
    for (json_t *j : { out, answers[0], answers[1], c }) json_decref(j);
}

int main(int argc, char **argv)
{
    options o;
    if (!parse(argc, argv, &o)) return usage();
    if (o.n_cases) return oracle_cases(o.fixtures.c_str(), o.n_cases, o.seed, o.cudart == "12") ? 0 : 1;
    if (o.run != "cuda" && o.run != "vgpu" && o.run != "both") return usage();
    if (o.run != "cuda" && !oracle_vgpu_register) {
        fprintf(stderr, "this oracle was built without the virtual GPUs\n");
        return 2;
    }
    struct notes *shared =
        (struct notes *)mmap(nullptr, 2 * sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    notes = shared;
    if (!getenv("ORACLE_VERBOSE")) llama_log_set(on_log, nullptr);
    struct sigaction stop = {}; /* no SA_RESTART: reading a case ends, and the models are removed */
    stop.sa_handler = on_signal;
    sigaction(SIGINT, &stop, nullptr);
    sigaction(SIGTERM, &stop, nullptr);
    struct oracle_models models;
    if (!load_libraries(o, o.run != "vgpu") || !oracle_models_open(o.fixtures.c_str(), &models)) return 1;

    char *line = nullptr;
    size_t cap = 0;
    tally sum = {};
    while (!stopped && getline(&line, &cap, stdin) > 0) run_line(o, &models, line, shared, &sum);
    free(line);
    oracle_models_close(&models);
    double n = sum.n ? (double)sum.n : 1;
    fprintf(stderr, "%zu cases (%zu refused by the engine), %zu differ; ms per case: cuda %.1f, virtual %.1f\n", sum.n,
            sum.n_refused, sum.n_differ, sum.ms[0] / n, sum.ms[1] / n);
    return sum.n_differ || stopped || !sum.n ? 1 : 0;
}
