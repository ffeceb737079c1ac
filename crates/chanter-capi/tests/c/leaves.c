/* The end of a process of a job, while its OS threads go on to call; and the end without chanter_finalize. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#ifdef OVER_MPI
#include "chanter_mpi.h"
#define INIT chanter_init_mpi
#else
#define INIT chanter_init
#endif

static chanter_machine machine;
static int next;

static void echo(void *data, chanter_request *request, const char *buf, size_t count) {
    (void)data;
    OK(chanter_rsr_reply(request, buf, count));
}

static void *nothing(void *arg) { return arg; }

static void *finds_machine(void *arg) {
    OK(chanter_machine_current(&machine));
    return arg;
}

static int calls(int process) {
    char answer[4];
    size_t length = sizeof answer;
    int error = chanter_rsr_call(process, "echo", "abc", 3, answer, &length, CHANTER_FOREVER);
    CHECK(error != 0 || (length == 3 && memcmp(answer, "abc", 3) == 0));
    return error;
}

/* The calls of an OS thread end with an error when the process has left. */
static void *calls_there(void *arg) {
    int error = 0;
    while (error == 0) error = calls(next);
    CHECK(error == EHOSTDOWN || error == ESRCH);
    while (error == EHOSTDOWN) error = calls(next);
    CHECK(error == ESRCH);
    return arg;
}

static void *calls_here(void *arg) {
    int error = 0;
    while (error == 0) error = calls(PTHREAD_CHANTER_LOCAL);
    CHECK(error == ESRCH || error == ECANCELED);
    return arg;
}

/* A machine that ends is not run any more. */
static void *runs(void *arg) {
    struct timespec pause = {0, 200000};
    int error;
    while ((error = chanter_machine_run(machine, nothing, NULL, NULL)) == 0) nanosleep(&pause, NULL);
    CHECK(error == EINVAL);
    return arg;
}

/* A thread that reads a file has its lock. */
static void *reads(void *arg) {
    (void)fgetc(stdin);
    return arg;
}

/* Nobody reads the standard error, and it takes no more. */
static void is_deaf(void) {
    int ends[2];
    char byte = 0;
    CHECK(pipe(ends) == 0 && fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    while (write(ends[1], &byte, 1) == 1) {}
    CHECK(fcntl(ends[1], F_SETFL, 0) == 0 && dup2(ends[1], 2) == 2);
}

#ifndef OVER_MPI
/* A child has a copy of all, and is no process of the job. */
static void child_exits(void) {
    int status = -1;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) exit(chanter_finalize() == ESRCH ? 0 : 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}
#endif

int main(int argc, char **argv) {
    static void *(*const bodies[])(void *) = {calls_there, calls_here, runs};
    int quits = argc > 1 ? atoi(argv[1]) : -1, code = argc > 2 ? atoi(argv[2]) : 0, me, error;
    pthread_t threads[3];
    pthread_chanter_t finder;
    chanter_config config = {0};
    config.size = sizeof config;
    config.processors = 2;
    OK(chanter_rsr_register("echo", echo, NULL));
    OK(INIT(&config));
    me = pthread_chanter_process(pthread_chanter_self());
    next = (me + 1) % chanter_process_count();
    OK(pthread_chanter_create(&finder, NULL, finds_machine, NULL, PTHREAD_CHANTER_LOCAL, me));
    OK(pthread_chanter_join(&finder, NULL));
#ifndef OVER_MPI /* where a process may not have children */
    child_exits();
#endif
    if (me == quits) {
        if (argc > 3 && strcmp(argv[3], "deaf") == 0) {
            is_deaf();
        } else if (argc > 3) {
            struct timespec pause = {0, 50000000};
            CHECK(pthread_create(&threads[0], NULL, reads, NULL) == 0);
            nanosleep(&pause, NULL);
        }
        printf("process %d has work to flush", me);
        return code;
    }
    if (quits >= 0) {
        while ((error = calls(next)) == 0) {}
        CHECK(error == EHOSTDOWN);
        OK(chanter_finalize());
        return 0;
    }
    for (int n = 0; n < 3; n++) {
        /* Alone, the process calls itself. */
        CHECK(pthread_create(&threads[n], NULL, n == 0 && next == me ? calls_here : bodies[n], NULL) == 0);
    }
    while ((error = chanter_finalize()) == EBUSY) {
        /* Nothing was left. */
        CHECK(chanter_process_count() > 0);
        OK(calls(PTHREAD_CHANTER_LOCAL));
    }
    OK(error);
    for (int n = 0; n < 3; n++) CHECK(pthread_join(threads[n], NULL) == 0);
    puts("leaves: well");
    return 0;
}
