/*
 * chanter.h: featherweight threads that talk to each other, for C and for languages that call C.
 *
 * Copyright the Chanter authors. MIT or Apache-2.0, at your choice.
 *
 * Contents:  1 rules   2 errors, time, versions   3 machines   4 policies   5 threads   6 keys and cleanup
 *            7 channels   8 events   9 choices   10 poll bodies   11 processes (figure 14 of the Chant paper)
 *
 * ---------------------------------------------------------------------------------------------------------------
 * 1 RULES
 *
 * HANDLES are 64-bit words that hold a kind, a place and a generation. Zero is no handle. A handle of the wrong
 * kind, a handle of something that was freed, and an arbitrary word are all `EINVAL`, at any time and from any
 * thread. A call that runs while another thread frees the handle ends as if it had come before.
 *
 * RESULTS are 0, or a positive `errno` code. A call may change `errno` itself, which says nothing. A panic of the library
 * never reaches C: it is reported on the standard error, and the call returns `EFAULT`.
 *
 * STRUCTS that go in begin with `size`, which the caller sets to `sizeof` of the struct. A library that is newer than
 * the program reads only that many bytes, and takes zero for the rest. A program that is newer gets `EINVAL` if a
 * member that the library does not know is not zero.
 *
 * DEADLINES are nanoseconds of the clock of `chanter_now`. `CHANTER_FOREVER` sets none. A deadline that has passed,
 * such as 0, makes the call try once: it never blocks. The error of a deadline is `ETIMEDOUT`, and then nothing has
 * happened. If the operation and the deadline are both ready, the operation wins.
 *
 * VALUES on channels are 64-bit words. A value belongs to the library from the call that sends it. It belongs to the
 * caller again if that call returns an error, or if its case is not chosen.
 *
 * CANCELLATION. A blocking call of a thread that is cancelled does not return. The pending operation is dropped, then
 * the cleanup handlers run, then the stack is left, as by `longjmp`: no destructor of C++ runs between. The values
 * of its keys are destroyed, and its joiners get `ECANCELED`. The value that a cancelled send still owns is
 * destroyed as one that is left in the channel. A thread is cancelled where it blocks, and where it yields. A call
 * that blocks in a cleanup handler returns `ECANCELED` at once if the thread is being cancelled.
 *
 * WHERE A CALL MAY RUN. The places:
 *
 *   O  an OS thread that runs no virtual processor      F  a thread with a stack (a fiber)
 *   P  a poll body, in its poll function                H  a function that the library calls: a policy's, `lost`,
 *                                                          `destroy`, a destructor of a key or of a state
 *
 *   calls                                                               O    F    P    H
 *   ------------------------------------------------------------------  ---  ---  ---  ---
 *   chanter_abi_version, chanter_now                                    yes  yes  yes  yes
 *   chanter_machine_create, chanter_machine_run, chanter_machine_free   yes  no   no   no
 *   chanter_machine_current, chanter_machine_processors                 yes  yes  yes  no
 *   chanter_thread_spawn, chanter_thread_spawn_poll                     yes  yes  yes  no
 *   chanter_thread_detach, _cancel, _suspend, _resume                   yes  yes  yes  yes
 *   chanter_thread_self, chanter_key_get, chanter_key_set               no   yes  yes  no
 *   chanter_key_create, chanter_key_delete                              yes  yes  yes  yes
 *   chanter_thread_exit, chanter_cleanup_push, chanter_cleanup_pop      no   yes  no   no
 *   chanter_channel_create, _close, _free, _length                      yes  yes  yes  yes
 *   chanter_event_create, _set, _free                                   yes  yes  yes  yes
 *   chanter_send, chanter_recv, chanter_event_wait, chanter_choose,
 *   chanter_thread_join, chanter_sleep, chanter_yield
 *       with a deadline that has passed                                 yes  yes  yes  yes
 *       else (they block: the OS thread at O, the thread at F)          yes  yes  no   no
 *   chanter_poll_*, chanter_context_*                                   no   no   yes  no
 *   chanter_op_drop                                                     yes  yes  yes  yes
 *   chanter_init, chanter_finalize                                      yes  no   no   no
 *   pthread_chanter_pe, _process, _equal, _pthread                      yes  yes  yes  yes
 *   other pthread_chanter_*, chanter_rsr_call                           yes  yes  no   no
 *   chanter_rsr_register, chanter_rsr_send, chanter_rsr_reply           yes  yes  yes  no
 *
 * A call at a wrong place returns `EPERM`. A call that returns nothing does nothing there, except
 * `chanter_thread_exit`, which ends the process with a message. Cleanup handlers run at F.
 */
