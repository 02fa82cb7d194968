/* Frames are written straight into the buffer that goes to the front: no copy, no JSON tree. */
#include "engine/process/deltas.h"

#include <string.h>

#include "base/clock.h"

enum {
    COLLECT = 32768, /* bytes of an answer that does not stream */
    MOST_DELTA = 1 << 20,
    PATIENCE = 8,       /* parsing may take one part in so many of the time */
    MORE_PATIENCE = 64, /* when nobody waits for pieces */
    SLOW_US = 25000,    /* of processor time: what takes longer, … */
    SLOW_TIMES = 3,     /* … so often in a row, since one may just have waited for memory, is parsed once more, … */
    MOST_GROWTH = 4,    /* … at the end, and may become so much longer until then */
    MOST_DEPTH = 10000, /* brackets in brackets: the parser calls itself for each */
};

bool vr_reply_init(struct vr_reply *r, const struct vr_request *request, uint8_t choice, struct vr_err *err)
{
    *r = (struct vr_reply){ .request = request, .choice = choice };
    r->text.stops = request->stops;
    r->text.n_stops = request->n_stops;
    if (!request->chat || vr_bridge_chat_plain(request->chat)) return true;
    r->answer = vr_bridge_answer_new(request->chat, err);
    return r->answer != NULL;
}

void vr_reply_done(struct vr_reply *r)
{
    vr_text_done(&r->text);
    vr_bridge_answer_free(r->answer);
    vr_buf_done(&r->probs);
    *r = (struct vr_reply){ 0 };
}

/* --- frames --- */

struct sink {
    struct vr_reply *r;
    struct vr_buf *out;
};

/* Long texts in several frames, cut between characters. */
static void say(void *ctx, enum vr_said part, const char *text, size_t n)
{
    static const enum vr_delta what[] = {
        [VR_PART_TEXT] = VR_DELTA_TEXT, [VR_PART_REASONING] = VR_DELTA_REASONING, [VR_PART_TOOL] = VR_DELTA_TOOL
    };
    const struct sink *s = ctx;
    if (part == VR_PART_TOOL && n > 3 * MOST_DELTA) {
        s->r->failed = true; /* JSON cannot be cut */
        return;
    }
    while (n) {
        size_t k = n;
        if (part != VR_PART_TOOL && k > MOST_DELTA)
            for (k = MOST_DELTA; k > MOST_DELTA - 4 && (text[k] & 0xC0) == 0x80;) k--;
        vr_wire_add_delta(s->out, s->r->request->id, s->r->choice, what[part], text, k);
        text += k;
        n -= k;
    }
}

static void say_probs(struct vr_reply *r, struct vr_buf *out)
{
    if (r->probs.n == 0) return;
    if (r->probs.n <= 3 * MOST_DELTA)
        vr_wire_add_delta(out, r->request->id, r->choice, VR_DELTA_LOGPROBS, r->probs.data, r->probs.n);
    else
        r->failed = true;
    vr_buf_clear(&r->probs);
}

/* What of n bytes makes a parser call itself; brackets of text are counted with those of JSON. */
static void count_depth(struct vr_reply *r, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '[' || text[i] == '{') r->depth++;
        if ((text[i] == ']' || text[i] == '}') && r->depth) r->depth--;
        if (r->depth > MOST_DEPTH) r->refused = "the answer nests brackets too deeply for the chat template's parser";
    }
    r->n_parsed += n;
    if (r->n_slow && r->n_parsed > MOST_GROWTH * r->n_slow)
        r->refused = "the answer has become too long for the chat template's parser: allow fewer tools, or a shorter "
                     "answer (max_tokens)";
}

/* The template's parser, which the streams wait for. Processor time counts: on a busy machine it takes no more. */
static void parse(struct vr_reply *r, bool last, struct sink *s)
{
    r->behind = !last && (vr_now_fine_us() < r->parse_after_us || r->n_slow);
    if (r->behind) return;
    double cpu0 = vr_thread_us();
    vr_bridge_answer_say(r->answer, last, say, s);
    double took = vr_thread_us() - cpu0;
    r->parse_after_us = vr_now_fine_us() + took * (r->request->stream ? PATIENCE : MORE_PATIENCE);
    r->slow_times = took > SLOW_US ? r->slow_times + 1 : 0;
    if (r->slow_times == SLOW_TIMES) r->n_slow = r->n_parsed;
}

/* n bytes of text are sure. */
static void release(struct vr_reply *r, size_t n, bool last, struct vr_buf *out)
{
    struct sink s = { r, out };
    struct vr_err err;
    if (r->answer && !vr_bridge_answer_only_text(r->answer)) {
        if (n && !vr_bridge_answer_add(r->answer, r->text.held.data, n, &err)) r->failed = true;
        count_depth(r, r->text.held.data, n);
        if (r->refused) return;
        parse(r, last, &s);
        r->reasoning = vr_bridge_answer_reasons(r->answer);
    } else if (n) {
        r->reasoning = false;
        say(&s, VR_PART_TEXT, r->text.held.data, n);
    }
    vr_text_take(&r->text, n);
}

int vr_reply_add(struct vr_reply *r, const char *piece, size_t n, const struct vr_buf *probs, struct vr_buf *out)
{
    int stop;
    vr_text_add(&r->text, piece, n);
    if (probs) {
        if (r->probs.n) vr_buf_addc(&r->probs, ',', 1);
        vr_buf_add(&r->probs, probs->data, probs->n);
    }
    size_t ready = vr_text_ready(&r->text, &stop);
    if (r->text.held.failed || r->probs.failed) r->failed = true;
    if (stop >= 0) {
        release(r, ready, true, out);
        return stop;
    }
    if (!r->request->stream && !r->answer && ready < COLLECT && r->probs.n < COLLECT) return -1;
    release(r, ready, false, out);
    /* a token's probability goes with its text, or with what is said next */
    if (r->text.held.n == 0 && (!r->behind || r->probs.n >= COLLECT)) say_probs(r, out);
    return -1;
}

void vr_reply_end(struct vr_reply *r, bool stopped, struct vr_buf *out)
{
    if (!stopped) {
        vr_text_end(&r->text);
        release(r, r->text.held.n, true, out);
    }
    say_probs(r, out);
}

bool vr_reply_is_full(const struct vr_reply *r) { return r->answer && vr_bridge_answer_is_full(r->answer); }
bool vr_reply_has_tools(const struct vr_reply *r) { return r->answer && vr_bridge_answer_has_tools(r->answer); }
