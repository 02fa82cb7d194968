/* Typed machines. Each item is copied into a small buffer, cut at its colons, and read from left to right. */
#include "hw/spec.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/text.h"
#include "hw/gpus.h"

#define MAX_ITEM 160
#define MIN_MIB  256u /* below that GiB were meant */
#define MAX_MIB  (16u * 1024 * 1024)

static char *trim(char *s)
{
    s += strspn(s, " \t\r\n");
    size_t n = strlen(s);
    while (n && strchr(" \t\r\n", s[n - 1])) s[--n] = '\0';
    return s;
}

/* "2x RTX 3090": returns what follows the count. A number of three and more digits is a name ("7900 XTX"), unless a
 * "*" or "x " behind it leaves no doubt. */
static char *take_count(char *s, uint64_t *count)
{
    *count = 1;
    size_t digits = strspn(s, "0123456789");
    char *mark = s + digits;
    mark += strspn(mark, " ");
    if (!digits || digits > 9) return s;
    size_t n_mark = *mark == '*' || *mark == 'x' || *mark == 'X' ? 1
                    : !strncmp(mark, "\xc3\x97", 2)              ? 2
                                                                 : 0; /* times */
    if (!n_mark) return s;
    bool sure = *mark == '*' || n_mark == 2 || mark[1] == ' ';
    if (digits > 2 && !sure) return s;
    *count = 0;
    for (size_t i = 0; i < digits; i++) *count = *count * 10 + (uint64_t)(s[i] - '0');
    return mark + n_mark + strspn(mark + n_mark, " ");
}

static bool parse_size(const char *item, const char *s, uint64_t *mib, struct vr_err *err)
{
    static const char *const units[] = { "g", "gb", "gib" };
    char number[32];
    size_t digits = strspn(s, "0123456789");
    snprintf(number, sizeof number, "%.*s", (int)digits, s);
    const char *unit = s + digits + strspn(s + digits, " ");
    uint64_t factor = !*unit || !strcasecmp(unit, "m") || !strcasecmp(unit, "mib") || !strcasecmp(unit, "mb") ? 1 : 0;
    for (size_t i = 0; i < VR_COUNT(units); i++)
        if (!strcasecmp(unit, units[i])) factor = 1024;
    if (!factor || !vr_parse_u64(number, 0, MAX_MIB, mib))
        return vr_fail(err, VR_EUSAGE, "--gpus: '%s': '%s' is not a size in MiB, like 24576 or 24GiB", item, s);
    *mib *= factor;
    if (*mib > MAX_MIB) return vr_fail(err, VR_EUSAGE, "--gpus: '%s': %s is more than any GPU has", item, s);
    if (*mib < MIN_MIB)
        return vr_fail(err, VR_EUSAGE, "--gpus: '%s': %s MiB is too little for a GPU; for GiB write %sGiB", item, s,
                       *number ? number : "24");
    return true;
}

static bool unknown_name(const char *name, struct vr_err *err)
{
    const char *like = vr_gpu_nearest(name);
    if (like)
        return vr_fail(err, VR_EUSAGE,
                       "--gpus: unknown GPU '%s'; did you mean '%s'? For any other GPU give its "
                       "memory: '%s:MiB' or '%s:MiB:GB/s'",
                       name, like, name, name);
    return vr_fail(err, VR_EUSAGE,
                   "--gpus: unknown GPU '%s'; give its memory in MiB, and its GB/s if you know them: "
                   "'%s:24576:936'",
                   name, name);
}

/* Fills d from a known card: g's own facts, the size if one was typed. */
static void from_table(const struct vr_gpu *g, uint64_t mib, struct vr_device *d)
{
    snprintf(d->name, sizeof d->name, "%s", g->name);
    snprintf(d->backend, sizeof d->backend, "%s", g->backend);
    d->total_bytes = (mib > g->mib ? mib : g->mib) * VR_MIB;
    d->free_bytes = mib ? mib * VR_MIB : vr_device_free_guess(d->total_bytes);
    d->bandwidth_gbs = g->gbs;
    d->fp16_tflops = g->tflops;
    d->cc_major = g->cc_major;
    d->cc_minor = g->cc_minor;
    d->pcie_gen = d->pcie_gen_max = g->pcie_gen;
    d->pcie_lanes = d->pcie_lanes_max = g->pcie_lanes;
}

static void from_nothing(const char *name, uint64_t mib, struct vr_device *d)
{
    snprintf(d->name, sizeof d->name, "%s", name);
    snprintf(d->backend, sizeof d->backend, "CUDA");
    d->total_bytes = d->free_bytes = mib * VR_MIB;
    d->pcie_gen = d->pcie_gen_max = 4;
    d->pcie_lanes = d->pcie_lanes_max = 16;
}

/* "RTX 3090 12GB": the table knows the card, but not with that much memory. */
static bool check_typed_size(const char *name, const struct vr_gpu *g, struct vr_err *err)
{
    uint64_t typed = vr_gpu_typed_mib(name);
    if (!typed || vr_gpu_match(name, g->name) == VR_GPU_SAME) return true;
    uint64_t apart = typed > g->mib ? typed - g->mib : g->mib - typed;
    if (apart <= typed / 8) return true; /* 80 GB are 81,559 MiB, 24 GB with ECC 23,028 */
    struct vr_num have;
    return vr_fail(err, VR_EUSAGE, "--gpus: '%s' has %s MiB, not %llu GB; to plan with another size write '%s:%llu'",
                   vr_gpu_short(g->name), vr_fmt_count(&have, g->mib), (unsigned long long)(typed / 1024),
                   vr_gpu_short(g->name), (unsigned long long)typed);
}

