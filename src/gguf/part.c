/* The GGUF format, versions 2 and 3, little-endian:
 *
 *     "GGUF"  u32 version  u64 n_tensors  u64 n_meta
 *     n_meta    x  string key, u32 type, value      string: u64 length and bytes without a NUL
 *     n_tensors x  string name, u32 n_dims, u64 ne[n_dims], u32 type, u64 offset
 *     padding to general.alignment (32 if absent), then the data; offsets count from here
 *
 * An array is u32 element type, u64 count, elements; arrays of arrays are not read by the engine and refused here.
 * Tensors lie one behind the other in the order of the table, each padded to the alignment: the engine insists on
 * that, so an offset that leaves a gap is refused like one that overlaps.
 *
 * Nothing that the file says is believed before it was compared with the length of the file. */
#include "gguf/part.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/text.h"
#include "gguf/cursor.h"
#include "gguf/type.h"

/* Far above what exists (Kimi-K2.5: 40 entries, 1,096 tensors), low enough that reading stays cheap. */
#define MAX_META          16384
#define MAX_TENSORS       131072
#define MAX_KEY           1024
#define MAX_NAME          63                  /* the engine's */
#define MAX_STRING        ((uint64_t)1 << 30) /* the engine's */
#define MAX_ELEMENTS      ((uint64_t)1 << 30) /* the engine's */
#define MAX_DIM           ((uint64_t)1 << 42) /* weights of a tensor: bytes of all tensors stay within 64 bits */
#define KEEP_STRING       4096                /* longer strings (chat templates) are only counted */
#define KEEP_TOTAL        ((size_t)8 << 20)   /* what all kept values of a file may take */
#define MIN_META          13                  /* bytes that the shortest entry takes: u64, u32, one byte */
#define MIN_TENSOR        24                  /* u64, u32, u32, u64 */
#define DEFAULT_ALIGNMENT 32

struct reader {
    struct vr_cursor c;
    struct vr_arena *arena;
    size_t kept; /* bytes of values kept so far */
    uint64_t alignment;
};

static const struct {
    const char *name;
    uint8_t size; /* 0: not of fixed size */
} value_types[VR_N_VALUE_TYPES] = {
    [VR_V_U8] = { "u8", 1 },       [VR_V_I8] = { "i8", 1 },     [VR_V_U16] = { "u16", 2 },
    [VR_V_I16] = { "i16", 2 },     [VR_V_U32] = { "u32", 4 },   [VR_V_I32] = { "i32", 4 },
    [VR_V_F32] = { "f32", 4 },     [VR_V_BOOL] = { "bool", 1 }, [VR_V_U64] = { "u64", 8 },
    [VR_V_I64] = { "i64", 8 },     [VR_V_F64] = { "f64", 8 },   [VR_V_STRING] = { "string", 0 },
    [VR_V_ARRAY] = { "array", 0 },
};

/* What a file that is not GGUF probably is, told by its first bytes. */
static const struct {
    const char *magic, *what;
} other_formats[] = {
    { "FUGG", "a big-endian GGUF file: the engine reads little-endian files only; convert it" },
    { "lmgg", "a GGML file, older than GGUF: convert it, or download a GGUF" },
    { "tjgg", "a GGJT file, older than GGUF: convert it, or download a GGUF" },
    { "PK\3\4", "a zip archive (PyTorch weights?): convert it to GGUF first" },
    { "<!DO", "a web page: the download failed" },
    { "<!do", "a web page: the download failed" },
    { "<htm", "a web page: the download failed" },
    { "vers", "a Git LFS pointer: fetch the file itself with git lfs pull" },
    { "\x1f\x8b", "gzip-compressed: unpack it first" },
    { "\x28\xb5\x2f\xfd", "zstd-compressed: unpack it first" },
};

static bool not_gguf(const char *path, const char magic[12], struct vr_err *err)
{
    for (size_t i = 0; i < VR_COUNT(other_formats); i++)
        if (strncmp(magic, other_formats[i].magic, strlen(other_formats[i].magic)) == 0)
            return vr_fail(err, VR_EFORMAT, "%s: not a GGUF file; it looks like %s", path, other_formats[i].what);
    if (magic[8] == '{')
        return vr_fail(err, VR_EFORMAT, "%s: not a GGUF file; it looks like safetensors: convert it to GGUF first",
                       path);
    return vr_fail(err, VR_EFORMAT, "%s: not a GGUF file: it does not start with the magic GGUF", path);
}

