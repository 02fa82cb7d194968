/* One hash for tables, tags and fingerprints: FNV-1a. Not for secrets; where names come from outside, a seed that
 * nobody can know keeps them from being made to collide. */
#ifndef VR_BASE_HASH_H
#define VR_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

static inline uint64_t vr_hash(const void *data, size_t n, uint64_t seed)
{
    uint64_t h = UINT64_C(14695981039346656037) ^ seed;
    for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)data)[i]) * UINT64_C(1099511628211);
    return h ^ h >> 32; /* its lower bits are good ones */
}

/* Such a seed: the kernel gives each program one. */
static inline uint64_t vr_hash_secret(void)
{
    uint64_t secret;
    memcpy(&secret, (const void *)getauxval(AT_RANDOM), sizeof secret);
    return secret;
}

#endif
