/* The hidden command by which `serve` starts its engine: not in commands.def, because people never type it. */
#ifndef VR_CLI_ENGINE_PROCESS_H
#define VR_CLI_ENGINE_PROCESS_H

/* `fd` is the number of the socket that the front left open for it. Returns the exit status. */
int vr_cmd_engine_process(const char *fd);

#endif