#ifndef CHANTER_H
#define CHANTER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define CHANTER_NOEXCEPT noexcept
#else
#define CHANTER_NOEXCEPT
#endif

#if defined(__GNUC__) || defined(__clang__)
#define CHANTER_NORETURN __attribute__((noreturn))
#else
#define CHANTER_NORETURN
#endif

/* ------------------------------------------------------------------------------------------------------------- */
/* 2 ERRORS, TIME, VERSIONS                                                                                       */
/*                                                                                                                */
/*   EINVAL     a handle, a size, a number or a pointer is wrong       EPERM      the call may not run here      */
/*   ETIMEDOUT  the deadline has passed                                EAGAIN     a poll form: not yet           */
/*   EPIPE      the channel is closed                                  ECANCELED  the thread was cancelled       */
/*   ESRCH      no machine: none is named, and none runs the caller    EDEADLK    a thread would join itself     */
/*   EBUSY      it is in use                                           ENOMEM     no memory, no room, no OS thread */
/*   EALREADY   it has happened before                                 EFAULT     a panic of the library         */
/*   EPROTO     another process has answered with what is no answer                                             */

/** The version of this interface that the header describes: major times 65536, plus minor. */
#define CHANTER_ABI_VERSION 0x00010000u

/** A deadline that never passes. */
#define CHANTER_FOREVER UINT64_MAX

/** No handle. As a machine, it is the one that runs the caller. */
#define CHANTER_NONE ((uint64_t)0)

/** A pointer as the value of a message, and back. */
#define CHANTER_WORD(pointer) ((uint64_t)(uintptr_t)(pointer))
#define CHANTER_POINTER(word) ((void *)(uintptr_t)(word))

/**
 * Returns the version of the interface that the library has. A program runs with it if the major numbers are equal,
 * and the library's minor number is not less than that of `CHANTER_ABI_VERSION`.
 */
uint32_t chanter_abi_version(void) CHANTER_NOEXCEPT;

/** Returns the time of the monotonic clock, in nanoseconds. `chanter_now() + 1000000` is a deadline in a millisecond. */
uint64_t chanter_now(void) CHANTER_NOEXCEPT;

typedef uint64_t chanter_machine;
typedef uint64_t chanter_thread;
typedef uint64_t chanter_channel;
typedef uint64_t chanter_event;
typedef uint64_t chanter_op;
typedef uint64_t chanter_key;

/* ------------------------------------------------------------------------------------------------------------- */
/* 4 POLICIES (a machine's configuration names one, so they come first)                                           */

/** The reason why a thread became ready. */
enum {
    CHANTER_NEW = 1,   /* it has just been spawned */
    CHANTER_YIELDED,   /* it let other threads go first */
    CHANTER_SPENT,     /* it used up its budget of operations */
    CHANTER_WOKEN,     /* a thread on this virtual processor unblocked it */
    CHANTER_TIMER,     /* a timer was due */
    CHANTER_IO,        /* a descriptor is ready */
    CHANTER_REMOTE,    /* it was unblocked, or sent here, from elsewhere */
    CHANTER_MOVED      /* it was taken from another virtual processor, list or policy */
};

/** A thread that is ready to run, as a policy is told of it. */
typedef struct chanter_ready {
    size_t size;       /* set by the library */
    uint64_t token;    /* what the policy keeps, and returns from `next` or `give`; never 0 */
    uint64_t thread;   /* a number that no other living thread has */
    uint64_t deadline; /* when it is to be done; CHANTER_FOREVER if that does not matter */
    int reason;        /* CHANTER_NEW, ... */
    int priority;      /* a greater one is more urgent; 0 by default */
    int may_move;      /* whether it may run on other virtual processors */
    int tickets;       /* its share in a lottery; 1 by default */
} chanter_ready;

/**
 * A policy: it decides which thread runs next on a virtual processor. There is one object for each of them.
 *
 * `enqueue`, `next` and `destroy` run on the virtual processor's OS thread, one at a time. `give` and `waiting` may run
 * on any OS thread at any time between `create` and `destroy`, so a policy that has them needs a lock of its own. A
 * token may be returned once. A token that is wrong is ignored. Threads whose tokens are never returned do not run;
 * they end with the machine.
 */
