/* Threads with both bodies: join, detach, exit, cancel, cleanup, keys, suspend, attributes, stacks. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <sys/mman.h>

#include "check.h"

static void *add(void *arg) { return (void *)((intptr_t)arg + 1); }

static int order[16], ordered;
static void note(void *arg) { order[ordered++] = (int)(intptr_t)arg; }

static void deep(int depth) {
    volatile int left = depth;
    if (left == 0) chanter_thread_exit((void *)77);
    if (left > 0) deep(left - 1);
    CHECK(left < 0);
}

static void *exits(void *arg) {
    (void)arg;
    OK(chanter_cleanup_push(note, (void *)1));
    OK(chanter_cleanup_push(note, (void *)2));
    OK(chanter_cleanup_push(note, (void *)3));
    OK(chanter_cleanup_pop(0));
    deep(20);
    return NULL;
}

static chanter_event begun;
static chanter_channel nothing;

static void blocks_in_cleanup(void *arg) {
    uint64_t value;
    note(arg);
    CHECK(chanter_recv(nothing, &value, CHANTER_FOREVER) == ECANCELED);
    CHECK(chanter_recv(nothing, &value, 0) == ETIMEDOUT);
}

static void *waits(void *arg) {
    uint64_t value;
    (void)arg;
    OK(chanter_cleanup_push(note, (void *)5));
    OK(chanter_cleanup_push(blocks_in_cleanup, (void *)6));
    OK(chanter_event_set(begun, 0));
    chanter_recv(nothing, &value, CHANTER_FOREVER);
    CHECK(0);
    return NULL;
}

static chanter_key key;
static int destroyed;
static void destroy(void *value) { destroyed += (int)(intptr_t)value; }

static void *with_key(void *arg) {
    void *value = &value;
    OK(chanter_key_get(key, &value));
    CHECK(value == NULL);
    OK(chanter_key_set(key, arg));
    OK(chanter_yield());
    OK(chanter_key_get(key, &value));
    CHECK(value == arg);
    return NULL;
}

static int count_to_five(void *state, chanter_context *context) {
    int *count = (int *)state;
    if (++*count == 5) {
        OK(chanter_context_value(context, (void *)55));
        return CHANTER_DONE;
    }
    OK(chanter_context_wake(context));
    return CHANTER_PENDING;
}

static int in_place;
static int at_once(void *state, chanter_context *context) {
    chanter_thread self;
    int error = chanter_thread_self(&self);
    (void)context;
    in_place = *(int *)state;
    /* It may have been detached before it runs. */
    CHECK(error == 0 || error == ESRCH);
    CHECK(chanter_yield() == EPERM);
    CHECK(chanter_sleep(CHANTER_FOREVER) == EPERM);
    CHECK(chanter_cleanup_push(note, NULL) == EPERM);
    return CHANTER_DONE;
}

static int never(void *state, chanter_context *context) {
    (void)state;
    (void)context;
    return CHANTER_PENDING;
}

static int states_destroyed;
static void destroy_state(void *state) { (void)state, states_destroyed++; }

static void *joins_itself(void *arg) {
    chanter_thread self;
    (void)arg;
    OK(chanter_thread_self(&self));
    CHECK(chanter_thread_join(self, NULL, CHANTER_FOREVER) == EDEADLK);
    return NULL;
}

static void *name_of_stack(void *arg) {
    char here;
    char **range = (char **)arg;
    CHECK(range[0] <= &here && &here < range[1]);
    OK(chanter_yield());
    return arg;
}

static void polls(void) {
    chanter_thread thread;
    void *status = NULL;
    int count = 0, seven = 7;
    chanter_attr host = {0};
    OK(chanter_thread_spawn_poll(CHANTER_NONE, NULL, at_once, &seven, destroy_state, &thread));
    CHECK(in_place == 7);
    OK(chanter_thread_join(thread, &status, CHANTER_FOREVER));
    CHECK(status == NULL && states_destroyed == 1);
    OK(chanter_thread_spawn_poll(CHANTER_NONE, NULL, count_to_five, &count, NULL, &thread));
    OK(chanter_thread_join(thread, &status, CHANTER_FOREVER));
    CHECK(status == (void *)55 && count == 5);
    count = 0;
    host.size = sizeof host;
    host.flags = CHANTER_HOST;
    OK(chanter_thread_spawn_poll(CHANTER_NONE, &host, count_to_five, &count, NULL, &thread));
    OK(chanter_thread_join(thread, &status, CHANTER_FOREVER));
    CHECK(status == (void *)55);
    OK(chanter_thread_spawn_poll(CHANTER_NONE, NULL, never, NULL, destroy_state, &thread));
    CHECK(chanter_thread_join(thread, &status, 0) == ETIMEDOUT);
    OK(chanter_thread_cancel(thread));
    CHECK(chanter_thread_join(thread, &status, CHANTER_FOREVER) == ECANCELED);
    CHECK(states_destroyed == 2);
    OK(chanter_thread_spawn_poll(CHANTER_NONE, NULL, at_once, &seven, NULL, &thread));
    OK(chanter_thread_detach(thread));
    CHECK(chanter_thread_detach(thread) == EINVAL);
}

