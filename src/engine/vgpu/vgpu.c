/* A ggml backend in three layers, as ggml wants them: a registry entry that lists the devices, a device with its two
 * buffer types (its own, and pinned host memory, which all share), and a stream per context. What the CUDA backend
 * would decide comes from rules.c; this file keeps the memory and the bookkeeping.
 *
 * All state is one static struct, because ggml's registry is one per process and never forgets an entry. */
#include "engine/vgpu/vgpu.h"

#include <string.h>
#include <sys/mman.h>

#include <ggml-backend-impl.h>
#include <ggml-impl.h>

#include "base/text.h"
#include "engine/llama/cpu.h"
#include "engine/vgpu/rules.h"

struct memory { /* behind one ggml buffer */
    struct memory *prev, *next;
    struct pool *pool;
    ggml_backend_buffer_t buffer;
    void *base;
    size_t mapped; /* bytes of real memory at base, 0 when the address is only a number */
};

struct pool { /* all memory of a device, or the pinned memory of the host */
    struct memory *head;
    uint64_t used_bytes;
};

struct vgpu {
    struct vr_vgpu_spec spec;
    char id[24]; /* unique, as a PCI address would be */
    struct ggml_backend_device dev;
    struct ggml_backend_buffer_type buft;
    struct pool pool;
    uint64_t n_contexts, run_bytes, reduce_bytes;
};

static struct {
    enum vr_vgpu_mode mode;
    size_t n;
    int offload_min;
    struct vgpu gpu[VR_MAX_VGPUS];
    struct ggml_backend_reg reg;
    char backend[24], host_name[32]; /* "CUDA", "CUDA_Host" */
    struct ggml_backend_buffer_type host;
    struct pool host_pool;
    uintptr_t next_address;
    bool refused;
    struct vr_vgpu_refusal refusal;
    struct vr_vgpu_watch watch;
} all;

static struct vgpu *of_dev(ggml_backend_dev_t dev) { return dev->context; }
static struct vgpu *of_buft(ggml_backend_buffer_type_t buft) { return buft->context; }

/* --- memory --- */

static uint64_t free_of(const struct vgpu *g)
{
    return g->pool.used_bytes < g->spec.free_bytes ? g->spec.free_bytes - g->pool.used_bytes : 0;
}

/* False, remembered and told to the engine's log, when an executing device has less than n bytes left. */
static bool admit(struct vgpu *g, uint64_t n)
{
    if (all.mode == VR_VGPU_SIZING || n <= free_of(g)) return true;
    struct vr_num a, b, c;
    if (g->spec.like_cuda) { /* which tells no more than this */
        GGML_LOG_ERROR("ggml_backend_cuda_buffer_type_alloc_buffer: allocating %.2f MiB on device %d: cudaMalloc "
                       "failed: out of memory\n",
                       (double)n / (double)VR_MIB, (int)(g - all.gpu));
        return false;
    }
    all.refused = true;
    all.refusal = (struct vr_vgpu_refusal){ g->spec.name, n, free_of(g) };
    GGML_LOG_ERROR("%s: out of memory: %s MiB asked, %s MiB free, %s MiB missing\n", g->spec.name, vr_fmt_mib(&a, n, 2),
                   vr_fmt_mib(&b, free_of(g), 2), vr_fmt_mib(&c, n - free_of(g), 2));
    return false;
}

static void unlink_memory(struct memory *m)
{
    if (m->prev)
        m->prev->next = m->next;
    else
        m->pool->head = m->next;
    if (m->next) m->next->prev = m->prev;
    m->pool->used_bytes -= m->buffer->size;
}

static void buffer_free(ggml_backend_buffer_t buffer)
{
    struct memory *m = buffer->context;
    unlink_memory(m);
    if (m->mapped) munmap(m->base, m->mapped);
    free(m);
}

static void *buffer_base(ggml_backend_buffer_t buffer) { return ((struct memory *)buffer->context)->base; }

