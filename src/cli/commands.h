/* The commands, one file each. A command writes its result to `out`; main prints it. */
#ifndef VR_CLI_COMMANDS_H
#define VR_CLI_COMMANDS_H

#include "cli/options.h"

#define COMMAND(id, name, function, ...)                                                                               \
    bool function(const struct vr_options *o, struct vr_buf *out, struct vr_err *err) VR_MUST_CHECK;
#include "cli/commands.def"
#undef COMMAND

#endif
