#include "cli/text/show_reduce.h"

#include "base/table.h"
#include "cli/text/show.h"
#include "plan/speed.h"

void vr_show_reduce_way(struct vr_buf *out, const struct vr_machine *m)
{
    VR_AUTO_FREE struct vr_speeds *s = m->n_devices > 1 ? malloc(sizeof *s) : NULL;
    if (!s) return;
    vr_speeds_of(m, s);
    enum vr_reduce_way two = vr_speed_reduce_way(s, 3), all = vr_speed_reduce_way(s, (UINT64_C(1) << m->n_devices) - 1);
    vr_show_fact(out, "reductions", "split mode tensor adds up with %s%s%s%s", vr_reduce_way_name(two),
                 two == all ? "" : ", and with ", two == all ? "" : vr_reduce_way_name(all),
                 two == all ? "" : " on more");
}

static void show_devices(struct vr_table *t, const struct vr_machine *m, uint64_t devices)
{
    VR_AUTO_BUF names = { 0 };
    for (size_t i = 0; i < m->n_devices; i++)
        if (devices >> i & 1) vr_buf_addf(&names, "%s%s", names.n ? ", " : "", m->devices[i].id);
    vr_table_cell(t, "%s", vr_buf_str(&names));
}

void vr_show_reductions(struct vr_buf *out, const struct vr_machine *m)
{
    VR_AUTO_TABLE t = { .cols = { { "reductions over", false },
                                  { "us for 10 kB", true },
                                  { "1 MiB", true },
                                  { "4 MiB", true },
                                  { "32 MiB", true },
                                  { "GB/s", true } },
                        .n_cols = 6,
                        .indent = "  ",
                        .color = vr_show_color() };
    const double largest = vr_reduce_bytes[VR_REDUCE_SIZES - 1];
    for (size_t i = 0; i < m->n_reductions; i++) {
        const struct vr_measured_reduction *r = &m->reductions[i];
        vr_table_row(&t);
        show_devices(&t, m, r->devices);
        for (size_t k = 0; k < VR_REDUCE_SIZES; k++) vr_table_cell(&t, r->us[k] < 100 ? "%.1f" : "%.0f", r->us[k]);
        vr_table_cell(&t, "%.1f", largest / r->us[VR_REDUCE_SIZES - 1] / 1e3);
    }
    if (!m->n_reductions) return;
    vr_buf_adds(out, "\n");
    vr_table_print(&t, out);
}
