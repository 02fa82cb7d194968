/* From root to a user without rights. The saved user id stays root's at first, which keeps what opening
 * a model takes of root's rights. Giving that up is then a plain setresuid(2), which glibc carries out in every thread
 * of the process, where capset(2) would bind the calling one alone; the kernel takes the capabilities away with the
 * last id of root's. The filter of system calls allows exactly that call meanwhile, so the saved id leads nowhere else.
 */
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/confine_steps.h"
#include "base/text.h"

#define MAX_GROUPS 32

struct caps { /* two words each, as version 3 has them */
    struct __user_cap_data_struct word[2];
};

static bool caps_get(struct caps *c)
{
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    return syscall(SYS_capget, &head, c->word) == 0;
}

static bool has(const struct caps *c, int cap) { return c->word[CAP_TO_INDEX(cap)].effective & CAP_TO_MASK(cap); }

/* Of what there is now, only what opening the model takes: reading everything, by the right to write it where a
 * container has no other, and locking memory. */
static bool caps_reduce(const struct caps *now)
{
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    const int keep[] = { has(now, CAP_DAC_READ_SEARCH) ? CAP_DAC_READ_SEARCH : CAP_DAC_OVERRIDE, CAP_IPC_LOCK };
    struct caps c = { 0 };
    for (size_t i = 0; i < VR_COUNT(keep); i++)
        if (has(now, keep[i])) c.word[CAP_TO_INDEX(keep[i])].permitted |= CAP_TO_MASK(keep[i]);
    for (size_t i = 0; i < VR_COUNT(c.word); i++) c.word[i].effective = c.word[i].permitted;
    return syscall(SYS_capset, &head, c.word) == 0;
}

static void refuse(struct vr_confined *out, const char *fmt, ...) VR_PRINTF(2, 3);
static void refuse(struct vr_confined *out, const char *fmt, ...)
{
    va_list ap;
    out->state[VR_CONFINE_USER] = VR_CONFINE_REFUSED;
    va_start(ap, fmt);
    vsnprintf(out->why[VR_CONFINE_USER], sizeof out->why[VR_CONFINE_USER], fmt, ap);
    va_end(ap);
}

static void name_user(uid_t uid, struct vr_confined *out)
{
    const struct passwd *p = getpwuid(uid);
    if (p)
        snprintf(out->user, sizeof out->user, "%s", p->pw_name);
    else
        snprintf(out->user, sizeof out->user, "%u", (unsigned)uid);
}

/* By name or number. The user of last resort is one also where no file says so, as in the emptiest containers. */
bool vr_confine_user_id(const char *user, uid_t *uid, gid_t *gid)
{
    const struct passwd *p = getpwnam(user);
    uint64_t number = 65534;
    if (p) return *uid = p->pw_uid, *gid = p->pw_gid, true;
    if (strcmp(user, "nobody") != 0 && !vr_parse_u64(user, 0, UINT32_MAX - 1, &number)) return false;
    *uid = *gid = (uid_t)number;
    return true;
}

void vr_confine_user_find(const struct vr_confine *c, struct vr_user_ids *who, struct vr_confined *out)
{
    *who = (struct vr_user_ids){ 0 };
    name_user(geteuid(), out);
    if (geteuid() != 0) {
        out->state[VR_CONFINE_USER] = VR_CONFINE_IN_FORCE;
        return;
    }
    if (!c->user) return;
    struct caps now;
    uid_t uid;
    gid_t gid;
    if (!vr_confine_user_id(c->user, &uid, &gid)) return refuse(out, "there is no user '%s' here", c->user);
    if (uid == 0) return; /* that was asked for */
    /* CAP_KILL: whoever watches over this process is root, and must be able to end it */
    if (!caps_get(&now) || !has(&now, CAP_SETUID) || !has(&now, CAP_SETGID) || !has(&now, CAP_KILL))
        return refuse(out, "root may not become '%s' here (CAP_SETUID, CAP_SETGID, CAP_KILL)", c->user);
    *who = (struct vr_user_ids){ .changes = true, .uid = uid, .gid = gid };
}

void vr_confine_user_become(const struct vr_confine *c, struct vr_user_ids *who, struct vr_confined *out)
{
    if (!who->changes) return;
    int death = 0;
    struct caps now = { 0 };
    pid_t parent = getppid();
    size_t n = c->n_groups < MAX_GROUPS ? c->n_groups : MAX_GROUPS;
    prctl(PR_GET_PDEATHSIG, &death);
    if (!caps_get(&now) || setgroups(n, c->groups) != 0 || setresgid(who->gid, who->gid, who->gid) != 0 ||
        setresuid(who->uid, who->uid, 0) != 0) {
        who->changes = false; /* in a container such a user may not exist to the kernel */
        return refuse(out, "cannot become another user: %s", strerror(errno));
    }
    if (!caps_reduce(&now)) vr_confine_user_settle();
    out->state[VR_CONFINE_USER] = VR_CONFINE_IN_FORCE;
    name_user(who->uid, out);
    /* which a change of the user forgets */
    if (death) prctl(PR_SET_PDEATHSIG, death);
    if (death && getppid() != parent) raise(death);
}

void vr_confine_user_settle(void)
{
    uid_t real, effective, saved;
    /* the capabilities go with it; to one's own id it is always allowed */
    if (getresuid(&real, &effective, &saved) == 0 && saved == 0 && real != 0 && setresuid(real, real, real) != 0)
        return;
}
