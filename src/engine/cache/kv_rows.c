/* A block holds, for each section, what its cells have besides a position, and then each column's rows of these tokens;
 * of a transposed column, that for each run. */
#include "engine/cache/kv_rows.h"

#include <stdlib.h>
#include <string.h>

enum { EXT_BYTES = 12, CELL_BYTES = 12, COLUMN_HEAD = 12 };

/* --- reading --- */

struct reader {
    const uint8_t *at, *end;
    bool bad;
};

static const uint8_t *take(struct reader *r, uint64_t n)
{
    const uint8_t *at = r->at;
    if (r->bad || n > (uint64_t)(r->end - r->at)) return r->bad = true, NULL;
    r->at += n;
    return at;
}

static uint32_t take_u32(struct reader *r)
{
    uint32_t v = 0;
    const uint8_t *at = take(r, sizeof v);
    if (at) memcpy(&v, at, sizeof v);
    return v;
}

static uint32_t u32_at(const uint8_t *at)
{
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return v;
}

/* Each position once. */
static bool read_cells(struct reader *r, uint32_t n, uint32_t ext_bytes)
{
    uint64_t stride = CELL_BYTES + ext_bytes;
    const uint8_t *cells = take(r, n * stride);
    uint8_t *seen = cells ? calloc(n, 1) : NULL;
    bool ok = seen != NULL;
    for (uint32_t i = 0; ok && i < n; i++) {
        uint32_t pos = u32_at(cells + i * stride);
        ok = pos < n && !seen[pos] && u32_at(cells + i * stride + 4) == 1;
        if (ok) seen[pos] = 1;
    }
    free(seen);
    return ok;
}

static bool read_column(struct vr_kv_rows *out, struct reader *r, uint32_t n, bool transposed)
{
    const uint8_t *head = take(r, COLUMN_HEAD);
    if (!head || out->n_columns == VR_KV_ROWS_COLUMNS) return false;
    struct vr_kv_rows_column *c = &out->columns[out->n_columns++];
    uint32_t size = u32_at(head + 4), count = u32_at(head + 8); /* of a row: 64 bits; of an element, and how many */
    memcpy(c->head, head, sizeof c->head);
    if (size == 0 || size > 1 << 26 || (transposed ? count == 0 || count > 1 << 24 : count != 0)) return false;
    c->row_bytes = size;
    c->n_runs = transposed ? count : 1;
    return take(r, (uint64_t)size * c->n_runs * n) != NULL;
}

/* A section, whose cells have ext_bytes more than a position, and whose layers have a V or not. */
static bool read_section(struct vr_kv_rows *out, struct reader *r, uint32_t n, uint32_t ext_bytes, bool has_v)
{
    struct vr_kv_rows_section *s = &out->sections[out->n_sections];
    *s = (struct vr_kv_rows_section){ .n_streams = take_u32(r), .ext_bytes = ext_bytes, .first = out->n_columns };
    if (r->bad || s->n_streams == 0 || s->n_streams > 256) return false;
    uint32_t filled = 0;
    for (uint32_t i = 0; i < s->n_streams; i++) {
        uint32_t count = take_u32(r);
        if (r->bad || (count != 0 && (count != n || filled++))) return false;
        if (count == 0) continue;
        if (!read_cells(r, n, ext_bytes)) return false;
        s->v_trans = take_u32(r);
        s->n_layers = take_u32(r);
        if (r->bad || s->v_trans > 1 || s->n_layers > VR_KV_ROWS_COLUMNS) return false;
        for (uint32_t l = 0; l < s->n_layers; l++)
            if (!read_column(out, r, n, false)) return false;
        for (uint32_t l = 0; has_v && l < s->n_layers; l++)
            if (!read_column(out, r, n, s->v_trans)) return false;
    }
    s->n = out->n_columns - s->first;
    out->n_sections++;
    return filled == 1;
}

