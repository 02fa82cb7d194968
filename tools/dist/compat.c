/* Three functions that glibc has since 2.35 and 2.36, for the libraries in the tarball that call them: libevent and
 * libstdc++ ask for random numbers, libgcc_s for the unwind table of an address. The program exports them, and the
 * dynamic linker takes them before libc's own, where that has any. Linked into the tarball's program only. */
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

void arc4random_buf(void *out, size_t n);
uint32_t arc4random(void);

void arc4random_buf(void *out, size_t n)
{
    for (char *at = out; n;) {
        ssize_t got = getrandom(at, n, 0);
        if (got < 0) continue; /* interrupted: it cannot fail otherwise, with these arguments */
        at += got;
        n -= (size_t)got;
    }
}

uint32_t arc4random(void)
{
    uint32_t x;
    arc4random_buf(&x, sizeof x);
    return x;
}

struct search {
    uintptr_t pc;
    struct dl_find_object *out;
};

static int look(struct dl_phdr_info *info, size_t n, void *ctx)
{
    (void)n;
    struct search *s = ctx;
    uintptr_t low = UINTPTR_MAX, high = 0, frame = 0;
    int inside = 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + p->p_vaddr, to = from + p->p_memsz;
        if (p->p_type == PT_GNU_EH_FRAME) frame = from;
        if (p->p_type != PT_LOAD) continue;
        if (from < low) low = from;
        if (to > high) high = to;
        inside |= s->pc >= from && s->pc < to;
    }
    if (!inside || !frame) return 0;
    s->out->dlfo_flags = 0;
    s->out->dlfo_map_start = (void *)low;
    s->out->dlfo_map_end = (void *)high;
    s->out->dlfo_link_map = NULL;
    s->out->dlfo_eh_frame = (void *)frame;
    return 1;
}

int _dl_find_object(void *pc, struct dl_find_object *out)
{
    struct search s = { (uintptr_t)pc, out };
    return dl_iterate_phdr(look, &s) ? 0 : -1;
}
