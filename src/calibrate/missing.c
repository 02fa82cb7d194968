#include "calibrate/missing.h"

#include <stdio.h>
#include <string.h>

#include "gguf/type.h"

/* --- rows --- */

bool vr_measured_has_type(const struct vr_measured *m, const char *name)
{
    for (size_t i = 0; i < m->n_types; i++)
        if (!strcmp(m->types[i].name, name)) return true;
    return false;
}

struct vr_measured_type *vr_measured_type_row(struct vr_measured *m, const char *name)
{
    for (size_t i = 0; i < m->n_types; i++)
        if (!strcmp(m->types[i].name, name)) return &m->types[i];
    if (m->n_types == VR_MAX_MEASURED_TYPES) return NULL;
    struct vr_measured_type *t = &m->types[m->n_types++];
    *t = (struct vr_measured_type){ 0 };
    snprintf(t->name, sizeof t->name, "%s", name);
    return t;
}

bool vr_measured_has_op(const struct vr_measured *m, const char *type)
{
    for (size_t i = 0; i < m->n_ops; i++)
        if (!strcmp(m->ops[i].type, type)) return true;
    return false;
}

void vr_measured_keep_op(struct vr_measured *m, const struct vr_measured_op *op)
{
    size_t i = 0;
    while (i < m->n_ops && (strcmp(m->ops[i].name, op->name) != 0 || strcmp(m->ops[i].type, op->type) != 0)) i++;
    if (i == VR_MAX_MEASURED_OPS) return;
    if (i == m->n_ops) m->n_ops++;
    m->ops[i] = *op;
}

struct vr_link *vr_measured_link(struct vr_machine *m, uint16_t a, uint16_t b)
{
    for (size_t i = 0; i < m->n_links; i++)
        if (m->links[i].a == a && m->links[i].b == b) return &m->links[i];
    if (m->n_links == VR_COUNT(m->links)) return NULL;
    m->links[m->n_links] = (struct vr_link){ .a = a, .b = b };
    return &m->links[m->n_links++];
}

/* --- places --- */

static bool host_alone(const struct vr_machine *m, const struct vr_budgets *b) { return m->n_devices && !b->n; }

struct vr_measured *vr_calibrate_host(struct vr_machine *m, const struct vr_budgets *b)
{
    return host_alone(m, b) ? &m->host.alone : &m->host.measured;
}

/* Item i of the budgets, or behind the last one the host. */
static const struct vr_measured *place(const struct vr_machine *m, const struct vr_budgets *b, size_t i)
{
    if (i < b->n) return &m->devices[b->items[i].device].measured;
    return host_alone(m, b) ? &m->host.alone : &m->host.measured;
}

bool vr_calibrated(const struct vr_calibrate *c, const struct vr_machine *m, const struct vr_budgets *b)
{
    for (size_t i = 0; i <= b->n; i++) {
        const struct vr_measured *x = place(m, b, i);
        if (!x->when[0] || !vr_measured_has_op(x, "")) return false;
        for (size_t t = 0; t < c->n_caches; t++)
            if (!vr_measured_has_op(x, vr_type(c->caches[t])->name)) return false;
        for (size_t t = 0; t < c->n_types; t++)
            if (!vr_measured_has_type(x, vr_type(c->types[t])->name)) return false;
    }
    return true;
}

void vr_calibrate_forget_old(struct vr_machine *m, const struct vr_budgets *b)
{
    for (size_t i = 0; i <= b->n; i++) {
        struct vr_measured *x = i < b->n ? &m->devices[b->items[i].device].measured : vr_calibrate_host(m, b);
        if (!vr_measured_has_op(x, "")) *x = (struct vr_measured){ 0 };
    }
}

int vr_calibrate_twin(const struct vr_machine *m, const struct vr_budgets *b, size_t i)
{
    const struct vr_device *d = &m->devices[b->items[i].device];
    for (size_t k = 0; k < i; k++) {
        const struct vr_device *e = &m->devices[b->items[k].device];
        if (!strcmp(d->name, e->name) && d->total_bytes == e->total_bytes && e->measured.when[0]) return (int)k;
    }
    return -1;
}

unsigned vr_calibrate_steps(const struct vr_calibrate *c, const struct vr_machine *m, const struct vr_budgets *b)
{
    size_t n = b->n, kinds = 0;
    for (size_t i = 0; i < n; i++) {
        bool new = true;
        for (size_t k = 0; k < i; k++)
            new &= strcmp(m->devices[b->items[i].device].name, m->devices[b->items[k].device].name) != 0;
        kinds += new;
    }
    size_t pairs = n * (n - (n > 0)) / 2, reductions = n > VR_CALIBRATE_PAIRS ? n - 1 : pairs; /* over two, and … */
    if (n > 2) reductions += n - 2;                                                            /* … over more */
    return (unsigned)(2 * n + (kinds + 1) * (c->n_types + 2) + pairs + reductions + c->n_types);
}
