#include "server/api/folder_list.h"

#include "base/clock.h"

#define KEEP 20 /* times as long as it took */

const struct vr_catalog *vr_folder_list_get(struct vr_folder_list *l, const char *dir, struct vr_err *err)
{
    double from = vr_now_fine_ms();
    if (!dir || from < l->until_ms) return &l->list;
    vr_folder_list_done(l);
    if (!vr_catalog_folder(dir, &l->list, err)) return NULL;
    double now = vr_now_fine_ms();
    l->until_ms = now + KEEP * (now - from);
    return &l->list;
}

void vr_folder_list_done(struct vr_folder_list *l)
{
    vr_catalog_done(&l->list);
    *l = (struct vr_folder_list){ 0 };
}
