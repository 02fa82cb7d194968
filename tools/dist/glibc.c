/* Lets a library run on an older glibc than the one it was built with, or plays an older glibc.
 *
 *   glibc lower MINOR FILE    symbols that FILE needs of versions after 2.MINOR are asked for in an older one: the dynamic
 *                             linker no longer refuses the file, and the program must bring them (tools/dist/compat.c;
 *                             one without a version, as programs export, answers to any)
 *   glibc forget MINOR FILE   what FILE (a libc) defines in versions after 2.MINOR can no longer be found: for tests
 *
 * The file is changed in place; nothing moves. x86-64 ELF files only, made by a linker on this machine. */
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static char *image;
static size_t size;

static void *at(size_t offset, size_t n)
{
    if (offset > size || n > size - offset) {
        fputs("glibc: the file is not what its headers say\n", stderr);
        exit(1);
    }
    return image + offset;
}

/* "GLIBC_2.36" -> 36; 0 for anything else. */
static int minor_of(const Elf64_Shdr *strings, Elf64_Word name)
{
    int minor = 0;
    return sscanf(at(strings->sh_offset + name, 1), "GLIBC_2.%d", &minor) == 1 ? minor : 0;
}

static int lower(const Elf64_Shdr *s, const Elf64_Shdr *strings, int limit)
{
    int n = 0;
    size_t need_at = s->sh_offset;
    for (unsigned i = 0; i < s->sh_info; i++) {
        const Elf64_Verneed *need = at(need_at, sizeof *need);
        const Elf64_Vernaux *old = NULL;
        for (unsigned pass = 0; pass < 2; pass++) {
            size_t aux_at = need_at + need->vn_aux;
            for (unsigned k = 0; k < need->vn_cnt; k++) {
                Elf64_Vernaux *aux = at(aux_at, sizeof *aux);
                int minor = minor_of(strings, aux->vna_name);
                if (minor && minor <= limit) old = aux;
                if (pass && minor > limit && old) {
                    aux->vna_name = old->vna_name;
                    aux->vna_hash = old->vna_hash;
                    n++;
                }
                aux_at += aux->vna_next;
            }
        }
        need_at += need->vn_next;
    }
    return n;
}

static int forget(const Elf64_Shdr *s, const Elf64_Shdr *strings, int limit)
{
    int n = 0;
    size_t def_at = s->sh_offset;
    for (unsigned i = 0; i < s->sh_info; i++) {
        Elf64_Verdef *def = at(def_at, sizeof *def);
        const Elf64_Verdaux *aux = at(def_at + def->vd_aux, sizeof *aux);
        if (minor_of(strings, aux->vda_name) > limit) def->vd_hash = ~def->vd_hash, n++;
        def_at += def->vd_next;
    }
    return n;
}

int main(int argc, char **argv)
{
    bool forgets = argc == 4 && strcmp(argv[1], "forget") == 0;
    if (!forgets && (argc != 4 || strcmp(argv[1], "lower") != 0)) {
        fputs("usage: glibc lower|forget MINOR FILE\n", stderr);
        return 2;
    }
    int fd = open(argv[3], O_RDWR);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) return perror(argv[3]), 1;
    size = (size_t)st.st_size;
    image = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (image == MAP_FAILED) return perror(argv[3]), 1;
    const Elf64_Ehdr *e = at(0, sizeof *e);
    if (memcmp(e->e_ident, ELFMAG, SELFMAG) != 0 || e->e_ident[EI_CLASS] != ELFCLASS64) {
        fprintf(stderr, "glibc: %s is no 64-bit ELF file\n", argv[3]);
        return 1;
    }
    int n = 0;
    const Elf64_Shdr *sections = at(e->e_shoff, (size_t)e->e_shnum * sizeof *sections);
    for (unsigned i = 0; i < e->e_shnum; i++) {
        const Elf64_Shdr *s = &sections[i];
        if (s->sh_type != (forgets ? SHT_GNU_verdef : SHT_GNU_verneed) || s->sh_link >= e->e_shnum) continue;
        n += (forgets ? forget : lower)(s, &sections[s->sh_link], atoi(argv[2]));
    }
    printf("%s %d\n", argv[3], n);
    return 0;
}
