/* An engine process alone, for tests that speak the wire protocol themselves: engine-main FD */
#include <stdlib.h>

#include "engine/process/process.h"

int main(int argc, char **argv) { return argc == 2 ? vr_engine_process(atoi(argv[1])) : 2; }
