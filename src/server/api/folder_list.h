/* The files of --models-dir, as they are listed for clients.
 *
 * Looking through 500 files takes milliseconds, on the loop, whoever asks. So a list is kept for twenty times as long
 * as it took: asking without end costs a twentieth of the loop's time, and nobody sees that it is old. */
#ifndef VR_SERVER_API_FOLDER_LIST_H
#define VR_SERVER_API_FOLDER_LIST_H

#include "base/err.h"
#include "catalog/catalog.h"

struct vr_folder_list {
    struct vr_catalog list;
    double until_ms; /* 0: there is none */
};

/* Valid until the next call. `dir` NULL: an empty one. */
const struct vr_catalog *vr_folder_list_get(struct vr_folder_list *l, const char *dir,
                                            struct vr_err *err) VR_MUST_CHECK;
void vr_folder_list_done(struct vr_folder_list *l);

#endif
