/* Runs cases (oracle.h) through llama.cpp, each in a child of its own, so that an abort of the engine is one line of
 * output and the devices of one case are gone before the next.
 *
 * The parent loads the libraries; the child registers the case's devices, loads the model without allocating
 * (no_alloc), makes a context, and then reserves the graphs again in the order in which a real load does: prompt,
 * token, prompt. The scheduler that holds the truth has no public handle: ggml_backend_sched_new is called through
 * the dynamic linker, so this program's own definition of it comes first and remembers what it returned.
 * --real loads without no_alloc instead, which is what the dry run must equal. Split mode tensor is always compared so,
 * with the stub's own count of what was allocated when. */
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

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "llama-ext.h"
#include "llama.h"

extern "C" {
#include "engine/llama/held.h"
}

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

/* What was allocated on each device before and after the engine made its backend over all devices. */
static std::vector<uint64_t> before_meta, after_meta;

static std::vector<uint64_t> stub_used(size_t n)
{
    typedef uint64_t used_fn(int);
    used_fn *used = (used_fn *)dlsym(RTLD_DEFAULT, "vr_stub_cuda_used");
    std::vector<uint64_t> out(n);
    for (size_t i = 0; used && i < n; i++) out[i] = used((int)i);
    return out;
}

extern "C" ggml_backend_t ggml_backend_dev_init(ggml_backend_dev_t dev, const char *params)
{
    typedef ggml_backend_t fn(ggml_backend_dev_t, const char *);
    static fn *real = (fn *)dlsym(RTLD_NEXT, "ggml_backend_dev_init");
    if (ggml_backend_dev_type(dev) != GGML_BACKEND_DEVICE_TYPE_META) return real(dev, params);
    before_meta = stub_used(ORACLE_DEVICES);
    ggml_backend_t b = real(dev, params);
    after_meta = stub_used(ORACLE_DEVICES);
    return b;
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

static bool is_tensor(json_t *c)
{
    const char *mode = json_string_value(json_object_get(c, "mode"));
    return mode && !strcmp(mode, "tensor");
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
    order.clear();
    split.assign(16, 0.0f);
    patterns.clear();
    overrides.clear();
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
    if (is_tensor(c)) {
        p.split_mode = LLAMA_SPLIT_MODE_TENSOR;
        p.load_mtp = false; /* unless it guesses */
    }
    if (get_int(c, "guesses", 0)) p.load_mtp = true;
    if (json_object_get(c, "split")) p.tensor_split = split.data();
    if (overrides.size() > 1) p.tensor_buft_overrides = overrides.data();
    p.n_gpu_layers = (int32_t)get_int(c, "ngl", -1);
    p.use_extra_bufts = false;
    p.no_alloc = !t.real && !is_tensor(c);
    p.load_mode = LLAMA_LOAD_MODE_NONE;
    if (is_tensor(c) || (t.real && get_int(c, "mmap", 0))) p.load_mode = LLAMA_LOAD_MODE_MMAP;
    return llama_model_load_from_file(path, p);
}

static llama_context_params context_params(json_t *c)
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
    p.n_rs_seq = (uint32_t)get_int(c, "guesses", 0);
    return p;
}

