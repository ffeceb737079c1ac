/*
 * Figure 9 of the Chant paper: threads that compute, send, compute and receive.
 *
 *     ./figure9 [threads] [iterations] [alpha] [beta]
 *
 * Alone, it makes pairs of threads in this process. Under `chanter launch -n 2 ./figure9`, the second of each pair runs
 * in the other process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chanter.h"

enum { MESSAGE = 1, PARTNER = 2 };

static long iterations = 100, alpha = 100, beta = 100;

static void stop(const char *what, int error) {
    if (error == 0) return;
    fprintf(stderr, "figure9: %s: %s\n", what, strerror(error));
    exit(1);
}

/* Some arithmetic that the compiler cannot leave out. */
static void compute(long units) {
    volatile double x = 1.0;
    for (long n = 0; n < units; n++) x = x * 1.0000001 + 0.5;
}

/* The thread of figure 9. `arg` says how many iterations it makes; it is told its partner first. */
static void *body(void *arg) {
    pthread_chanter_t partner, from;
    from.process = PTHREAD_CHANTER_ANY;
    stop("recv", pthread_chanter_recv(PARTNER, (char *)&partner, sizeof partner, &from));
    for (long n = 0; n < (long)(intptr_t)arg; n++) {
        long got = -1;
        compute(alpha);
        stop("send", pthread_chanter_send(MESSAGE, (const char *)&n, sizeof n, &partner));
        compute(beta);
        from = partner;
        stop("recv", pthread_chanter_recv(MESSAGE, (char *)&got, sizeof got, &from));
        if (got != n) {
            fprintf(stderr, "figure9: message %ld came in the place of %ld\n", got, n);
            exit(1);
        }
    }
    return arg;
}

/* Makes the pairs, and waits for them. Only process 0 does so. */
static void exercise(long pairs) {
    int other = chanter_process_count() > 1 ? 1 : 0;
    pthread_chanter_t *threads = malloc(2 * (size_t)pairs * sizeof *threads);
    uint64_t begun = chanter_now();
    if (threads == NULL) stop("malloc", 12);
    for (long n = 0; n < 2 * pairs; n++)
        stop("create", pthread_chanter_create(&threads[n], NULL, body, (void *)(intptr_t)iterations,
                                              PTHREAD_CHANTER_LOCAL, n % 2 == 0 ? 0 : other));
    for (long n = 0; n < 2 * pairs; n++)
        stop("send", pthread_chanter_send(PARTNER, (const char *)&threads[n ^ 1], sizeof *threads, &threads[n]));
    for (long n = 0; n < 2 * pairs; n++) {
        void *status;
        stop("join", pthread_chanter_join(&threads[n], &status));
        if ((long)(intptr_t)status != iterations) exit(1);
    }
    printf("%ld threads, %ld iterations each: %.3f ms\n", 2 * pairs, iterations,
           (double)(chanter_now() - begun) / 1e6);
    free(threads);
}

int main(int argc, char **argv) {
    long pairs = argc > 1 ? atol(argv[1]) / 2 : 6;
    pthread_chanter_t main_of;
    if (argc > 2) iterations = atol(argv[2]);
    if (argc > 3) alpha = atol(argv[3]);
    if (argc > 4) beta = atol(argv[4]);
    if (pairs < 1 || iterations < 0) return 2;
    stop("init", chanter_init(NULL));
    main_of = *pthread_chanter_self();
    if (main_of.process == 0) {
        exercise(pairs);
        for (int process = 1; process < chanter_process_count(); process++) {
            main_of.process = process;
            stop("send", pthread_chanter_send(MESSAGE, NULL, 0, &main_of));
        }
    } else {
        pthread_chanter_t from = main_of;
        from.process = 0;
        stop("recv", pthread_chanter_recv(MESSAGE, NULL, 0, &from));
    }
    stop("finalize", chanter_finalize());
    return 0;
}
