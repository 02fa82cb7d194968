/* The filter of system calls, made by libseccomp. Two kinds: all but those that no driver of a device needs, for a
 * process that loads drivers whose needs nobody has listed; and a short list of those that are allowed, for a process
 * that only computes. A denied call is an error code, since libraries try things and go on without. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/confine_steps.h"

#define NEW_NAMESPACES                                                                                                 \
    (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

enum kind { NEVER, MEETS, REACHES, COMPUTE, FORKS, LOOKS };

static const struct {
    const char *name;
    enum kind kind;
} calls[] = {
#define CALL(kind, name) { #name, kind },
#include "base/confine_calls.def"
#undef CALL
};

/* Collects errors, so that a list of rules reads as one. */
struct filter {
    scmp_filter_ctx ctx;
    int error; /* the first, negative as libseccomp has them */
};

static void rule(struct filter *f, uint32_t action, const char *name, unsigned n, const struct scmp_arg_cmp *args)
{
    int call = seccomp_syscall_resolve_name(name);
    if (call == __NR_SCMP_ERROR || f->error) return;
    int error = seccomp_rule_add_array(f->ctx, action, call, n, args);
    if (error != 0 && error != -EDOM) f->error = error; /* -EDOM: not on this architecture */
}

static void rules(struct filter *f, uint32_t action, enum kind kind)
{
    for (size_t i = 0; i < VR_COUNT(calls); i++)
        if (calls[i].kind == kind) rule(f, action, calls[i].name, 0, NULL);
}

static void rule_if(struct filter *f, uint32_t action, const char *name, struct scmp_arg_cmp arg)
{
    rule(f, action, name, 1, &arg);
}

/* All but what is named. */
static void deny(struct filter *f, const struct vr_confine *c, const struct vr_user_ids *who)
{
    const uint32_t no = SCMP_ACT_ERRNO(EPERM);
    rules(f, no, NEVER);
    /* one flag at a time: a comparison is with all bits of its mask */
    for (int bit = 0; bit < 32; bit++)
        if ((unsigned)NEW_NAMESPACES >> bit & 1u)
            rule_if(f, no, "clone", SCMP_A0(SCMP_CMP_MASKED_EQ, 1ull << bit, 1ull << bit));
    if (!c->may_fork) rule_if(f, no, "clone", SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
    if (!c->may_network && (c->may_listen || c->may_connect))
        rule_if(f, no, "socket", SCMP_A0(SCMP_CMP_NE, AF_UNIX));
    else if (!c->may_network)
        rules(f, no, MEETS);
    if (!c->may_connect && !c->may_network) rules(f, no, REACHES);
    if (!who->changes) return rule(f, no, "setresuid", 0, NULL);
    rule_if(f, no, "setresuid", SCMP_A0(SCMP_CMP_NE, who->uid));
    rule_if(f, no, "setresuid", SCMP_A1(SCMP_CMP_NE, who->uid));
    rule_if(f, no, "setresuid", SCMP_A2(SCMP_CMP_NE, who->uid));
}

/* Nothing but what is named. */
static void permit(struct filter *f, const struct vr_confine *c, const struct vr_user_ids *who)
{
    const uint32_t yes = SCMP_ACT_ALLOW;
    rules(f, yes, COMPUTE);
    if (c->may_fork) {
        rules(f, yes, FORKS);
        rule_if(f, yes, "clone", SCMP_A0(SCMP_CMP_MASKED_EQ, NEW_NAMESPACES, 0));
    }
    /* opening is reading, and Landlock says what */
    if (c->n_paths) {
        rule_if(f, yes, "openat", SCMP_A2(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC, 0));
        rule_if(f, yes, "open", SCMP_A1(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC, 0));
        rules(f, yes, LOOKS);
    }
    const struct scmp_arg_cmp own[] = { SCMP_A0(SCMP_CMP_EQ, who->uid), SCMP_A1(SCMP_CMP_EQ, who->uid),
                                        SCMP_A2(SCMP_CMP_EQ, who->uid) };
    if (who->changes) rule(f, yes, "setresuid", VR_COUNT(own), own);
}

void vr_confine_calls(const struct vr_confine *c, const struct vr_user_ids *who, struct vr_confined *out)
{
    if (c->calls == VR_CALLS_ANY) return;
    bool list = c->calls == VR_CALLS_COMPUTE;
    struct filter f = { .ctx = seccomp_init(list ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_ALLOW) };
    if (!f.ctx) f.error = -ENOMEM;
    /* its argument is in memory, where a filter cannot look: glibc goes on with clone(2) */
    rule(&f, SCMP_ACT_ERRNO(ENOSYS), "clone3", 0, NULL);
    if (!f.error) list ? permit(&f, c, who) : deny(&f, c, who);
    if (!f.error) f.error = seccomp_attr_set(f.ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    if (!f.error) f.error = seccomp_load(f.ctx);
    if (f.ctx) seccomp_release(f.ctx);
    errno = -f.error;
    if (f.error)
        vr_confine_failed(out, VR_CONFINE_CALLS, "seccomp");
    else
        out->state[VR_CONFINE_CALLS] = VR_CONFINE_IN_FORCE;
}
