/* The supervisor's states: what happens to an engine, as rows of events, and what holds in every state. */
#include "test.h"

#include "server/supervise/supervise.h"

enum { END = -1 };

static const struct {
    const char *what;
    int events[12];
    enum vr_worker_state last, first; /* LOADING unless it says otherwise */
} lives[] = {
    { "comes up", { VR_ON_SAID_READY, END }, VR_WORKER_READY },
    { "crashes and is started again",
      { VR_ON_SAID_READY, VR_ON_HUNG_UP, VR_ON_EXITED, VR_ON_TIMER, VR_ON_SAID_READY, END },
      VR_WORKER_READY },
    { "crashes while it loads, until that is enough",
      { VR_ON_HUNG_UP, VR_ON_EXITED, VR_ON_TIMER, VR_ON_HUNG_UP, VR_ON_GAVE_UP, END },
      VR_WORKER_GONE },
    { "is short of memory, twice",
      { VR_ON_SAID_SHORT, VR_ON_HUNG_UP, VR_ON_EXITED, VR_ON_PLANNED, VR_ON_HAS_ROOM, VR_ON_SAID_SHORT, VR_ON_HUNG_UP,
        VR_ON_EXITED, VR_ON_PLANNED, VR_ON_HAS_ROOM, VR_ON_SAID_READY, END },
      VR_WORKER_READY },
    { "crashes in split mode tensor, and goes on with another plan",
      { VR_ON_SAID_READY, VR_ON_HUNG_UP, VR_ON_BLAMED, VR_ON_EXITED, VR_ON_PLANNED, VR_ON_HAS_ROOM, VR_ON_SAID_READY,
        END },
      VR_WORKER_READY },
    { "no plan helps, and it was up before",
      { VR_ON_SAID_READY, VR_ON_SAID_SHORT, VR_ON_HUNG_UP, VR_ON_EXITED, VR_ON_NOT_PLANNED, VR_ON_TIMER, END },
      VR_WORKER_LOADING },
    { "no plan helps, and it never was",
      { VR_ON_SAID_SHORT, VR_ON_HUNG_UP, VR_ON_EXITED, VR_ON_GAVE_UP, END },
      VR_WORKER_GONE },
    { "fails for good", { VR_ON_SAID_FAILED, VR_ON_GAVE_UP, VR_ON_HUNG_UP, VR_ON_EXITED, END }, VR_WORKER_GONE },
    { "fails after it was up",
      { VR_ON_SAID_READY, VR_ON_SAID_FAILED, VR_ON_HUNG_UP, VR_ON_EXITED, END },
      VR_WORKER_WAITING },
    { "cannot be started for a while",
      { VR_ON_HUNG_UP, VR_ON_EXITED, VR_ON_TIMER, VR_ON_NOT_STARTED, VR_ON_TIMER, END },
      VR_WORKER_LOADING },
    { "is stopped", { VR_ON_SAID_READY, VR_ON_STOP, VR_ON_HUNG_UP, VR_ON_EXITED, END }, VR_WORKER_GONE },
    { "is stopped, and fails meanwhile",
      { VR_ON_SAID_READY, VR_ON_STOP, VR_ON_SAID_FAILED, VR_ON_HUNG_UP, VR_ON_EXITED, END },
      VR_WORKER_GONE },
    { "is stopped between two lives", { VR_ON_HUNG_UP, VR_ON_EXITED, VR_ON_STOP, END }, VR_WORKER_GONE },
    { "is loaded on demand, leaves for another, and comes back",
      { VR_ON_WANTED, VR_ON_PLANNED, VR_ON_HAS_ROOM, VR_ON_SAID_READY, VR_ON_UNLOAD, VR_ON_HUNG_UP, VR_ON_EXITED,
        VR_ON_WANTED, VR_ON_PLANNED, VR_ON_HAS_ROOM, END },
      VR_WORKER_LOADING,
      VR_WORKER_DOWN },
    { "has to wait for others, and is not wanted any more",
      { VR_ON_WANTED, VR_ON_BLOCKED, VR_ON_WANTED, VR_ON_PLANNED, VR_ON_UNLOAD, END },
      VR_WORKER_DOWN,
      VR_WORKER_DOWN },
    { "is not wanted any more while it loads, and says so too late that it is ready",
      { VR_ON_UNLOAD, VR_ON_SAID_READY, VR_ON_HUNG_UP, VR_ON_EXITED, END },
      VR_WORKER_DOWN },
    { "is short of memory on demand, and is not wanted any more",
      { VR_ON_SAID_SHORT, VR_ON_UNLOAD, VR_ON_HUNG_UP, VR_ON_EXITED, END },
      VR_WORKER_DOWN },
    { "dies on demand, and waits to be wanted again",
      { VR_ON_SAID_READY, VR_ON_HUNG_UP, VR_ON_EXITED, VR_ON_RESTED, VR_ON_WANTED, END },
      VR_WORKER_PLANNING },
    { "no plan is to be had on demand",
      { VR_ON_WANTED, VR_ON_NOT_PLANNED, VR_ON_RESTED, END },
      VR_WORKER_DOWN,
      VR_WORKER_DOWN },
};