typedef struct chanter_policy {
    size_t size;
    void *data;                                               /* for `create` */
    void *(*create)(void *data, int processor);               /* the object of a virtual processor; NULL: `data` */
    void (*destroy)(void *self);                              /* NULL: nothing */
    void (*enqueue)(void *self, const chanter_ready *thread); /* takes a thread that is ready; required */
    uint64_t (*next)(void *self);                             /* the token of the thread to run now, or 0; required */
    uint64_t (*give)(void *self);                             /* a token for another virtual processor, or 0; NULL: never */
    size_t (*waiting)(void *self);                            /* how many `give` could hand out: a hint; NULL: 0 */
    uint32_t quantum;                                         /* operations of a turn; 0: the default, 256 */
} chanter_policy;

/* ------------------------------------------------------------------------------------------------------------- */
/* 3 MACHINES                                                                                                     */

/** The configuration of a machine. All members but `size` may be zero. */
typedef struct chanter_config {
    size_t size;
    const char *name;             /* of its OS threads; NULL: "chanter" */
    const chanter_policy *policy; /* NULL: work stealing. The table is copied */
    uint64_t hand_off;            /* nanoseconds of a turn after which others go on without it; 0: the default, 10 ms */
    int processors;               /* virtual processors; 0: one for each processor that the OS grants */
    int workers;                  /* OS threads that run them; 0: one for each */
} chanter_config;

/**
 * Makes a machine, and starts its OS threads. `config` may be NULL.
 *
 * Errors: `EINVAL` for a number that is negative or a policy without `enqueue` or `next`; `ENOMEM`.
 */
int chanter_machine_create(const chanter_config *config, chanter_machine *machine) CHANTER_NOEXCEPT;

/**
 * Runs `body(arg)` as a thread with a stack, and runs virtual processor 0 on the calling OS thread until it ends.
 * `status`, if not NULL, is given its value. Other threads of the machine go on without the caller, except those with
 * a stack that have begun on virtual processor 0: they are cancelled when the call returns.
 *
 * Errors: as `chanter_thread_join`; `EPERM` on a thread of a machine; `EINVAL` also while the machine is being ended.
 */
int chanter_machine_run(chanter_machine machine, void *(*body)(void *), void *arg, void **status) CHANTER_NOEXCEPT;

/**
 * Ends a machine. Its threads are cancelled, and its OS threads have ended when the call returns. Handles of its threads
 * may be joined afterwards.
 *
 * Errors: `EPERM` on a thread of a machine, and for the machine of a job, which `chanter_finalize` ends; `EBUSY` while a
 * call of `chanter_machine_run` runs it.
 */
int chanter_machine_free(chanter_machine machine) CHANTER_NOEXCEPT;

/** Stores the machine that runs the caller, if it was made by this interface; `ESRCH` if there is none. */
int chanter_machine_current(chanter_machine *machine) CHANTER_NOEXCEPT;

/** Stores the number of virtual processors of a machine. */
int chanter_machine_processors(chanter_machine machine, int *count) CHANTER_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------------------- */
/* 5 THREADS                                                                                                      */

/** The attributes of a new thread. All members but `size` may be zero; NULL stands for a struct of zeros. */
typedef struct chanter_attr {
    size_t size;
    const char *name;      /* shown in reports; copied */
    void *stack;           /* the caller's own stack: its lowest byte; NULL: one of the library's */
    size_t stack_size;     /* its size in bytes, from 16 KiB to 1 GiB; 0: 256 KiB */
    uint64_t deadline;     /* for policies that know deadlines; 0: none */
    int processor;         /* the virtual processor that it begins on, counted from 1; 0: the policy says */
    int priority;          /* from -128 to 127, for policies that know priorities */
    uint32_t quantum;      /* operations of a turn; 0: as the policy says */
    uint32_t flags;        /* CHANTER_DETACHED, CHANTER_HOST */
} chanter_attr;

/** Flags of a thread: it has no handle, and frees itself; a poll body that the policy schedules from its begin on. */
enum { CHANTER_DETACHED = 1, CHANTER_HOST = 2 };

