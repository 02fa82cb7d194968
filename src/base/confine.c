/* The order matters: rules about files are made while root can still open everything, no-new-privileges comes before
 * what demands it, the user changes before Landlock closes /etc, and the filter of system calls is last, since it
 * denies what the other steps need. */
#include "base/confine.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/confine_steps.h"
#include "base/json.h"

static const struct {
    const char *key, *name;
} parts[] = {
#define PART(id, key, name) { key, name },
#include "base/confine.def"
#undef PART
};

const char *vr_confine_part_name(enum vr_confine_part part) { return parts[part].name; }

const char *vr_confine_state_words(enum vr_confine_state state)
{
    static const char *const words[] = { "not used", "in force", "not supported by this kernel", "refused" };
    return words[state];
}

void vr_confined_json(const struct vr_confined *c, struct vr_buf *out)
{
    static const char *const states[] = { "unused", "in_force", "unsupported", "refused" };
    vr_buf_adds(out, "{");
    for (size_t i = 0; i < VR_N_CONFINE_PARTS; i++)
        vr_buf_addf(out, "\"%s\":\"%s\",", parts[i].key, states[c->state[i]]);
    vr_buf_addf(out, "\"landlock_abi\":%d,\"user\":", c->landlock_abi);
    vr_json_add_string(out, c->user);
    vr_buf_adds(out, "}");
}

bool vr_confine_is_off(void)
{
    const char *word = getenv("VRAM_LLM_CONFINE");
    return word && strcmp(word, "off") == 0;
}

bool vr_confine_failed(struct vr_confined *out, enum vr_confine_part part, const char *what)
{
    int error = errno;
    bool lacks = error == ENOSYS || error == EOPNOTSUPP || error == EINVAL;
    out->state[part] = lacks ? VR_CONFINE_UNSUPPORTED : VR_CONFINE_REFUSED;
    snprintf(out->why[part], sizeof out->why[part], "%s: %s", what, strerror(error));
    return false;
}

static void keep_privileges(struct vr_confined *out)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        vr_confine_failed(out, VR_CONFINE_PRIVILEGES, "no_new_privs");
    else
        out->state[VR_CONFINE_PRIVILEGES] = VR_CONFINE_IN_FORCE;
}

/* The limit alone does not bind a core_pattern that is a program. Again after every change of the user. */
static void forbid_dumps(struct vr_confined *out)
{
    if (setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 }) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        vr_confine_failed(out, VR_CONFINE_DUMPS, "core dumps");
    else
        out->state[VR_CONFINE_DUMPS] = VR_CONFINE_IN_FORCE;
}

static void limit_memory(uint64_t bytes, struct vr_confined *out)
{
#ifdef __SANITIZE_ADDRESS__
    bytes = 0; /* its shadow counts, and is terabytes */
#endif
    struct rlimit r;
    if (!bytes || getrlimit(RLIMIT_DATA, &r) != 0) return;
    if (r.rlim_max < bytes) bytes = r.rlim_max;
    r.rlim_cur = r.rlim_max = bytes;
    if (setrlimit(RLIMIT_DATA, &r) != 0)
        vr_confine_failed(out, VR_CONFINE_MEMORY, "memory limit");
    else
        out->state[VR_CONFINE_MEMORY] = VR_CONFINE_IN_FORCE;
}

void vr_confine(const struct vr_confine *c, struct vr_confined *out)
{
    struct vr_confined nobody_asks;
    if (!out) out = &nobody_asks;
    *out = (struct vr_confined){ .off = vr_confine_is_off() };
    if (out->off) return;
    struct vr_user_ids who;
    int rules = vr_confine_files_open(c, out);
    vr_confine_user_find(c, &who, out);
    keep_privileges(out);
    limit_memory(c->data_bytes, out);
    vr_confine_user_become(c, &who, out);
    forbid_dumps(out);
    vr_confine_files_enforce(rules, out);
    vr_confine_calls(c, &who, out);
    /* what is left of root is only safe behind the filter */
    if (who.changes && out->state[VR_CONFINE_CALLS] != VR_CONFINE_IN_FORCE) vr_confine_user_settle();
}

void vr_confine_settle(void) { vr_confine_user_settle(); }

void vr_confine_lightly(void)
{
    struct vr_confined out;
    if (vr_confine_is_off()) return;
    keep_privileges(&out);
    forbid_dumps(&out);
}
