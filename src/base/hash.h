/* FNV-1a: for tables and for names that change with what they name, never against somebody who means harm. */
#ifndef VR_BASE_HASH_H
#define VR_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t vr_hash(const void *data, size_t n)
{
    const unsigned char *s = data;
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++) h = (h ^ s[i]) * 1099511628211u;
    return h;
}

#endif
