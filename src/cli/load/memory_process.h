/* The hidden command by which `serve` waits for memory that an engine had: not in commands.def, because people never
 * type it. */
#ifndef VR_CLI_MEMORY_PROCESS_H
#define VR_CLI_MEMORY_PROCESS_H

/* Reads {"devices":{KEY:bytes},"timeout_ms":N} from standard input, KEY as in vr_device_key(), and asks the driver
 * until every device has as much free, or until the time is over. Writes {"short":{KEY:bytes that are missing}}, {} if
 * none are. Devices that nobody can ask about here have what is wanted. Returns the exit status. */
int vr_cmd_memory_process(void);

#endif
