/*
 * A 2-D stencil over the processes of a job: heat on a plate. Each process has a band of rows, and swaps its edges with
 * its neighbours. The result is compared with that of one process.
 *
 *     ./stencil [size] [steps]            alone
 *     chanter launch -n 4 ./stencil       over processes
 *     mpirun -n 4 ./stencil               over MPI, where it was compiled with -DOVER_MPI: see chanter_mpi.h
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef OVER_MPI
#include "chanter_mpi.h"
#define INIT chanter_init_mpi
#else
#include "chanter.h"
#define INIT chanter_init
#endif

enum { UP = 1, DOWN = 2, SUM = 3, END = 4 };

static void stop(const char *what, int error) {
    if (error == 0) return;
    fprintf(stderr, "stencil: %s: %s\n", what, strerror(error));
    exit(1);
}

struct band {
    int size, rows, first;
    double *now, *next;
};

static double *row(double *plate, const struct band *band, int at) { return plate + (size_t)(at + 1) * (size_t)(band->size + 2); }

static struct band band_of(int size, int process, int count) {
    struct band band;
    size_t cells;
    band.size = size;
    band.first = size * process / count;
    band.rows = size * (process + 1) / count - band.first;
    cells = (size_t)(band.rows + 2) * (size_t)(size + 2);
    band.now = calloc(cells, sizeof(double));
    band.next = calloc(cells, sizeof(double));
    if (band.now == NULL || band.next == NULL) stop("calloc", 12);
    /* The upper edge of the plate is hot. */
    if (band.first == 0)
        for (int x = 0; x < size + 2; x++) row(band.now, &band, -1)[x] = row(band.next, &band, -1)[x] = 100.0;
    return band;
}

static void step(struct band *band) {
    double *old = band->now;
    for (int y = 0; y < band->rows; y++) {
        const double *above = row(old, band, y - 1), *here = row(old, band, y), *below = row(old, band, y + 1);
        double *next = row(band->next, band, y);
        for (int x = 1; x <= band->size; x++) next[x] = 0.25 * (above[x] + below[x] + here[x - 1] + here[x + 1]);
    }
    band->now = band->next;
    band->next = old;
}

static double sum_of(struct band *band) {
    double sum = 0.0;
    for (int y = 0; y < band->rows; y++)
        for (int x = 1; x <= band->size; x++) sum += row(band->now, band, y)[x];
    return sum;
}

/* Swaps the edges with the neighbours: both sends are on their way before the receives. */
static void swap(struct band *band, pthread_chanter_t neighbour, int process, int count) {
    int bytes = (int)sizeof(double) * (band->size + 2);
    if (process > 0) {
        neighbour.process = process - 1;
        stop("send", pthread_chanter_send(UP, (char *)row(band->now, band, 0), bytes, &neighbour));
    }
    if (process + 1 < count) {
        neighbour.process = process + 1;
        stop("send", pthread_chanter_send(DOWN, (char *)row(band->now, band, band->rows - 1), bytes, &neighbour));
        stop("recv", pthread_chanter_recv(UP, (char *)row(band->now, band, band->rows), bytes, &neighbour));
    }
    if (process > 0) {
        neighbour.process = process - 1;
        stop("recv", pthread_chanter_recv(DOWN, (char *)row(band->now, band, -1), bytes, &neighbour));
    }
}

static void compare(double sum, int size, int steps) {
    struct band whole = band_of(size, 0, 1);
    double alone;
    for (int n = 0; n < steps; n++) step(&whole);
    alone = sum_of(&whole);
    if (fabs(sum - alone) > 1e-9 * (1.0 + fabs(alone))) {
        fprintf(stderr, "stencil: the sum is %.12g, and alone it is %.12g\n", sum, alone);
        exit(1);
    }
    free(whole.now);
    free(whole.next);
}

int main(int argc, char **argv) {
    int size = argc > 1 ? atoi(argv[1]) : 128, steps = argc > 2 ? atoi(argv[2]) : 100;
    int process, count;
    pthread_chanter_t other;
    struct band band;
    double sum;
    stop("init", INIT(NULL));
    other = *pthread_chanter_self();
    process = other.process;
    count = chanter_process_count();
    if (size < count || steps < 0) return 2;
    band = band_of(size, process, count);
    for (int n = 0; n < steps; n++) {
        swap(&band, other, process, count);
        step(&band);
    }
    sum = sum_of(&band);
    if (process == 0) {
        for (int n = 1; n < count; n++) {
            double part;
            other.process = n;
            stop("recv", pthread_chanter_recv(SUM, (char *)&part, sizeof part, &other));
            sum += part;
        }
        compare(sum, size, steps);
        printf("a plate of %d by %d after %d steps, by %d processes: %.6f\n", size, size, steps, count, sum);
        for (other.process = 1; other.process < count; other.process++)
            stop("send", pthread_chanter_send(END, NULL, 0, &other));
    } else {
        other.process = 0;
        stop("send", pthread_chanter_send(SUM, (const char *)&sum, sizeof sum, &other));
        stop("recv", pthread_chanter_recv(END, NULL, 0, &other));
    }
    free(band.now);
    free(band.next);
    stop("finalize", chanter_finalize());
    return 0;
}
