/*
 * MPI as functions whose types are the same with every MPI.
 *
 * Handles, constants and statuses differ between implementations: what is an `int` for one is a pointer for another. Here
 * communicators are numbers, requests lie in arrays that only this file looks into, and a status is three integers. Each
 * function returns what MPI has returned: 0, or an error code for `chanter_mpi_error`. `src/shim/abi.rs` has the same
 * functions for the standard ABI, which needs no compiler.
 */

#include <mpi.h>
#include <string.h>

enum { COMMS = 4 };

static MPI_Comm comms[COMMS];

struct status {
    int source;
    int tag;
    int bytes;
};

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        int code = (call);                                                                                             \
        if (code != MPI_SUCCESS)                                                                                       \
            return code;                                                                                               \
    } while (0)

/* -- the life of MPI in this process -- */

int chanter_mpi_initialized(int *is) { return MPI_Initialized(is); }

int chanter_mpi_finalized(int *is) { return MPI_Finalized(is); }

/* `is_serialized`: whether any thread may call, one at a time. */
int chanter_mpi_init(int *is_serialized) {
    int provided = MPI_THREAD_SINGLE;
    TRY(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided));
    *is_serialized = provided >= MPI_THREAD_SERIALIZED;
    TRY(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (int at = 0; at < COMMS; at++) {
        TRY(MPI_Comm_dup(MPI_COMM_WORLD, &comms[at]));
        TRY(MPI_Comm_set_errhandler(comms[at], MPI_ERRORS_RETURN));
    }
    return MPI_SUCCESS;
}

int chanter_mpi_finalize(void) {
    for (int at = 0; at < COMMS; at++)
        TRY(MPI_Comm_free(&comms[at]));
    return MPI_Finalize();
}

int chanter_mpi_abort(int code) { return MPI_Abort(MPI_COMM_WORLD, code); }

/* -- who is there -- */

int chanter_mpi_rank(int *rank) { return MPI_Comm_rank(MPI_COMM_WORLD, rank); }

int chanter_mpi_size(int *size) { return MPI_Comm_size(MPI_COMM_WORLD, size); }

/* For each process the lowest number of those that share memory with it. */
int chanter_mpi_nodes(int *nodes) {
    MPI_Comm near;
    int rank, lowest;
    TRY(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    TRY(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near));
    TRY(MPI_Allreduce(&rank, &lowest, 1, MPI_INT, MPI_MIN, near));
    TRY(MPI_Comm_free(&near));
    return MPI_Allgather(&lowest, 1, MPI_INT, nodes, 1, MPI_INT, MPI_COMM_WORLD);
}