/**
 * Spawns a thread that runs `body(arg)` on a stack of its own. It may block at any call depth. Its value is what `body`
 * returns, or what it gives to `chanter_thread_exit`.
 *
 * `machine` is `CHANTER_NONE` for the machine that runs the caller. `thread` may be NULL if the thread is detached.
 * The caller's own stack must stay in place until the thread was joined. It has no guard below.
 *
 * Errors: `ESRCH` without a machine; `EINVAL`; `ENOMEM`.
 */
int chanter_thread_spawn(chanter_machine machine, const chanter_attr *attr, void *(*body)(void *), void *arg,
                         chanter_thread *thread) CHANTER_NOEXCEPT;

/** What a poll body sees of its thread during one poll. It is of no use afterwards. */
typedef struct chanter_context chanter_context;

/** A poll function: returns `CHANTER_DONE`, or `CHANTER_PENDING` to be called again when one of its operations is ready. */
typedef int (*chanter_poll)(void *state, chanter_context *context);

enum { CHANTER_PENDING = 0, CHANTER_DONE = 1 };

/**
 * Spawns a thread without a stack: `poll(state, context)` is called until it returns `CHANTER_DONE`. On a thread of the
 * machine it is a parasite: the first poll is usually made at once, within this call (not if the stack is nearly full, or
 * if the spawner has used up its budget, and then it waits for its turn). With
 * `CHANTER_HOST`, a name, or a member that is for policies, it is a host, which waits for its turn.
 *
 * `destroy(state)`, if not NULL, runs once when the thread has ended, in whatever way. It may drop operations. Polls of one thread never
 * overlap, but may be on different OS threads. Operations that are pending when the thread ends are dropped.
 * The members `stack` and `stack_size` of `attr` must be zero.
 *
 * Errors: `ESRCH` without a machine; `EINVAL`; `ENOMEM`. Then `destroy` was not called.
 */
int chanter_thread_spawn_poll(chanter_machine machine, const chanter_attr *attr, chanter_poll poll, void *state,
                              void (*destroy)(void *state), chanter_thread *thread) CHANTER_NOEXCEPT;

/**
 * Waits until a thread has ended, stores its value in `status` (which may be NULL), and frees the handle.
 *
 * Errors: `ECANCELED` if the thread was cancelled, and `EFAULT` if it panicked; the handle is freed then, too.
 * `ETIMEDOUT`, and the handle stays. `EDEADLK` for the caller itself. If several calls join it, one
 * has its value, and `EINVAL` is the result of the others.
 */
int chanter_thread_join(chanter_thread thread, void **status, uint64_t deadline) CHANTER_NOEXCEPT;

/** Frees the handle of a thread, which goes on. Nobody can join it then. */
int chanter_thread_detach(chanter_thread thread) CHANTER_NOEXCEPT;

/**
 * Asks a thread to end at its next blocking call, or in the one where it waits. Never blocks. 0 also if the thread has
 * ended: then nothing happens. A poll body is not polled again.
 */
int chanter_thread_cancel(chanter_thread thread) CHANTER_NOEXCEPT;

/** Asks a thread to stop at its next blocking call, until `chanter_thread_resume` is called. Never blocks. */
int chanter_thread_suspend(chanter_thread thread) CHANTER_NOEXCEPT;

/** Lets a suspended thread go on. 0 also if it is not suspended. */
int chanter_thread_resume(chanter_thread thread) CHANTER_NOEXCEPT;

/** Stores the handle of the calling thread; `ESRCH` if it is detached. */
int chanter_thread_self(chanter_thread *thread) CHANTER_NOEXCEPT;

/**
 * Ends the calling thread with a value: its cleanup handlers run, the last one first, then the destructors of its keys.
 * Does not return.
 */
void chanter_thread_exit(void *value) CHANTER_NOEXCEPT CHANTER_NORETURN;

/** Lets the other threads of the virtual processor run first. The calling thread may be cancelled here. */
int chanter_yield(void) CHANTER_NOEXCEPT;

/** Waits until the deadline has passed, and returns 0. */
int chanter_sleep(uint64_t deadline) CHANTER_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------------------- */
/* 6 KEYS AND CLEANUP                                                                                             */

/**
 * Makes a key: each thread has a value of its own for it, NULL at first. When a thread ends, `destroy` is called with its
 * value, if both are not NULL.
 */
int chanter_key_create(void (*destroy)(void *), chanter_key *key) CHANTER_NOEXCEPT;