static bool real(ggml_backend_buffer_t buffer) { return ((struct memory *)buffer->context)->mapped > 0; }

static void buffer_memset(ggml_backend_buffer_t b, struct ggml_tensor *t, uint8_t value, size_t offset, size_t n)
{
    if (real(b)) memset((char *)t->data + offset, value, n);
}

static void buffer_set(ggml_backend_buffer_t b, struct ggml_tensor *t, const void *data, size_t offset, size_t n)
{
    if (real(b)) memcpy((char *)t->data + offset, data, n);
}

static void buffer_get(ggml_backend_buffer_t b, const struct ggml_tensor *t, void *data, size_t offset, size_t n)
{
    if (real(b))
        memcpy(data, (const char *)t->data + offset, n);
    else
        memset(data, 0, n);
}

/* Rows of a slice (split mode tensor). */
static void buffer_set_2d(ggml_backend_buffer_t b, struct ggml_tensor *t, const void *data, size_t offset, size_t size,
                          size_t n, size_t stride_tensor, size_t stride_data)
{
    for (size_t i = 0; real(b) && i < n; i++)
        memcpy((char *)t->data + offset + i * stride_tensor, (const char *)data + i * stride_data, size);
}

static bool buffer_free_is(ggml_backend_buffer_t b) { return b->iface.free_buffer == buffer_free; }

/* Between our devices; ggml carries everything else through host memory itself. */
static bool buffer_copy(ggml_backend_buffer_t b, const struct ggml_tensor *src, struct ggml_tensor *dst)
{
    ggml_backend_buffer_t from = src->view_src ? src->view_src->buffer : src->buffer;
    if (!buffer_free_is(from)) return false;
    if (real(b) && real(from)) memcpy(dst->data, src->data, ggml_nbytes(src));
    return true;
}

static void buffer_clear(ggml_backend_buffer_t b, uint8_t value)
{
    if (real(b)) memset(buffer_base(b), value, b->size);
}

static const struct ggml_backend_buffer_i buffer_iface = {
    .free_buffer = buffer_free,
    .get_base = buffer_base,
    .memset_tensor = buffer_memset,
    .set_tensor = buffer_set,
    .set_tensor_2d = buffer_set_2d,
    .get_tensor = buffer_get,
    .cpy_tensor = buffer_copy,
    .clear = buffer_clear,
};

/* A buffer of n bytes in `pool`: zeroed pages that cost nothing until written, or just an address. */
static struct memory *take(struct pool *pool, size_t n, bool with_pages)
{
    struct memory *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->pool = pool;
    if (with_pages) {
        m->base = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (m->base == MAP_FAILED) {
            free(m);
            return NULL;
        }
        m->mapped = n;
    } else {
        m->base = (void *)all.next_address; /* never looked at: sizing computes nothing */
        all.next_address += GGML_PAD(n, (size_t)4096) + 4096;
    }
    return m;
}

static ggml_backend_buffer_t enter(struct memory *m, ggml_backend_buffer_t buffer)
{
    m->buffer = buffer;
    m->next = m->pool->head;
    if (m->next) m->next->prev = m;
    m->pool->head = m;
    m->pool->used_bytes += buffer->size;
    return buffer;
}

static ggml_backend_buffer_t buft_alloc(ggml_backend_buffer_type_t buft, size_t n)
{
    struct vgpu *g = of_buft(buft);
    if (!admit(g, n)) return NULL;
    struct memory *m = take(&g->pool, n, all.mode == VR_VGPU_EXECUTING);
    return m ? enter(m, ggml_backend_buffer_init(buft, buffer_iface, m, n)) : NULL;
}

static const char *buft_name(ggml_backend_buffer_type_t buft) { return of_buft(buft)->spec.name; }
static size_t buft_align(ggml_backend_buffer_type_t buft)
{
    bool cpu = of_buft(buft)->spec.borrowed == VR_BORROWED_CPU;
    return cpu ? ggml_backend_buft_get_alignment(ggml_backend_cpu_buffer_type()) : VR_CUDA_ALIGN;
}

