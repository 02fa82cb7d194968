/* What a worker that a request has taken over may answer: nothing is read past its end, and what is taken is within the
 * limits of a request and says the same when it is written again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/prepare/prepared.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool truth)
{
    if (!truth) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    VR_AUTO_ARENA arena = { 0 };
    VR_AUTO_BUF once = { 0 };
    VR_AUTO_BUF twice = { 0 };
    struct vr_prepared p, q;
    struct vr_refusal why;
    VR_AUTO_FREE char *copy = malloc(n + 1); /* aligned, and its end is known */
    memcpy(copy, data, n);
    if (vr_prepared_read(copy, n, 500, &arena, &p, &why) != VR_PREPARED) return 0;
    must(p.n_prompts <= VR_MOST_INPUTS && p.n_stops <= 2 * VR_MOST_STOPS && p.n_pictures <= VR_MOST_PICTURES);
    vr_prepared_write(&p, &once);
    must(!once.failed && vr_prepared_read(once.data, once.n, 500, &arena, &q, &why) == VR_PREPARED);
    vr_prepared_write(&q, &twice);
    must(once.n == twice.n && memcmp(once.data, twice.data, once.n) == 0);
    return 0;
}
