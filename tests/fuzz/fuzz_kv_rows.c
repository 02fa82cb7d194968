/* A sequence's state as an engine writes it: what is read as one can be cut into blocks, and joined again it is the
 * same state of the same size, and reads the same. Nothing is read beyond the bytes that are there. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cache/kv_rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool truth)
{
    if (!truth) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct vr_kv_rows rows, again;
    uint32_t tokens = n ? 1 + data[0] % 64u : 0;
    if (n < 2 || !vr_kv_rows_read(&rows, data + 1, n - 1, tokens)) return 0;
    must(vr_kv_rows_state_bytes(&rows, tokens) == n - 1);
    uint8_t *block = malloc(vr_kv_rows_block_bytes(&rows, tokens) + 1), *state = malloc(n);
    must(block && state && vr_kv_rows_cut(&rows, data + 1, tokens, 0, tokens, block));
    const uint8_t *const blocks[] = { block };
    for (uint32_t want = 1; want <= tokens; want += want + 1 < tokens ? tokens / 2 + 1 : 1) {
        vr_kv_rows_join(&rows, blocks, want, tokens, state);
        must(vr_kv_rows_read(&again, state, vr_kv_rows_state_bytes(&rows, want), want));
    }
    free(block);
    free(state);
    return 0;
}
