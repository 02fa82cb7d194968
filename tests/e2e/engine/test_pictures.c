/* A picture that takes long to compute: streams beside it go on, and it can be cancelled in the middle. */
#include "test_engine.h"

#define RED "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR42mP4JcKFFTEMLQkAll1GAYUV01UAAAAASUVORK5CYII="
#define LOOK                                                                                                           \
    "'kind':'chat','messages':[{'role':'user','content':[{'type':'text','text':'what is this?'},"                      \
    "{'type':'image_url','image_url':{'url':'data:image/png;base64," RED "'}},{'type':'text','text':' tell me'}]}],"   \
    "'max_tokens':12,'temperature':0,'ignore_eos':true,'cache_prompt':false"
#define TALK "'kind':'completion','prompt':'and then','max_tokens':2000,'temperature':0,'ignore_eos':true,'stream':true"

static void up_with_vision(struct client *c)
{
    VR_AUTO_BUF more = { 0 };
    vr_buf_addf(&more, FOUR ", 'mmproj': '%s'", vision);
    up(c, dense, vr_buf_str(&more));
}

/* What is said between the beginning of one answer and its first word is said while its picture is computed. */
void test_streams_beside_a_picture(void **state)
{
    (void)state;
    struct client c;
    struct answer talk, look;
    up_with_vision(&c);
    char *alone = ask_text(&c, LOOK), *talked = ask_text(&c, TALK);
    client_ask(&c, &talk, 1, "{" TALK ",'cache_prompt':false}");
    while (talk.n_deltas < 3) client_read(&c, 1000);
    client_ask(&c, &look, 1, "{" LOOK ",'stream':true}");
    while (!look.begun) client_read(&c, 1000);
    unsigned before = talk.n_deltas;
    while (look.n_deltas == 0 && !look.over) client_read(&c, 1000);
    assert_false(talk.over);
    if (talk.n_deltas < before + 10) fail_msg("%u tokens beside the picture", talk.n_deltas - before);
    client_wait(&c, &look);
    client_wait(&c, &talk);
    assert_null(look.error);
    assert_string_equal(vr_buf_str(&look.text[0]), alone);
    assert_string_equal(vr_buf_str(&talk.text[0]), talked);
    answer_done(&look);
    answer_done(&talk);
    free(alone);
    free(talked);
    down(&c);
}

/* The picture is left when nobody waits for it; the stream beside it does not notice, and the slot can be used. */
void test_cancel_a_picture(void **state)
{
    (void)state;
    struct client c;
    struct answer talk, look;
    up_with_vision(&c);
    char *want = ask_text(&c, LOOK);
    for (int beside = 0; beside < 2; beside++) {
        if (beside) client_ask(&c, &talk, 1, "{" TALK "}");
        while (beside && talk.n_deltas < 3) client_read(&c, 1000);
        client_ask(&c, &look, 2, "{" LOOK ",'n':2}");
        while (!look.begun) client_read(&c, 1000);
        unsigned then = beside ? talk.n_deltas : 0;
        while (beside && talk.n_deltas < then + 3) client_read(&c, 1000);
        client_send(&c, VR_WIRE_CANCEL, look.id, NULL, 0);
        client_wait(&c, &look);
        assert_int_equal(look.end[0].reason, VR_END_CANCELLED);
        assert_int_equal(look.end[1].reason, VR_END_CANCELLED);
        assert_int_equal(look.n_deltas, 0);
        answer_done(&look);
        char *again = ask_text(&c, LOOK);
        assert_string_equal(again, want);
        free(again);
        if (!beside) continue;
        assert_false(talk.over);
        client_send(&c, VR_WIRE_CANCEL, talk.id, NULL, 0);
        client_wait(&c, &talk);
        assert_null(talk.error);
        answer_done(&talk);
    }
    free(want);
    down(&c);
}
