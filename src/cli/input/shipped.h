/* The small model that ships with the program: what `serve` takes when no other was named. */
#ifndef VR_CLI_SHIPPED_H
#define VR_CLI_SHIPPED_H

#include <stdbool.h>
#include <stddef.h>

/* Looks for it from the directory of a program; false when it is not there. */
bool vr_shipped_find(const char *dir, char *out, size_t size);
/* From this program's directory; NULL when it is not there. Kept until the program ends. */
const char *vr_shipped_model(void);

#endif
