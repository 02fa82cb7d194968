/* The fixtures are headers only. llama.cpp checks that a file is as long as its header says, so each is copied into a
 * temporary directory and grown to its real size as a hole: 400 GB of Kimi take 80 kB of disk. */
#include "oracle.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool oracle_models_open(const char *fixtures, struct oracle_models *out)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/models/index.json", fixtures);
    json_error_t e;
    out->index = json_load_file(path, 0, &e);
    if (!out->index) {
        fprintf(stderr, "%s: %s\n", path, e.text);
        return false;
    }
    const char *tmp = getenv("TMPDIR");
    snprintf(out->dir, sizeof(out->dir), "%s/oracle-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(out->dir)) {
        perror(out->dir);
        json_decref(out->index);
        return false;
    }
    return true;
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

bool oracle_models_path(struct oracle_models *m, const char *fixtures, const char *name, char *out, size_t n)
{
    json_t *files = json_object_get(json_object_get(m->index, name), "files"), *file;
    size_t i;
    if (!files) {
        snprintf(out, n, "%s", name);
        return true;
    }
    json_array_foreach(files, i, file)
    {
        const char *base = json_string_value(json_object_get(file, "file"));
        char from[1024], to[1024];
        snprintf(from, sizeof(from), "%s/models/%s", fixtures, base);
        snprintf(to, sizeof(to), "%s/%s", m->dir, base);
        uint64_t bytes = (uint64_t)json_integer_value(json_object_get(file, "bytes"));
        if (access(to, F_OK) != 0 && !grow(from, to, bytes)) return false;
        if (i == 0) snprintf(out, n, "%s", to);
    }
    return true;
}

void oracle_models_close(struct oracle_models *m)
{
    const char *name;
    json_t *model, *file;
    size_t i;
    json_object_foreach(m->index, name, model)
    {
        json_array_foreach(json_object_get(model, "files"), i, file)
        {
            char path[1024];
            snprintf(path, sizeof(path), "%s/%s", m->dir, json_string_value(json_object_get(file, "file")));
            unlink(path);
        }
    }
    rmdir(m->dir);
    json_decref(m->index);
}