/* The RPC backend asks the node about rows that may be padded and operations that may need scratch, and counts for
 * itself otherwise. */
static size_t borrowed_bytes(const struct vr_vgpu_spec *spec, const struct ggml_tensor *t)
{
    bool asks =
        (ggml_is_quantized(t->type) && t->ne[0] % 512 != 0 && !t->view_src) || ggml_op_alloc_size_may_expand(t->op);
    return asks && spec->borrowed == VR_BORROWED_GPU ? vr_rule_alloc_bytes(t, spec->cc) : ggml_nbytes(t);
}

static size_t buft_alloc_size(ggml_backend_buffer_type_t buft, const struct ggml_tensor *t)
{
    if (all.watch.size) all.watch.size(all.watch.ctx, (size_t)(of_buft(buft) - all.gpu), t);
    const struct vr_vgpu_spec *spec = &of_buft(buft)->spec;
    return spec->borrowed ? borrowed_bytes(spec, t) : vr_rule_alloc_bytes(t, spec->cc);
}
static bool buft_is_ours(ggml_backend_buffer_type_t buft) { return buft->iface.get_name == buft_name; }

/* Pinned host memory: a CPU buffer in all but name. Its pages are real also when sizing, because the engine clears
 * the small ones among them. */
static void host_free(ggml_backend_buffer_t buffer)
{
    for (struct memory *m = all.host_pool.head; m; m = m->next) {
        if (m->buffer != buffer) continue;
        unlink_memory(m);
        munmap(m->base, m->mapped);
        free(m);
        return;
    }
}

static ggml_backend_buffer_t host_alloc(ggml_backend_buffer_type_t buft, size_t n)
{
    struct memory *m = take(&all.host_pool, n, true);
    if (!m) return NULL;
    ggml_backend_buffer_t b = ggml_backend_cpu_buffer_from_ptr(m->base, n);
    b->buft = buft;
    b->iface.free_buffer = host_free;
    return enter(m, b);
}

static const char *host_name(ggml_backend_buffer_type_t buft) { return (void)buft, all.host_name; }

/* --- a stream of one context --- */

struct stream {
    struct vgpu *gpu;
    ggml_backend_t cpu; /* NULL when sizing */
};

static const char *stream_name(ggml_backend_t b) { return ((struct stream *)b->context)->gpu->spec.name; }

static void stream_free(ggml_backend_t b)
{
    struct stream *s = b->context;
    if (s->cpu) ggml_backend_free(s->cpu);
    free(s);
    free(b);
}

static void stream_sync(ggml_backend_t b) { (void)b; } /* everything is done when its call returns */
static void stream_event(ggml_backend_t b, ggml_backend_event_t e) { (void)b, (void)e; }

static enum ggml_status stream_compute(ggml_backend_t b, struct ggml_cgraph *graph)
{
    struct stream *s = b->context;
    struct vgpu *g = s->gpu;
    if (!s->cpu && all.watch.compute) {
        all.watch.compute(all.watch.ctx, (size_t)(g - all.gpu), graph);
        return GGML_STATUS_SUCCESS;
    }
    if (!s->cpu) {
        GGML_LOG_ERROR("%s: a sizing device cannot compute\n", g->spec.name);
        return GGML_STATUS_FAILED;
    }
    if (g->run_bytes < g->spec.run_bytes) {
        if (g->spec.like_cuda && g->spec.run_bytes > free_of(g)) {
            GGML_LOG_ERROR("CUDA error: out of memory\n");
            GGML_LOG_ERROR("  current device: %d, in function alloc at a pool\n", (int)(g - all.gpu));
            GGML_ABORT("CUDA error");
        }
        if (!admit(g, g->spec.run_bytes)) return GGML_STATUS_ALLOC_FAILED;
        g->run_bytes = g->spec.run_bytes;
        g->pool.used_bytes += g->spec.run_bytes;
    }
    return ggml_backend_graph_compute(s->cpu, graph);
}