static void test_lives(void **state)
{
    (void)state;
    for (size_t i = 0; i < VR_COUNT(lives); i++) {
        enum vr_worker_state s = lives[i].first; /* LOADING is the first of them */
        assert_int_equal(VR_WORKER_LOADING, 0);
        for (const int *e = lives[i].events; *e != END; e++)
            if (!vr_worker_next(s, (enum vr_worker_event) * e, &s))
                fail_msg("%s: event %d cannot happen in state %d", lives[i].what, *e, s);
        if (s != lives[i].last) fail_msg("%s: ends in state %d", lives[i].what, s);
    }
}

/* What an engine may not do. */
static void test_faults(void **state)
{
    (void)state;
    static const struct {
        enum vr_worker_state in;
        enum vr_worker_event event;
    } faults[] = {
        { VR_WORKER_READY, VR_ON_SAID_READY },   { VR_WORKER_FAILED, VR_ON_SAID_READY },
        { VR_WORKER_FAILED, VR_ON_SAID_FAILED }, { VR_WORKER_SHORT, VR_ON_SAID_SHORT },
        { VR_WORKER_PLANNING, VR_ON_TIMER },     { VR_WORKER_GONE, VR_ON_TIMER },
        { VR_WORKER_GONE, VR_ON_PLANNED },       { VR_WORKER_READY, VR_ON_GAVE_UP },
        { VR_WORKER_READY, VR_ON_BLAMED },       { VR_WORKER_STOPPING, VR_ON_BLAMED },
        { VR_WORKER_READY, VR_ON_WANTED },       { VR_WORKER_DOWN, VR_ON_UNLOAD },
        { VR_WORKER_STOPPING, VR_ON_UNLOAD },    { VR_WORKER_GONE, VR_ON_WANTED },
    };
    for (size_t i = 0; i < VR_COUNT(faults); i++) {
        enum vr_worker_state s;
        assert_false(vr_worker_next(faults[i].in, faults[i].event, &s));
    }
}

/* Whatever it does, it can be stopped, and no timer or plan brings it back then. */
static void test_stop(void **state)
{
    (void)state;
    for (enum vr_worker_state from = 0; from < VR_N_WORKER_STATES; from++) {
        enum vr_worker_state s, t;
        assert_true(vr_worker_next(from, VR_ON_STOP, &s));
        assert_true(s == VR_WORKER_STOPPING || s == VR_WORKER_GONE);
        for (enum vr_worker_event e = 0; e < VR_N_WORKER_EVENTS; e++)
            if (vr_worker_next(s, e, &t)) assert_true(t == s || t == VR_WORKER_GONE);
        assert_true(vr_worker_next(s, VR_ON_EXITED, &t) && t == VR_WORKER_GONE);
        assert_non_null(vr_worker_state_name(from));
    }
}

/* Deaths count in a row only when the engine was not up for a while between them. */
static void test_backoff(void **state)
{
    (void)state;
    static const struct {
        uint64_t up_ms; /* before it died */
        uint64_t pause_ms;
    } deaths[] = { { 1000, 500 },     { 59000, 1000 },   { 100, 2000 }, { 0, 4000 },
                   { 0, 8000 },       { 60000, 16000 },  { 0, 30000 },  { 0, 30000 },
                   { 86400000, 500 }, { 86400000, 500 }, { 100, 1000 }, { 60001, 500 } };
    unsigned in_a_row = 0;
    for (size_t i = 0; i < VR_COUNT(deaths); i++) {
        in_a_row = vr_worker_deaths(in_a_row, deaths[i].up_ms) + 1;
        if (vr_worker_pause_ms(in_a_row, 500) != deaths[i].pause_ms) fail_msg("death %zu", i);
    }
    assert_int_equal(vr_worker_pause_ms(0, 500), 500);
    assert_int_equal(vr_worker_pause_ms(4000000000u, 500), 30000);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_lives), cmocka_unit_test(test_faults),
                                        cmocka_unit_test(test_stop), cmocka_unit_test(test_backoff) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
