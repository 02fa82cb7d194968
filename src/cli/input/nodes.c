#include "cli/input/nodes.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/rpc/borrow.h"
#include "hw/node_links.h"
#include "hw/profile.h"
#include "tunnel/dial.h"

#define WAIT_MS 3000 /* for a node that is being given back */

struct caller { /* this machine, as nodes know it */
    char dir[512];
    struct vr_identity self;
    struct vr_pairs pairs;
    struct vr_hello hello;
    struct vr_node_links links; /* as `bench --nodes` measured them */
};

static void caller_done(struct caller *c) { vr_identity_done(&c->self); }

/* A file that cannot be read is told and not in the way. */
static void take_links(struct caller *c, struct vr_machine *m)
{
    char path[512];
    struct vr_err err = { 0 };
    if (vr_node_links_path(path, sizeof path) && !vr_node_links_load(path, &c->links, &err))
        vr_machine_note(m, "The measured links to nodes are not used: %s.", err.msg);
}

static bool caller_open(struct caller *c, enum vr_want want, struct vr_err *err)
{
    char host[256] = "";
    *c = (struct caller){ .hello.want = want };
    gethostname(host, sizeof host - 1);
    vr_node_name(host, c->hello.name);
    vr_rpc_versions(&c->hello.versions);
    return vr_identity_dir(c->dir, sizeof c->dir, err) && vr_identity_open(c->dir, &c->self, err) &&
           vr_pairs_load(c->dir, &c->pairs, err);
}

/* --- looking --- */

/* What it is, and the way there. */
static bool look_once(const struct caller *c, const struct vr_pair *node, struct vr_welcome *w,
                      struct vr_link_speed *net, struct vr_err *err)
{
    VR_AUTO(vr_secure) s = vr_dial(node, &c->self, &c->hello, w, err);
    return s && vr_dial_measure(s, net, err);
}

static bool look(const struct caller *c, const struct vr_pair *node, struct vr_welcome *w, struct vr_link_speed *net,
                 struct vr_err *err)
{
    for (uint64_t until = vr_now_ms() + WAIT_MS;;) {
        if (!look_once(c, node, w, net, err)) return false;
        if (!w->owner[0]) return true;
        bool ours = strcmp(w->owner, c->hello.name) == 0;
        if (vr_now_ms() > until)
            return vr_fail(err, VR_EDEVICE, "node %s is lent to %s%s", node->name, w->owner,
                           ours ? " already, for another model" : "");
        vr_welcome_done(w);
        nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
    }
}

void vr_node_where(const struct vr_pair *node, char *out, size_t n)
{
    snprintf(out, n, "%s:%u", node->host, node->port);
}

/* What `bench` measured of the way, with the engine at both ends, instead of what a look did; unless it is another now.
 */
static void settle(const struct caller *c, const struct vr_pair *node, struct vr_link_speed *net, struct vr_machine *m)
{
    char where[VR_NODE_WHERE];
    vr_node_where(node, where, sizeof where);
    const struct vr_node_link *kept = vr_node_link_find(&c->links, node->fingerprint, where);
    if (!kept) return;
    if (vr_node_link_holds(kept, net->rtt_us))
        *net = (struct vr_link_speed){ .rtt_us = kept->round_trip_us, .gbs = vr_node_link_gbs(kept) };
    else
        vr_machine_note(
            m,
            "A round trip to node %s takes %.2f ms now, but took %.2f ms when it was measured: run 'vram-llm bench "
            "--nodes %s' again.",
            node->name, net->rtt_us / 1e3, kept->round_trip_us / 1e3, node->name);
}

static bool add(const struct caller *c, const struct vr_pair *node, struct vr_machine *m, struct vr_err *err)
{
    char what[VR_NODE_NAME + 16];
    struct vr_link_speed net;
    VR_AUTO_WELCOME w = { 0 };
    VR_AUTO(vr_machine) lender = vr_machine_new(err);
    snprintf(what, sizeof what, "node %s", node->name);
    if (!lender || !look(c, node, &w, &net, err) ||
        !vr_profile_parse(what, vr_buf_str(&w.machine), w.machine.n, lender, err))
        return false;
    settle(c, node, &net, m);
    size_t n = vr_machine_borrow(m, lender, node->name, net.gbs, net.rtt_us);
    if (n < lender->n_devices)
        vr_machine_note(m, "Node %s lends %zu more devices than can be used.", node->name, lender->n_devices - n);
    return true;
}