static void stream_optimize(ggml_backend_t b, struct ggml_cgraph *graph, struct ggml_backend_graph_optimize_params *p)
{
    struct stream *s = b->context;
    if (!s->gpu->spec.borrowed) vr_rule_optimize(graph, p);
    if (all.watch.split) all.watch.split(all.watch.ctx, (size_t)(s->gpu - all.gpu), graph);
}

static const struct ggml_backend_i stream_iface = {
    .get_name = stream_name,
    .free = stream_free,
    .synchronize = stream_sync,
    .graph_compute = stream_compute,
    .event_record = stream_event,
    .event_wait = stream_event,
    .graph_optimize = stream_optimize,
};

/* --- a device --- */

static const char *dev_name(ggml_backend_dev_t dev) { return of_dev(dev)->spec.name; }
static const char *dev_about(ggml_backend_dev_t dev) { return of_dev(dev)->spec.about; }
static enum ggml_backend_dev_type dev_type(ggml_backend_dev_t dev) { return (void)dev, GGML_BACKEND_DEVICE_TYPE_GPU; }

static void dev_memory(ggml_backend_dev_t dev, size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = free_of(of_dev(dev));
    *total_bytes = of_dev(dev)->spec.total_bytes;
}

static void dev_props(ggml_backend_dev_t dev, struct ggml_backend_dev_props *p)
{
    *p = (struct ggml_backend_dev_props){
        .name = dev_name(dev),
        .description = dev_about(dev),
        .type = dev_type(dev),
        .device_id = of_dev(dev)->id,
        .caps = { .async = true, .host_buffer = !of_dev(dev)->spec.borrowed, .events = true, .mmap_support = true },
    };
    dev_memory(dev, &p->memory_free, &p->memory_total);
}

/* Threads of the CPU backend that computes for us: as many as the context was given, so that results are the same. Who
 * says nothing (the encoder of pictures) gets one. */
static void set_n_threads(ggml_backend_t b, int n)
{
    struct stream *s = b->context;
    if (s->cpu) vr_cpu_set_threads(s->cpu, n);
}

static ggml_backend_t dev_init(ggml_backend_dev_t dev, const char *params)
{
    (void)params;
    static ggml_guid guid = { 'v', 'r', 'a', 'm', '-', 'l', 'l', 'm', ' ', 'v', 'g', 'p', 'u', 0, 0, 1 };
    struct stream *s = calloc(1, sizeof *s);
    ggml_backend_t b = calloc(1, sizeof *b);
    ggml_backend_t cpu = NULL;
    if (all.mode == VR_VGPU_EXECUTING) cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    if (!s || !b || (all.mode == VR_VGPU_EXECUTING && !cpu)) {
        if (cpu) ggml_backend_free(cpu);
        free(s);
        free(b);
        return NULL;
    }
    *s = (struct stream){ of_dev(dev), cpu };
    *b = (struct ggml_backend){ &guid, stream_iface, dev, s };
    of_dev(dev)->n_contexts++;
    set_n_threads(b, 1);
    return b;
}

static ggml_backend_buffer_type_t dev_buft(ggml_backend_dev_t dev) { return &of_dev(dev)->buft; }
static ggml_backend_buffer_type_t dev_host_buft(ggml_backend_dev_t dev) { return (void)dev, &all.host; }

static bool dev_supports_op(ggml_backend_dev_t dev, const struct ggml_tensor *op)
{
    if (of_dev(dev)->spec.borrowed) return true;
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        const struct ggml_tensor *s = op->src[i];
        if (s && s->buffer && buft_is_ours(s->buffer->buft) && s->buffer->buft->device != dev) return false;
    }
    return vr_rule_supports(op, of_dev(dev)->spec.cc);
}

static bool dev_supports_buft(ggml_backend_dev_t dev, ggml_backend_buffer_type_t buft)
{
    return buft_is_ours(buft) && buft->device == dev;
}

