/* Selection: first what the user named, then what memory allows, then the order. Every device of the machine ends up in
 * exactly one of the two lists, and those left out with why. */
#include "hw/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "hw/gpus.h"

#define MAX_RESERVE_MIB ((uint64_t)16 * 1024 * 1024)
#define MIN_UUID_PREFIX 4

static const char *const orders[] = {
    [VR_ORDER_AUTO] = "auto",
    [VR_ORDER_FREE_DESC] = "free_desc",
    [VR_ORDER_TOTAL_DESC] = "total_desc",
    [VR_ORDER_INDEX] = "index",
};

bool vr_device_order_parse(const char *s, enum vr_device_order *out, struct vr_err *err)
{
    for (size_t i = 0; i < VR_COUNT(orders); i++) {
        if (strcmp(s, orders[i])) continue;
        *out = (enum vr_device_order)i;
        return true;
    }
    int like = vr_nearest(s, VR_COUNT(orders), vr_nearest_in_array, orders);
    return vr_fail(err, VR_EUSAGE, "--device-order is '%s', but must be auto, free_desc, total_desc or index%s%s%s", s,
                   like < 0 ? "" : "; did you mean ", like < 0 ? "" : orders[like], like < 0 ? "" : "?");
}

/* The next entry of a comma-separated list, without blanks around it. False at the end of the list. */
static bool next_entry(const char **at, char *out, size_t n)
{
    if (!*at) return false;
    const char *s = *at + strspn(*at, " \t");
    size_t len = strcspn(s, ",");
    *at = s[len] ? s + len + 1 : NULL;
    while (len && strchr(" \t", s[len - 1])) len--;
    snprintf(out, n, "%.*s", (int)(len < n ? len : n - 1), s);
    return true;
}

/* "CUDA0 (RTX 3090), CUDA1 (RTX 3060)": what there is to choose from. */
static void list_devices(const struct vr_machine *m, char *out, size_t n)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < m->n_devices && used < n; i++) {
        int w = snprintf(out + used, n - used, "%s%s (%s)", i ? ", " : "", m->devices[i].id,
                         vr_gpu_short(m->devices[i].name));
        used += w > 0 ? (size_t)w : 0;
    }
}

static bool uuid_starts(const char *uuid, const char *typed)
{
    size_t n = strlen(typed);
    if (!strncasecmp(uuid, typed, n)) return n >= MIN_UUID_PREFIX + strlen("GPU-");
    return n >= MIN_UUID_PREFIX && !strncasecmp(uuid, "GPU-", 4) && !strncasecmp(uuid + 4, typed, n);
}

/* The devices that `entry` names, as a bit mask; 0: none. An index that exists wins over a name ("0", but "4090"). */
static uint32_t named(const struct vr_machine *m, const char *entry)
{
    _Static_assert(VR_MAX_DEVICES <= 32, "one bit per device");
    uint64_t index;
    if (vr_parse_u64(entry, 0, UINT64_MAX, &index) && index < m->n_devices) return UINT32_C(1) << index;
    uint32_t by_uuid = 0, by_name = 0;
    enum vr_gpu_match best = VR_GPU_INSIDE;
    for (size_t i = 0; i < m->n_devices; i++) {
        uint32_t bit = UINT32_C(1) << i;
        if (!strcasecmp(m->devices[i].id, entry)) return bit;
        if (m->devices[i].uuid[0] && uuid_starts(m->devices[i].uuid, entry)) by_uuid |= bit;
        enum vr_gpu_match match = vr_gpu_match(entry, m->devices[i].name);
        if (match > best) by_name = 0, best = match;
        if (match == best) by_name |= bit;
    }
    return by_uuid ? by_uuid : by_name;
}

static bool choose(const struct vr_machine *m, const char *list, uint32_t *chosen, struct vr_err *err)
{
    char entry[128], all[640];
    *chosen = 0;
    while (next_entry(&list, entry, sizeof entry)) {
        if (!*entry) return vr_fail(err, VR_EUSAGE, "--devices has an empty entry; e.g. --devices 0,2");
        uint32_t mask = named(m, entry);
        if (!mask && !m->n_devices)
            return vr_fail(err, VR_EUSAGE, "--devices names '%s', but this machine has no devices", entry);
        if (!mask) {
            list_devices(m, all, sizeof all);
            return vr_fail(err, VR_EUSAGE, "--devices: no device '%s'; there are 0 to %zu: %s", entry, m->n_devices - 1,
                           all);
        }
        bool several = mask & (mask - 1);
        bool is_name = vr_gpu_match(entry, m->devices[__builtin_ctz(mask)].name) != VR_GPU_DIFFERENT;
        if (several && !is_name)
            return vr_fail(err, VR_EUSAGE, "--devices: more than one UUID starts with '%s'; give more of it", entry);
        if (*chosen & mask)
            return vr_fail(err, VR_EUSAGE, "--devices names %s twice", m->devices[__builtin_ctz(*chosen & mask)].id);
        *chosen |= mask;
    }
    return true;
}

uint64_t vr_device_reserve(const struct vr_device *d)
{
    const struct vr_measured *x = &d->measured;
    if (strcmp(d->backend, "CPU") == 0) return VR_RESERVE_MARGIN_MIB * VR_MIB; /* no driver takes any of it */
    if (!x->runtime_bytes) return VR_RESERVE_DEFAULT_MIB * VR_MIB;
    return x->runtime_bytes + x->blas_bytes + VR_RESERVE_MARGIN_MIB * VR_MIB;
}