/* The fixed part of the header. */
static bool read_counts(struct reader *r, struct vr_part_head *p, struct vr_err *err)
{
    const char *path = r->c.path;
    char magic[12] = "";
    size_t n_magic = r->c.size < sizeof magic ? (size_t)r->c.size : sizeof magic;
    if (r->c.size == 0) return vr_fail(err, VR_EFORMAT, "%s: the file is empty: the download failed", path);
    if (!vr_cursor_read(&r->c, magic, n_magic, err)) return false;
    if (strncmp(magic, "GGUF", n_magic < 4 ? n_magic : 4) != 0) return not_gguf(path, magic, err);
    r->c.at = n_magic < 4 ? n_magic : 4; /* only the magic is done; the rest is read again below */

    uint64_t n_tensors, n_meta;
    if (!vr_cursor_u32(&r->c, &p->facts.version, err)) return false;
    if (p->facts.version != 0 && (p->facts.version & 0xffff) == 0)
        return vr_fail(err, VR_EFORMAT,
                       "%s: a big-endian GGUF file: the engine reads little-endian files only; convert it", path);
    if (p->facts.version < 2 || p->facts.version > 3)
        return vr_fail(err, VR_EFORMAT, "%s: GGUF version %" PRIu32 " is not supported; 2 and 3 are", path,
                       p->facts.version);
    if (!vr_cursor_u64(&r->c, &n_tensors, err) || !vr_cursor_u64(&r->c, &n_meta, err)) return false;
    if (n_tensors > MAX_TENSORS)
        return vr_fail(err, VR_EFORMAT, "%s: %" PRIu64 " tensors, but at most %d are allowed: the file is corrupt",
                       path, n_tensors, MAX_TENSORS);
    if (n_meta > MAX_META)
        return vr_fail(err, VR_EFORMAT,
                       "%s: %" PRIu64 " metadata entries, but at most %d are allowed: the file is corrupt", path,
                       n_meta, MAX_META);
    if (n_tensors * MIN_TENSOR + n_meta * MIN_META > vr_cursor_left(&r->c))
        return vr_fail(err, VR_EFORMAT,
                       "%s: %" PRIu64 " metadata entries and %" PRIu64 " tensors do not fit into a file of %" PRIu64
                       " bytes: the download is incomplete or the file is corrupt",
                       path, n_meta, n_tensors, r->c.size);
    p->facts.n_tensors = (uint32_t)n_tensors;
    p->n_meta = (uint32_t)n_meta;
    return true;
}

/* A name of 1 to max bytes, printable, kept in the arena. */
static const char *read_name(struct reader *r, uint64_t max, struct vr_err *err)
{
    uint64_t n, at = vr_cursor_pos(&r->c);
    if (!vr_cursor_u64(&r->c, &n, err)) return NULL;
    if (n == 0 || n > max)
        return VR_FAIL_NULL(err, VR_EFORMAT,
                            "%s: %s at byte %" PRIu64 " is %" PRIu64 " bytes long, but 1 to %" PRIu64
                            " is allowed: the file is corrupt",
                            r->c.path, r->c.what, at, n, max);
    char text[MAX_KEY + 1];
    if (!vr_cursor_read(&r->c, text, n, err)) return NULL;
    for (size_t i = 0, len; i < n; i += len)
        if ((len = vr_utf8_len((const unsigned char *)text + i, n - i)) == 0 ||
            vr_utf8_is_control((const unsigned char *)text + i, len))
            return VR_FAIL_NULL(err, VR_EFORMAT,
                                "%s: %s at byte %" PRIu64 " contains unprintable characters: the file is corrupt",
                                r->c.path, r->c.what, at);
    const char *name = vr_arena_strndup(r->arena, text, n);
    if (!name) vr_fail_nomem(err, "reading a GGUF header");
    return name;
}

static bool read_string(struct reader *r, struct vr_meta *e, struct vr_err *err)
{
    if (!vr_cursor_u64(&r->c, &e->n, err)) return false;
    if (e->n > MAX_STRING)
        return vr_fail(err, VR_EFORMAT, "%s: key '%s' has a string of %" PRIu64 " bytes: the file is corrupt",
                       r->c.path, e->key, e->n);
    if (e->n > KEEP_STRING || r->kept + e->n > KEEP_TOTAL) return vr_cursor_skip(&r->c, e->n, err);
    char text[KEEP_STRING];
    if (!vr_cursor_read(&r->c, text, e->n, err)) return false;
    e->string = vr_arena_strndup(r->arena, text, e->n);
    r->kept += e->n;
    return e->string || vr_fail_nomem(err, "reading a GGUF header");
}

