#include "cli/settings.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"
#include "base/ini.h"
#include "base/vec.h"
#include "cli/option_rows.h"

#define SYSTEM_FILE "/etc/vram-llm/config"
#define MAX_FILE    (1 << 20)

bool vr_setting_bool(const char *value, bool *out)
{
    static const char *const words[] = { "no", "false", "off", "0", "disabled", "yes", "true", "on", "1", "enabled" };
    for (size_t i = 0; i < VR_COUNT(words); i++)
        if (strcasecmp(value, words[i]) == 0) {
            *out = i >= VR_COUNT(words) / 2;
            return true;
        }
    return false;
}

static bool add(struct vr_settings *s, const struct vr_setting *x, struct vr_err *err)
{
    if (!x->name || !x->value || !x->source || !VR_ROOM(s, items)) return vr_fail_nomem(err, "reading the settings");
    s->items[s->n_items++] = *x;
    return true;
}

/* What one file says. */
struct reading {
    struct vr_settings *out;
    const char *from;
    const char *command; /* of the section */
};

static bool take_line(void *ctx, const struct vr_ini_line *line, struct vr_err *err)
{
    struct reading *r = ctx;
    struct vr_arena *a = &r->out->arena;
    if (!line->name) {
        const struct vr_command *c = vr_command_find(line->section);
        if (!c)
            return vr_fail(err, VR_EUSAGE, "%s, line %u: the section [%.60s] does not name a command", r->from,
                           line->number, line->section);
        r->command = c->name;
        return true;
    }
    return add(r->out,
               &(struct vr_setting){ .name = vr_arena_strdup(a, line->name),
                                     .value = vr_arena_strdup(a, line->value),
                                     .command = r->command,
                                     .source = vr_arena_printf(a, "%s, line %u", r->from, line->number) },
               err);
}

static bool read_file(const char *path, bool must, struct vr_settings *out, struct vr_err *err)
{
    struct reading r = { .out = out, .from = path };
    if (!must && access(path, F_OK) != 0) return true;
    return vr_ini_read(path, MAX_FILE, (struct vr_ini_reader){ .take = take_line, .ctx = &r }, err);
}

static bool read_environment(struct vr_settings *out, struct vr_err *err)
{
    for (size_t i = 0; i < vr_n_option_rows; i++) {
        char name[64] = "VRAM_LLM_";
        size_t n = strlen(name);
        if (vr_option_rows[i].kind == VR_OPTION_SECTION || strcmp(vr_option_rows[i].name, "api-key") == 0)
            continue; /* serve takes the key from there itself, and out of sight */
        for (const char *c = vr_option_rows[i].name; *c && n + 1 < sizeof name; c++)
            name[n++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
        const char *value = getenv(name);
        if (!value || !*value) continue;
        struct vr_setting x = { .name = vr_option_rows[i].name,
                                .value = vr_arena_strdup(&out->arena, value),
                                .source = vr_arena_strdup(&out->arena, name) };
        if (!add(out, &x, err)) return false;
    }
    return true;
}

/* Those that are read elsewhere: for people (variables.def), by our own processes and for tests. */
static bool is_variable(const char *name, size_t n)
{
    static const char *const others[] = { "VRAM_LLM_NVML", "VRAM_LLM_VIRTUAL" };
    for (size_t i = 0; i < VR_COUNT(others); i++)
        if (strlen(others[i]) == n && memcmp(others[i], name, n) == 0) return true;
    for (size_t i = 0; i < vr_n_variables; i++)
        if (strlen(vr_variables[i].name) == n && memcmp(vr_variables[i].name, name, n) == 0) return true;
    return false;
}

static bool find_unknown(struct vr_settings *out, struct vr_err *err)
{
    for (char **at = environ; *at; at++) {
        size_t n = strcspn(*at, "=");
        bool known = strncmp(*at, "VRAM_LLM_", 9) != 0 || !(*at)[n] || !(*at)[n + 1] || is_variable(*at, n);
        for (uint32_t i = 0; i < out->n_items && !known; i++)
            known = strlen(out->items[i].source) == n && memcmp(out->items[i].source, *at, n) == 0;
        if (known) continue;
        const char *name = vr_arena_printf(&out->arena, "%.*s", (int)n, *at);
        if (!name || !VR_ROOM(out, unknown)) return vr_fail_nomem(err, "reading the settings");
        out->unknown[out->n_unknown++] = name;
    }
    return true;
}

bool vr_settings_read(const char *config, struct vr_settings *out, struct vr_err *err)
{
    char own[512];
    *out = (struct vr_settings){ 0 };
    bool ok = true;
    if (config && strcmp(config, "none") != 0)
        ok = read_file(config, true, out, err);
    else if (!config)
        ok = read_file(SYSTEM_FILE, false, out, err) &&
             (!vr_file_own_path("XDG_CONFIG_HOME", ".config", "config", own, sizeof own) ||
              read_file(own, false, out, err));
    if (ok && read_environment(out, err) && find_unknown(out, err)) return true;
    vr_settings_done(out);
    return false;
}

const struct vr_setting *vr_setting_over(const struct vr_settings *s, uint32_t i)
{
    const struct vr_setting *x = &s->items[i], *over = NULL;
    for (uint32_t k = i + 1; k < s->n_items; k++) {
        const struct vr_setting *y = &s->items[k];
        bool covers = !y->command || (x->command && strcmp(x->command, y->command) == 0);
        if (covers && strcmp(x->name, y->name) == 0) over = y;
    }
    return over;
}

void vr_settings_done(struct vr_settings *s)
{
    free(s->items);
    free(s->unknown);
    vr_arena_done(&s->arena);
    *s = (struct vr_settings){ 0 };
}