static void suspended(void) {
    chanter_thread thread;
    int count = 0;
    chanter_attr attr = {0};
    attr.size = sizeof attr;
    attr.flags = CHANTER_HOST;
    OK(chanter_thread_spawn_poll(CHANTER_NONE, &attr, count_to_five, &count, NULL, &thread));
    OK(chanter_thread_suspend(thread));
    CHECK(chanter_thread_join(thread, NULL, chanter_now() + 5 * MS) == ETIMEDOUT);
    OK(chanter_thread_resume(thread));
    OK(chanter_thread_join(thread, NULL, CHANTER_FOREVER));
}

static void stacks(void) {
    chanter_thread thread;
    void *status;
    size_t size = 256 * 1024;
    char *memory = (char *)mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *range[2];
    chanter_attr attr = {0};
    CHECK(memory != MAP_FAILED);
    range[0] = memory;
    range[1] = memory + size;
    attr.size = sizeof attr;
    attr.stack = memory;
    attr.stack_size = size;
    attr.name = "on a stack of its own";
    for (int round = 0; round < 3; round++) {
        OK(chanter_thread_spawn(CHANTER_NONE, &attr, name_of_stack, range, &thread));
        OK(chanter_thread_join(thread, &status, CHANTER_FOREVER));
        CHECK(status == (void *)range);
    }
    attr.stack_size = 1000;
    CHECK(chanter_thread_spawn(CHANTER_NONE, &attr, add, NULL, &thread) == EINVAL);
    munmap(memory, size);
}

static void *detaches_itself(void *arg) {
    chanter_thread self;
    OK(chanter_thread_self(&self));
    OK(chanter_thread_detach(self));
    return arg;
}

static void *waits_for_nothing(void *arg) {
    uint64_t value;
    chanter_recv(nothing, &value, CHANTER_FOREVER);
    CHECK(0);
    return arg;
}

/* A thread is asked while the call that spawns it goes on: it has told its handle to another one. */
static chanter_channel told_handles;

static void *tells_itself(void *arg) {
    chanter_thread self;
    OK(chanter_thread_self(&self));
    OK(chanter_send(told_handles, self, 0));
    return waits_for_nothing(arg);
}

static void *cancels(void *arg) {
    uint64_t thread;
    while (chanter_recv(told_handles, &thread, CHANTER_FOREVER) == 0) OK(chanter_thread_cancel(thread));
    return arg;
}

static void asked_at_once(void) {
    enum { MANY = 300 };
    chanter_thread threads[MANY], other;
    chanter_attr attr = {0};
    attr.size = sizeof attr;
    attr.processor = 2;
    OK(chanter_channel_create(CHANTER_UNBOUNDED, NULL, &told_handles));
    OK(chanter_thread_spawn(CHANTER_NONE, NULL, cancels, NULL, &other));
    for (int n = 0; n < MANY; n++) OK(chanter_thread_spawn(CHANTER_NONE, &attr, tells_itself, NULL, &threads[n]));
    for (int n = 0; n < MANY; n++)
        CHECK(chanter_thread_join(threads[n], NULL, CHANTER_FOREVER) == ECANCELED);
    OK(chanter_channel_close(told_handles));
    OK(chanter_thread_join(other, NULL, CHANTER_FOREVER));
    OK(chanter_channel_free(told_handles));
}