static bool dev_offloads(ggml_backend_dev_t dev, const struct ggml_tensor *op)
{
    return (void)dev, vr_rule_offloads(op, all.offload_min);
}

static ggml_backend_event_t dev_event_new(ggml_backend_dev_t dev)
{
    ggml_backend_event_t e = calloc(1, sizeof *e);
    if (e) e->device = dev;
    return e;
}

static void dev_event_free(ggml_backend_dev_t dev, ggml_backend_event_t e) { (void)dev, free(e); }
static void dev_event_sync(ggml_backend_dev_t dev, ggml_backend_event_t e) { (void)dev, (void)e; }

static const struct ggml_backend_device_i dev_iface = {
    .get_name = dev_name,
    .get_description = dev_about,
    .get_memory = dev_memory,
    .get_type = dev_type,
    .get_props = dev_props,
    .init_backend = dev_init,
    .get_buffer_type = dev_buft,
    .get_host_buffer_type = dev_host_buft,
    .supports_op = dev_supports_op,
    .supports_buft = dev_supports_buft,
    .offload_op = dev_offloads,
    .event_new = dev_event_new,
    .event_free = dev_event_free,
    .event_synchronize = dev_event_sync,
};

/* --- the registry entry --- */

static const char *reg_name(ggml_backend_reg_t reg) { return (void)reg, all.backend; }
static size_t reg_count(ggml_backend_reg_t reg) { return (void)reg, all.n; }
static ggml_backend_dev_t reg_device(ggml_backend_reg_t reg, size_t i) { return (void)reg, &all.gpu[i].dev; }

/* Adding up over devices, as the CUDA backend does it for split mode tensor. Executing devices leave it to the engine,
 * which copies and adds. */
struct reducer {
    size_t n;
    struct vgpu *gpus[VR_MAX_VGPUS];
    uint64_t bytes; /* on each */
};

static void *reducer_new(ggml_backend_t *backends, size_t n)
{
    struct reducer *r = calloc(1, sizeof *r);
    int cc[VR_MAX_VGPUS] = { 0 };
    for (size_t i = 0; r && i < n && i < VR_MAX_VGPUS; i++) {
        r->gpus[r->n++] = of_dev(backends[i]->device);
        cc[i] = r->gpus[i]->spec.cc;
    }
    if (!r) return NULL;
    r->bytes = strcmp(all.backend, "CUDA") == 0 ? vr_rule_reduce_bytes(cc, r->n) : 0;
    for (size_t i = 0; i < r->n; i++) r->gpus[i]->reduce_bytes += r->bytes;
    return r;
}

static void reducer_free(void *reducer)
{
    struct reducer *r = reducer;
    for (size_t i = 0; i < r->n; i++) r->gpus[i]->reduce_bytes -= r->bytes;
    free(r);
}

static bool reduce(void *reducer, struct ggml_tensor **tensors)
{
    if (all.watch.reduce) all.watch.reduce(all.watch.ctx, tensors, ((struct reducer *)reducer)->n);
    return true;
}

static void *reg_proc(ggml_backend_reg_t reg, const char *name)
{
    (void)reg;
    bool sizing = all.mode == VR_VGPU_SIZING;
    if (sizing && strcmp(name, "ggml_backend_comm_init") == 0) return (void *)reducer_new;
    if (sizing && strcmp(name, "ggml_backend_comm_free") == 0) return (void *)reducer_free;
    if (sizing && strcmp(name, "ggml_backend_comm_allreduce_tensor") == 0) return (void *)reduce;
    return strcmp(name, "ggml_backend_set_n_threads") == 0 ? (void *)set_n_threads : NULL;
}