static void decode(enum vr_value_type type, const uint8_t *raw, double *f, int64_t *i)
{
    uint64_t bits = 0;
    memcpy(&bits, raw, value_types[type].size);
    bits = le64toh(bits);
    switch (type) {
    case VR_V_I8: *i = (int8_t)bits; break;
    case VR_V_I16: *i = (int16_t)bits; break;
    case VR_V_I32: *i = (int32_t)bits; break;
    case VR_V_I64: *i = (int64_t)bits; break;
    case VR_V_U64: *i = bits > INT64_MAX ? INT64_MAX : (int64_t)bits; break;
    case VR_V_BOOL: *i = bits != 0; break;
    case VR_V_F32: {
        uint32_t half = (uint32_t)bits;
        float v;
        memcpy(&v, &half, sizeof v);
        *f = (double)v;
        return;
    }
    case VR_V_F64: memcpy(f, &bits, sizeof *f); return;
    default: *i = (int64_t)bits; break; /* u8, u16, u32 */
    }
    *f = type == VR_V_U64 ? (double)bits : (double)*i;
}

/* e->n numbers of type e->elem_type. */
static bool read_numbers(struct reader *r, struct vr_meta *e, struct vr_err *err)
{
    size_t size = value_types[e->elem_type].size;
    if (e->n > VR_MAX_KEPT || r->kept + e->n * 16 > KEEP_TOTAL) return vr_cursor_skip(&r->c, e->n * size, err);
    if (e->n * size > vr_cursor_left(&r->c)) return vr_cursor_skip(&r->c, e->n * size, err); /* says what is missing */
    double *f = vr_arena_alloc(r->arena, e->n, sizeof *f);
    int64_t *i = vr_arena_alloc(r->arena, e->n, sizeof *i);
    if (!f || !i) return vr_fail_nomem(err, "reading a GGUF header");
    for (uint64_t k = 0; k < e->n; k++) {
        uint8_t raw[8];
        if (!vr_cursor_read(&r->c, raw, size, err)) return false;
        decode(e->elem_type, raw, &f[k], &i[k]);
    }
    r->kept += e->n * 16;
    e->f64 = f;
    if (e->elem_type != VR_V_F32 && e->elem_type != VR_V_F64) e->i64 = i;
    return true;
}

static bool read_array(struct reader *r, struct vr_meta *e, struct vr_err *err)
{
    uint32_t type;
    if (!vr_cursor_u32(&r->c, &type, err) || !vr_cursor_u64(&r->c, &e->n, err)) return false;
    if (type >= VR_N_VALUE_TYPES || type == VR_V_ARRAY)
        return vr_fail(err, VR_EFORMAT, "%s: key '%s' is an array of %s, which the engine does not support", r->c.path,
                       e->key, type == VR_V_ARRAY ? "arrays" : "an unknown type");
    if (e->n > MAX_ELEMENTS)
        return vr_fail(err, VR_EFORMAT,
                       "%s: key '%s' has %" PRIu64 " elements, but at most %" PRIu64
                       " are allowed: the file is corrupt",
                       r->c.path, e->key, e->n, MAX_ELEMENTS);
    e->elem_type = (enum vr_value_type)type;
    if (type != VR_V_STRING) return read_numbers(r, e, err);
    if (e->n * 8 > vr_cursor_left(&r->c)) return vr_cursor_skip(&r->c, e->n * 8, err); /* says what is missing */
    for (uint64_t k = 0; k < e->n; k++) {
        uint64_t n;
        if (!vr_cursor_u64(&r->c, &n, err) || !vr_cursor_skip(&r->c, n, err)) return false;
    }
    return true;
}

static bool read_entry(struct reader *r, struct vr_meta *e, struct vr_err *err)
{
    uint32_t type;
    r->c.what = "the key of a metadata entry";
    r->c.which = "";
    e->begin = vr_cursor_pos(&r->c);
    e->key = read_name(r, MAX_KEY, err);
    if (!e->key) return false;
    r->c.what = "the value of key";
    r->c.which = e->key;
    if (!vr_cursor_u32(&r->c, &type, err)) return false;
    if (type >= VR_N_VALUE_TYPES)
        return vr_fail(err, VR_EFORMAT,
                       "%s: key '%s' has value type %" PRIu32 ", which GGUF does not define: the file is corrupt",
                       r->c.path, e->key, type);
    e->type = e->elem_type = (enum vr_value_type)type;
    e->n = 1;
    bool ok = type == VR_V_ARRAY    ? read_array(r, e, err)
              : type == VR_V_STRING ? read_string(r, e, err)
                                    : read_numbers(r, e, err);
    e->end = vr_cursor_pos(&r->c);
    return ok;
}