static void *tests(void *arg) {
    chanter_thread thread;
    void *status;
    chanter_attr attr = {0};
    chanter_machine machine;
    OK(chanter_machine_current(&machine));
    CHECK(chanter_machine_free(machine) == EPERM);
    CHECK(chanter_machine_run(machine, add, NULL, NULL) == EPERM);
    OK(chanter_thread_spawn(CHANTER_NONE, NULL, add, (void *)41, &thread));
    OK(chanter_thread_join(thread, &status, CHANTER_FOREVER));
    CHECK(status == (void *)42);
    CHECK(chanter_thread_join(thread, &status, CHANTER_FOREVER) == EINVAL);
    CHECK(chanter_thread_cancel(thread) == EINVAL);

    OK(chanter_thread_spawn(machine, NULL, exits, NULL, &thread));
    OK(chanter_thread_join(thread, &status, CHANTER_FOREVER));
    CHECK(status == (void *)77 && ordered == 2 && order[0] == 2 && order[1] == 1);

    ordered = 0;
    OK(chanter_event_create(&begun));
    OK(chanter_channel_create(0, NULL, &nothing));
    OK(chanter_thread_spawn(CHANTER_NONE, NULL, waits, NULL, &thread));
    OK(chanter_event_wait(begun, NULL, CHANTER_FOREVER));
    OK(chanter_thread_cancel(thread));
    CHECK(chanter_thread_join(thread, &status, CHANTER_FOREVER) == ECANCELED);
    CHECK(ordered == 2 && order[0] == 6 && order[1] == 5);

    OK(chanter_key_create(destroy, &key));
    OK(chanter_thread_spawn(CHANTER_NONE, NULL, with_key, (void *)3, &thread));
    OK(chanter_thread_join(thread, NULL, CHANTER_FOREVER));
    CHECK(destroyed == 3);
    OK(chanter_key_delete(key));
    CHECK(chanter_key_delete(key) == EINVAL);

    OK(chanter_thread_spawn(CHANTER_NONE, NULL, joins_itself, NULL, &thread));
    OK(chanter_thread_join(thread, NULL, CHANTER_FOREVER));

    attr.size = sizeof attr;
    attr.processor = 1000;
    CHECK(chanter_thread_spawn(CHANTER_NONE, &attr, add, NULL, &thread) == EINVAL);
    attr.processor = 1;
    attr.priority = 5;
    attr.flags = CHANTER_DETACHED;
    OK(chanter_thread_spawn(CHANTER_NONE, &attr, add, NULL, NULL));
    attr = (chanter_attr){0};
    attr.size = sizeof attr;
    attr.stack_size = ((size_t)1 << 30) + 1;
    CHECK(chanter_thread_spawn(CHANTER_NONE, &attr, add, NULL, &thread) == EINVAL);
    attr.stack_size = 1000;
    CHECK(chanter_thread_spawn(CHANTER_NONE, &attr, add, NULL, &thread) == EINVAL);
    asked_at_once();
    polls();
    suspended();
    stacks();
    return arg;
}

static chanter_machine busy;

static void *says_and_waits(void *arg) {
    OK(chanter_event_set(begun, 0));
    OK(chanter_event_wait(*(chanter_event *)arg, NULL, CHANTER_FOREVER));
    return NULL;
}

static void *runs(void *arg) {
    OK(chanter_machine_run(busy, says_and_waits, arg, NULL));
    return NULL;
}

/* A machine that a call runs cannot be freed. */
static void in_use(void) {
    pthread_t runner;
    chanter_event go_on;
    OK(chanter_machine_create(NULL, &busy));
    OK(chanter_event_create(&begun));
    OK(chanter_event_create(&go_on));
    CHECK(pthread_create(&runner, NULL, runs, &go_on) == 0);
    OK(chanter_event_wait(begun, NULL, CHANTER_FOREVER));
    CHECK(chanter_machine_free(busy) == EBUSY);
    OK(chanter_event_set(go_on, 0));
    CHECK(pthread_join(runner, NULL) == 0);
    OK(chanter_machine_free(busy));
    OK(chanter_event_free(go_on));
}

int main(void) {
    chanter_machine machine;
    chanter_config config = {0};
    chanter_thread thread;
    void *status;
    CHECK(chanter_abi_version() >> 16 == CHANTER_ABI_VERSION >> 16);
    config.size = sizeof config;
    config.processors = 2;
    config.name = "threads";
    OK(chanter_machine_create(&config, &machine));
    CHECK(chanter_thread_spawn(CHANTER_NONE, NULL, add, NULL, &thread) == ESRCH);
    OK(chanter_machine_run(machine, tests, (void *)9, &status));
    CHECK(status == (void *)9);
    OK(chanter_machine_run(machine, detaches_itself, (void *)8, &status));
    CHECK(status == (void *)8);
    /* Also from an OS thread of the program's. */
    OK(chanter_thread_spawn(machine, NULL, add, (void *)1, &thread));
    OK(chanter_thread_join(thread, &status, CHANTER_FOREVER));
    CHECK(status == (void *)2);
    OK(chanter_channel_free(nothing));
    OK(chanter_machine_free(machine));
    CHECK(chanter_machine_free(machine) == EINVAL);
    in_use();
    puts("threads: well");
    return 0;
}
