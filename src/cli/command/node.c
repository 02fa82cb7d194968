/* `node`: lends devices of this machine to others (node/door.h), and pairs machines with each other. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/confine.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/input/input.h"
#include "cli/input/nodes.h"
#include "engine/llama/cpu.h"
#include "engine/rpc/borrow.h"
#include "fit/judge.h"
#include "node/door.h"
#include "node/tensor_cache.h"

#define CPU_SPARE_BYTES VR_GIB /* of the host's memory, which others use, too */

struct lender {
    struct vr_options own; /* without --nodes */
    char cpu[1024], cache[512];
};

/* --- what there is --- */

/* What is not lent has no free memory for anybody else. */
static void limit(const struct vr_options *o, const struct vr_budgets *b, struct vr_machine *m)
{
    uint64_t most[VR_MAX_DEVICES] = { 0 };
    for (size_t i = 0; i < b->n; i++) {
        const struct vr_budget *x = &b->items[i];
        uint64_t lent = o->lend_mib ? o->lend_mib * VR_MIB : UINT64_MAX;
        most[x->device] = x->budget_bytes < lent ? x->budget_bytes : lent;
    }
    for (size_t i = 0; i < m->n_devices; i++) m->devices[i].free_bytes = most[i];
}

static bool describe(void *ctx, struct vr_machine *out, struct vr_err *err)
{
    const struct vr_options *o = &((struct lender *)ctx)->own;
    VR_AUTO(vr_input) in = vr_input_new(err);
    if (!in || !vr_input_machine(o, &in->machine, err)) return false;
    struct vr_machine *m = &in->machine;
    uint64_t ram = m->host.ram_free_bytes;
    if ((o->lend_cpu || m->n_devices == 0) &&
        !vr_machine_add_cpu(m, ram > 2 * CPU_SPARE_BYTES ? ram - CPU_SPARE_BYTES : ram / 2))
        return vr_fail(err, VR_EUSAGE, "there are too many devices to lend the CPU as well");
    if (!vr_input_rest(o, in, err)) return false;
    limit(o, &in->budgets, m);
    m->note[0] = '\0'; /* is for this machine's owner */
    *out = *m;
    return true;
}

/* --- how it is lent --- */

static bool add_device(const struct lender *l, const struct vr_machine *m, const char *id, struct vr_lend *out,
                       size_t *n_cuda, struct vr_err *err)
{
    size_t i = 0;
    while (i < m->n_devices && strcmp(m->devices[i].id, id) != 0) i++;
    const struct vr_device *d = i < m->n_devices ? &m->devices[i] : NULL;
    if (!d || !d->free_bytes) return vr_fail(err, VR_EDEVICE, "it does not lend a device %s", id);
    size_t at = out->n_devices++;
    out->devices[at].most_bytes = d->free_bytes;
    snprintf(out->devices[at].name, sizeof out->devices[0].name, "%s", id);
    bool cpu = strcmp(d->backend, "CPU") == 0, cuda = strcmp(d->backend, "CUDA") == 0;
    if (cpu) {
        snprintf(out->devices[at].name, sizeof out->devices[0].name, "CPU");
    } else if (vr_input_is_virtual(&l->own)) {
        const struct vr_budgets one = { .items = { { .device = (uint16_t)i } }, .n = 1 };
        if (!vr_judge_devices(m, &one, &out->vgpus[out->n_vgpus], err)) return false;
        out->n_vgpus++;
    } else if (cuda) {
        if (!d->uuid[0]) return vr_fail(err, VR_EDEVICE, "its driver does not report a UUID for %s", id);
        size_t n = strlen(out->visible);
        snprintf(out->visible + n, sizeof out->visible - n, "%s%s", n ? "," : "", d->uuid);
        snprintf(out->devices[at].name, sizeof out->devices[0].name, "CUDA%zu", (*n_cuda)++);
    }
    out->gpus |= !cpu && !out->n_vgpus;
    return true;
}