/* "RTX 5060 Ti" is sold with 8 and with 16 GB: a plan for the wrong one helps nobody. */
static bool check_one_size(const char *name, struct vr_err *err)
{
    unsigned gib[VR_GPU_SIZES];
    size_t n = vr_gpu_sizes(name, gib);
    if (n < 2) return true;
    VR_AUTO_BUF sizes = { 0 }, names = { 0 };
    for (size_t i = 0; i < n; i++) {
        const char *joint = i == 0 ? "" : i + 1 == n ? " or " : ", ";
        vr_buf_addf(&sizes, "%s%u GB", joint, gib[i]);
        vr_buf_addf(&names, "%s'%s %uGB'", joint, name, gib[i]);
    }
    return vr_fail(err, VR_EUSAGE, "--gpus: '%s' comes with %s of memory; write %s", name, vr_buf_str(&sizes),
                   vr_buf_str(&names));
}

static bool parse_device(const char *item, const char *name, const char *size, const char *speed, struct vr_device *d,
                         struct vr_err *err)
{
    uint64_t mib = 0;
    double gbs = 0;
    if (!*name) return vr_fail(err, VR_EUSAGE, "--gpus: '%s' does not name a GPU", item);
    if (strlen(name) >= sizeof d->name) return vr_fail(err, VR_EUSAGE, "--gpus: the name '%.60s...' is too long", name);
    for (const char *c = name; *c; c++)
        if (iscntrl((unsigned char)*c)) return vr_fail(err, VR_EUSAGE, "--gpus: a name contains a control character");
    if (size && !parse_size(item, size, &mib, err)) return false;
    if (speed && (!vr_parse_double(speed, &gbs) || !(gbs >= 1 && gbs <= 1e5)))
        return vr_fail(err, VR_EUSAGE, "--gpus: '%s': '%s' is not a memory bandwidth in GB/s, like 936", item, speed);
    const struct vr_gpu *g = vr_gpu_meant(name, mib);
    if (!g && !mib) return unknown_name(name, err);
    if (g && !mib && (!check_typed_size(name, g, err) || !check_one_size(name, err))) return false;
    *d = (struct vr_device){ .numa = -1 };
    if (g)
        from_table(g, mib, d);
    else
        from_nothing(name, mib, d);
    if (gbs > 0) d->bandwidth_gbs = gbs;
    return true;
}

static bool parse_item(char *item, struct vr_machine *m, struct vr_err *err)
{
    item = trim(item);
    if (!*item) return vr_fail(err, VR_EUSAGE, "--gpus: an entry is empty; separate GPUs with one comma");
    char whole[MAX_ITEM];
    snprintf(whole, sizeof whole, "%s", item);
    uint64_t count;
    char *name = take_count(item, &count);
    if (count == 0) return vr_fail(err, VR_EUSAGE, "--gpus: '%s' asks for 0 GPUs", whole);
    if (count > VR_MAX_DEVICES - m->n_devices)
        return vr_fail(err, VR_EUSAGE, "--gpus: '%s' makes more than %d devices", whole, VR_MAX_DEVICES);
    char *parts[3] = { name, NULL, NULL };
    for (size_t i = 1; i < VR_COUNT(parts); i++) {
        parts[i] = strchr(parts[i - 1], ':');
        if (!parts[i]) break;
        *parts[i]++ = '\0';
    }
    for (size_t i = 0; i < VR_COUNT(parts); i++)
        if (parts[i]) parts[i] = trim(parts[i]);
    if (parts[2] && strchr(parts[2], ':'))
        return vr_fail(err, VR_EUSAGE, "--gpus: '%s' has too many colons: name:MiB:GB/s", whole);
    struct vr_device d;
    if (!parse_device(whole, parts[0], parts[1], parts[2], &d, err)) return false;
    for (; count; count--) *vr_machine_add(m) = d;
    return true;
}

bool vr_spec_parse(const char *text, struct vr_machine *out, struct vr_err *err)
{
    memset(out, 0, sizeof *out);
    bool none = strcasecmp(text, "none") == 0;
    for (const char *s = text; !none; s++) {
        size_t n = strcspn(s, ",");
        char item[MAX_ITEM];
        if (n >= sizeof item)
            return vr_fail(err, VR_EUSAGE, "--gpus: an entry is longer than %d characters", MAX_ITEM - 1);
        memcpy(item, s, n);
        item[n] = '\0';
        if (!parse_item(item, out, err)) return false;
        s += n;
        if (!*s) break;
    }
    vr_machine_number(out);
    snprintf(out->about, sizeof out->about, "typed: %.240s", text);
    return true;
}

bool vr_machine_spec(const char *text, const struct vr_detect *opts, struct vr_machine *out, struct vr_err *err)
{
    return vr_spec_parse(text, out, err) && vr_host_detect(opts, &out->host, err);
}