bool vr_nodes_add(const struct vr_options *o, struct vr_machine *m, struct vr_err *err)
{
    VR_CLEANUP(caller_done) struct caller c;
    if (!caller_open(&c, VR_WANT_LOOK, err)) return false;
    take_links(&c, m);
    VR_AUTO_FREE char *list = strdup(o->nodes);
    if (!list) return vr_fail_nomem(err, "reading the options");
    size_t n = 0;
    for (char *save = NULL, *one = strtok_r(list, ", ", &save); one; one = strtok_r(NULL, ", ", &save)) {
        const struct vr_pair *node = vr_pairs_by_name(&c.pairs, one);
        struct vr_err why = { 0 };
        if (!node)
            return vr_fail(
                err, VR_EUSAGE,
                "--nodes: '%s' is not paired with this machine: run 'vram-llm node --init' there, and 'vram-llm "
                "node --nodes %s --join TOKEN' here",
                one, one);
        if (++n > VR_MAX_NODES) return vr_fail(err, VR_EUSAGE, "--nodes: at most %d", VR_MAX_NODES);
        if (add(&c, node, m, &why)) continue;
        vr_log(VR_WARN, "%s; planning without it", why.msg);
        vr_machine_note(m, "Left out: %s.", why.msg);
    }
    return n || vr_fail(err, VR_EUSAGE, "--nodes: the list is empty");
}

/* --- borrowing --- */

static struct vr_load_node *node_of(struct vr_load_node *list, size_t *n, const struct vr_pair *pair)
{
    for (size_t i = 0; i < *n; i++)
        if (strcmp(list[i].pair.name, pair->name) == 0) return &list[i];
    if (*n == VR_MAX_NODES) return NULL;
    list[*n] = (struct vr_load_node){ .pair = *pair };
    return &list[(*n)++];
}

bool vr_nodes_used(const struct vr_machine *m, bool (*used)(const void *ctx, const char *id), const void *ctx,
                   struct vr_load_node *out, size_t *n, struct vr_err *err)
{
    char dir[512];
    VR_AUTO_FREE struct vr_pairs *pairs = calloc(1, sizeof *pairs);
    if (!pairs) return vr_fail_nomem(err, "writing the engine's settings");
    if (!vr_identity_dir(dir, sizeof dir, err) || !vr_pairs_load(dir, pairs, err)) return false;
    for (size_t i = 0; i < m->n_devices; i++) {
        const struct vr_device *d = &m->devices[i];
        if (!d->node[0] || !used(ctx, d->id)) continue;
        const struct vr_pair *pair = vr_pairs_by_name(pairs, d->node);
        struct vr_load_node *node = pair ? node_of(out, n, pair) : NULL;
        if (!node || node->n_devices == VR_MAX_LENT)
            return vr_fail(err, VR_EUSAGE, "node %s cannot be borrowed from any more", d->node);
        snprintf(node->devices[node->n_devices++], sizeof node->devices[0], "%s", vr_device_own_id(d));
    }
    return true;
}

/* --- pairing --- */

bool vr_nodes_join(const struct vr_options *o, struct vr_buf *out, struct vr_err *err)
{
    VR_CLEANUP(caller_done) struct caller c = { 0 };
    struct vr_pair node = { 0 };
    VR_AUTO_WELCOME w = { 0 };
    char secret[VR_SECRET];
    if (!o->nodes) return vr_fail(err, VR_EUSAGE, "--join: name the node's address, too: --nodes HOST[:PORT]");
    if (!vr_join_read(o->join, node.fingerprint, secret, err) ||
        !vr_node_address(o->nodes, VR_NODE_PORT, node.host, &node.port, err) || !caller_open(&c, VR_WANT_JOIN, err))
        return false;
    vr_node_name(node.host, node.name); /* until it tells its own */
    snprintf(c.hello.secret, sizeof c.hello.secret, "%s", secret);
    VR_AUTO(vr_secure) s = vr_dial(&node, &c.self, &c.hello, &w, err);
    if (!s) return false;
    memcpy(node.name, w.name, sizeof node.name);
    VR_AUTO_CLOSE int lock = vr_pairs_lock(c.dir, err);
    if (lock < 0 || !vr_pairs_load(c.dir, &c.pairs, err) ||
        !vr_pairs_add(c.pairs.nodes, &c.pairs.n_nodes, &node, true, err) || !vr_pairs_save(c.dir, &c.pairs, err))
        return false;
    vr_buf_addf(out,
                "Paired with node %s (%s port %u).\n  vram-llm doctor --nodes %s     shows what it lends\n"
                "  vram-llm serve MODEL --nodes %s\n",
                node.name, node.host, node.port, node.name, node.name);
    return true;
}
