/* Channels, events, choices, timers, descriptors, deadlines; losers are told, and values come back. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static chanter_channel words, replies;

static chanter_case a_case(int kind, uint64_t handle, uint64_t value) {
    chanter_case one;
    memset(&one, 0, sizeof one);
    one.size = sizeof one;
    one.kind = kind;
    one.handle = handle;
    one.value = value;
    return one;
}

static void *doubles(void *arg) {
    uint64_t value;
    int error;
    while ((error = chanter_recv(words, &value, CHANTER_FOREVER)) == 0)
        OK(chanter_send(replies, 2 * value, CHANTER_FOREVER));
    CHECK(error == EPIPE);
    return arg;
}

static void rendezvous(void) {
    chanter_thread thread;
    uint64_t value;
    OK(chanter_channel_create(0, NULL, &words));
    OK(chanter_channel_create(2, NULL, &replies));
    OK(chanter_thread_spawn(CHANTER_NONE, NULL, doubles, NULL, &thread));
    for (uint64_t n = 0; n < 1000; n++) {
        OK(chanter_send(words, n, CHANTER_FOREVER));
        OK(chanter_recv(replies, &value, chanter_now() + 60000 * MS));
        CHECK(value == 2 * n);
    }
    CHECK(chanter_recv(replies, &value, 0) == ETIMEDOUT);
    CHECK(chanter_recv(replies, &value, chanter_now() + MS) == ETIMEDOUT);
    OK(chanter_channel_close(words));
    CHECK(chanter_send(words, 1, CHANTER_FOREVER) == EPIPE);
    CHECK(chanter_send(words, 1, 0) == EPIPE);
    CHECK(chanter_send(words, 1, chanter_now() + MS) == EPIPE);
    OK(chanter_thread_join(thread, NULL, CHANTER_FOREVER));
    OK(chanter_channel_free(words));
    CHECK(chanter_channel_free(words) == EINVAL);
    CHECK(chanter_send(words, 1, 0) == EINVAL);
    CHECK(chanter_recv(replies + 1, &value, 0) == EINVAL);
    CHECK(chanter_recv(replies, NULL, 0) == EINVAL);
}

static int destroyed;
static void destroy(uint64_t value) {
    free(CHANTER_POINTER(value));
    destroyed++;
}

static chanter_event begun;

static void *sends_for_ever(void *arg) {
    uint64_t value = CHANTER_WORD(malloc(8));
    OK(chanter_event_set(begun, 0));
    chanter_send(*(chanter_channel *)arg, value, CHANTER_FOREVER);
    CHECK(0);
    return NULL;
}

static void owned(void) {
    chanter_channel channel;
    chanter_thread thread;
    size_t length;
    void *back = malloc(8);
    OK(chanter_channel_create(2, destroy, &channel));
    OK(chanter_send(channel, CHANTER_WORD(malloc(8)), CHANTER_FOREVER));
    OK(chanter_send(channel, CHANTER_WORD(malloc(8)), 0));
    OK(chanter_channel_length(channel, &length));
    CHECK(length == 2);
    CHECK(chanter_send(channel, CHANTER_WORD(back), 0) == ETIMEDOUT);
    CHECK(chanter_send(channel, CHANTER_WORD(back), chanter_now() + MS) == ETIMEDOUT);
    free(back);
    /* A send that is cancelled leaves its value to the channel. */
    OK(chanter_event_create(&begun));
    OK(chanter_thread_spawn(CHANTER_NONE, NULL, sends_for_ever, &channel, &thread));
    OK(chanter_event_wait(begun, NULL, CHANTER_FOREVER));
    OK(chanter_thread_cancel(thread));
    CHECK(chanter_thread_join(thread, NULL, CHANTER_FOREVER) == ECANCELED);
    CHECK(destroyed == 1);
    OK(chanter_channel_free(channel));
    CHECK(destroyed == 3);
}

static chanter_channel owner;
static int tries, left;