/** Deletes a key. Values that threads still have for it are not destroyed. */
int chanter_key_delete(chanter_key key) CHANTER_NOEXCEPT;

/** Sets the calling thread's value for a key. The old value is not destroyed. */
int chanter_key_set(chanter_key key, void *value) CHANTER_NOEXCEPT;

/** Stores the calling thread's value for a key. */
int chanter_key_get(chanter_key key, void **value) CHANTER_NOEXCEPT;

/** Adds a handler to those of the calling thread: `handler(arg)` runs if the thread exits or is cancelled. */
int chanter_cleanup_push(void (*handler)(void *), void *arg) CHANTER_NOEXCEPT;

/** Removes the handler that was added last, and calls it if `execute` is not 0. `EINVAL` if there is none. */
int chanter_cleanup_pop(int execute) CHANTER_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------------------- */
/* 7 CHANNELS                                                                                                     */

/** A capacity without limit: sends to such a channel never block. */
#define CHANTER_UNBOUNDED SIZE_MAX

/** The greatest capacity with a limit. */
#define CHANTER_CAPACITY_MOST ((size_t)134217726)

/**
 * Makes a channel. Capacity 0 is a rendezvous: a send waits for its receiver. `destroy`, if not NULL, is called with each
 * value that is left in the channel when it is freed. It may run on any OS thread, and must not block.
 *
 * Errors: `EINVAL` for a capacity between `CHANTER_CAPACITY_MOST` and `CHANTER_UNBOUNDED`.
 */
int chanter_channel_create(size_t capacity, void (*destroy)(uint64_t value), chanter_channel *channel) CHANTER_NOEXCEPT;

/**
 * Sends a value. Errors: `EPIPE` if the channel is closed, `ETIMEDOUT`. The value is the caller's again then.
 */
int chanter_send(chanter_channel channel, uint64_t value, uint64_t deadline) CHANTER_NOEXCEPT;

/**
 * Receives a value. Errors: `EPIPE` if the channel is closed and has no values left, `ETIMEDOUT`.
 */
int chanter_recv(chanter_channel channel, uint64_t *value, uint64_t deadline) CHANTER_NOEXCEPT;

/** Closes a channel: sends fail, and receives take what is left. All that wait are told. 0 also if it is closed. */
int chanter_channel_close(chanter_channel channel) CHANTER_NOEXCEPT;

/** Closes a channel and frees its handle. Calls that wait there end with `EPIPE`. */
int chanter_channel_free(chanter_channel channel) CHANTER_NOEXCEPT;

/** Stores the number of values in a channel. It may change at any moment. */
int chanter_channel_length(chanter_channel channel, size_t *length) CHANTER_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------------------- */
/* 8 EVENTS                                                                                                       */

/** Makes an event: it happens once, with a value, and any number of threads may wait for it. */
int chanter_event_create(chanter_event *event) CHANTER_NOEXCEPT;

/** Lets an event happen, and wakes all that wait. `EALREADY` if it has happened. Never blocks. */
int chanter_event_set(chanter_event event, uint64_t value) CHANTER_NOEXCEPT;

/** Waits for an event, and stores its value (`value` may be NULL). */
int chanter_event_wait(chanter_event event, uint64_t *value, uint64_t deadline) CHANTER_NOEXCEPT;

/** Frees the handle of an event. Calls that wait for it go on waiting, until their deadlines. */
int chanter_event_free(chanter_event event) CHANTER_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------------------- */
/* 9 CHOICES                                                                                                      */

/** The kinds of a case. */
enum {
    CHANTER_CASE_NEVER = 0, /* never happens */
    CHANTER_CASE_RECV,      /* handle: a channel. value: what was received */
    CHANTER_CASE_SEND,      /* handle: a channel. value: what to send */
    CHANTER_CASE_EVENT,     /* handle: an event. value: its value */
    CHANTER_CASE_JOIN,      /* handle: a thread. value: its value. The handle is freed if the case is chosen */
    CHANTER_CASE_TIMER,     /* value: a deadline */
    CHANTER_CASE_READABLE,  /* handle: a descriptor, which can be read or has ended */
    CHANTER_CASE_WRITABLE   /* handle: a descriptor, which can be written */
};