static bool read_meta(struct reader *r, struct vr_part_head *p, struct vr_err *err)
{
    p->meta = vr_arena_alloc(r->arena, p->n_meta, sizeof *p->meta);
    if (!p->meta || !vr_names_init(&p->keys, r->arena, p->n_meta)) return vr_fail_nomem(err, "reading a GGUF header");
    for (uint32_t i = 0; i < p->n_meta; i++) {
        struct vr_meta *e = &p->meta[i];
        if (!read_entry(r, e, err)) return false;
        if (!vr_names_add(&p->keys, e->key, i))
            return vr_fail(err, VR_EFORMAT, "%s: duplicate key '%s': the file is corrupt", r->c.path, e->key);
    }
    const struct vr_meta *a = vr_part_meta(p, "general.alignment");
    if (!a) return true;
    if (a->type != VR_V_U32)
        return vr_fail(err, VR_EFORMAT, "%s: general.alignment is of type %s, but must be u32", r->c.path,
                       value_types[a->type].name);
    r->alignment = (uint64_t)a->i64[0];
    if (r->alignment == 0 || (r->alignment & (r->alignment - 1)) != 0)
        return vr_fail(err, VR_EFORMAT, "%s: general.alignment is %" PRIu64 ", but must be a power of two", r->c.path,
                       r->alignment);
    return true;
}

/* Shape and type of a tensor -> its bytes. */
static bool measure(const char *path, struct vr_tensor *t, struct vr_err *err)
{
    const struct vr_type *type = vr_type(t->type);
    if (!type)
        return vr_fail(err, VR_EFORMAT,
                       "%s: tensor '%s' has type %" PRIu32 ", which this engine does not support: the file is "
                       "corrupt or made for a newer engine",
                       path, t->name, t->type);
    uint64_t n = 1;
    for (uint32_t d = 0; d < 4; d++) {
        if (t->ne[d] == 0 || t->ne[d] > MAX_DIM || n > MAX_DIM / t->ne[d])
            return vr_fail(err, VR_EFORMAT,
                           "%s: tensor '%s' has an invalid shape (dimension %" PRIu32 " is %" PRIu64
                           "): the file is corrupt",
                           path, t->name, d, t->ne[d]);
        n *= t->ne[d];
    }
    if (t->ne[0] % type->block)
        return vr_fail(err, VR_EFORMAT,
                       "%s: tensor '%s' has rows of %" PRIu64
                       " weights, which is not a multiple of the %s block size %" PRIu32 ": the file is corrupt",
                       path, t->name, t->ne[0], type->name, type->block);
    t->bytes = vr_type_row_bytes(t->type, n);
    return true;
}

static bool read_tensor(struct reader *r, struct vr_tensor *t, struct vr_err *err)
{
    r->c.what = "the name of a tensor";
    r->c.which = "";
    t->name = read_name(r, MAX_NAME, err);
    if (!t->name) return false;
    r->c.what = "the description of tensor";
    r->c.which = t->name;
    if (!vr_cursor_u32(&r->c, &t->n_dims, err)) return false;
    if (t->n_dims > 4)
        return vr_fail(err, VR_EFORMAT,
                       "%s: tensor '%s' has %" PRIu32 " dimensions, but at most 4 are allowed: the file is corrupt",
                       r->c.path, t->name, t->n_dims);
    for (uint32_t d = 0; d < 4; d++) {
        t->ne[d] = 1;
        if (d < t->n_dims && !vr_cursor_u64(&r->c, &t->ne[d], err)) return false;
    }
    return vr_cursor_u32(&r->c, &t->type, err) && vr_cursor_u64(&r->c, &t->offset, err) && measure(r->c.path, t, err);
}