bool vr_vgpu_register(const struct vr_vgpu_spec *specs, size_t n, enum vr_vgpu_mode mode, struct vr_err *err)
{
    if (all.n) return vr_fail(err, VR_EINTERNAL, "virtual GPUs are already registered in this process");
    if (n == 0 || n > VR_MAX_VGPUS)
        return vr_fail(err, VR_EUSAGE, "%zu devices: the engine supports 1 to %d; choose some with --devices", n,
                       VR_MAX_VGPUS);
    all.mode = mode;
    const char *least = getenv(VR_OFFLOAD_VARIABLE); /* as the CUDA backend does */
    all.offload_min = least ? atoi(least) : VR_OFFLOAD_MIN;
    all.next_address = (uintptr_t)1 << 46;
    const struct vr_vgpu_spec *own = specs; /* the first that is no node's: after its kind all are called */
    while (own + 1 < specs + n && own->borrowed) own++;
    snprintf(all.backend, sizeof all.backend, "%.*s", (int)strcspn(own->name, "0123456789"), own->name);
    snprintf(all.host_name, sizeof all.host_name, "%s_Host", all.backend);
    all.reg = (struct ggml_backend_reg){
        .api_version = GGML_BACKEND_API_VERSION,
        .iface = { reg_name, reg_count, reg_device, reg_proc },
    };
    for (size_t i = 0; i < n; i++) {
        struct vgpu *g = &all.gpu[i];
        g->spec = specs[i];
        snprintf(g->id, sizeof g->id, "vgpu:%02zu:00.0", i);
        g->dev = (struct ggml_backend_device){ dev_iface, &all.reg, g };
        if (g->spec.borrowed) {
            g->dev.iface.get_host_buffer_type = NULL;
            g->dev.iface.offload_op = NULL;
        }
        g->buft = (struct ggml_backend_buffer_type){
            .iface = { .get_name = buft_name,
                       .alloc_buffer = buft_alloc,
                       .get_alignment = buft_align,
                       .get_alloc_size = buft_alloc_size },
            .device = &g->dev,
            .context = g,
        };
    }
    all.n = n;
    const struct ggml_backend_buffer_type_i *cpu = &ggml_backend_cpu_buffer_type()->iface;
    all.host = (struct ggml_backend_buffer_type){
        .iface = { .get_name = host_name,
                   .alloc_buffer = host_alloc,
                   .get_alignment = cpu->get_alignment,
                   .get_alloc_size = cpu->get_alloc_size,
                   .is_host = cpu->is_host },
        .device = &all.gpu[0].dev,
    };
    ggml_backend_register(&all.reg);
    return true;
}

ggml_backend_dev_t vr_vgpu_device(size_t i) { return &all.gpu[i].dev; }
ggml_backend_buffer_type_t vr_vgpu_buffer_type(size_t i) { return &all.gpu[i].buft; }
int vr_vgpu_cc(size_t i) { return all.gpu[i].spec.cc; }
int vr_vgpu_index(ggml_backend_dev_t dev) { return dev && dev->reg == &all.reg ? (int)(of_dev(dev) - all.gpu) : -1; }
uint64_t vr_vgpu_contexts(size_t i) { return all.gpu[i].n_contexts; }

struct vr_vgpu_use vr_vgpu_used(size_t i)
{
    struct vr_vgpu_use use = { 0 };
    const struct pool *pool = i < all.n ? &all.gpu[i].pool : &all.host_pool;
    if (i < all.n) use.reduce_bytes = all.gpu[i].reduce_bytes;
    for (const struct memory *m = pool->head; m; m = m->next) {
        switch (m->buffer->usage) {
        case GGML_BACKEND_BUFFER_USAGE_WEIGHTS: use.weight_bytes += m->buffer->size; break;
        case GGML_BACKEND_BUFFER_USAGE_COMPUTE: use.compute_bytes += m->buffer->size; break;
        default: use.other_bytes += m->buffer->size;
        }
    }
    return use;
}

bool vr_vgpu_refused(struct vr_vgpu_refusal *out)
{
    if (all.refused) *out = all.refusal;
    return all.refused;
}

void vr_vgpu_watch(const struct vr_vgpu_watch *watch) { all.watch = watch ? *watch : (struct vr_vgpu_watch){ 0 }; }
