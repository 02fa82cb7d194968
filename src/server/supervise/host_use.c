#include "server/supervise/host_use.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"

#define MOST_BYTES 16384

/* "RssAnon:\t    5120 kB" */
static uint64_t field(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

uint64_t vr_host_use_bytes(pid_t pid)
{
    char path[40];
    VR_AUTO_BUF text = { 0 };
    struct vr_err ignored;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (!pid || !vr_file_read(path, MOST_BYTES, &text, &ignored)) return 0;
    const char *all = vr_buf_str(&text);
    uint64_t locked = field(all, "\nVmLck:"), mapped = field(all, "\nRssFile:");
    return field(all, "\nRssAnon:") + field(all, "\nRssShmem:") + (locked < mapped ? locked : mapped);
}