/* The value of a call that returns is the caller's, also while its thread is being cancelled. */
static void sends_in_cleanup(void *arg) {
    void *back = malloc(8);
    chanter_case cases[2];
    size_t chosen;
    uint64_t value;
    (void)arg;
    CHECK(chanter_send(owner, CHANTER_WORD(back), CHANTER_FOREVER) == ECANCELED);
    CHECK(chanter_send(owner, CHANTER_WORD(back), chanter_now() + 60000 * MS) == ECANCELED);
    cases[0] = a_case(CHANTER_CASE_SEND, owner, CHANTER_WORD(back));
    cases[1] = a_case(CHANTER_CASE_NEVER, 0, 0);
    CHECK(chanter_choose(cases, 2, CHANTER_FOREVER, &chosen) == ECANCELED);
    CHECK(chanter_choose(cases, 1, chanter_now() + 60000 * MS, NULL) == ECANCELED);
    CHECK(chanter_choose(cases, 2, 0, &chosen) == ETIMEDOUT);
    CHECK(destroyed == 0);
    free(back);
    /* A deadline that has passed makes the call try once, here as elsewhere. */
    for (int round = 0; round < 1000; round++) {
        OK(chanter_send(words, 7, 0));
        cases[0] = a_case(CHANTER_CASE_RECV, words, 0);
        OK(chanter_choose(cases, 2, 0, &chosen));
        CHECK(chosen == 0 && cases[0].value == 7);
    }
    CHECK(chanter_recv(words, &value, 0) == ETIMEDOUT);
    tries++;
}

static void tries_when_lost(void *arg) {
    chanter_case one = a_case(CHANTER_CASE_EVENT, *(chanter_event *)arg, 0);
    OK(chanter_choose(&one, 1, 0, NULL));
    CHECK(one.value == 3);
    left++;
}

static void *chooses_for_ever(void *arg) {
    chanter_case cases[2];
    size_t chosen;
    OK(chanter_cleanup_push(sends_in_cleanup, NULL));
    cases[0] = a_case(CHANTER_CASE_SEND, owner, CHANTER_WORD(malloc(8)));
    cases[1] = a_case(CHANTER_CASE_NEVER, 0, 0);
    cases[1].lost = tries_when_lost;
    cases[1].data = arg;
    OK(chanter_event_set(begun, 0));
    destroyed = -1; /* The value of this choice is destroyed. */
    chanter_choose(cases, 2, CHANTER_FOREVER, &chosen);
    CHECK(0);
    return NULL;
}

static void owned_in_cleanup(void) {
    chanter_thread thread;
    chanter_event happened;
    chanter_case cases[2];
    size_t chosen;
    void *back = malloc(8);
    OK(chanter_channel_create(0, destroy, &owner));
    OK(chanter_channel_create(1, NULL, &words));
    OK(chanter_event_create(&begun));
    OK(chanter_event_create(&happened));
    OK(chanter_event_set(happened, 3));
    OK(chanter_thread_spawn(CHANTER_NONE, NULL, chooses_for_ever, &happened, &thread));
    OK(chanter_event_wait(begun, NULL, CHANTER_FOREVER));
    OK(chanter_thread_cancel(thread));
    CHECK(chanter_thread_join(thread, NULL, CHANTER_FOREVER) == ECANCELED);
    CHECK(destroyed == 0 && tries == 1 && left == 1);
    /* A wrong case gives the values of those before it back. */
    cases[0] = a_case(CHANTER_CASE_SEND, owner, CHANTER_WORD(back));
    cases[1] = a_case(CHANTER_CASE_NEVER, 0, 0);
    cases[1].size = 64;
    CHECK(chanter_choose(cases, 2, 0, &chosen) == EINVAL);
    cases[1] = a_case(99, 0, 0);
    CHECK(chanter_choose(cases, 2, 0, &chosen) == EINVAL);
    CHECK(destroyed == 0);
    free(back);
    OK(chanter_channel_free(owner));
    OK(chanter_channel_free(words));
    OK(chanter_event_free(begun));
    OK(chanter_event_free(happened));
    /* A bounded channel has a greatest capacity. */
    CHECK(chanter_channel_create(1u << 27, NULL, &words) == EINVAL);
    OK(chanter_channel_create(CHANTER_CAPACITY_MOST, NULL, &words));
    OK(chanter_channel_free(words));
    CHECK(chanter_channel_create(CHANTER_CAPACITY_MOST + 1, NULL, &words) == EINVAL);
}

static int told[4];
static void lost(void *data) { told[(intptr_t)data]++; }

