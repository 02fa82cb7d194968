/* Allocations that fail, one after the other: the linker wraps malloc and its kin in our own code (LINK_… in the
 * Makefile, so that no trace of it is left in the program), and jansson is given the same, but for its parser: that one
 * writes past the end of its buffer when memory is out (2.14), so it fails as a whole. What jansson frees is kept until
 * the run is over, all zero: a value that is used after that is an object without a table, and the test crashes, where
 * neither ASan, which does not look into the library, nor glibc would notice. Children that are forked have memory
 * enough.
 */
#ifndef NOMEM_H
#define NOMEM_H

#include <jansson.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long nomem_in = -1; /* allocations until one fails; negative: none does */
static long nomem_calls;
static pid_t nomem_pid;
static bool nomem_sheltered;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);
json_t *__real_json_loadb(const char *data, size_t n, size_t flags, json_error_t *err);
json_t *__wrap_json_loadb(const char *data, size_t n, size_t flags, json_error_t *err);

static bool nomem_fails(void)
{
    if (nomem_sheltered) return false;
    nomem_calls++;
    return nomem_in >= 0 && nomem_in-- == 0 && getpid() == nomem_pid;
}
void *__wrap_malloc(size_t n) { return nomem_fails() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t size) { return nomem_fails() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *p, size_t n) { return nomem_fails() ? NULL : __real_realloc(p, n); }
char *__wrap_strdup(const char *s) { return nomem_fails() ? NULL : __real_strdup(s); }
char *__wrap_strndup(const char *s, size_t n) { return nomem_fails() ? NULL : __real_strndup(s, n); }
json_t *__wrap_json_loadb(const char *data, size_t n, size_t flags, json_error_t *err)
{
    if (nomem_fails()) return NULL;
    nomem_sheltered = true;
    json_t *j = __real_json_loadb(data, n, flags, err);
    nomem_sheltered = false;
    return j;
}

static void *nomem_freed[1 << 12];
static size_t nomem_n_freed;

static void nomem_free(void *p)
{
    if (p) memset(p, 0, malloc_usable_size(p));
    if (p && nomem_n_freed < sizeof nomem_freed / sizeof *nomem_freed)
        nomem_freed[nomem_n_freed++] = p;
    else
        free(p);
}

static bool nomem_run(bool (*run)(void))
{
    bool done = run();
    while (nomem_n_freed) free(nomem_freed[--nomem_n_freed]);
    return done;
}

/* Runs it once without a failure and then with the first, the (1 + every)th, ... allocation failing. `run` says whether
 * all went well, and checks by itself that what it gets otherwise is an error that says so. It must not go well when an
 * allocation failed, but for those that are only for the words of an error that does not come (spare_words). */
static inline void nomem_each(const char *what, bool (*run)(void), long every, bool spare_words)
{
    nomem_pid = getpid();
    json_set_alloc_funcs(__wrap_malloc, nomem_free);
    nomem_calls = 0;
    nomem_in = -1;
    if (!nomem_run(run)) fail_msg("%s: fails with memory enough", what);
    long total = nomem_calls;
    if (total == 0) fail_msg("%s: allocates nothing: nothing was tested", what);
    print_message("%s: %ld allocations\n", what, total);
    for (long i = 0; i < total; i += every) {
        nomem_in = i;
        bool done = nomem_run(run);
        bool met = nomem_in < 0; /* with one less, it may come to less */
        nomem_in = -1;
        if (met && done && !spare_words) fail_msg("%s: allocation %ld of %ld failed unnoticed", what, i, total);
    }
}

#endif