/**
 * One case of a choice.
 *
 * `status` is set when the choice has ended: 0 for the case that was chosen, or the error of its operation (`EPIPE`,
 * `ECANCELED`); `EAGAIN` for all others. A case that is not chosen has not happened: no message is lost, and a value
 * to be sent is the caller's again. Its `lost(data)`, if not NULL, is called on the thread that chooses, and its event
 * `nack`, if not 0, is set to 1. So a server learns that its client took another offer. Both are also told if
 * the deadline passes, and if the thread is cancelled or drops the operation.
 *
 * A descriptor must be one that the system's poller can watch, and must not be closed while a choice waits for it.
 * A file or a directory is always ready.
 */
typedef struct chanter_case {
    size_t size;   /* of each case of the array: the distance between them */
    int kind;      /* in */
    int status;    /* out */
    uint64_t handle;
    uint64_t value;
    uint64_t nack; /* an event, or 0 */
    void (*lost)(void *data);
    void *data;
} chanter_case;

/** The most cases of one choice. */
#define CHANTER_CASES_MOST 4096

/**
 * Waits until one of `count` cases happens, and stores its index in `chosen`. Exactly one happens; if several are ready,
 * one is taken at random. `chosen` may be NULL if `count` is 1.
 *
 * The result is 0 if a case was chosen, also if its `status` is an error. Errors: `ETIMEDOUT`; `EINVAL` if a case is
 * wrong, and then none was begun.
 */
int chanter_choose(chanter_case *cases, size_t count, uint64_t deadline, size_t *chosen) CHANTER_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------------------- */
/* 10 POLL BODIES                                                                                                 */
/*                                                                                                                */
/* The forms for poll bodies return `EAGAIN` if they would block. Then the operation is pending: it is kept in        */
/* `*op`, and the thread is polled again when it may be done. The body returns `CHANTER_PENDING`, and repeats the call   */
/* with the same `op` in its next poll. When the call returns anything else, the operation has ended and `*op` is 0,    */
/* also after `EFAULT`.                                                                                             */
/* A body may have several operations pending at once. A new operation has `*op` 0. An operation of another function    */
/* or number of cases is `EINVAL`, and stays as it is.                                                              */
/*                                                                                                                */
/*     static int body(void *state, chanter_context *context) {                                                   */
/*         struct echo *echo = (struct echo *)state;                                                              */
/*         uint64_t value;                                                                                        */
/*         int error = chanter_poll_recv(context, &echo->op, echo->in, &value, CHANTER_FOREVER);                  */
/*         if (error == EAGAIN) return CHANTER_PENDING;                                                           */
/*         ...                                                                                                    */

/** Receives in a poll body. While `*op` is pending, `channel` and `deadline` are ignored. */
int chanter_poll_recv(chanter_context *context, chanter_op *op, chanter_channel channel, uint64_t *value,
                      uint64_t deadline) CHANTER_NOEXCEPT;

/** Sends in a poll body. While `*op` is pending, `channel`, `value` and `deadline` are ignored. */
int chanter_poll_send(chanter_context *context, chanter_op *op, chanter_channel channel, uint64_t value,
                      uint64_t deadline) CHANTER_NOEXCEPT;

/**
 * Chooses in a poll body. The cases are copied when the operation begins. The call that ends it stores `status` and
 * `value` of each in `cases`, which need not be the same memory, but must have the same `count` and `size`.
 */
int chanter_poll_choose(chanter_context *context, chanter_op *op, chanter_case *cases, size_t count, uint64_t deadline,
                        size_t *chosen) CHANTER_NOEXCEPT;

/**
 * Drops a pending operation of the calling poll body, or of one that has ended, and sets `*op` to 0. Its cases are told
 * that they have lost. A message that it was given goes back to its channel.
 *
 * Returns 0 if nothing has happened: a value to be sent is the caller's again. Returns `EALREADY` if a send had
 * happened: its value was received.
 */
int chanter_op_drop(chanter_op *op) CHANTER_NOEXCEPT;

/** Has the calling poll body polled again soon, after other threads: it yields if it returns `CHANTER_PENDING`. */
int chanter_context_wake(chanter_context *context) CHANTER_NOEXCEPT;

/** Sets the value that the thread has when its body returns `CHANTER_DONE`: NULL at first. */
int chanter_context_value(chanter_context *context, void *value) CHANTER_NOEXCEPT;

