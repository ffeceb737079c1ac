/* What the programs in plain MPI share: places, files of numbers, and vectors that grow. */
#ifndef PLAIN_H
#define PLAIN_H

#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { double x[3]; } v3;

static inline v3 v(double x, double y, double z) { return (v3){{x, y, z}}; }
static inline v3 add(v3 a, v3 b) { return v(a.x[0] + b.x[0], a.x[1] + b.x[1], a.x[2] + b.x[2]); }
static inline v3 sub(v3 a, v3 b) { return v(a.x[0] - b.x[0], a.x[1] - b.x[1], a.x[2] - b.x[2]); }
static inline v3 mul(v3 a, double by) { return v(a.x[0] * by, a.x[1] * by, a.x[2] * by); }
static inline double dot(v3 a, v3 b) { return a.x[0] * b.x[0] + a.x[1] * b.x[1] + a.x[2] * b.x[2]; }
static inline double length(v3 a) { return sqrt(dot(a, a)); }
static inline v3 cross(v3 a, v3 b) {
    return v(a.x[1] * b.x[2] - a.x[2] * b.x[1], a.x[2] * b.x[0] - a.x[0] * b.x[2],
             a.x[0] * b.x[1] - a.x[1] * b.x[0]);
}

static inline void fail(const char *why) {
    fprintf(stderr, "%s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

static inline void *room(void *old, size_t bytes) {
    void *new = realloc(old, bytes ? bytes : 1);
    if (!new) fail("there is no memory");
    return new;
}

/* A vector of `type`: `name_push`. */
#define VECTOR(name, type)                                                                                   \
    typedef struct { type *at; size_t len, cap; } name;                                                      \
    static inline void name##_push(name *all, type item) {                                                   \
        if (all->len == all->cap) {                                                                          \
            all->cap = all->cap ? 2 * all->cap : 16;                                                         \
            all->at = room(all->at, all->cap * sizeof(type));                                                \
        }                                                                                                    \
        all->at[all->len++] = item;                                                                          \
    }

/* The numbers of the input, one after the other. */
static double *numbers;
static size_t numbers_len, numbers_at;

static inline void read_numbers(const char *name) {
    FILE *file = fopen(name, "rb");
    if (!file || fseek(file, 0, SEEK_END)) fail("the input cannot be read");
    numbers_len = (size_t)ftell(file) / sizeof(double);
    rewind(file);
    numbers = room(NULL, numbers_len * sizeof(double));
    if (fread(numbers, sizeof(double), numbers_len, file) != numbers_len) fail("the input cannot be read");
    fclose(file);
}

static inline double number(void) {
    if (numbers_at == numbers_len) fail("the input is too short");
    return numbers[numbers_at++];
}

static inline size_t count(void) { return (size_t)number(); }
static inline v3 place(void) {
    double x = number(), y = number(), z = number();
    return v(x, y, z);
}

static inline void write_numbers(const char *name, const double *all, size_t len) {
    FILE *file = fopen(name, "wb");
    if (!file || fwrite(all, sizeof(double), len, file) != len || fclose(file))
        fail("the result cannot be written");
}

#endif
