/* Forms with files, multipart/form-data (RFC 7578), as bytes that are all there: where each part is, and its name. A
 * part is where it lies in the body, nothing is copied, and each byte is looked at once.
 *
 * Strict where two readers could differ: nothing before the first boundary or behind the last, no padding behind any,
 * no transfer encodings, one name for each part. Pure: no sockets, no clocks. */
#ifndef VR_SERVER_HTTP_MULTIPART_H
#define VR_SERVER_HTTP_MULTIPART_H

#include "server/http/http.h"

#define VR_MOST_BOUNDARY  70 /* bytes, by RFC 2046 */
#define VR_MOST_PARTS     64
#define VR_MOST_PART_HEAD 4096 /* bytes */

/* The boundary that a Content-Type names. False: it is another type, or has no boundary that can be one. */
bool vr_multipart_boundary(struct vr_slice type, char out[VR_MOST_BOUNDARY + 1]) VR_MUST_CHECK;

struct vr_form_part {
    struct vr_slice name, data;
};

struct vr_multipart {
    struct vr_slice left;            /* behind the boundary before the next part */
    char mark[VR_MOST_BOUNDARY + 5]; /* what ends a part: CRLF, two dashes and the boundary */
    unsigned n_parts;                /* so far */
};
enum vr_part_next { VR_PART, VR_PARTS_OVER, VR_PART_BAD };

void vr_multipart_open(struct vr_multipart *m, const char *data, size_t n, const char *boundary);
/* The next part; BAD says why in a sentence about "the form", which is static. */
enum vr_part_next vr_multipart_next(struct vr_multipart *m, struct vr_form_part *out, const char **why);

#endif