/* Sections up to the end, in the one way that they can be read. */
static bool read_sections(struct vr_kv_rows *out, struct reader r, uint32_t n)
{
    if (r.at == r.end) return out->n_sections > 0;
    if (out->n_sections == VR_KV_ROWS_SECTIONS) return false;
    uint32_t n_sections = out->n_sections, n_columns = out->n_columns;
    for (int way = 0; way < 4; way++) {
        struct reader rest = r;
        out->n_sections = n_sections;
        out->n_columns = n_columns;
        if (read_section(out, &rest, n, way & 1 ? EXT_BYTES : 0, !(way & 2)) && read_sections(out, rest, n))
            return true;
    }
    return false;
}

bool vr_kv_rows_read(struct vr_kv_rows *out, const uint8_t *state, size_t n_bytes, uint32_t n)
{
    struct reader r = { .at = state, .end = state + n_bytes };
    memset(out, 0, sizeof *out);
    out->magic = take_u32(&r);
    take_u32(&r);
    if (r.bad || n == 0 || !read_sections(out, r, n)) return false;
    for (uint32_t i = 0; i < out->n_sections; i++) out->token_bytes += out->sections[i].ext_bytes;
    for (uint32_t i = 0; i < out->n_columns; i++)
        out->token_bytes += (uint64_t)out->columns[i].row_bytes * out->columns[i].n_runs;
    return true;
}

bool vr_kv_rows_same(const struct vr_kv_rows *a, const struct vr_kv_rows *b)
{
    return a->magic == b->magic && a->n_sections == b->n_sections && a->n_columns == b->n_columns &&
           memcmp(a->sections, b->sections, a->n_sections * sizeof a->sections[0]) == 0 &&
           memcmp(a->columns, b->columns, a->n_columns * sizeof a->columns[0]) == 0;
}

/* --- sizes --- */

size_t vr_kv_rows_block_bytes(const struct vr_kv_rows *r, uint32_t n) { return (size_t)(r->token_bytes * n); }

size_t vr_kv_rows_state_bytes(const struct vr_kv_rows *r, uint32_t n)
{
    size_t bytes = VR_KV_ROWS_HEADER + vr_kv_rows_block_bytes(r, n) + (size_t)r->n_columns * COLUMN_HEAD;
    for (uint32_t i = 0; i < r->n_sections; i++)
        bytes += 4 + (size_t)r->sections[i].n_streams * 4 + (size_t)n * CELL_BYTES + 8;
    return bytes;
}

/* --- cutting --- */

/* Copies items [from, from + n) of a column of such items, in the order of positions, cells that follow each other at
 * once. */
static uint8_t *gather(const uint8_t *column, const uint32_t *cell, uint32_t from, uint32_t n, size_t item,
                       uint8_t *out)
{
    for (uint32_t i = 0; i < n;) {
        uint32_t k = 1, first = cell[from + i];
        while (i + k < n && cell[from + i + k] == first + k) k++;
        memcpy(out, column + (size_t)first * item, k * item);
        out += k * item;
        i += k;
    }
    return out;
}

/* The filled stream of a section: behind its count. */
static const uint8_t *skip_empty(const struct vr_kv_rows_section *s, const uint8_t *at, uint32_t *n_behind)
{
    uint32_t i = 0;
    at += 4;
    for (; u32_at(at) == 0; i++) at += 4;
    *n_behind = s->n_streams - i - 1;
    return at + 4;
}