static void choices(void) {
    chanter_channel full, empty, ready;
    chanter_event nack, happened;
    chanter_case cases[5];
    size_t chosen;
    uint64_t value;
    OK(chanter_channel_create(0, NULL, &empty));
    OK(chanter_channel_create(1, NULL, &full));
    OK(chanter_channel_create(4, NULL, &ready));
    OK(chanter_event_create(&nack));
    OK(chanter_event_create(&happened));
    OK(chanter_send(full, 1, 0));
    cases[0] = a_case(CHANTER_CASE_RECV, empty, 0);
    cases[0].lost = lost;
    cases[0].data = (void *)1;
    cases[1] = a_case(CHANTER_CASE_SEND, full, 2);
    cases[1].nack = nack;
    cases[2] = a_case(CHANTER_CASE_TIMER, 0, chanter_now() + MS);
    cases[3] = a_case(CHANTER_CASE_NEVER, 0, 0);
    cases[4] = a_case(CHANTER_CASE_EVENT, happened, 0);
    OK(chanter_choose(cases, 5, CHANTER_FOREVER, &chosen));
    CHECK(chosen == 2 && cases[2].status == 0 && cases[0].status == EAGAIN && cases[1].value == 2);
    CHECK(told[1] == 1);
    OK(chanter_event_wait(nack, &value, 0));
    CHECK(value == 1);
    OK(chanter_recv(full, &value, 0));
    CHECK(value == 1);
    CHECK(chanter_recv(full, &value, 0) == ETIMEDOUT);

    CHECK(chanter_choose(cases, 1, 0, NULL) == ETIMEDOUT);
    CHECK(told[1] == 2);
    OK(chanter_event_set(happened, 9));
    CHECK(chanter_event_set(happened, 9) == EALREADY);
    cases[1].handle = empty;
    cases[1].nack = 0;
    cases[2].value = CHANTER_FOREVER;
    OK(chanter_choose(cases, 5, CHANTER_FOREVER, &chosen));
    CHECK(chosen == 4 && cases[4].value == 9);
    cases[4].kind = 99;
    CHECK(chanter_choose(cases, 5, CHANTER_FOREVER, &chosen) == EINVAL);
    CHECK(told[1] == 3);
    cases[0] = a_case(CHANTER_CASE_RECV, ready, 0);
    OK(chanter_send(ready, 5, 0));
    OK(chanter_choose(cases, 1, CHANTER_FOREVER, NULL));
    CHECK(cases[0].value == 5);
    OK(chanter_channel_close(ready));
    OK(chanter_choose(cases, 1, CHANTER_FOREVER, NULL));
    CHECK(cases[0].status == EPIPE);
    cases[0].size = 8;
    CHECK(chanter_choose(cases, 1, 0, NULL) == EINVAL);
    CHECK(chanter_choose(NULL, 1, 0, NULL) == EINVAL);
    CHECK(chanter_choose(cases, 5000, 0, &chosen) == EINVAL);
    CHECK(chanter_choose(NULL, 0, chanter_now() + MS, &chosen) == ETIMEDOUT);
    OK(chanter_channel_free(empty));
    OK(chanter_channel_free(full));
    OK(chanter_channel_free(ready));
    OK(chanter_event_free(nack));
    OK(chanter_event_free(happened));
}

static void *writes(void *arg) {
    OK(chanter_sleep(chanter_now() + MS));
    CHECK(write((int)(intptr_t)arg, "x", 1) == 1);
    return NULL;
}

