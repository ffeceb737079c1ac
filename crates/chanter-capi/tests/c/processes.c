/* Figure 14: global threads in this process and in the next one, and their messages. */
#include "check.h"

enum { ASK = 3, ANSWER = 4, DONE = 5 };

static void *add(void *arg) { return (void *)((intptr_t)arg + 1); }

static void *exits(void *arg) {
    pthread_chanter_yield();
    pthread_chanter_exit(arg);
    return NULL;
}

/* Answers `arg` questions of anybody. */
static void *answers(void *arg) {
    for (intptr_t left = (intptr_t)arg; left > 0; left--) {
        pthread_chanter_t from;
        int number;
        from.process = PTHREAD_CHANTER_ANY;
        OK(pthread_chanter_recv(ASK, (char *)&number, sizeof number, &from));
        number *= 2;
        OK(pthread_chanter_send(ANSWER, (const char *)&number, sizeof number, &from));
    }
    return (void *)(intptr_t)pthread_chanter_process(pthread_chanter_self());
}

static void *waits(void *arg) {
    pthread_chanter_t from;
    char letter;
    from.process = PTHREAD_CHANTER_ANY;
    pthread_chanter_recv(PTHREAD_CHANTER_ANY, &letter, 1, &from);
    CHECK(0);
    return arg;
}

static void ask(const pthread_chanter_t *whom, int count) {
    for (int n = 0; n < count; n++) {
        int answer = 0, handle, tested;
        pthread_chanter_t from = *whom;
        if (n % 3 == 0) {
            OK(pthread_chanter_send(ASK, (const char *)&n, sizeof n, whom));
            OK(pthread_chanter_recv(ANSWER, (char *)&answer, sizeof answer, &from));
        } else if (n % 3 == 1) {
            OK(pthread_chanter_irecv(&handle, ANSWER, (char *)&answer, sizeof answer, &from));
            CHECK(pthread_chanter_msgtest(handle) == 0);
            OK(pthread_chanter_send(ASK, (const char *)&n, sizeof n, whom));
            OK(pthread_chanter_msgwait(handle));
            CHECK(pthread_chanter_msgwait(handle) == EINVAL);
            CHECK(pthread_chanter_msgtest(handle) == -EINVAL);
        } else {
            OK(pthread_chanter_irecv(&handle, PTHREAD_CHANTER_ANY, (char *)&answer, sizeof answer, &from));
            OK(pthread_chanter_send(ASK, (const char *)&n, sizeof n, whom));
            while ((tested = pthread_chanter_msgtest(handle)) == 0) pthread_chanter_yield();
            CHECK(tested == 1);
        }
        CHECK(answer == 2 * n && pthread_chanter_equal(&from, whom));
    }
}

static void in_process(int process) {
    pthread_chanter_t thread, from;
    void *status;
    int words[2] = {1, 2}, word;
    OK(pthread_chanter_create(&thread, NULL, add, (void *)41, PTHREAD_CHANTER_LOCAL, process));
    OK(pthread_chanter_join(&thread, &status));
    CHECK(status == (void *)42);
    CHECK(pthread_chanter_join(&thread, &status) == ESRCH);
    OK(pthread_chanter_create(&thread, NULL, exits, (void *)9, PTHREAD_CHANTER_LOCAL, process));
    OK(pthread_chanter_join(&thread, &status));
    CHECK(status == (void *)9);
    OK(pthread_chanter_create(&thread, NULL, answers, (void *)30, PTHREAD_CHANTER_LOCAL, process));
    ask(&thread, 30);
    OK(pthread_chanter_join(&thread, &status));
    CHECK((intptr_t)status == pthread_chanter_process(&thread));
    OK(pthread_chanter_create(&thread, NULL, waits, NULL, PTHREAD_CHANTER_LOCAL, process));
    OK(pthread_chanter_cancel(&thread));
    OK(pthread_chanter_join(&thread, &status));
    CHECK(status == PTHREAD_CHANTER_CANCELED);
    OK(pthread_chanter_create(&thread, NULL, add, NULL, PTHREAD_CHANTER_LOCAL, process));
    OK(pthread_chanter_detach(&thread));
    CHECK(pthread_chanter_cancel(&thread) == ESRCH);
    /* A message to oneself that is too long. */
    from = *pthread_chanter_self();
    OK(pthread_chanter_send(DONE, (const char *)words, sizeof words, &from));
    CHECK(pthread_chanter_recv(DONE, (char *)&word, sizeof word, &from) == EMSGSIZE);
    CHECK(word == 1);
    CHECK(pthread_chanter_send(-1, NULL, 0, &from) == EINVAL);
    CHECK(pthread_chanter_send(1, NULL, 1, &from) == EINVAL);
    CHECK(pthread_chanter_send(1, NULL, 0, NULL) == EINVAL);
    from.process = 77;
    CHECK(pthread_chanter_send(1, NULL, 0, &from) == EINVAL);
}

static int posted;
static chanter_event was_posted;

static void reverses(void *data, chanter_request *request, const char *buf, size_t count) {
    char back[64];
    CHECK(data == &posted && count <= sizeof back);
    OK(chanter_yield());
    for (size_t at = 0; at < count; at++) back[at] = buf[count - 1 - at];
    OK(chanter_rsr_reply(request, back, count));
    CHECK(chanter_rsr_reply(request, back, count) == EALREADY);
}

