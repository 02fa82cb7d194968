#include "server/supervise/free_memory.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "fit/residents.h"
#include "server/front.h"
#include "server/supervise/replan.h"
#include "server/supervise/task.h"

#define AWAIT_MS 5000  /* longer than any driver was seen to take; then the plan is made anew, with what there is */
#define END_MS   30000 /* for the driver to answer at all */

static const char *const argv[] = { VR_SELF, "memory-process", NULL };

/* What a device must have free: the plan's bytes and its reserve, but for some that other programs' windows may have
 * taken since. */
static uint64_t needs(const struct vr_load_device *d)
{
    uint64_t margin = VR_RESERVE_MARGIN_MIB * VR_MIB / 2;
    return vr_load_bytes(d) + d->reserve_bytes - (d->reserve_bytes / 2 < margin ? d->reserve_bytes / 2 : margin);
}

static json_t *needs_of_all(const struct vr_load *l)
{
    json_t *all = json_object();
    for (size_t i = 0; i < l->n_devices; i++) {
        const struct vr_load_device *d = &l->devices[i];
        json_int_t before = json_integer_value(json_object_get(all, d->key)); /* a card may be shown more than once */
        if (*d->name) json_object_set_new(all, d->key, json_integer(before + (json_int_t)needs(d)));
    }
    return all;
}

static const char *id_of(const struct vr_load *l, const char *key)
{
    for (size_t i = 0; i < l->n_devices; i++)
        if (strcmp(l->devices[i].key, key) == 0) return l->devices[i].id;
    return key;
}

static json_t *obstacles(const struct vr_load *l, const json_t *missing)
{
    json_t *list = json_array(), *v;
    const char *key;
    json_object_foreach((json_t *)(uintptr_t)missing, key, v)
        json_array_append_new(list, json_pack("{s:s,s:s,s:I}", "kind", vr_obstacle_name(VR_OBSTACLE_NOT_FREED),
                                              "device", id_of(l, key), "bytes", json_integer_value(v)));
    return list;
}

/* Who cannot be asked is believed: if memory is missing, the engine says so. */
static void on_end(void *ctx, const struct vr_child_end *end, const struct vr_err *why)
{
    (void)why;
    struct vr_worker *e = ctx;
    json_t *tree = end && end->exit_status == 0 ? json_loadb(vr_buf_str(&end->out), end->out.n, 0, NULL) : NULL;
    const json_t *missing = json_object_get(tree, "short");
    e->planning = NULL;
    if (json_object_size(missing))
        vr_worker_not_freed(e, obstacles(e->load, missing));
    else
        vr_worker_has_room(e);
    json_decref(tree);
}

bool vr_free_memory_await(struct vr_worker *e)
{
    struct vr_err no;
    if (e->planning) return true;
    if (!e->front->config->ask_driver || !e->load->evict.n) return false;
    json_t *ask = json_pack("{s:o,s:i}", "devices", needs_of_all(e->load), "timeout_ms", AWAIT_MS);
    VR_AUTO_FREE char *text = ask ? json_dumps(ask, JSON_COMPACT) : NULL;
    json_decref(ask);
    if (!text) return false;
    vr_reserve_release(&e->front->reserve);
    e->planning = vr_task_start(e->front->fleet.tasks,
                                &(struct vr_task_ask){ .argv = argv,
                                                       .input = text,
                                                       .n_input = strlen(text),
                                                       .timeout_ms = AWAIT_MS + END_MS,
                                                       .done = on_end,
                                                       .ctx = e },
                                &no);
    vr_reserve_fill(&e->front->reserve);
    return e->planning != NULL;
}