static bool prepare(void *ctx, const struct vr_machine *m, const struct vr_hello *hello, struct vr_lend *out,
                    struct vr_err *err)
{
    struct lender *l = ctx;
    size_t n_cuda = 0;
    for (size_t i = 0; i < hello->n_devices; i++)
        if (!add_device(l, m, hello->devices[i], out, &n_cuda, err)) return false;
    memcpy(out->cpu, l->cpu, sizeof out->cpu);
    out->n_threads = (uint32_t)l->own.threads;
    struct vr_err no = { 0 };
    if (l->own.tensor_cache_gib && vr_tensor_cache_open(l->cache, l->own.tensor_cache_gib * VR_GIB, &no))
        memcpy(out->cache, l->cache, sizeof out->cache);
    if (no.code) vr_log(VR_WARN, "weights are not kept: %s", no.msg);
    return true;
}

/* --- the command --- */

static bool init(const struct vr_node *n, uint16_t port, struct vr_buf *out, struct vr_err *err)
{
    VR_AUTO_IDENTITY self = { 0 };
    VR_AUTO_FREE struct vr_pairs *pairs = calloc(1, sizeof *pairs);
    char token[VR_JOIN_TOKEN];
    if (!pairs) return vr_fail_nomem(err, "making a join token");
    VR_AUTO_CLOSE int lock = vr_pairs_lock(n->dir, err);
    if (lock < 0 || !vr_identity_open(n->dir, &self, err) || !vr_pairs_load(n->dir, pairs, err) ||
        !vr_join_offer(pairs, self.fingerprint, (int64_t)time(NULL), token, err) || !vr_pairs_save(n->dir, pairs, err))
        return false;
    vr_buf_addf(
        out,
        "This machine is node %s, with key %.16s…\n\nOn the machine that is to borrow its devices, within a day:\n\n"
        "  vram-llm node --nodes HOST:%u --join %s\n\nwhere HOST is the address of this one. The token is good "
        "for one machine and is not shown again.\nThen start 'vram-llm node' here.\n",
        n->name, self.fingerprint, port, token);
    return true;
}

static bool run(const struct vr_node *n, struct lender *l, const char *host, uint16_t port, struct vr_err *err)
{
    VR_AUTO_FREE struct vr_pairs *pairs = calloc(1, sizeof *pairs);
    VR_AUTO(vr_machine) m = vr_machine_new(err);
    if (!pairs || !m) return vr_fail_nomem(err, "starting the node");
    if (!vr_pairs_load(n->dir, pairs, err)) return false; /* the key is for the processes behind the door */
    if (!pairs->n_clients && !vr_join_open(pairs, (int64_t)time(NULL)))
        return vr_fail(err, VR_EUSAGE, "no machine is paired with this one yet: start with 'vram-llm node --init'");
    if (!describe(l, m, err) || !vr_cpu_choose(l->cpu, sizeof l->cpu, err)) return false;
    VR_AUTO_CLOSE int fd = vr_door_open(host, &port, err);
    if (fd < 0) return false;
    for (size_t i = 0; i < m->n_devices; i++) {
        struct vr_num mib;
        if (m->devices[i].free_bytes)
            vr_log(VR_INFO, "lends %s (%s): up to %s", m->devices[i].id, m->devices[i].name,
                   vr_fmt_bytes(&mib, m->devices[i].free_bytes));
    }
    vr_log(VR_INFO, "node %s listening on %s port %u", n->name, host, port);
    return vr_door_run(n, fd, err);
}

bool vr_cmd_node(const struct vr_options *o, struct vr_buf *out, struct vr_err *err)
{
    struct lender *l = &(struct lender){ .own = *o };
    struct vr_node n = { .describe = describe, .prepare = prepare, .ctx = l, .silent_ms = (int)o->node_seconds * 1000 };
    char host[VR_HOST_NAME], own_name[256] = "";
    uint16_t port;
    vr_confine_lightly();
    if (o->join) return vr_nodes_join(o, out, err);
    l->own.nodes = NULL;                           /* what is borrowed is not lent */
    if (!o->reserve_mib) l->own.reserve_mib = "0"; /* who plans leaves what drivers need */
    gethostname(own_name, sizeof own_name - 1);
    vr_node_name(o->name ? o->name : own_name, n.name);
    vr_rpc_versions(&n.versions);
    if (!vr_node_address(o->listen, VR_NODE_PORT, host, &port, err) || !vr_identity_dir(n.dir, sizeof n.dir, err) ||
        !vr_tensor_cache_path(l->cache, sizeof l->cache, err))
        return false;
    return o->init ? init(&n, port, out, err) : run(&n, l, host, port, err);
}
