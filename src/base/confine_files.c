/* Landlock by its system calls: glibc has no functions for them. A rule is a descriptor, so a symbolic link (a Hugging
 * Face cache is full of them) becomes a rule about the file that it leads to. What a kernel does not know is not asked
 * for. */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/confine_steps.h"

/* Newer than the headers of Debian 12, which know ABI 2. */
#define FS_TRUNCATE    (1ull << 14) /* ABI 3 */
#define FS_IOCTL_DEV   (1ull << 15) /* ABI 5 */
#define NET_TCP        3ull         /* ABI 4: bind, connect */
#define SCOPE_ABSTRACT 1ull         /* ABI 6: no abstract sockets of others */
#define SCOPE_SIGNAL   2ull         /* ABI 6: no signals to others */

struct attr { /* a kernel that knows less takes the rest if it is zero */
    uint64_t fs, net, scoped;
};

#define FS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_WRITE                                                                                                       \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |                  \
     LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | FS_TRUNCATE)
#define FS_NEVER                                                                                                       \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_SOCK |                        \
     LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM)
#define FS_OF_FILES (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

static struct attr handled(const struct vr_confine *c, int abi)
{
    struct attr a = { .fs = FS_READ | FS_WRITE | FS_NEVER };
    if (abi < 3) a.fs &= ~FS_TRUNCATE;
    if (abi >= 2) a.fs |= LANDLOCK_ACCESS_FS_REFER;
    if (abi >= 4 && !c->may_network) a.net = NET_TCP;
    if (abi >= 5) a.fs |= FS_IOCTL_DEV;
    if (abi >= 6) a.scoped = SCOPE_ABSTRACT | (c->calls == VR_CALLS_COMPUTE ? SCOPE_SIGNAL : 0);
    return a;
}

static void allow(int rules, const struct vr_confine_path *p, uint64_t known)
{
    struct stat st;
    VR_AUTO_CLOSE int fd = open(p->path, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) return;
    uint64_t may = (p->may & VR_MAY_READ ? FS_READ : 0) | (p->may & VR_MAY_WRITE ? FS_WRITE : 0) |
                   (p->may & VR_MAY_CONTROL ? FS_IOCTL_DEV : 0);
    if (!S_ISDIR(st.st_mode)) may &= FS_OF_FILES;
    struct landlock_path_beneath_attr rule = { .allowed_access = may & known, .parent_fd = fd };
    /* a refusal leaves a path out, which shows as EACCES there and as nothing worse */
    if (rule.allowed_access) syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

int vr_confine_files_open(const struct vr_confine *c, struct vr_confined *out)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    out->landlock_abi = abi > 0 ? (int)abi : 0;
    if (!c->confines_files) return -1;
    struct attr a = handled(c, out->landlock_abi);
    int rules = abi > 0 ? (int)syscall(SYS_landlock_create_ruleset, &a, sizeof a, 0) : -1;
    if (rules < 0) return vr_confine_failed(out, VR_CONFINE_FILES, "Landlock"), -1;
    for (size_t i = 0; i < c->n_paths; i++) allow(rules, &c->paths[i], a.fs);
    return rules;
}

void vr_confine_files_enforce(int rules, struct vr_confined *out)
{
    if (rules < 0) return;
    if (syscall(SYS_landlock_restrict_self, rules, 0) != 0)
        vr_confine_failed(out, VR_CONFINE_FILES, "Landlock");
    else
        out->state[VR_CONFINE_FILES] = VR_CONFINE_IN_FORCE;
    close(rules);
}
