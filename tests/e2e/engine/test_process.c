/* The life of the process: hang-ups, nonsense, STOP, a front that does not read. */
#include "test_engine.h"

#include <sys/wait.h>
#include <sys/socket.h>

static int ended(struct client *c)
{
    int status = 0;
    waitpid(c->pid, &status, 0);
    json_decref(c->ready);
    json_decref(c->status);
    vr_buf_done(&c->in);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void test_hang_up_and_nonsense(void **state)
{
    (void)state;
    struct client c;
    struct answer a;
    up(&c, dense, FOUR);
    client_ask(&c, &a, 1, "{'kind':'completion','prompt':'abc','max_tokens':100000,'ignore_eos':true}");
    close(c.fd);
    assert_int_equal(ended(&c), 0);
    answer_done(&a);
    static const char *const nonsense[] = { "GET / HTTP/1.1\r\n\r\n", "\xff\xff\xff\xff\x02\0\0\0\0",
                                            "\0\0\0\0\x41\0\0\0\0" };
    for (size_t i = 0; i < VR_COUNT(nonsense); i++) {
        up(&c, dense, FOUR);
        assert_true(send(c.fd, nonsense[i], i == 0 ? 18 : 9, MSG_NOSIGNAL) > 0);
        assert_int_equal(ended(&c), 0);
        close(c.fd);
    }
}

void test_stop_finishes_streams(void **state)
{
    (void)state;
    struct client c;
    struct answer a, b;
    up(&c, dense, FOUR);
    client_ask(&c, &a, 1, "{'kind':'completion','prompt':'abc','max_tokens':30,'ignore_eos':true}");
    while (!a.begun) client_read(&c, 1000);
    VR_AUTO_BUF stop = { 0 };
    vr_wire_add_stop(&stop, 10000);
    assert_true(send(c.fd, stop.data, stop.n, 0) > 0);
    client_ask(&c, &b, 1, "{'kind':'completion','prompt':'abc'}");
    client_wait(&c, &b);
    assert_int_equal(b.status, 503);
    client_wait(&c, &a);
    assert_int_equal(a.end[0].completion_tokens, 30);
    answer_done(&a);
    answer_done(&b);
    assert_int_equal(client_stop(&c, 0), 0);
    /* and those that take too long are cut off */
    up(&c, dense, ", 'n_seq': 4, 'n_ctx': 65536");
    client_ask(&c, &a, 1, "{'kind':'completion','prompt':'abc','max_tokens':100000,'ignore_eos':true}");
    while (!a.begun) client_read(&c, 1000);
    assert_int_equal(client_stop(&c, 100), 0);
    assert_true(a.over && a.end[0].reason == VR_END_CANCELLED);
    answer_done(&a);
}

/* Nobody reads: the engine waits, and everything is there in the end. */
void test_front_that_does_not_read(void **state)
{
    (void)state;
    struct client c;
    static struct answer a[32];
    up(&c, dense, ", 'n_seq': 4, 'n_ctx': 16384");
    for (int i = 0; i < 32; i++)
        client_ask(
            &c, &a[i], 1,
            "{'kind':'completion','prompt':'abc %d','max_tokens':200,'ignore_eos':true,'stream':true,'logprobs':20,"
            "'temperature':1}",
            i);
    usleep(1500000);
    for (int i = 0; i < 32; i++) {
        client_wait(&c, &a[i]);
        assert_int_equal(a[i].end[0].completion_tokens, 200);
        answer_done(&a[i]);
    }
    down(&c);
}
