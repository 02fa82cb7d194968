/* `engine-process FD`: the process that holds a model, started by `serve` and by nobody else. */
#include "cli/load/engine_process.h"

#include <stdio.h>

#include "base/text.h"
#include "engine/process/process.h"

int vr_cmd_engine_process(const char *fd)
{
    uint64_t number;
    if (!vr_parse_u64(fd, 3, 1 << 20, &number)) {
        fputs("vram-llm: the engine-process command is internal to 'vram-llm serve'\n", stderr);
        return 2;
    }
    return vr_engine_process((int)number);
}
