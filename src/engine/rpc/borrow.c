/* The RPC backend has one connection for each endpoint, and closes it when nothing uses it. A backend object that is
 * never freed keeps it open: it is all that a descriptor has (llama/bridge_rpc.cpp). */
#include "engine/rpc/borrow.h"

#include <string.h>
#include <unistd.h>

#include <ggml-backend-impl.h>
#include <ggml-rpc.h>

#include "engine/llama/library.h"
#include "engine/params/load_message.h"
#include "tunnel/tunnel.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

static struct {
    size_t n_nodes, n_devices;
    struct {
        struct vr_load_node node;
        struct vr_tunnel tunnel;
        char endpoint[VR_NODE_NAME + 12]; /* name:descriptor */
    } nodes[VR_MAX_NODES];
    struct {
        ggml_backend_dev_t dev;
        char name[VR_NODE_NAME + 24], buffer[64];
    } devices[VR_MAX_VGPUS];
} all;

void vr_rpc_versions(struct vr_versions *out)
{
    snprintf(out->program, sizeof out->program, "%s", VR_VERSION);
    snprintf(out->engine, sizeof out->engine, "%s", vr_engine_version());
    snprintf(out->rpc, sizeof out->rpc, "%s",
             TEXT(RPC_PROTO_MAJOR_VERSION) "." TEXT(RPC_PROTO_MINOR_VERSION) "." TEXT(RPC_PROTO_PATCH_VERSION));
}

bool vr_borrow_nodes(const struct vr_load_node *nodes, size_t n, uint32_t silent_s, struct vr_err *err)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    for (size_t i = 0; i < n; i++) {
        struct vr_hello hello = { .want = VR_WANT_LEND, .n_devices = nodes[i].n_devices };
        vr_rpc_versions(&hello.versions);
        vr_node_name(host, hello.name);
        memcpy(hello.devices, nodes[i].devices, sizeof hello.devices);
        if (!vr_tunnel_open(&nodes[i].pair, &hello, silent_s, &all.nodes[i].tunnel, err)) return false;
        all.nodes[i].node = nodes[i];
        snprintf(all.nodes[i].endpoint, sizeof all.nodes[i].endpoint, "%s:%d", nodes[i].pair.name,
                 all.nodes[i].tunnel.fd);
        all.n_nodes++;
    }
    return true;
}

void vr_borrow_open(const json_t *load, char *why, size_t n)
{
    VR_AUTO_ARENA arena = { 0 };
    struct vr_load_params p;
    struct vr_err err = { 0 };
    why[0] = '\0';
    if (vr_load_params_read(load, &arena, &p, &err) && !vr_borrow_nodes(p.nodes, p.n_nodes, p.node_seconds, &err))
        snprintf(why, n, "%s", err.msg);
}

/* In place of the backend's own, which numbers the devices of all nodes: RPC0, RPC1. */
static const char *our_name(ggml_backend_dev_t dev)
{
    for (size_t i = 0; i < all.n_devices; i++)
        if (all.devices[i].dev == dev) return all.devices[i].name;
    return "RPC";
}

static bool register_node(size_t i, struct vr_err *err)
{
    const char *endpoint = all.nodes[i].endpoint;
    const struct vr_load_node *node = &all.nodes[i].node;
    ggml_backend_t open = ggml_backend_rpc_init(endpoint, 0); /* stays */
    ggml_backend_reg_t reg = open ? ggml_backend_rpc_add_server(endpoint) : NULL;
    if (!reg || ggml_backend_reg_dev_count(reg) != node->n_devices)
        return vr_fail(err, VR_EDEVICE, "node %s does not lend the devices that it was asked for", node->pair.name);
    for (size_t k = 0; k < node->n_devices; k++) {
        if (all.n_devices == VR_MAX_VGPUS)
            return vr_fail(err, VR_EUSAGE, "the engine supports at most %d devices", VR_MAX_VGPUS);
        ggml_backend_dev_t dev = ggml_backend_reg_dev_get(reg, k);
        all.devices[all.n_devices].dev = dev;
        snprintf(all.devices[all.n_devices].name, sizeof all.devices[0].name, "%s/%s", node->pair.name,
                 node->devices[k]);
        snprintf(all.devices[all.n_devices].buffer, sizeof all.devices[0].buffer, "RPC%zu[%s]", k, endpoint);
        all.n_devices++;
        dev->iface.get_name = our_name;
    }
    ggml_backend_register(reg);
    return true;
}

bool vr_borrow_register(struct vr_err *err)
{
    for (size_t i = 0; i < all.n_nodes; i++)
        if (!register_node(i, err)) return false;
    return true;
}

const char *vr_borrow_device(const char *buffer)
{
    for (size_t i = 0; i < all.n_devices; i++)
        if (strcmp(all.devices[i].buffer, buffer) == 0) return all.devices[i].name;
    return NULL;
}

uint64_t vr_borrow_sent_bytes(void)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < all.n_nodes; i++) sum += atomic_load(all.nodes[i].tunnel.sent);
    return sum;
}

void vr_borrow_why(char *out, size_t n)
{
    out[0] = '\0';
    for (size_t i = 0; i < all.n_nodes && !out[0]; i++) vr_tunnel_why(&all.nodes[i].tunnel, out, n);
}
