#include "server/dialect/answer_blocks.h"

#include <string.h>

#define MAX_BLOCK  (64 << 20) /* bytes, of one that is kept */
#define MAX_BLOCKS 1024

static void open_block(struct vr_buf *out, struct vr_front *f, struct vr_call *call, enum vr_delta kind)
{
    call->choices[0].text.max = call->choices[0].logprobs.max = call->body.max = MAX_BLOCK;
    call->blocks.open = (uint8_t)(kind + 1);
    call->dialect->blocks->open(out, f, call);
}

static void close_block(struct vr_buf *out, struct vr_front *f, struct vr_call *call)
{
    struct vr_blocks *b = &call->blocks;
    if (!b->open) return;
    call->dialect->blocks->close(out, f, call);
    b->open = 0;
    b->index++;
    vr_buf_clear(&call->choices[0].text);
    vr_buf_clear(&call->choices[0].logprobs);
    free(VR_TAKE(b->id));
    free(VR_TAKE(b->name));
}

static void more(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_said_piece *p)
{
    struct vr_call_choice *c = &call->choices[0];
    if (p->n == 0 && p->n_logprobs == 0) return;
    vr_buf_add(&c->text, p->text, p->n);
    if (p->n_logprobs) {
        if (c->logprobs.n) vr_buf_addc(&c->logprobs, ',', 1);
        vr_buf_add(&c->logprobs, p->logprobs, p->n_logprobs);
    }
    call->dialect->blocks->more(out, f, call, p);
}

static char *copy_of(const json_t *v)
{
    const char *s = json_string_value(v);
    return strdup(s ? s : "");
}

/* One entry of delta.tool_calls: its id and name come with the first piece. */
static void add_call(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_said_piece *p)
{
    struct vr_blocks *b = &call->blocks;
    json_t *delta = json_loadb(p->text, p->n, JSON_ALLOW_NUL, NULL), *function = json_object_get(delta, "function");
    const json_t *text = json_object_get(function, "arguments");
    uint32_t index = (uint32_t)json_integer_value(json_object_get(delta, "index"));
    if (function && (b->open != VR_DELTA_TOOL + 1 || b->tool != index)) {
        close_block(out, f, call);
        b->tool = index;
        b->id = copy_of(json_object_get(delta, "id"));
        b->name = copy_of(json_object_get(function, "name"));
        if (b->id && b->name) open_block(out, f, call, VR_DELTA_TOOL);
    }
    if (b->open == VR_DELTA_TOOL + 1)
        more(out, f, call,
             &(struct vr_said_piece){ 0, VR_DELTA_TOOL, json_string_value(text), json_string_length(text), NULL, 0 });
    json_decref(delta);
}

void vr_blocks_delta(struct vr_buf *out, struct vr_front *f, struct vr_call *call, const struct vr_said_piece *p)
{
    if (call->blocks.index >= MAX_BLOCKS) return;
    if (p->what == VR_DELTA_TOOL) return add_call(out, f, call, p);
    if (call->blocks.open != p->what + 1) {
        if (p->n == 0) return;
        close_block(out, f, call);
        open_block(out, f, call, p->what);
    }
    more(out, f, call, p);
}

void vr_blocks_finish(struct vr_buf *out, struct vr_front *f, struct vr_call *call, size_t choice)
{
    (void)choice; /* there is one */
    close_block(out, f, call);
}