static void exits_early(void *data, chanter_request *request, const char *buf, size_t count) {
    (void)data, (void)request, (void)buf, (void)count;
    if (count == 1) OK(chanter_event_set(was_posted, 1));
    chanter_thread_exit(NULL);
}

static void requests(int process) {
    char answer[8];
    size_t length = sizeof answer;
    OK(chanter_rsr_call(process, "reverses", "abc", 3, answer, &length, CHANTER_FOREVER));
    CHECK(length == 3 && memcmp(answer, "cba", 3) == 0);
    length = 2;
    CHECK(chanter_rsr_call(process, "reverses", "abc", 3, answer, &length, CHANTER_FOREVER) == EMSGSIZE);
    CHECK(length == 3);
    length = 0;
    OK(chanter_rsr_call(process, "exits", NULL, 0, NULL, &length, CHANTER_FOREVER));
    CHECK(length == 0);
    CHECK(chanter_rsr_call(process, "nobody", NULL, 0, NULL, &length, CHANTER_FOREVER) == ENOSYS);
    CHECK(chanter_rsr_call(77, "exits", NULL, 0, NULL, &length, CHANTER_FOREVER) == EINVAL);
}

/* The calls that may block, where no call may, and those that functions of the library's may not make. */
static int calls_in_poll(void *state, chanter_context *context) {
    pthread_chanter_t self = *(pthread_chanter_t *)state, thread;
    size_t length = 0;
    (void)context;
    CHECK(pthread_chanter_create(&thread, NULL, add, NULL, PTHREAD_CHANTER_LOCAL, self.process) == EPERM);
    CHECK(pthread_chanter_join(&self, NULL) == EPERM);
    CHECK(pthread_chanter_cancel(&self) == EPERM);
    CHECK(pthread_chanter_detach(&self) == EPERM);
    CHECK(chanter_rsr_call(self.process, "nobody", NULL, 0, NULL, &length, 0) == EPERM);
    OK(chanter_rsr_register("of a poll body", exits_early, NULL));
    return CHANTER_DONE;
}

static void calls_in_callback(void *state) {
    CHECK(chanter_rsr_register("of a callback", exits_early, NULL) == EPERM);
    CHECK(chanter_rsr_send(((pthread_chanter_t *)state)->process, "nobody", NULL, 0) == EPERM);
}

static void *talks(void *arg) {
    pthread_chanter_t *self = pthread_chanter_self();
    chanter_thread polled;
    CHECK(self != NULL && self->thread != 0);
    OK(chanter_thread_spawn_poll(CHANTER_NONE, NULL, calls_in_poll, self, calls_in_callback, &polled));
    OK(chanter_thread_join(polled, NULL, CHANTER_FOREVER));
    in_process((int)(intptr_t)arg);
    return NULL;
}

static void *machine_of_job(void *machine) {
    OK(chanter_machine_current(machine));
    return NULL;
}

int main(void) {
    chanter_machine machine;
    pthread_chanter_t *self, thread, other;
    int me, count, next;
    chanter_config config = {0};
    config.size = sizeof config;
    config.processors = 100000;
    CHECK(chanter_init(&config) == ENOMEM);
    config.processors = 2;
    CHECK(pthread_chanter_self() == NULL && chanter_process_count() == 0);
    OK(chanter_event_create(&was_posted));
    OK(chanter_rsr_register("reverses", reverses, &posted));
    OK(chanter_rsr_register("exits", exits_early, NULL));
    CHECK(chanter_rsr_register("exits", exits_early, NULL) == EALREADY);
    OK(chanter_init(&config));
    CHECK(chanter_init(&config) == EALREADY);
    self = pthread_chanter_self();
    count = chanter_process_count();
    me = pthread_chanter_process(self);
    next = (me + 1) % count;
    CHECK(self->thread == 0 && pthread_chanter_pe(self) >= 0 && me < count);
    in_process(PTHREAD_CHANTER_LOCAL);
    in_process(next);
    requests(PTHREAD_CHANTER_LOCAL);
    requests(next);
    OK(chanter_rsr_send(next, "exits", "x", 1));
    OK(chanter_event_wait(was_posted, NULL, CHANTER_FOREVER));
    OK(pthread_chanter_create(&thread, NULL, talks, (void *)(intptr_t)next, PTHREAD_CHANTER_LOCAL, me));
    CHECK(pthread_chanter_pthread(&thread) != 0);
    OK(pthread_chanter_join(&thread, NULL));
    CHECK(pthread_chanter_pthread(&thread) == 0);
    OK(pthread_chanter_create(&thread, NULL, machine_of_job, &machine, PTHREAD_CHANTER_LOCAL, me));
    OK(pthread_chanter_join(&thread, NULL));
    CHECK(chanter_machine_free(machine) == EPERM);
    /* All main threads meet, so that nobody leaves while others ask. */
    other = *self;
    for (int process = 0; process < count; process++) {
        other.process = process;
        OK(pthread_chanter_send(DONE, NULL, 0, &other));
    }
    for (int process = 0; process < count; process++) {
        other.process = PTHREAD_CHANTER_ANY;
        OK(pthread_chanter_recv(DONE, NULL, 0, &other));
    }
    OK(chanter_finalize());
    CHECK(chanter_finalize() == ESRCH);
    CHECK(pthread_chanter_self() == NULL);
    puts("processes: well");
    return 0;
}