static bool parse_reserves(const struct vr_machine *m, const char *list, uint64_t bytes[VR_MAX_DEVICES],
                           struct vr_err *err)
{
    char entry[32], all[640];
    const char *at = list;
    size_t n = 0;
    if (!list) {
        for (size_t i = 0; i < m->n_devices; i++) bytes[i] = vr_device_reserve(&m->devices[i]);
        return true;
    }
    while (next_entry(&at, entry, sizeof entry)) {
        uint64_t mib;
        if (!vr_parse_u64(entry, 0, MAX_RESERVE_MIB, &mib))
            return vr_fail(err, VR_EUSAGE, "--reserve-mib: '%s' is not a number of MiB, like 512", entry);
        if (n < VR_MAX_DEVICES) bytes[n] = mib * VR_MIB;
        n++;
    }
    if (n != 1 && !m->n_devices)
        return vr_fail(err, VR_EUSAGE, "--reserve-mib has %zu values, but this machine has no devices", n);
    if (n != 1 && n != m->n_devices) {
        list_devices(m, all, sizeof all);
        return vr_fail(
            err, VR_EUSAGE,
            "--reserve-mib has %zu values, but this machine has %zu device%s: give one value for all, or one "
            "per device in this order, used or not: %s",
            n, m->n_devices, m->n_devices == 1 ? "" : "s", all);
    }
    for (size_t i = 1; n == 1 && i < VR_MAX_DEVICES; i++) bytes[i] = bytes[0];
    return true;
}

/* As CUDA reads it: what comes behind an entry that names no device is not seen either. */
static bool is_visible(const struct vr_device *d, const char *list)
{
    char entry[96];
    uint64_t index;
    if (!list || d->node[0] || strcmp(d->backend, "CUDA") != 0 || strstr(list, "MIG-")) return true;
    while (next_entry(&list, entry, sizeof entry)) {
        bool number = vr_parse_u64(entry, 0, VR_MAX_DEVICES, &index);
        if (!number && strncmp(entry, "GPU-", 4) != 0) return false;
        if (number ? strtoull(d->id + strlen("CUDA"), NULL, 10) == index : !strncmp(d->uuid, entry, strlen(entry)))
            return true;
    }
    return false;
}

/* One device into one of the lists. */
static void sort_out(const struct vr_machine *m, size_t i, bool chosen, bool visible, uint64_t reserve, uint64_t min,
                     struct vr_budgets *out)
{
    const struct vr_device *d = &m->devices[i];
    uint64_t budget = d->free_bytes > reserve ? d->free_bytes - reserve : 0;
    if (chosen && visible && d->total_bytes && budget && budget >= min) {
        out->items[out->n++] = (struct vr_budget){ (uint16_t)i, budget, reserve };
        return;
    }
    out->excluded[out->n_excluded++] = (struct vr_excluded){
        .device = (uint16_t)i,
        .why = !chosen           ? VR_EXCLUDED_NOT_CHOSEN
               : !visible        ? VR_EXCLUDED_NOT_VISIBLE
               : !d->total_bytes ? VR_EXCLUDED_MEMORY_UNKNOWN
               : !budget         ? VR_EXCLUDED_RESERVE_TAKES_ALL
                                 : VR_EXCLUDED_BELOW_MIN_BUDGET,
        .free_bytes = d->free_bytes,
        .reserve_bytes = reserve,
        .min_budget_bytes = min,
    };
}

static uint64_t weight(const struct vr_machine *m, const struct vr_budget *b, enum vr_device_order order)
{
    const struct vr_device *d = &m->devices[b->device];
    return order == VR_ORDER_FREE_DESC ? d->free_bytes : order == VR_ORDER_TOTAL_DESC ? d->total_bytes : 0;
}

/* Insertion: few devices, and equal ones must keep their order. */
static void put_in_order(const struct vr_machine *m, struct vr_budgets *b)
{
    for (size_t i = 1; i < b->n; i++) {
        struct vr_budget x = b->items[i];
        size_t j = i;
        for (; j && weight(m, &b->items[j - 1], b->order) < weight(m, &x, b->order); j--) b->items[j] = b->items[j - 1];
        b->items[j] = x;
    }
}

bool vr_budgets_select(const struct vr_machine *m, const struct vr_select *s, struct vr_budgets *out,
                       struct vr_err *err)
{
    memset(out, 0, sizeof *out);
    uint64_t reserve[VR_MAX_DEVICES] = { 0 };
    uint32_t chosen = UINT32_MAX;
    if (s->device_order && !vr_device_order_parse(s->device_order, &out->order, err)) return false;
    if (s->devices && !choose(m, s->devices, &chosen, err)) return false;
    if (!parse_reserves(m, s->reserve_mib, reserve, err)) return false;
    for (size_t i = 0; i < m->n_devices; i++)
        sort_out(m, i, chosen >> i & 1, is_visible(&m->devices[i], s->visible), reserve[i], s->min_budget_bytes, out);
    put_in_order(m, out);
    return true;
}

uint64_t vr_budgets_reserve(const struct vr_budgets *b, size_t device)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->items[i].device == device) return b->items[i].reserve_bytes;
    for (size_t i = 0; i < b->n_excluded; i++)
        if (b->excluded[i].device == device) return b->excluded[i].reserve_bytes;
    return 0;
}
