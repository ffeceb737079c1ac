/* A policy written in C: the thread with the greatest priority runs next, and wrong tokens are ignored. */
#include <pthread.h>

#include "check.h"

#define MOST 256

struct queue {
    pthread_mutex_t lock;
    chanter_ready ready[MOST];
    int count, processor;
};

static int made, ended, wrong;

static void *create(void *data, int processor) {
    struct queue *queue = (struct queue *)calloc(1, sizeof *queue);
    CHECK(data == &made);
    pthread_mutex_init(&queue->lock, NULL);
    queue->processor = processor;
    made++;
    return queue;
}

static void destroy(void *self) {
    struct queue *queue = (struct queue *)self;
    pthread_mutex_destroy(&queue->lock);
    free(queue);
    ended++;
}

static void enqueue(void *self, const chanter_ready *thread) {
    struct queue *queue = (struct queue *)self;
    CHECK(thread->size == sizeof *thread && thread->token != 0);
    CHECK(chanter_thread_spawn(CHANTER_NONE, NULL, NULL, NULL, NULL) == EPERM);
    pthread_mutex_lock(&queue->lock);
    CHECK(queue->count < MOST);
    queue->ready[queue->count++] = *thread;
    pthread_mutex_unlock(&queue->lock);
}

static uint64_t next(void *self) {
    struct queue *queue = (struct queue *)self;
    uint64_t token = 0;
    int best = -1;
    pthread_mutex_lock(&queue->lock);
    for (int at = 0; at < queue->count; at++)
        if (best < 0 || queue->ready[at].priority > queue->ready[best].priority) best = at;
    if (best >= 0) {
        token = queue->ready[best].token;
        for (int at = best + 1; at < queue->count; at++) queue->ready[at - 1] = queue->ready[at];
        queue->count--;
    }
    pthread_mutex_unlock(&queue->lock);
    if (token == 0 && wrong) return 0x123456789abcull;
    return token;
}

static size_t waiting(void *self) { return (size_t)((struct queue *)self)->count; }

static chanter_channel order;

static void *reports(void *arg) {
    OK(chanter_send(order, (uint64_t)(intptr_t)arg, CHANTER_FOREVER));
    return NULL;
}

static void *tests(void *arg) {
    chanter_thread threads[5];
    static const int priorities[5] = {-3, 9, 0, 4, 1}, sorted[5] = {9, 4, 1, 0, -3};
    chanter_attr attr = {0};
    attr.size = sizeof attr;
    OK(chanter_channel_create(CHANTER_UNBOUNDED, NULL, &order));
    for (int n = 0; n < 5; n++) {
        attr.priority = priorities[n];
        OK(chanter_thread_spawn(CHANTER_NONE, &attr, reports, (void *)(intptr_t)priorities[n], &threads[n]));
    }
    wrong = 1;
    for (int n = 0; n < 5; n++) {
        uint64_t value;
        OK(chanter_recv(order, &value, CHANTER_FOREVER));
        CHECK((int)(int64_t)value == sorted[n]);
    }
    for (int n = 0; n < 5; n++) OK(chanter_thread_join(threads[n], NULL, CHANTER_FOREVER));
    OK(chanter_sleep(chanter_now() + MS));
    OK(chanter_channel_free(order));
    return arg;
}

int main(void) {
    chanter_machine machine;
    chanter_policy policy;
    chanter_config config;
    memset(&policy, 0, sizeof policy);
    memset(&config, 0, sizeof config);
    policy.size = sizeof policy;
    policy.data = &made;
    policy.create = create;
    policy.destroy = destroy;
    policy.enqueue = enqueue;
    config.size = sizeof config;
    config.processors = 1;
    /* The order is that of one OS thread. */
    config.hand_off = CHANTER_FOREVER;
    config.policy = &policy;
    CHECK(chanter_machine_create(&config, &machine) == EINVAL);
    policy.next = next;
    OK(chanter_machine_create(&config, &machine));
    OK(chanter_machine_run(machine, tests, NULL, NULL));
    OK(chanter_machine_free(machine));
    CHECK(made == 1 && ended == 1);
    /* Two processors, which give each other threads. */
    wrong = 0;
    policy.give = next;
    policy.waiting = waiting;
    config.processors = 2;
    OK(chanter_machine_create(&config, &machine));
    OK(chanter_machine_free(machine));
    CHECK(made == 3 && ended == 3);
    puts("policies: well");
    return 0;
}
