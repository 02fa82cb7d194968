/* Builds GGUF headers for tests, right or wrong ones. Counts and offsets follow from what was added unless a field says
 * otherwise; the data area is a hole in the file. */
#ifndef GGUF_MAKER_H
#define GGUF_MAKER_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "gguf/model.h"
#include "gguf/type.h"

struct maker {
    struct vr_buf meta, tensors;
    uint64_t n_meta, n_tensors;
    uint32_t version;                      /* 0: 3 */
    uint64_t align;                        /* 0: 32 */
    uint64_t data;                         /* bytes of data so far */
    int64_t extra_n_meta, extra_n_tensors; /* lies added to the counts */
};

static inline void mk_done(struct maker *g)
{
    vr_buf_done(&g->meta);
    vr_buf_done(&g->tensors);
}
#define MK_AUTO VR_CLEANUP(mk_done) struct maker

static inline void mk_raw(struct vr_buf *b, const void *p, size_t n) { vr_buf_add(b, p, n); }
static inline void mk_32(struct vr_buf *b, uint32_t v) { vr_buf_add(b, &v, 4); }
static inline void mk_64(struct vr_buf *b, uint64_t v) { vr_buf_add(b, &v, 8); }
static inline void mk_string(struct vr_buf *b, const char *s)
{
    mk_64(b, strlen(s));
    vr_buf_adds(b, s);
}

/* The head of an entry; the value follows by mk_raw(&g->meta, ...). */
static inline void mk_key(struct maker *g, const char *key, uint32_t type)
{
    mk_string(&g->meta, key);
    mk_32(&g->meta, type);
    g->n_meta++;
}
static inline void mk_u32(struct maker *g, const char *key, uint32_t v)
{
    mk_key(g, key, VR_V_U32);
    mk_32(&g->meta, v);
}
static inline void mk_f32(struct maker *g, const char *key, float v)
{
    mk_key(g, key, VR_V_F32);
    mk_raw(&g->meta, &v, 4);
}
static inline void mk_bool(struct maker *g, const char *key, bool v)
{
    mk_key(g, key, VR_V_BOOL);
    vr_buf_addc(&g->meta, (char)v, 1);
}
static inline void mk_str(struct maker *g, const char *key, const char *v)
{
    mk_key(g, key, VR_V_STRING);
    mk_string(&g->meta, v);
}
static inline void mk_u16(struct maker *g, const char *key, uint16_t v)
{
    mk_key(g, key, VR_V_U16);
    mk_raw(&g->meta, &v, 2);
}
static inline void mk_i32s(struct maker *g, const char *key, const int32_t *v, size_t n)
{
    mk_key(g, key, VR_V_ARRAY);
    mk_32(&g->meta, VR_V_I32);
    mk_64(&g->meta, n);
    mk_raw(&g->meta, v, n * 4);
}
/* A vocabulary: n strings "<prefix><i>". A byte-level one has no blanks in its tokens, and one in each merge. */
static inline void mk_vocab(struct maker *g, const char *key, const char *prefix, size_t n)
{
    mk_key(g, key, VR_V_ARRAY);
    mk_32(&g->meta, VR_V_STRING);
    mk_64(&g->meta, n);
    char s[32];
    for (size_t i = 0; i < n; i++) {
        snprintf(s, sizeof s, "%s%zu", prefix, i);
        mk_string(&g->meta, s);
    }
}

/* A tensor with a given offset; ne ends at the first 0. */
static inline void mk_tensor_at(struct maker *g, const char *name, uint32_t type, const uint64_t ne[4], uint64_t offset)
{
    uint32_t n_dims = 0;
    while (n_dims < 4 && ne[n_dims]) n_dims++;
    mk_string(&g->tensors, name);
    mk_32(&g->tensors, n_dims);
    for (uint32_t d = 0; d < n_dims; d++) mk_64(&g->tensors, ne[d]);
    mk_32(&g->tensors, type);
    mk_64(&g->tensors, offset);
    g->n_tensors++;
}

/* A tensor where it belongs: behind the one before it. */
static inline void mk_tensor(struct maker *g, const char *name, uint32_t type, uint64_t ne0, uint64_t ne1, uint64_t ne2)
{
    uint64_t align = g->align ? g->align : 32;
    mk_tensor_at(g, name, type, (const uint64_t[4]){ ne0, ne1, ne2, 0 }, g->data);
    uint64_t bytes = vr_type_row_bytes(type, ne0) * (ne1 ? ne1 : 1) * (ne2 ? ne2 : 1);
    g->data += (bytes + align - 1) / align * align;
}

static inline void mk_header(const struct maker *g, struct vr_buf *out)
{
    uint64_t align = g->align ? g->align : 32;
    vr_buf_add(out, "GGUF", 4);
    mk_32(out, g->version ? g->version : 3);
    mk_64(out, g->n_tensors + (uint64_t)g->extra_n_tensors);
    mk_64(out, g->n_meta + (uint64_t)g->extra_n_meta);
    vr_buf_add(out, vr_buf_str(&g->meta), g->meta.n);
    vr_buf_add(out, vr_buf_str(&g->tensors), g->tensors.n);
    if (g->n_tensors) vr_buf_addc(out, 0, (align - out->n % align) % align);
}

/* Writes bytes to a file that is `size` long in all (0: as long as the bytes). */
static inline void mk_file(const char *path, const void *data, size_t n, uint64_t size)
{
    VR_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, data, n) != (ssize_t)n || (size > n && ftruncate(fd, (off_t)size) != 0)) abort();
}

static inline void mk_write(const struct maker *g, const char *path)
{
    VR_AUTO_BUF out = { 0 };
    mk_header(g, &out);
    mk_file(path, out.data, out.n, out.n + g->data);
}

/* A small llama model of `n_layers` layers, 64 wide. */
static inline void mk_llama(struct maker *g, uint32_t n_layers)
{
    mk_str(g, "general.architecture", "llama");
    mk_str(g, "general.name", "tiny");
    mk_u32(g, "llama.block_count", n_layers);
    mk_u32(g, "llama.embedding_length", 64);
    mk_u32(g, "llama.context_length", 2048);
    mk_u32(g, "llama.feed_forward_length", 128);
    mk_u32(g, "llama.attention.head_count", 4);
    mk_u32(g, "llama.attention.head_count_kv", 2);
    mk_tensor(g, "token_embd.weight", VR_TYPE_F16, 64, 100, 0);
    static const struct {
        const char *name;
        uint64_t ne0, ne1;
    } per_layer[] = {
        { "attn_norm", 64, 0 },  { "attn_q", 64, 64 },      { "attn_k", 64, 32 },
        { "attn_v", 64, 32 },    { "attn_output", 64, 64 }, { "ffn_norm", 64, 0 },
        { "ffn_gate", 64, 128 }, { "ffn_up", 64, 128 },     { "ffn_down", 128, 64 },
    };
    for (uint32_t i = 0; i < n_layers; i++)
        for (size_t k = 0; k < VR_COUNT(per_layer); k++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%u.%s.weight", i, per_layer[k].name);
            mk_tensor(g, name, per_layer[k].ne1 ? VR_TYPE_F16 : VR_TYPE_F32, per_layer[k].ne0, per_layer[k].ne1, 0);
        }
    mk_tensor(g, "output_norm.weight", VR_TYPE_F32, 64, 0, 0);
    mk_tensor(g, "output.weight", VR_TYPE_F16, 64, 100, 0);
}

#endif
