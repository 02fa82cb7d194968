/* `bench --nodes`: the ways to machines that lend their devices. */
#ifndef VR_CLI_BENCH_NODES_H
#define VR_CLI_BENCH_NODES_H

#include "base/buf.h"
#include "cli/options.h"

bool vr_bench_nodes(const struct vr_options *o, struct vr_buf *out, struct vr_err *err) VR_MUST_CHECK;

#endif