/* Where the data of tensor t must begin: behind the one before it. Offsets become positions in the file. */
static bool place(struct reader *r, struct vr_tensor *t, uint64_t data, uint64_t *expected, struct vr_err *err)
{
    if (t->offset != *expected)
        return vr_fail(err, VR_EFORMAT,
                       "%s: tensor '%s' is at data offset %" PRIu64 ", %s %" PRIu64
                       ", where the previous tensor ends: the file is corrupt",
                       r->c.path, t->name, t->offset, t->offset < *expected ? "before" : "past", *expected);
    t->offset += data;
    *expected += (t->bytes + r->alignment - 1) / r->alignment * r->alignment;
    return true;
}

static bool read_tensors(struct reader *r, struct vr_part_head *p, uint16_t part, struct vr_err *err)
{
    p->tensors = vr_arena_alloc(r->arena, p->facts.n_tensors, sizeof *p->tensors);
    if (!p->tensors) return vr_fail_nomem(err, "reading a GGUF header");
    for (uint32_t i = 0; i < p->facts.n_tensors; i++) {
        p->tensors[i].part = part;
        if (!read_tensor(r, &p->tensors[i], err)) return false;
    }
    uint64_t data = vr_cursor_pos(&r->c), expected = 0;
    if (p->facts.n_tensors) data = (data + r->alignment - 1) / r->alignment * r->alignment;
    for (uint32_t i = 0; i < p->facts.n_tensors; i++)
        if (!place(r, &p->tensors[i], data, &expected, err)) return false;
    for (uint32_t i = 0; i < p->facts.n_tensors; i++) {
        const struct vr_tensor *t = &p->tensors[i];
        if (t->offset + t->bytes <= r->c.size) continue;
        const struct vr_tensor *last = &p->tensors[p->facts.n_tensors - 1];
        struct vr_num missing;
        return vr_fail(err, VR_EFORMAT,
                       "%s: the file is truncated by %s bytes: tensor '%s' ends at byte %" PRIu64
                       ", past the end of the file (%" PRIu64 "); download it again",
                       r->c.path, vr_fmt_count(&missing, last->offset + last->bytes - r->c.size), t->name,
                       t->offset + t->bytes, r->c.size);
    }
    return true;
}

/* Opens a regular file; never waits on a pipe. */
static int open_file(const char *path, uint64_t *size, struct vr_err *err)
{
    VR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) return vr_fail(err, VR_EIO, "%s: %s", path, strerror(errno)), -1;
    if (S_ISDIR(st.st_mode)) return vr_fail(err, VR_EIO, "%s: is a directory; give the .gguf file in it", path), -1;
    if (!S_ISREG(st.st_mode)) return vr_fail(err, VR_EIO, "%s: not a regular file", path), -1;
    *size = (uint64_t)st.st_size;
    int keep = fd;
    fd = -1;
    return keep;
}

static bool read_head(const char *path, uint16_t part, uint64_t have, uint64_t *wants, struct vr_arena *arena,
                      struct vr_part_head *out, struct vr_err *err)
{
    struct reader r = { .arena = arena, .alignment = DEFAULT_ALIGNMENT };
    *out = (struct vr_part_head){ .facts.path = path };
    VR_AUTO_CLOSE int fd = open_file(path, &out->facts.file_bytes, err);
    if (fd < 0) return false;
    VR_AUTO_FREE uint8_t *window = malloc(VR_CURSOR_WINDOW);
    if (!window) return vr_fail_nomem(err, "reading a GGUF header");
    r.c = (struct vr_cursor){ .fd = fd,
                              .path = path,
                              .size = out->facts.file_bytes,
                              .have = have,
                              .window = window,
                              .what = "the header",
                              .which = "" };
    bool ok = read_counts(&r, out, err) && read_meta(&r, out, err) && read_tensors(&r, out, part, err);
    *wants = r.c.wants;
    return ok;
}

bool vr_part_read(const char *path, uint16_t part, struct vr_arena *arena, struct vr_part_head *out, struct vr_err *err)
{
    uint64_t wants;
    return read_head(path, part, 0, &wants, arena, out, err);
}

bool vr_part_wants(const char *path, uint64_t have, uint64_t *wants, struct vr_err *err)
{
    VR_AUTO_ARENA arena = { 0 };
    struct vr_part_head head;
    struct vr_err why = { 0 };
    if (read_head(path, 0, have, wants, &arena, &head, &why) || *wants) return true;
    return vr_fail(err, why.code, "%s", why.msg);
}

const struct vr_meta *vr_part_meta(const struct vr_part_head *p, const char *key)
{
    const uint32_t *i = vr_names_find(&p->keys, key);
    return i ? &p->meta[*i] : NULL;
}
