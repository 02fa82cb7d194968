/* GET /, /page/...: the files of web/, which the assembler puts into the binary as they are. They hold no secret, so
 * they need no key; what they show they ask for with one. A browser keeps them and asks whether they changed. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "server/front.h"
#include "server/http/routes.h"

#define PAGE(path, file, type, symbol)                                                                                 \
    __asm__(".pushsection .rodata\n"                                                                                   \
            "vr_page_" #symbol ":\n.incbin \"web/" file "\"\n"                                                         \
            "vr_page_" #symbol "_end:\n.byte 0\n.popsection\n");                                                       \
    extern const char vr_page_##symbol[], vr_page_##symbol##_end[];
#include "server/http/page_files.def"
#undef PAGE

static struct {
    const char *path, *type, *data, *end;
    uint64_t hash; /* 0: not computed yet */
} files[] = {
#define PAGE(path, file, type, symbol) { path, type, vr_page_##symbol, vr_page_##symbol##_end, 0 },
#include "server/http/page_files.def"
#undef PAGE
};

/* Nothing but our own files may run, load or be called; nobody may frame us; where we come from is nobody's business.
 */
#define POLICY                                                                                                         \
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "         \
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'\r\n"                              \
    "Referrer-Policy: no-referrer\r\nCross-Origin-Opener-Policy: same-origin\r\n"                                      \
    "Cross-Origin-Resource-Policy: same-origin\r\nCache-Control: no-cache\r\n"

void vr_answer_page(struct vr_conn *c, const struct vr_incoming *r)
{
    for (size_t i = 0; i < VR_COUNT(files); i++) {
        if (!vr_slice_is(r->head.path, files[i].path)) continue;
        if (!files[i].hash) files[i].hash = vr_hash(files[i].data, (size_t)(files[i].end - files[i].data), 0);
        char tag[24], more[600];
        snprintf(tag, sizeof tag, "\"%016" PRIx64 "\"", files[i].hash);
        snprintf(more, sizeof more, "%sETag: %s\r\n", POLICY, tag);
        bool same = r->head.if_none_match.p && vr_slice_is(r->head.if_none_match, tag);
        return vr_reply(c, same ? 304 : 200, files[i].type, more, files[i].data,
                        same ? 0 : (size_t)(files[i].end - files[i].data));
    }
    vr_reply_error(c, 404, NULL, "unknown_path", "no such file");
}