bool vr_kv_rows_cut(const struct vr_kv_rows *r, const uint8_t *state, uint32_t all, uint32_t from, uint32_t n,
                    uint8_t *block)
{
    uint32_t *cell = calloc(all, sizeof *cell);
    if (!cell) return false;
    const uint8_t *at = state + VR_KV_ROWS_HEADER;
    for (uint32_t i = 0; i < r->n_sections; i++) {
        const struct vr_kv_rows_section *s = &r->sections[i];
        uint32_t n_behind;
        const uint8_t *cells = skip_empty(s, at, &n_behind);
        size_t stride = CELL_BYTES + s->ext_bytes;
        for (uint32_t k = 0; k < all; k++) cell[u32_at(cells + k * stride)] = k;
        for (uint32_t k = 0; s->ext_bytes && k < n; k++, block += s->ext_bytes)
            memcpy(block, cells + cell[from + k] * stride + 8, s->ext_bytes);
        at = cells + all * stride + 8;
        for (const struct vr_kv_rows_column *c = &r->columns[s->first]; c < &r->columns[s->first + s->n]; c++) {
            at += COLUMN_HEAD;
            for (uint32_t k = 0; k < c->n_runs; k++, at += (size_t)all * c->row_bytes)
                block = gather(at, cell, from, n, c->row_bytes, block);
        }
        at += (size_t)n_behind * 4;
    }
    free(cell);
    return true;
}

/* --- joining --- */

static uint8_t *put_u32(uint8_t *out, uint32_t v)
{
    memcpy(out, &v, sizeof v);
    return out + sizeof v;
}

/* What blocks are made of: which part of each is `item` bytes per token at offset `skip`, and how many tokens. */
struct joining {
    const uint8_t *const *blocks;
    uint32_t n, n_last;
};

static uint8_t *join(const struct joining *j, uint64_t skip, size_t item, uint8_t *out)
{
    uint32_t n_blocks = (j->n + VR_KV_ROWS_BLOCK - 1) / VR_KV_ROWS_BLOCK;
    for (uint32_t i = 0; i < n_blocks; i++) {
        uint32_t holds = i + 1 < n_blocks ? VR_KV_ROWS_BLOCK : j->n_last;
        uint32_t n = i + 1 < n_blocks ? VR_KV_ROWS_BLOCK : j->n - i * VR_KV_ROWS_BLOCK;
        memcpy(out, j->blocks[i] + skip * holds, n * item);
        out += n * item;
    }
    return out;
}

/* Positions, with what cells have besides. */
static uint8_t *put_cells(const struct joining *j, const struct vr_kv_rows_section *s, uint64_t skip, uint8_t *out)
{
    for (uint32_t i = 0; i < j->n; i++) {
        uint32_t b = i / VR_KV_ROWS_BLOCK, holds = (b + 1) * VR_KV_ROWS_BLOCK >= j->n ? j->n_last : VR_KV_ROWS_BLOCK;
        out = put_u32(put_u32(out, i), 1);
        memcpy(out, j->blocks[b] + skip * holds + (size_t)(i % VR_KV_ROWS_BLOCK) * s->ext_bytes, s->ext_bytes);
        out = put_u32(out + s->ext_bytes, 0);
    }
    return out;
}

void vr_kv_rows_join(const struct vr_kv_rows *r, const uint8_t *const *blocks, uint32_t n, uint32_t n_last,
                     uint8_t *state)
{
    const struct joining j = { blocks, n, n_last };
    uint64_t skip = 0; /* bytes of a token in a block, so far */
    uint8_t *out = put_u32(put_u32(state, r->magic), 0);
    for (uint32_t i = 0; i < r->n_sections; i++) {
        const struct vr_kv_rows_section *s = &r->sections[i];
        out = put_u32(put_u32(out, s->n_streams), n);
        out = put_cells(&j, s, skip, out);
        skip += s->ext_bytes;
        out = put_u32(put_u32(out, s->v_trans), s->n_layers);
        for (const struct vr_kv_rows_column *c = &r->columns[s->first]; c < &r->columns[s->first + s->n]; c++) {
            memcpy(out, c->head, COLUMN_HEAD);
            out += COLUMN_HEAD;
            for (uint32_t k = 0; k < c->n_runs; k++, skip += c->row_bytes) out = join(&j, skip, c->row_bytes, out);
        }
        for (uint32_t k = 1; k < s->n_streams; k++) out = put_u32(out, 0);
    }
}
