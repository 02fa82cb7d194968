/* The fixtures are headers only. llama.cpp checks that a file is as long as its header says, so each is copied into a
 * temporary directory and grown to its real size as a hole: 400 GB of Kimi take 80 kB of disk. Models that are made for
 * a case are holes, too. */
#include "oracle.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static json_t *read_index(const char *fixtures, const char *name)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s/index.json", fixtures, name);
    json_error_t e;
    json_t *index = json_load_file(path, 0, &e);
    if (!index) fprintf(stderr, "%s: %s\n", path, e.text);
    return index;
}

bool oracle_models_open(const char *fixtures, struct oracle_models *out)
{
    out->index = read_index(fixtures, "models");
    out->published = read_index(fixtures, "published");
    const char *tmp = getenv("TMPDIR");
    snprintf(out->dir, sizeof(out->dir), "%s/oracle-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (out->index && out->published && mkdtemp(out->dir)) return true;
    perror(out->dir);
    json_decref(out->index);
    json_decref(out->published);
    return false;
}

static bool grow(const char *from, const char *to, uint64_t bytes)
{
    bool ok = false;
    char buf[65536];
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (in >= 0 && out >= 0) {
        ssize_t n;
        ok = true;
        while (ok && (n = read(in, buf, sizeof(buf))) > 0) ok = write(out, buf, (size_t)n) == n;
        ok = ok && ftruncate(out, (off_t)bytes) == 0;
    }
    if (in >= 0) close(in);
    if (out >= 0) close(out);
    if (!ok) perror(to);
    return ok;
}

static bool put(struct oracle_models *m, const char *from_dir, json_t *file, char *out, size_t n)
{
    const char *base = json_string_value(json_object_get(file, "file"));
    char from[1024], to[1024];
    snprintf(from, sizeof(from), "%s/%s", from_dir, base);
    snprintf(to, sizeof(to), "%s/%s", m->dir, base);
    uint64_t bytes = (uint64_t)json_integer_value(json_object_get(file, "bytes"));
    if (access(to, F_OK) != 0 && !grow(from, to, bytes)) return false;
    if (out) snprintf(out, n, "%s", to);
    return true;
}

/* "made:--layers 7 --embd 512": by tests/tools/tiny-model, in place of the last one. */
static bool make(struct oracle_models *m, const char *options, char *out, size_t n)
{
    char command[2048];
    snprintf(out, n, "%s/made.gguf", m->dir);
    snprintf(command, sizeof(command), "%s '%s' --hollow --template none %s", m->maker, out, options);
    if (strspn(options, "-abcdefghijklmnopqrstuvwxyzK_0123456789 ") == strlen(options) && system(command) == 0)
        return true;
    fprintf(stderr, "%s: failed\n", command);
    return false;
}

bool oracle_models_path(struct oracle_models *m, const char *fixtures, const char *name, char *out, size_t n)
{
    json_t *files = json_object_get(json_object_get(m->index, name), "files"), *file;
    json_t *published = json_object_get(m->published, name);
    char dir[512];
    size_t i;
    if (strncmp(name, "made:", 5) == 0) return make(m, name + 5, out, n);
    snprintf(dir, sizeof(dir), "%s/%s", fixtures, published ? "published/models" : "models");
    if (published) return put(m, dir, published, out, n);
    if (!files) snprintf(out, n, "%s", name);
    json_array_foreach(files, i, file) if (!put(m, dir, file, i == 0 ? out : NULL, n)) return false;
    return true;
}

static void drop(const struct oracle_models *m, const char *file)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s", m->dir, file);
    unlink(path);
}

void oracle_models_close(struct oracle_models *m)
{
    const char *name;
    json_t *model, *file;
    size_t i;
    json_object_foreach(m->index, name, model)
    {
        json_array_foreach(json_object_get(model, "files"), i, file)
            drop(m, json_string_value(json_object_get(file, "file")));
    }
    json_object_foreach(m->published, name, model) drop(m, json_string_value(json_object_get(model, "file")));
    drop(m, "made.gguf");
    drop(m, "beside.gguf");
    rmdir(m->dir);
    json_decref(m->index);
    json_decref(m->published);
}