/* A choice over a file leaves the locks that the process has there. */
static void files(void) {
    FILE *file = tmpfile();
    chanter_case one;
    struct flock lock;
    pid_t child;
    int ends[2];
    char seen = 0;
    CHECK(file != NULL && pipe(ends) == 0);
    memset(&lock, 0, sizeof lock);
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    CHECK(fcntl(fileno(file), F_SETLK, &lock) == 0);
    one = a_case(CHANTER_CASE_READABLE, (uint64_t)fileno(file), 0);
    OK(chanter_choose(&one, 1, CHANTER_FOREVER, NULL));
    CHECK(one.status == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        /* Another process sees the lock. Its exit code would be a leak checker's. */
        seen = fcntl(fileno(file), F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK ? 'y' : 'n';
        _exit(write(ends[1], &seen, 1) != 1);
    }
    CHECK(read(ends[0], &seen, 1) == 1 && seen == 'y');
    CHECK(waitpid(child, NULL, 0) == child);
    close(ends[0]);
    close(ends[1]);
    fclose(file);
}

static void descriptors(void) {
    int ends[2];
    char letter;
    chanter_thread thread;
    chanter_case cases[2];
    size_t chosen;
    CHECK(pipe(ends) == 0);
    for (int round = 0; round < 3; round++) {
        cases[0] = a_case(CHANTER_CASE_READABLE, (uint64_t)ends[0], 0);
        cases[1] = a_case(CHANTER_CASE_TIMER, 0, chanter_now() + MS / 2);
        OK(chanter_choose(cases, 2, CHANTER_FOREVER, &chosen));
        CHECK(chosen == 1);
        OK(chanter_thread_spawn(CHANTER_NONE, NULL, writes, (void *)(intptr_t)ends[1], &thread));
        OK(chanter_choose(cases, 1, CHANTER_FOREVER, NULL));
        CHECK(read(ends[0], &letter, 1) == 1);
        cases[1] = a_case(CHANTER_CASE_JOIN, thread, 0);
        OK(chanter_choose(cases + 1, 1, CHANTER_FOREVER, NULL));
        CHECK(chanter_thread_detach(thread) == EINVAL);
    }
    cases[0] = a_case(CHANTER_CASE_WRITABLE, (uint64_t)ends[1], 0);
    OK(chanter_choose(cases, 1, CHANTER_FOREVER, NULL));
    cases[0].handle = 987654;
    CHECK(chanter_choose(cases, 1, CHANTER_FOREVER, NULL) == EINVAL);
    close(ends[0]);
    close(ends[1]);
}

static chanter_channel one_way;

/* An operation goes on only with the function that has begun it. */
static int mixes(void *state, chanter_context *context) {
    chanter_op in = 0, out = 0, choice = 0;
    chanter_case one = a_case(CHANTER_CASE_SEND, one_way, 5);
    uint64_t value;
    (void)state;
    CHECK(chanter_poll_recv(context, &in, words, &value, CHANTER_FOREVER) == EAGAIN);
    CHECK(chanter_poll_send(context, &in, one_way, 5, CHANTER_FOREVER) == EINVAL);
    CHECK(chanter_poll_send(context, &out, one_way, 5, CHANTER_FOREVER) == EAGAIN);
    CHECK(chanter_poll_recv(context, &out, words, &value, CHANTER_FOREVER) == EINVAL);
    CHECK(chanter_poll_choose(context, &out, &one, 1, CHANTER_FOREVER, NULL) == EINVAL);
    CHECK(chanter_poll_choose(context, &choice, &one, 1, CHANTER_FOREVER, NULL) == EAGAIN);
    CHECK(chanter_poll_send(context, &choice, one_way, 5, CHANTER_FOREVER) == EINVAL);
    CHECK(chanter_poll_recv(context, &in, words, &value, CHANTER_FOREVER) == EAGAIN);
    OK(chanter_op_drop(&in));
    OK(chanter_op_drop(&out));
    OK(chanter_op_drop(&choice));
    return CHANTER_DONE;
}

static int leaves_a_send(void *state, chanter_context *context) {
    static chanter_op op;
    CHECK(chanter_poll_send(context, &op, one_way, CHANTER_WORD(state), CHANTER_FOREVER) == EAGAIN);
    OK(chanter_event_set(begun, 0));
    return CHANTER_PENDING;
}

static void forms(void) {
    chanter_thread thread;
    OK(chanter_channel_create(0, NULL, &words));
    OK(chanter_channel_create(0, NULL, &one_way));
    OK(chanter_thread_spawn_poll(CHANTER_NONE, NULL, mixes, NULL, NULL, &thread));
    OK(chanter_thread_join(thread, NULL, CHANTER_FOREVER));
    OK(chanter_channel_free(words));
    OK(chanter_channel_free(one_way));
    /* The value of an operation that its thread has left is destroyed. */
    destroyed = 0;
    OK(chanter_channel_create(0, destroy, &one_way));
    OK(chanter_event_create(&begun));
    OK(chanter_thread_spawn_poll(CHANTER_NONE, NULL, leaves_a_send, malloc(8), NULL, &thread));
    OK(chanter_event_wait(begun, NULL, CHANTER_FOREVER));
    OK(chanter_thread_cancel(thread));
    CHECK(chanter_thread_join(thread, NULL, CHANTER_FOREVER) == ECANCELED);
    CHECK(destroyed == 1);
    OK(chanter_event_free(begun));
    OK(chanter_channel_free(one_way));
    CHECK(destroyed == 1);
}

/* A poll body: receives with a deadline, chooses, and sends what it has seen. */
struct relay {
    chanter_op op, other;
    chanter_channel in, out;
    uint64_t value;
    int state, drops;
};

static int relay(void *state, chanter_context *context) {
    struct relay *me = (struct relay *)state;
    chanter_case cases[2];
    size_t chosen;
    int error;
    for (;;) {
        if (me->state == 0) {
            cases[0] = a_case(CHANTER_CASE_RECV, me->in, 0);
            cases[1] = a_case(CHANTER_CASE_TIMER, 0, CHANTER_FOREVER);
            cases[1].lost = lost;
            cases[1].data = (void *)2;
            error = chanter_poll_choose(context, &me->op, cases, 2, CHANTER_FOREVER, &chosen);
            if (error == EAGAIN) return CHANTER_PENDING;
            OK(error);
            CHECK(chosen == 0);
            if (cases[0].status == EPIPE) {
                OK(chanter_context_value(context, me));
                return CHANTER_DONE;
            }
            me->value = cases[0].value;
            me->state = 1;
        }
        error = chanter_poll_send(context, &me->op, me->out, me->value, CHANTER_FOREVER);
        if (error == EAGAIN) return CHANTER_PENDING;
        OK(error);
        me->state = 0;
    }
}

static int pends(void *state, chanter_context *context) {
    struct relay *me = (struct relay *)state;
    CHECK(chanter_poll_recv(context, &me->op, me->in, &me->value, 0) == ETIMEDOUT);
    CHECK(chanter_poll_recv(context, &me->op, me->in, &me->value, CHANTER_FOREVER) == EAGAIN);
    CHECK(chanter_poll_send(context, &me->other, me->out, CHANTER_WORD(malloc(8)), CHANTER_FOREVER) == EAGAIN);
    return CHANTER_PENDING;
}

static void drops(void *state) {
    struct relay *me = (struct relay *)state;
    OK(chanter_op_drop(&me->op));
    CHECK(me->op == 0);
    me->drops++;
}

/* Waits until a poll body has an operation. Most run at once, and some wait for their turn. */
static void has_begun(const chanter_op *op) {
    while (__atomic_load_n(op, __ATOMIC_ACQUIRE) == 0) OK(chanter_yield());
}

static void operations(void) {
    struct relay me;
    chanter_thread thread;
    void *status;
    uint64_t value;
    memset(&me, 0, sizeof me);
    OK(chanter_channel_create(0, NULL, &me.in));
    OK(chanter_channel_create(0, NULL, &me.out));
    told[2] = 0;
    OK(chanter_thread_spawn_poll(CHANTER_NONE, NULL, relay, &me, NULL, &thread));
    has_begun(&me.op);
    CHECK(chanter_op_drop(&me.op) == EPERM);
    for (uint64_t n = 0; n < 1000; n++) {
        OK(chanter_send(me.in, n, CHANTER_FOREVER));
        OK(chanter_recv(me.out, &value, CHANTER_FOREVER));
        CHECK(value == n);
    }
    CHECK(told[2] == 1000);
    OK(chanter_channel_close(me.in));
    OK(chanter_thread_join(thread, &status, CHANTER_FOREVER));
    CHECK(status == (void *)&me);
    OK(chanter_channel_free(me.in));
    OK(chanter_channel_free(me.out));

    destroyed = 0;
    memset(&me, 0, sizeof me);
    OK(chanter_channel_create(0, NULL, &me.in));
    OK(chanter_channel_create(0, destroy, &me.out));
    OK(chanter_thread_spawn_poll(CHANTER_NONE, NULL, pends, &me, drops, &thread));
    has_begun(&me.other);
    OK(chanter_thread_cancel(thread));
    CHECK(chanter_thread_join(thread, &status, CHANTER_FOREVER) == ECANCELED);
    CHECK(me.drops == 1 && destroyed == 1);
    OK(chanter_channel_free(me.in));
    OK(chanter_channel_free(me.out));
}

static void *outside(void *arg) {
    uint64_t value, sum = 0;
    while (chanter_recv(*(chanter_channel *)arg, &value, CHANTER_FOREVER) == 0) sum += value;
    return (void *)(uintptr_t)sum;
}

static void os_threads(void) {
    pthread_t thread;
    chanter_channel channel;
    void *sum;
    OK(chanter_channel_create(0, NULL, &channel));
    CHECK(pthread_create(&thread, NULL, outside, &channel) == 0);
    for (uint64_t n = 1; n <= 100; n++) OK(chanter_send(channel, n, CHANTER_FOREVER));
    OK(chanter_channel_close(channel));
    CHECK(pthread_join(thread, &sum) == 0);
    CHECK((uintptr_t)sum == 5050);
    OK(chanter_channel_free(channel));
}

static void *tests(void *arg) {
    rendezvous();
    owned();
    owned_in_cleanup();
    choices();
    descriptors();
    files();
    forms();
    operations();
    os_threads();
    return arg;
}

int main(void) {
    chanter_machine machine;
    OK(chanter_machine_create(NULL, &machine));
    OK(chanter_machine_run(machine, tests, NULL, NULL));
    OK(chanter_machine_free(machine));
    puts("channels: well");
    return 0;
}