static llama_context *make_context(json_t *c, llama_model *model)
{
    return llama_init_from_model(model, context_params(c));
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

/* --- split mode tensor --- */

static ggml_status compute_nothing(ggml_backend_t, ggml_cgraph *) { return GGML_STATUS_SUCCESS; }

/* n tokens, as many of each sequence. */
static void decode(llama_context *ctx, int32_t n, int32_t n_seq)
{
    llama_batch batch = llama_batch_init(n, 0, 1);
    for (int32_t i = 0; i < n; i++) {
        batch.token[i] = 0;
        batch.pos[i] = i / n_seq;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = i % n_seq;
        batch.logits[i] = i >= n - n_seq;
    }
    batch.n_tokens = n;
    llama_memory_clear(llama_get_memory(ctx), false);
    int rc = llama_decode(ctx, batch);
    llama_synchronize(ctx);
    if (rc) throw std::string("llama_decode: ") + std::to_string(rc);
}

/* A prompt of one micro-batch, and a token of each sequence, without the kernels of the devices and of the host. */
static void compute_both(llama_context *ctx, ggml_backend_sched_t sched, json_t *c)
{
    int32_t n_seq = (int32_t)llama_n_seq_max(ctx), n = (int32_t)llama_n_ubatch(ctx);
    int32_t room = (int32_t)llama_n_ctx_seq(ctx) * (get_int(c, "kv_unified", 0) ? 1 : n_seq);
    if (n > room) n = room;
    for (int k = 0; k < ggml_backend_sched_get_n_backends(sched); k++) {
        ggml_backend_t b = ggml_backend_sched_get_backend(sched, k);
        if (!ggml_backend_is_meta(b)) {
            b->iface.graph_compute = compute_nothing;
            continue;
        }
        for (size_t i = 0; i < ggml_backend_meta_n_backends(b); i++)
            ggml_backend_meta_simple_backend(b, i)->iface.graph_compute = compute_nothing;
    }
    decode(ctx, n - n % n_seq, n_seq);
    decode(ctx, n_seq, n_seq);
}

static std::vector<size_t> get_order(json_t *c, size_t n)
{
    json_t *order = json_object_get(c, "order");
    std::vector<size_t> out;
    for (size_t i = 0; i < (order ? json_array_size(order) : n); i++)
        out.push_back(order ? (size_t)json_integer_value(json_array_get(order, i)) : i);
    return out;
}

/* What READY would say of the devices is what the stub counted. */
static void check_held(const std::vector<size_t> &order, const std::vector<bytes> &devices)
{
    for (size_t i = 0; i < order.size(); i++) {
        struct vr_held h = vr_held_on(i);
        const bytes &b = devices[order[i]];
        if (h.model_bytes != b.model || h.context_bytes != b.context)
            throw "READY would be wrong: model " + std::to_string(h.model_bytes) + ", context " +
                std::to_string(h.context_bytes) + " instead of " + std::to_string(b.model) + ", " +
                std::to_string(b.context);
    }
}

/* What the last context that was made, or computed, has for computing: on each device alike, and on the host. */
struct computing {
    size_t device, host;
};

static computing get_computing(ggml_backend_sched_t sched = last_sched)
{
    computing c = { 0, 0 };
    for (int i = 0; i < ggml_backend_sched_get_n_backends(sched); i++) {
        ggml_backend_t b = ggml_backend_sched_get_backend(sched, i);
        (ggml_backend_is_meta(b) ? c.device : c.host) += ggml_backend_sched_get_buffer_size(sched, b);
    }
    return c;
}

static size_t get_host_context(llama_context *ctx)
{
    size_t n = 0;
    for (const auto &[buft, b] : llama_get_memory_breakdown(ctx))
        if (!ggml_backend_buft_is_meta(buft)) n += b.context;
    return n;
}

/* The cache and states of a context that was just made, on each device. */
static std::vector<uint64_t> get_caches(const std::vector<size_t> &order, const std::vector<uint64_t> &before,
                                        std::vector<uint64_t> *reducers)
{
    std::vector<uint64_t> out = stub_used(before.size());
    computing c = get_computing();
    for (size_t i = 0; i < out.size(); i++) {
        bool used = std::find(order.begin(), order.end(), i) != order.end();
        reducers->at(i) += after_meta[i] - before_meta[i];
        out[i] -= before[i] + after_meta[i] - before_meta[i] + (used ? c.device : 0);
    }
    return out;
}

static llama_context *make_head(json_t *c, llama_context *ctx);

static void run_tensor_case(const target &t, json_t *c, const char *path, json_t *answer)
{
    std::vector<oracle_device> devices = get_devices(c);
    if (t.vgpu) return oracle_probe(c, path, devices.data(), devices.size(), answer);
    std::vector<ggml_backend_dev_t> machine = add_devices(t, devices);
    std::vector<size_t> order = get_order(c, machine.size());
    std::vector<ggml_backend_dev_t> ordered;
    for (size_t i : order) ordered.push_back(machine.at(i));
    vr_held_begin(ordered.data(), ordered.size());
    llama_model *model = load(t, c, path, machine);
    if (!model) throw std::string(notes->error[0] ? notes->error : "the model did not load");
    vr_held_end();
    std::vector<uint64_t> loaded = stub_used(machine.size());
    llama_context *ctx = make_context(c, model);
    if (!ctx) throw std::string(notes->error[0] ? notes->error : "no context");
    vr_held_end();
    std::vector<uint64_t> reducers(machine.size()), caches = get_caches(order, loaded, &reducers);
    std::vector<bytes> devices_bytes(machine.size());
    for (size_t i = 0; i < machine.size(); i++) devices_bytes[i] = { loaded[i], caches[i], 0 };
    check_held(order, devices_bytes);
    computing sum = get_computing(), again = { 0, 0 };
    ggml_backend_sched_t sched = last_sched;
    size_t host_context = get_host_context(ctx);
    llama_context *head = nullptr;
    if (get_int(c, "guesses", 0)) {
        llama_set_embeddings_nextn(ctx, true, false);
        std::vector<uint64_t> ready = stub_used(machine.size());
        vr_held_again();
        head = make_head(c, ctx);
        vr_held_end();
        std::vector<uint64_t> more = get_caches(order, ready, &reducers);
        for (size_t i = 0; i < machine.size(); i++) devices_bytes[i].context += more[i];
        for (size_t i = 0; i < order.size(); i++)
            if (vr_held_on(i).second_bytes != more[order[i]]) throw std::string("READY would be wrong about the head");
        host_context += get_host_context(head);
    }
    compute_both(ctx, sched, c);
    if (head) compute_both(head, last_sched, c);
    if (head) sum = get_computing(sched), again = get_computing(); /* with hidden states */
    sum = { sum.device + again.device, sum.host + again.host };
    std::vector<uint64_t> ran = stub_used(machine.size());
    json_t *list = json_array();
    for (size_t i = 0; i < machine.size(); i++) {
        bool used = std::find(order.begin(), order.end(), i) != order.end();
        devices_bytes[i].compute = used ? sum.device : 0;
        json_t *o = json_object();
        set_bytes(o, devices_bytes[i]);
        size_t rest = ran[i] - devices_bytes[i].model - devices_bytes[i].context - devices_bytes[i].compute;
        json_object_set_new(o, "reduce", json_integer((json_int_t)rest));
        json_array_append_new(list, o);
    }
    json_object_set_new(answer, "devices", list);
    json_object_set_new(answer, "host",
                        json_pack("{sIsI}", "context", (json_int_t)host_context, "compute", (json_int_t)sum.host));
}

/* --- who guesses: a head, a draft --- */

static size_t place_of(const std::vector<ggml_backend_dev_t> &machine, ggml_backend_buffer_type_t buft)
{
    size_t i = 0;
    while (i < machine.size() && ggml_backend_dev_buffer_type(machine[i]) != buft) i++;
    return i; /* past all devices: the host */
}

/* What a context took, and the graphs that were reserved last; weights only if asked for. */
static void count(llama_context *ctx, const std::vector<ggml_backend_dev_t> &machine, bool weights,
                  std::vector<bytes> *sum)
{
    for (const auto &[buft, b] : llama_get_memory_breakdown(ctx)) {
        if (weights) sum->at(place_of(machine, buft)).model += b.model;
        sum->at(place_of(machine, buft)).context += b.context;
    }
    for (ggml_backend_t b : sched_backends)
        sum->at(place_of(machine, ggml_backend_sched_get_buffer_type(last_sched, b))).compute +=
            ggml_backend_sched_get_buffer_size(last_sched, b);
}

/* The second context, over the same weights. */
static llama_context *make_head(json_t *c, llama_context *ctx)
{
    llama_context_params p = context_params(c);
    p.n_ctx = llama_n_ctx(ctx);
    p.type_k = p.type_v = GGML_TYPE_F16;
    p.n_rs_seq = 0;
    p.n_outputs_max = p.n_seq_max;
    p.ctx_type = LLAMA_CONTEXT_TYPE_MTP;
    p.ctx_other = ctx;
    llama_context *head = llama_init_from_model(const_cast<llama_model *>(llama_get_model(ctx)), p);
    if (!head) throw std::string(notes->error[0] ? notes->error : "no context for the head");
    llama_set_embeddings_nextn(head, true, true);
    json_object_set_new(c, "n_outputs", json_integer(p.n_seq_max));
    return head;
}

/* The model whose output or cache a head uses, placed as the case says. */
static llama_context *load_beside(const target &t, json_t *c, const std::vector<ggml_backend_dev_t> &machine)
{
    json_t *beside = json_object_get(c, "beside"), *all = json_deep_copy(c);
    json_object_update(all, beside);
    llama_model *model = load(t, all, json_string_value(json_object_get(beside, "path")), machine);
    llama_context *ctx = model ? make_context(all, model) : nullptr;
    if (!ctx) throw std::string(notes->error[0] ? notes->error : "no model beside the head");
    json_decref(all);
    return ctx;
}

/* And the head. An assistant computes a row for each sequence, others small batches, whose rows all have logits. */
static llama_context *make_beside(json_t *c, llama_model *head, llama_context *model)
{
    llama_context_params p = context_params(c);
    bool assistant = get_int(c, "assistant", 0);
    uint32_t most = get_int(c, "dflash", 0) || p.n_ubatch > 128 ? 128 : p.n_ubatch;
    p.n_batch = p.n_ubatch = p.n_outputs_max = assistant ? p.n_seq_max : most;
    p.type_k = p.type_v = GGML_TYPE_F16;
    p.n_ctx = llama_n_ctx(model);
    if (assistant) p.ctx_type = LLAMA_CONTEXT_TYPE_MTP;
    p.ctx_other = model;
    json_object_set_new(c, "n_outputs", json_integer(p.n_outputs_max));
    return llama_init_from_model(head, p);
}

static void run_guesser_case(const target &t, json_t *c, const char *path, json_t *answer)
{
    std::vector<oracle_device> devices = get_devices(c);
    if (t.vgpu) return oracle_probe(c, path, devices.data(), devices.size(), answer);
    std::vector<ggml_backend_dev_t> machine = add_devices(t, devices);
    std::vector<bytes> sum(machine.size() + 1);
    llama_context *beside = json_object_get(c, "beside") ? load_beside(t, c, machine) : nullptr;
    llama_model *model = load(t, c, path, machine);
    if (!model) throw std::string(notes->error[0] ? notes->error : "the model did not load");
    llama_context *ctx = beside ? make_beside(c, model, beside) : make_context(c, model);
    if (!ctx) throw std::string(notes->error[0] ? notes->error : "no context");
    json_t *unused = json_object();
    bool guesses = get_int(c, "guesses", 0);
    if (guesses) llama_set_embeddings_nextn(ctx, true, false);
    if (get_int(c, "states", 0)) llama_set_embeddings_nextn(ctx, true, false);
    if (get_int(c, "dflash", 0)) llama_set_causal_attn(ctx, false);
    if (get_int(c, "assistant", 0) || get_int(c, "eagle3", 0)) llama_set_embeddings_nextn(ctx, true, true);
    json_t *tap;
    size_t k;
    json_array_foreach(json_object_get(c, "taps"), k, tap)
        llama_set_embeddings_layer_inp(ctx, (uint32_t)json_integer_value(tap), true);
    reserve(c, ctx, unused);
    uint32_t block = (uint32_t)get_int(c, "n_draft", 0), streams = std::min(llama_n_seq_max(ctx), 4u);
    if (block && !llama_graph_reserve(ctx, block * streams, streams, block * streams)) throw std::string(notes->error);
    count(ctx, machine, true, &sum);
    if (guesses) {
        llama_context *head = make_head(c, ctx);
        reserve(c, head, unused);
        count(head, machine, false, &sum);
    }
    json_decref(unused);

    json_t *list = json_array();
    for (size_t i = 0; i < machine.size(); i++) {
        json_t *o = json_object();
        set_bytes(o, sum[i]);
        json_array_append_new(list, o);
    }
    json_object_set_new(answer, "devices", list);
    json_object_set_new(
        answer, "host",
        json_pack("{sIsI}", "context", (json_int_t)sum.back().context, "compute", (json_int_t)sum.back().compute));
}

static void run_case(const target &t, json_t *c, const char *path, json_t *answer)
{
    setenv("GGML_OP_OFFLOAD_MIN_BATCH", std::to_string(get_int(c, "offload_min", 32)).c_str(), 1);
    if (is_tensor(c)) return run_tensor_case(t, c, path, answer);
    if (get_int(c, "guesses", 0) || get_int(c, "draft", 0) || get_int(c, "states", 0) || json_object_get(c, "taps"))
        return run_guesser_case(t, c, path, answer);
    std::vector<ggml_backend_dev_t> machine = add_devices(t, get_devices(c));
    llama_model *model = load(t, c, path, machine);
    if (!model) throw std::string(notes->error[0] ? notes->error : "the model did not load");
    llama_context *ctx = make_context(c, model);
    if (!ctx) throw std::string(notes->error[0] ? notes->error : "no context");

    std::vector<bytes> devices(machine.size() + 1); /* the host is last */
    std::vector<size_t> first(devices.size());
    auto place = [&](ggml_backend_buffer_type_t buft) { return place_of(machine, buft); };
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
            "usage: oracle --cases N [--seed S] [--tensor|--spec] prints cases; of split mode tensor; of who guesses\n"
            "       oracle --run cuda|vgpu|both [--real] < CASES  prints answers; both: differences only\n"
            "options: --engine DIR (libggml-cpu-*.so)  --cuda FILE (libggml-cuda.so)  --cudart 13|12  --stubs DIR\n"
            "         --fixtures DIR (tests/fixtures)  --maker FILE (build/tests/tiny-model)\n");
    return 2;
}

