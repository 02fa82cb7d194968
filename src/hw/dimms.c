/* Both sources list the same thing, SMBIOS structures of type 17 ("Memory Device"): one for each slot, empty or not.
 * What they do not have is the channel; boards write it into the names of slots and banks ("P0 CHANNEL A", "DIMM_A1",
 * "ChannelB-DIMM0"). Two modules of one channel share its wires. Where no name tells, modules are taken for channels of
 * their own, but for boards with four slots, which have two. */
#include "hw/dimms.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/text.h"

#define MAX_SLOTS     256
#define MAX_TABLE     (UINT64_C(1) << 20)
#define MAX_MTS       20000 /* more is an error of the firmware */
#define DESKTOP_SLOTS 4

struct slot {
    bool filled;
    uint32_t mts, bits;
    char channel[32]; /* "": no name tells */
};

struct slots {
    struct slot items[MAX_SLOTS];
    size_t n;
};

/* --- names --- */

/* What stands for the channel: the letter or number behind the word, after whatever names the processor. */
static bool channel_after(const char *name, const char *word, struct slot *s)
{
    const char *at = strcasestr(name, word);
    if (!at) return false;
    const char *letter = at + strlen(word);
    letter += strspn(letter, " _-");
    if (!isalnum((unsigned char)*letter)) return false;
    if (strcasecmp(word, "channel") != 0 && !isalpha((unsigned char)*letter)) return false; /* "DIMM 0" is a slot */
    snprintf(s->channel, sizeof s->channel, "%.*s%c", (int)(at - name < 24 ? at - name : 24), name,
             toupper((unsigned char)*letter));
    return true;
}

static void find_channel(const char *bank, const char *slot, struct slot *s)
{
    const char *names[] = { bank, slot };
    for (size_t i = 0; i < VR_COUNT(names) && !s->channel[0]; i++) channel_after(names[i], "channel", s);
    if (!s->channel[0]) channel_after(slot, "DIMM", s);
}

/* --- the firmware's table --- */

static uint32_t u16(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8; }
static uint32_t u32(const uint8_t *p) { return u16(p) | u16(p + 2) << 16; }

/* The n-th string (from 1) of those behind a structure, which end with an empty one; "" when there is none. */
static const char *string_at(const char *s, const char *end, unsigned n)
{
    for (; n > 1 && s < end && *s; n--) s += strlen(s) + 1;
    return n && s < end ? s : "";
}

static uint32_t speed_at(const uint8_t *p, size_t length, size_t at, size_t extended)
{
    uint32_t mts = length >= at + 2 ? u16(p + at) : 0;
    return mts == 0xffff && length >= extended + 4 ? u32(p + extended) & 0x7fffffff : mts;
}

/* Offsets are the standard's (DSP0134, 7.18). */
static void read_device(const uint8_t *p, size_t length, const char *strings, const char *end, struct slots *out)
{
    if (length < 0x15 || out->n == MAX_SLOTS) return;
    struct slot *s = &out->items[out->n++];
    *s = (struct slot){ .filled = u16(p + 0x0c) != 0, .bits = u16(p + 0x0a) };
    s->mts = speed_at(p, length, 0x20, 0x58);
    if (!s->mts) s->mts = speed_at(p, length, 0x15, 0x54);
    find_channel(string_at(strings, end, p[0x11]), string_at(strings, end, p[0x10]), s);
}

/* Structures follow each other: four bytes (type, length, handle), the rest of the length, strings, two zeros. */
static void read_table(const uint8_t *table, size_t n, struct slots *out)
{
    for (size_t at = 0; at + 4 <= n;) {
        size_t length = table[at + 1], strings = at + length, end = strings;
        if (length < 4 || strings + 2 > n) return;
        while (end + 1 < n && (table[end] || table[end + 1])) end++;
        if (end + 1 >= n) return;
        if (table[at] == 17)
            read_device(table + at, length, (const char *)table + strings, (const char *)table + end, out);
        at = end + 2;
    }
}

/* --- udev's copy: "E:MEMORY_DEVICE_3_SPEED_MTS=3200" --- */

static const char *udev_value(const char *text, unsigned slot, const char *key, char *out, size_t n)
{
    char name[64];
    snprintf(name, sizeof name, "E:MEMORY_DEVICE_%u_%s=", slot, key);
    const char *at = strstr(text, name);
    while (at && at != text && at[-1] != '\n') at = strstr(at + 1, name);
    at = at ? at + strlen(name) : "";
    snprintf(out, n, "%.*s", (int)strcspn(at, "\n"), at);
    return out;
}

static uint32_t udev_number(const char *text, unsigned slot, const char *key)
{
    char value[32];
    uint64_t number;
    return vr_parse_u64(udev_value(text, slot, key, value, sizeof value), 0, UINT32_MAX, &number) ? (uint32_t)number
                                                                                                  : 0;
}

static void read_udev(const char *text, struct slots *out)
{
    char bank[64], name[64], prefix[64];
    for (unsigned i = 0; i < MAX_SLOTS; i++) {
        snprintf(prefix, sizeof prefix, "E:MEMORY_DEVICE_%u_", i);
        if (!strstr(text, prefix)) return;
        struct slot *s = &out->items[out->n++];
        *s = (struct slot){ .bits = udev_number(text, i, "DATA_WIDTH"),
                            .mts = udev_number(text, i, "CONFIGURED_SPEED_MTS") };
        if (!s->mts) s->mts = udev_number(text, i, "SPEED_MTS");
        s->filled = s->mts > 0 && strcmp(udev_value(text, i, "PRESENT", name, sizeof name), "0") != 0;
        udev_value(text, i, "BANK_LOCATOR", bank, sizeof bank);
        udev_value(text, i, "LOCATOR", name, sizeof name);
        find_channel(bank, name, s);
    }
}

/* --- together --- */

static double slot_gbs(const struct slot *s) { return s->mts * (s->bits / 8.0) / 1e3; }

/* The first of several modules of a channel stands for it. */
static bool is_first(const struct slots *all, size_t i)
{
    for (size_t k = 0; k < i && all->items[i].channel[0]; k++)
        if (all->items[k].filled && strcmp(all->items[k].channel, all->items[i].channel) == 0) return false;
    return true;
}

static double add_up(const struct slots *all)
{
    double gbs = 0;
    size_t n_nameless = 0;
    for (size_t i = 0; i < all->n; i++) {
        const struct slot *s = &all->items[i];
        if (!s->filled) continue;
        if (s->mts == 0 || s->mts > MAX_MTS || s->bits < 8 || s->bits > 128)
            return 0; /* better nothing than half of it */
        n_nameless += !s->channel[0];
        bool third = !s->channel[0] && all->n == DESKTOP_SLOTS && n_nameless > 2;
        if (is_first(all, i) && !third) gbs += slot_gbs(s);
    }
    return gbs;
}

double vr_dimms_gbs(const char *sysfs, const char *run)
{
    char path[512];
    struct vr_err none;
    VR_AUTO_FREE struct slots *all = calloc(1, sizeof *all);
    VR_AUTO_BUF text = { 0 };
    if (!all) return 0;
    snprintf(path, sizeof path, "%s/firmware/dmi/tables/DMI", sysfs);
    if (vr_file_read(path, MAX_TABLE, &text, &none)) read_table((const uint8_t *)text.data, text.n, all);
    if (!all->n && run) {
        vr_buf_clear(&text);
        snprintf(path, sizeof path, "%s/udev/data/+dmi:id", run);
        if (vr_file_read(path, MAX_TABLE, &text, &none)) read_udev(vr_buf_str(&text), all);
    }
    return add_up(all);
}