/* ------------------------------------------------------------------------------------------------------------- */
/* 11 PROCESSES: figure 14 of "On the Design of Chant: A Talking Threads Package" (1994)                              */

/**
 * Makes this process one of the job that `chanter launch` has started, or a process alone, with a machine of its own.
 * Then the calling OS thread has a global name, and `pthread_chanter_*` may be called there, and on the threads of the
 * machine. `config` may be NULL.
 *
 * Each process of a job calls `chanter_finalize` before it exits. An exit with code 0 without it is a failure, since the
 * others may wait for this process: the exit says so on the standard error, writes the open files, for which it takes a
 * second at most, and has code 1. (Where the system does not tell the code of an exit, any other code becomes 1, too.) `_exit`
 * and signals are not looked at. A job of one process may end without it. A handler of `atexit` that calls `chanter_finalize`
 * is registered after this call: those that were registered before come later, and are not called in such an exit.
 *
 * Errors: `EALREADY` if the process is part of a job, or was; `ECONNREFUSED` if the job does not come together; `ENOSYS` if
 * the process is one of several that `mpirun` has started. They need `chanter_init_mpi` of `chanter_mpi.h`; or, for a
 * process alone, the variable CHANTER_ALONE in its environment, with any value. Standard error says the reason.
 */
int chanter_init(const chanter_config *config) CHANTER_NOEXCEPT;

/**
 * Leaves the job, after all that was sent has arrived, and ends the machine. It waits for no other process: those that
 * still ask this one for something get `EHOSTDOWN`, so let them say first that they are done. Calls of this process that are
 * under way, or come later, end with `EHOSTDOWN`, or with `ESRCH` as without a job. On the OS thread that has called
 * `chanter_init`. `EBUSY` as for `chanter_machine_free`, and then nothing was left: the process is still a part of the job.
 * `ESRCH` also in a child that the process has forked: it is no process of the job.
 */
int chanter_finalize(void) CHANTER_NOEXCEPT;

/** Returns the number of processes of the job, or 0 before `chanter_init`. */
int chanter_process_count(void) CHANTER_NOEXCEPT;

typedef chanter_thread chanter_thread_t;
typedef chanter_attr chanter_attr_t;

/**
 * A global thread: processing element, process, and thread. A thread that `pthread_chanter_create` has not made has a
 * name from its first call of this section on. Thread 0 of a process is the OS thread that has called `chanter_init`.
 */
typedef struct pthread_chanter {
    int pe;
    int process;
    uint64_t thread; /* slot and generation of its inbox */
} pthread_chanter_t;

/** This processing element, or this process; any sender, or any type; the value of a thread that was cancelled. */
#define PTHREAD_CHANTER_LOCAL (-1)
#define PTHREAD_CHANTER_ANY (-1)
#define PTHREAD_CHANTER_CANCELED ((void *)(intptr_t)-1)

/**
 * Creates a global thread in a process, which may be `PTHREAD_CHANTER_LOCAL`. It runs `start_routine(arg)` on a stack of
 * its own. In another process, that is the function at the same place of the same program or library (on Linux), and `arg`
 * travels as a word. `ENOEXEC` if that process runs another build. A process number says where: `pe` is its computer,
 * or `PTHREAD_CHANTER_LOCAL`. The members `name` and `stack` of `attr` are for this process only.
 */
int pthread_chanter_create(pthread_chanter_t *thread, const chanter_attr_t *attr, void *(*start_routine)(void *),
                           void *arg, int pe, int process) CHANTER_NOEXCEPT;

/** Waits until a thread has ended, and stores its value in `status` (which may be NULL). `ESRCH` if nobody may join it. */
int pthread_chanter_join(const pthread_chanter_t *thread, void **status) CHANTER_NOEXCEPT;

/** Lets a thread free its storage when it ends. Nobody can join it then. */
int pthread_chanter_detach(const pthread_chanter_t *thread) CHANTER_NOEXCEPT;

/** Ends the calling thread with a value; see `chanter_thread_exit`. */
void pthread_chanter_exit(void *value_ptr) CHANTER_NOEXCEPT CHANTER_NORETURN;

/** Lets the next ready thread run; see `chanter_yield`. */
void pthread_chanter_yield(void) CHANTER_NOEXCEPT;

/** Returns the calling thread's name, which lives as long as the thread; NULL if it has none. */
pthread_chanter_t *pthread_chanter_self(void) CHANTER_NOEXCEPT;

