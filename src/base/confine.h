/* Giving rights away: what a process keeps of them, put in force for the process that calls.
 *
 * What a kernel, a container or a user does not allow is not an error: each part tells whether it is in force, and the
 * process goes on with the others. Nothing of it can be taken back, and children inherit it. It binds the calling
 * thread and those that it starts later, so it belongs before the first thread.
 *
 * VRAM_LLM_CONFINE=off in the environment turns all of it off, for a driver that needs what nobody thought of. */
#ifndef VR_BASE_CONFINE_H
#define VR_BASE_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

enum vr_confine_part {
#define PART(id, ...) VR_CONFINE_##id,
#include "base/confine.def"
#undef PART
    VR_N_CONFINE_PARTS
};

enum vr_confine_state {
    VR_CONFINE_UNUSED, /* nobody asked for it, or it is turned off */
    VR_CONFINE_IN_FORCE,
    VR_CONFINE_UNSUPPORTED, /* by this kernel */
    VR_CONFINE_REFUSED,     /* why[] says the reason */
};

/* What is in force. Plain data, so that a child can send it. */
struct vr_confined {
    bool off; /* by the environment */
    enum vr_confine_state state[VR_N_CONFINE_PARTS];
    char why[VR_N_CONFINE_PARTS][128];
    int landlock_abi; /* 0: none */
    char user[40];    /* whose rights it has now */
};

enum { VR_MAY_READ = 1, VR_MAY_WRITE = 2, VR_MAY_CONTROL = 4 /* ioctl(2) on a device */ };

struct vr_confine_path {
    const char *path; /* a file, or a folder with all below it; symbolic links are followed. One that is not there is no
                         error */
    unsigned may;
};

enum vr_confine_calls {
    VR_CALLS_ANY,
    VR_CALLS_DRIVERS, /* all but those that no driver of a device needs: no program is started, no network */
    VR_CALLS_COMPUTE, /* those that computing on bytes from open descriptors needs, and no others */
};

struct vr_confine {
    enum vr_confine_calls calls;
    bool may_fork;    /* children that are copies; no other program is run in any case */
    bool may_listen;  /* on sockets of its own on this machine (AF_UNIX); never on a network */
    bool may_connect; /* to those of other processes on this machine, by their path; never over a network */
    bool may_network; /* sockets of any kind, to anywhere */

    bool confines_files; /* to these: */
    const struct vr_confine_path *paths;
    size_t n_paths;

    uint64_t data_bytes; /* most private memory; 0: no limit. CUDA maps more than there is */

    /* Started as root, it goes on as this user; NULL: as it is. Until vr_confine_settle() it may still read what only
     * root may read, so that models and libraries in a private folder are found. */
    const char *user;
    const gid_t *groups; /* supplementary groups that the user keeps */
    size_t n_groups;
};

/* Puts it in force; `out` may be NULL. */
void vr_confine(const struct vr_confine *c, struct vr_confined *out);
/* Everything is opened: the user's own rights are enough from here on. For all threads of the process. */
void vr_confine_settle(void);
/* For a process that still has to start others: no new privileges, no core dump. */
void vr_confine_lightly(void);

bool vr_confine_is_off(void);
/* The ids of a user, given by name or number. False: there is none. */
bool vr_confine_user_id(const char *user, uid_t *uid, gid_t *gid) VR_MUST_CHECK;

const char *vr_confine_part_name(enum vr_confine_part part); /* "files (Landlock)" */
/* "in force", "not supported by this kernel", … */
const char *vr_confine_state_words(enum vr_confine_state state);
/* {"seccomp":"in_force",…,"landlock_abi":7,"user":"nobody"} */
void vr_confined_json(const struct vr_confined *c, struct vr_buf *out);

#endif
