/* Pieces of output that several commands share: the machine as a table and as JSON, the model as JSON. */
#ifndef VR_CLI_SHOW_H
#define VR_CLI_SHOW_H

#include <jansson.h>

#include "cli/input/input.h"
#include "fit/fit.h"

/* Colour and bold are for terminals; NO_COLOR in the environment turns them off. */
bool vr_show_color(void);

/* Columns of the terminal; 0 where the output is none, and lines are as long as they are. */
size_t vr_show_width(void);
/* Words in lines of `width` columns, if it is not 0: the first begins at column `indent`, where the others begin, too.
 */
void vr_show_wrapped(struct vr_buf *out, const char *text, size_t indent, size_t width);

/* A title line, and "  label          text" lines below it. */
void vr_show_title(struct vr_buf *out, const char *text);
void vr_show_fact(struct vr_buf *out, const char *label, const char *fmt, ...) VR_PRINTF(3, 4);

void vr_show_host(struct vr_buf *out, const struct vr_host *h);
/* The host line, the devices with what may be used of them, what was left out and why. */
void vr_show_machine(struct vr_buf *out, const struct vr_input *in);
/* "PCIe 4 x8", "PCIe 4 x16, idle at 1"; to another machine: "1.10 GB/s, 0.21 ms" */
const char *vr_show_link(char *text, size_t n, const struct vr_device *d);

/* The caller owns the results; NULL when memory is out. */
json_t *vr_json_profile(const struct vr_machine *m);
json_t *vr_json_machine(const struct vr_input *in);
json_t *vr_json_model(const struct vr_model *m); /* what every command tells of a model */
/* What was asked, with all that a replay needs: what would be loaded for it, how much of the context is full when
 * speeds are told, and what should be fast. */
json_t *vr_json_goal(const struct vr_load_params *load, const struct vr_fit_ask *ask, const char *optimize);
/* Appends the tree as text and frees it. */
bool vr_json_print(json_t *tree, struct vr_buf *out, struct vr_err *err) VR_MUST_CHECK;

#endif
