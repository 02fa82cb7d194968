/* The attention cache of a sequence as llama.cpp writes it (llama_state_seq_get_data), cut by tokens.
 *
 * llama.cpp gives out a sequence as a whole: a header, the position of each cell, then for each layer the rows of K of
 * all cells, then those of V, which are transposed without flash attention. Histories that begin alike have the same
 * rows for the same tokens, so they are cut into blocks of VR_KV_ROWS_BLOCK tokens that can be shared, and put together
 * again for as many tokens as are wanted. Models with two attention caches write two of these (sections), one behind
 * the other. What does not look exactly like that is not understood, and refused. Pure. */
#ifndef VR_ENGINE_CACHE_KV_ROWS_H
#define VR_ENGINE_CACHE_KV_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VR_KV_ROWS_BLOCK    256
#define VR_KV_ROWS_HEADER   8 /* bytes before the first section: a magic number, and the sequence */
#define VR_KV_ROWS_SECTIONS 4
#define VR_KV_ROWS_COLUMNS  2048 /* K or V of a layer */

/* How the state of a context is laid out: the same for all of its sequences. */
struct vr_kv_rows {
    uint32_t magic, n_sections, n_columns;
    struct vr_kv_rows_section {
        uint32_t n_streams, ext_bytes; /* of each cell, besides its position */
        uint32_t v_trans, n_layers;
        uint32_t first, n; /* its columns */
    } sections[VR_KV_ROWS_SECTIONS];
    struct vr_kv_rows_column {
        uint8_t head[12];   /* as it is written: type and size */
        uint32_t row_bytes; /* of a token, in n_runs pieces that are apart from each other */
        uint32_t n_runs;    /* 1 unless transposed */
    } columns[VR_KV_ROWS_COLUMNS];
    uint64_t token_bytes; /* of a token in all of it */
};

/* Reads the layout off a state of n tokens. False: it is another one, or its cells are not the positions 0 to n-1. */
bool vr_kv_rows_read(struct vr_kv_rows *out, const uint8_t *state, size_t n_bytes, uint32_t n);
bool vr_kv_rows_same(const struct vr_kv_rows *a, const struct vr_kv_rows *b);

/* Bytes of a block of n tokens; and of the state of n tokens. */
size_t vr_kv_rows_block_bytes(const struct vr_kv_rows *r, uint32_t n);
size_t vr_kv_rows_state_bytes(const struct vr_kv_rows *r, uint32_t n);

/* Copies tokens [from, from + n) of a state that vr_kv_rows_read() has read, of `all` tokens, to a block. False: no
 * memory. */
bool vr_kv_rows_cut(const struct vr_kv_rows *r, const uint8_t *state, uint32_t all, uint32_t from, uint32_t n,
                    uint8_t *block);
/* Writes the state of n tokens, of blocks that hold VR_KV_ROWS_BLOCK each; the last one holds `n_last`, of which only
 * the first may be wanted. */
void vr_kv_rows_join(const struct vr_kv_rows *r, const uint8_t *const *blocks, uint32_t n, uint32_t n_last,
                     uint8_t *state);

#endif
