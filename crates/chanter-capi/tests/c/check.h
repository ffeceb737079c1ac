/* What the tests share: a check that says where it failed, and the clock. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chanter.h"

#define CHECK(what)                                                              \
    do {                                                                         \
        if (!(what)) {                                                           \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);   \
            abort();                                                             \
        }                                                                        \
    } while (0)

#define OK(call)                                                                              \
    do {                                                                                      \
        int error_ = (call);                                                                  \
        if (error_ != 0) {                                                                    \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, strerror(error_));  \
            abort();                                                                          \
        }                                                                                     \
    } while (0)

#define MS 1000000ull