/* Gives all processes the bytes of each, in the order of their numbers. */
int chanter_mpi_exchange(const void *mine, int bytes, void *all) {
    return MPI_Allgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

int chanter_mpi_barrier(void) { return MPI_Barrier(MPI_COMM_WORLD); }

/* -- texts: at most `room` bytes, the last of which is 0 -- */

static void copy(char *text, int room, const char *from) {
    strncpy(text, from, room - 1);
    text[room - 1] = 0;
}

int chanter_mpi_library(char *text, int room) {
    char all[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    TRY(MPI_Get_library_version(all, &length));
    copy(text, room, all);
    return MPI_SUCCESS;
}

void chanter_mpi_error(int code, char *text, int room) {
    char all[MPI_MAX_ERROR_STRING];
    int length;
    if (MPI_Error_string(code, all, &length) != MPI_SUCCESS)
        strcpy(all, "an error without a text");
    copy(text, room, all);
}

/* -- requests -- */

/* Bytes of each in an array. */
int chanter_mpi_request_size(void) { return sizeof(MPI_Request); }

/* Makes all of an array idle. */
void chanter_mpi_requests(MPI_Request *all, int count) {
    for (int at = 0; at < count; at++)
        all[at] = MPI_REQUEST_NULL;
}

static int read_status(MPI_Status *from, struct status *to) {
    /* Volatile: else both are read at once, and the processor waits until the library's two writes are done. */
    to->source = *(volatile int *)&from->MPI_SOURCE;
    to->tag = *(volatile int *)&from->MPI_TAG;
    return MPI_Get_count(from, MPI_BYTE, &to->bytes);
}

int chanter_mpi_recv_init(MPI_Request *all, int at, int comm, void *to, int room) {
    return MPI_Recv_init(to, room, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[comm], &all[at]);
}

int chanter_mpi_start(MPI_Request *all, int at) { return MPI_Start(&all[at]); }

/* `source` and `tag` may be -1: any. */
int chanter_mpi_irecv(MPI_Request *all, int at, int comm, void *to, int room, int source, int tag) {
    return MPI_Irecv(to, room, MPI_BYTE, source < 0 ? MPI_ANY_SOURCE : source, tag < 0 ? MPI_ANY_TAG : tag, comms[comm],
                     &all[at]);
}

int chanter_mpi_isend(MPI_Request *all, int at, int comm, const void *from, int bytes, int to, int tag) {
    return MPI_Isend(from, bytes, MPI_BYTE, to, tag, comms[comm], &all[at]);
}

int chanter_mpi_test(MPI_Request *all, int at, int *is_done, struct status *status) {
    MPI_Status found;
    TRY(MPI_Test(&all[at], is_done, &found));
    return *is_done ? read_status(&found, status) : MPI_SUCCESS;
}

/* The same for a send, whose status says nothing. */
int chanter_mpi_test_sent(MPI_Request *all, int at, int *is_done) {
    return MPI_Test(&all[at], is_done, MPI_STATUS_IGNORE);
}

/* `done` has room for `count` numbers, and `statuses` for as many; `found` of each are written, -1 if none is under way. */
int chanter_mpi_test_some(MPI_Request *all, int count, int *found, int *done, struct status *statuses, void *space) {
    MPI_Status *full = space;
    TRY(MPI_Testsome(count, all, found, done, full));
    if (*found == MPI_UNDEFINED)
        *found = -1;
    for (int at = 0; at < *found; at++)
        TRY(read_status(&full[at], &statuses[at]));
    return MPI_SUCCESS;
}

/* Bytes of a status in the `space` of `chanter_mpi_test_some`. */
int chanter_mpi_status_size(void) { return sizeof(MPI_Status); }

/* Takes a receive back. `was_taken`: it was not too late. */
int chanter_mpi_cancel(MPI_Request *all, int at, int *was_taken, struct status *status) {
    MPI_Status found;
    TRY(MPI_Cancel(&all[at]));
    TRY(MPI_Wait(&all[at], &found));
    TRY(MPI_Test_cancelled(&found, was_taken));
    return *was_taken ? MPI_SUCCESS : read_status(&found, status);
}

/* Of an idle persistent request. */
int chanter_mpi_request_free(MPI_Request *all, int at) { return MPI_Request_free(&all[at]); }

/* -- what MPI itself takes, to measure ours by -- */

/* Round trips of messages with another process, which does the same; `wrong` counts those that were not the right ones. Each
 * message carries its number; who is not first answers with what has come, and the first goes on with that: each byte
 * of a message is news for its receiver's processor, as it is in programs. */
int chanter_mpi_round_trips(int comm, int other, int is_first, char *out, char *in, int bytes, int rounds, int *wrong) {
    *wrong = 0;
    for (int round = 0; round < rounds; round++) {
        MPI_Request sent, received;
        int is_done = 0;
        char *came = in;
        if (is_first) {
            memcpy(out, &round, sizeof round);
            TRY(MPI_Isend(out, bytes, MPI_BYTE, other, 0, comms[comm], &sent));
        }
        TRY(MPI_Irecv(in, bytes, MPI_BYTE, other, 0, comms[comm], &received));
        while (!is_done)
            TRY(MPI_Test(&received, &is_done, MPI_STATUS_IGNORE));
        *wrong += memcmp(came, &round, sizeof round) != 0;
        if (!is_first)
            TRY(MPI_Isend(came, bytes, MPI_BYTE, other, 0, comms[comm], &sent));
        for (is_done = 0; !is_done;)
            TRY(MPI_Test(&sent, &is_done, MPI_STATUS_IGNORE));
        in = out;
        out = came;
    }
    return MPI_SUCCESS;
}

/* Barriers of all processes, one after the other. */
int chanter_mpi_barriers(int comm, int rounds) {
    for (int round = 0; round < rounds; round++)
        TRY(MPI_Barrier(comms[comm]));
    return MPI_SUCCESS;
}

/* Sums over all processes, each of which gets them; `wrong` counts those that were not the right ones. */
int chanter_mpi_reductions(int comm, int rounds, int *wrong) {
    int rank, size;
    TRY(MPI_Comm_rank(comms[comm], &rank));
    TRY(MPI_Comm_size(comms[comm], &size));
    *wrong = 0;
    for (int round = 0; round < rounds; round++) {
        long long mine = (long long)round * (rank + 1), sum = 0;
        TRY(MPI_Allreduce(&mine, &sum, 1, MPI_LONG_LONG, MPI_SUM, comms[comm]));
        *wrong += sum != (long long)round * size * (size + 1) / 2;
    }
    return MPI_SUCCESS;
}
