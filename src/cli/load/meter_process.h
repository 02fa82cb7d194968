/* The hidden command by which `serve` watches the devices: not in commands.def, because people never type it. */
#ifndef VR_CLI_METER_PROCESS_H
#define VR_CLI_METER_PROCESS_H

/* Writes a line of JSON to standard output each second, until nobody reads it. Returns the exit status. */
int vr_cmd_meter_process(void);

#endif