struct options {
    std::string engine = "build/engine", cuda = "build/engine/libggml-cuda.so", stubs = "build/oracle",
                fixtures = "tests/fixtures", cudart = "13", maker = "build/tests/tiny-model", run;
    size_t n_cases = 0;
    uint64_t seed = 1;
    bool real = false, tensor = false, spec = false;
};

static bool parse(int argc, char **argv, options *o)
{
    for (int i = 1; i < argc; i++) {
        std::string a = argv[i];
        if (a == "--real") {
            o->real = true;
            continue;
        }
        if (a == "--tensor") {
            o->tensor = true;
            continue;
        }
        if (a == "--spec") {
            o->spec = true;
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
        else if (a == "--maker")
            o->maker = v;
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
    json_t *beside = json_object_get(c, "beside");
    const char *other = json_string_value(json_object_get(beside, "model"));
    char path[1024];
    child children[2];
    bool found = name;
    if (found && other && (found = oracle_models_path(models, o.fixtures.c_str(), other, path, sizeof(path)))) {
        std::string kept = std::string(models->dir) + "/beside.gguf"; /* what is made next has the same name */
        found = rename(path, kept.c_str()) == 0;
        json_object_set_new(beside, "path", json_string(kept.c_str()));
    }
    if (!found || !oracle_models_path(models, o.fixtures.c_str(), name, path, sizeof(path))) {
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
    if (o.n_cases && o.tensor) return oracle_tensor_cases(o.fixtures.c_str(), o.n_cases, o.seed) ? 0 : 1;
    if (o.n_cases && o.spec) return oracle_guesser_cases(o.fixtures.c_str(), o.n_cases, o.seed) ? 0 : 1;
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
    struct oracle_models models = {};
    models.maker = o.maker.c_str();
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