/**
 * Returns the local thread of a global one, for `chanter_thread_cancel`, `_suspend` and `_resume`. It is `CHANTER_NONE` for a
 * thread of another process, and for one that nobody may join.
 */
chanter_thread_t pthread_chanter_pthread(const pthread_chanter_t *thread) CHANTER_NOEXCEPT;

/** Returns the processing element of a thread, or -1 for NULL. */
int pthread_chanter_pe(const pthread_chanter_t *thread) CHANTER_NOEXCEPT;

/** Returns the process of a thread, or -1 for NULL. */
int pthread_chanter_process(const pthread_chanter_t *thread) CHANTER_NOEXCEPT;

/** Returns 1 if both are the same thread, else 0. */
int pthread_chanter_equal(const pthread_chanter_t *t1, const pthread_chanter_t *t2) CHANTER_NOEXCEPT;

/** Asks a thread to exit with the value `PTHREAD_CHANTER_CANCELED`. */
int pthread_chanter_cancel(const pthread_chanter_t *thread) CHANTER_NOEXCEPT;

/**
 * Sends `count` bytes to a thread, with a type of 0 or more. When it returns, `buf` may be changed. `EHOSTDOWN` if the
 * process of the thread has gone.
 *
 * It blocks while 64 messages or 256 KiB from this process wait at that thread for a receive, of whichever type. So two
 * threads that send more to each other before they receive wait for ever: post the receives first, or receive in between.
 */
int pthread_chanter_send(int type, const char *buf, int count, const pthread_chanter_t *thread) CHANTER_NOEXCEPT;

/**
 * Receives a message of a type from a thread. Both may be any: `PTHREAD_CHANTER_ANY` as the type, and as the `process` of
 * `thread`; `thread` is then set to the sender. `EMSGSIZE` if the message was longer than `count`; its begin is in `buf`.
 */
int pthread_chanter_recv(int type, char *buf, int count, pthread_chanter_t *thread) CHANTER_NOEXCEPT;

/**
 * Posts a receive and returns at once. `buf` and `thread` are the library's until the receive has been waited for, or
 * tested with success. Only the calling thread may do that. `thread` is set to the sender if it was any.
 */
int pthread_chanter_irecv(int *handle, int type, char *buf, int count, pthread_chanter_t *thread) CHANTER_NOEXCEPT;

/** Returns 1 if a posted receive is complete, and frees its handle; 0 if it is not; a negative `errno` code if it failed. */
int pthread_chanter_msgtest(int handle) CHANTER_NOEXCEPT;

/** Waits for a posted receive, and frees its handle. */
int pthread_chanter_msgwait(int handle) CHANTER_NOEXCEPT;

/* Remote service requests (section 3.2 of the paper): functions that other processes call by name.                    */

/** A request while its handler runs. */
typedef struct chanter_request chanter_request;

/**
 * Registers a handler under a name, in this process. Each request runs `handler(data, request, buf, count)` on a thread with
 * a stack of its own, which may block. `buf` lives until the handler returns. `EALREADY` if the name is taken.
 */
int chanter_rsr_register(const char *name,
                         void (*handler)(void *data, chanter_request *request, const char *buf, size_t count),
                         void *data) CHANTER_NOEXCEPT;

/**
 * Calls the handler of a name in a process, which may be `PTHREAD_CHANTER_LOCAL`, and waits for its answer. `length` has the
 * room in `answer`, and is set to the length of the whole answer: `EMSGSIZE` if it is longer.
 *
 * Errors: `ENOSYS` if the process has no such handler; `ECANCELED` if the handler was cancelled; `EHOSTDOWN` if the process
 * has gone; `ETIMEDOUT`, and then the handler may have run.
 */
int chanter_rsr_call(int process, const char *name, const char *buf, size_t count, char *answer, size_t *length,
                     uint64_t deadline) CHANTER_NOEXCEPT;

/** Has the handler of a name called in a process, and does not wait. Nobody learns of its answer or error. */
int chanter_rsr_send(int process, const char *name, const char *buf, size_t count) CHANTER_NOEXCEPT;

/** Sets the answer of a request, which is sent when its handler returns. Without one it is empty. `EALREADY` the second time. */
int chanter_rsr_reply(chanter_request *request, const char *buf, size_t count) CHANTER_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* CHANTER_H */
