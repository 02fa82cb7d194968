/* llama.cpp's RPC server as its own tool starts it, over TCP with its own transport and without a lock: to be measured
 * against. What is behind it is what `vram-llm node` would lend: the processor, or a virtual GPU.
 *
 *     plain-rpc LIBGGML_RPC_SO PORT THREADS [SPEC]        SPEC as for --gpus, e.g. card:300:200 */
#include <stdio.h>
#include <stdlib.h>

#include <ggml-backend.h>

#include "engine/llama/cpu.h"
#include "engine/vgpu/vgpu.h"
#include "fit/judge.h"
#include "hw/spec.h"

typedef void start_server(const char *endpoint, const char *cache, size_t n_threads, size_t n_devices,
                          ggml_backend_dev_t *devices);

static bool make_virtual(const char *spec, ggml_backend_dev_t *out, struct vr_err *err)
{
    static struct vr_vgpu_spec card;
    const struct vr_budgets first = { .items = { { .device = 0 } }, .n = 1 };
    VR_AUTO(vr_machine) m = vr_machine_new(err);
    if (!m || !vr_machine_spec(spec, NULL, m, err) || !vr_judge_devices(m, &first, &card, err) ||
        !vr_vgpu_register(&card, 1, VR_VGPU_EXECUTING, err))
        return false;
    *out = vr_vgpu_device(0);
    return true;
}

int main(int argc, char **argv)
{
    struct vr_err err = { 0 };
    char cpu[1024], endpoint[64];
    ggml_backend_dev_t device = NULL;
    setvbuf(stdout, NULL, _IOLBF, 0); /* it tells there that it has started */
    if (argc < 4) return fprintf(stderr, "plain-rpc LIBGGML_RPC_SO PORT THREADS [SPEC]\n"), 2;
    ggml_backend_reg_t rpc = ggml_backend_load(argv[1]);
    start_server *start =
        rpc ? (start_server *)ggml_backend_reg_get_proc_address(rpc, "ggml_backend_rpc_start_server") : NULL;
    bool ok = vr_cpu_choose(cpu, sizeof cpu, &err) && vr_cpu_load(cpu, &err) &&
              (argc < 5 || make_virtual(argv[4], &device, &err));
    if (!start || !ok) return fprintf(stderr, "plain-rpc: %s\n", ok ? argv[1] : err.msg), 1;
    if (!device) device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%s", argv[2]);
    start(endpoint, NULL, (size_t)atoi(argv[3]), 1, &device);
    return 1;
}
