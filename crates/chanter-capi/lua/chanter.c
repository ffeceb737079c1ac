/*
 * chanter.c: `require "chanter"` for Lua 5.4, on the public header alone. MIT or Apache-2.0, at your choice.
 *
 * A Lua thread is a poll body. Its poll resumes a coroutine. A C function that would block begins an operation with
 * the context of the poll, and yields. The continuation asks the operation again after the next poll.
 *
 * - One virtual processor runs all threads of a Lua state, so no lock is needed. Hand-off is off, since a second OS thread
 *   would enter the same state.
 * - The library enters Lua through `poll_thread`, `end_thread` and the policy, and each is protected: `lua_resume`,
 *   `lua_resetthread`, `lua_pcall`. So no error of Lua jumps over the library's frames.
 * - A value on a channel is a word. Integers of 61 bits, booleans, nil and short floats are in the word. All else stays in a
 *   slot of a Lua table, and the word names the slot. `drop_word` frees the slot of a message that is destroyed.
 * - A thread is in a slot until it has ended, so it is not collected while it is blocked.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lua.h>

#include "chanter.h"

#define SLICE 30000u /* nanoseconds of a turn: short, since the library looks at timers and descriptors after 32 turns */
#define COUNT 1000   /* instructions between two looks at the clock */
#define STATES 4096    /* Lua states of a process, for the words on channels */

struct thread;

/** What a Lua state has of this module. */
struct state {
    unsigned id;            /* its place in `states` */
    int is_running;         /* within `chanter.run` */
    int is_closed;          /* the Lua state is being closed: no Lua code may run */
    int is_free;            /* loops are not preempted: no hooks */
    int is_ending;          /* threads are being cancelled: nothing may block */
    struct thread *current; /* the thread whose poll runs */
    chanter_context *context;
    lua_State *inner;       /* the innermost coroutine that may block, of the current thread */
    lua_State *blocked;     /* the coroutine that has yielded to the scheduler */
    uint64_t begun;         /* when the turn began, as the hook saw it */
    lua_State *aux;         /* index 1: the table of slots. For code that has no coroutine of its own */
    lua_State *policy;      /* indices 1 and 2: what calls the policy's `enqueue` and `next` */
    uint32_t *free_slots;   /* the free ones of the slots 1 to `slot_count` */
    uint32_t free_count, slot_count, slot_room;
    uint64_t *tokens;       /* threads that the policy has failed to take */
    size_t token_first, token_count, token_room;
    int has_failed;         /* the policy, at least once */
    int in_policy;          /* the policy runs, or the stack is too small for it: tokens go to `tokens` */
};

/** A thread. It is a full userdata, whose user value is its coroutine. */
struct thread {
    struct state *state;
    lua_State *co;
    lua_State *waiter;     /* the coroutine that waits for `op`: `co`, or one that it has resumed */
    chanter_op op;         /* a pending send or receive */
    uint64_t word;         /* what a pending send has sent */
    struct choice *choice; /* a pending choice, on the stack of `waiter` */
    chanter_thread handle;
    chanter_event done;    /* 0 until somebody joins */
    uint32_t slot;
    short nargs;           /* of the first resume */
    int count;             /* of its results */
    char status;
    char is_sending;       /* `word` is owned */
};

enum { RUNNING, ENDED, FAILED, CANCELLED };

struct channel {
    struct state *state; /* NULL: the values are words */
    chanter_channel handle;
    int is_owned;
    struct channel *next, **link; /* among the channels of Lua values in this process, under `states_lock` */
};

struct sock {
    int fd;
    int waits; /* choices that wait for the descriptor */
    int is_closed;
};

/**
 * A choice, as a full userdata. `data` of a case is its channel or socket, since `lost` is not used. The choice is in a slot
 * while it is pending, with the objects as its user value. So they live, also if the coroutine that waits is closed.
 */
struct choice {
    uint32_t slot;
    chanter_op op;
    uint64_t deadline;
    size_t count;
    chanter_case cases[];
};

static struct state *states[STATES];
static struct channel *value_channels;
static pthread_mutex_t states_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct state *here; /* the state whose thread runs on this OS thread; for the hook */

static const char *const THREAD = "chanter.thread", *const CHANNEL = "chanter.channel", *const SOCKET = "chanter.socket";

static struct state *state_of(lua_State *L) { return (struct state *)lua_touserdata(L, lua_upvalueindex(1)); }

/* -- Slots and words ----------------------------------------------------------------------------------------------- */

/** Puts the value on top of the stack into a slot, and pops it. Raises an error without memory, and changes nothing then. */
static uint32_t slot_put(lua_State *L, struct state *S) {
    if (S->is_closed) luaL_error(L, "the Lua state is being closed");
    if (S->free_count == 0 && S->slot_count == S->slot_room) {
        uint32_t room = S->slot_room < 64 ? 64 : S->slot_room * 2;
        uint32_t *free_slots = (uint32_t *)realloc(S->free_slots, room * sizeof *free_slots);
        if (!free_slots) luaL_error(L, "not enough memory");
        S->free_slots = free_slots;
        S->slot_room = room;
    }
    uint32_t slot = S->free_count ? S->free_slots[S->free_count - 1] : S->slot_count + 1;
    lua_rawgetp(L, LUA_REGISTRYINDEX, S);
    lua_insert(L, -2);
    lua_rawseti(L, -2, slot);
    lua_pop(L, 1);
    if (S->free_count) S->free_count--;
    else S->slot_count++;
    return slot;
}

/** Frees a slot. It allocates nothing and raises nothing: the key is there, and stays. */
static void slot_free(struct state *S, uint32_t slot) {
    if (S->is_closed) return;
    lua_pushboolean(S->aux, 0);
    lua_rawseti(S->aux, 1, slot);
    S->free_slots[S->free_count++] = slot;
}

/** Makes a word of the value at `index`. */
static uint64_t word_of(lua_State *L, int index, struct channel *channel) {
    struct state *S = channel->state;
    if (!S) return (uint64_t)luaL_checkinteger(L, index);
    switch (lua_type(L, index)) {
    case LUA_TNIL: return 2;
    case LUA_TBOOLEAN: return lua_toboolean(L, index) ? 2 | 2 << 3 : 2 | 1 << 3;
    case LUA_TNUMBER:
        if (lua_isinteger(L, index)) {
            lua_Integer value = lua_tointeger(L, index);
            if (value >= -((lua_Integer)1 << 60) && value < (lua_Integer)1 << 60) return (uint64_t)value << 3 | 1;
        } else {
            lua_Number value = lua_tonumber(L, index);
            uint64_t bits;
            memcpy(&bits, &value, sizeof bits);
            if ((bits & 7) == 0) return bits | 3;
        }
    }
    lua_pushvalue(L, index);
    return (uint64_t)slot_put(L, S) << 32 | (uint64_t)S->id << 3;
}

/** Pushes the value of a word's slot onto the stack of `aux`, and returns the slot; or 0 for a word that names none in use. */
static uint32_t slot_of(struct state *S, uint64_t word) {
    uint32_t slot = (uint32_t)(word >> 32);
    if ((uint32_t)word != S->id << 3 || slot == 0 || slot > S->slot_count) return 0;
    if (lua_rawgeti(S->aux, 1, slot) != LUA_TBOOLEAN) return slot;
    lua_pop(S->aux, 1);
    return 0;
}

/** Frees what a word of a Lua channel holds. The library calls this for messages that nobody receives. */
static void drop_word(uint64_t word) {
    struct state *S = word & 7 || (uint32_t)word >> 3 >= STATES ? NULL : states[(uint32_t)word >> 3];
    if (!S || S->is_closed || !slot_of(S, word)) return;
    lua_pop(S->aux, 1);
    slot_free(S, (uint32_t)(word >> 32));
}

/** Pushes the value of a word, which is used up. */
static void push_word(lua_State *L, struct state *S, uint64_t word) {
    switch (S ? word & 7 : 8) {
    case 0:
        if (!slot_of(S, word)) luaL_error(L, "a message that is no value of this state");
        lua_xmove(S->aux, L, 1);
        slot_free(S, (uint32_t)(word >> 32));
        break;
    case 2:
        if (word == 2) lua_pushnil(L);
        else lua_pushboolean(L, word >> 3 == 2);
        break;
    case 3: {
        lua_Number value;
        word &= ~(uint64_t)7;
        memcpy(&value, &word, sizeof value);
        lua_pushnumber(L, value);
        break;
    }
    case 1: lua_pushinteger(L, (int64_t)word >> 3); break;
    default: lua_pushinteger(L, (lua_Integer)word);
    }
}

static void close_descriptor(struct sock *sock) {
    if (sock->fd >= 0) close(sock->fd);
    sock->fd = -1;
}

/* -- Errors, deadlines, and what may block ------------------------------------------------------------------------- */

/** The results of a call that has failed: nil, and the reason. */
static int failed(lua_State *L, int error) {
    lua_pushnil(L);
    lua_pushstring(L, error == EPIPE ? "closed" : error == ETIMEDOUT ? "timeout" : error == EINVAL ? "stale" : strerror(error));
    return 2;
}

/** A deadline from seconds from now at `index`; none means forever. */
static uint64_t deadline_at(lua_State *L, int index) {
    if (lua_isnoneornil(L, index)) return CHANTER_FOREVER;
    lua_Number seconds = luaL_checknumber(L, index);
    if (!(seconds > 0)) return 0;
    if (seconds > 9e9) return CHANTER_FOREVER;
    return chanter_now() + (uint64_t)(seconds * 1e9);
}

/** The thread that runs, if it may block here. Else an error is raised. */
static struct thread *may_block(lua_State *L, struct state *S) {
    struct thread *t = S->current;
    if (!t || S->is_ending || S->inner != L || !lua_isyieldable(L)) {
        luaL_error(L, S->is_ending          ? "a thread that is cancelled cannot block"
                      : t                   ? "attempt to block across a call of C"
                                            : "attempt to block outside of a thread; see chanter.run");
    }
    return t;
}

/** Forgets the sockets that a choice has waited for, and the values that it has not sent. */
static void settle(struct state *S, struct choice *c, size_t chosen) {
    for (size_t i = 0; i < c->count; i++) {
        chanter_case *one = &c->cases[i];
        struct sock *sock = (struct sock *)one->data;
        if (one->kind == CHANTER_CASE_SEND && one->data && (i != chosen || one->status)) drop_word(one->value);
        if (one->kind != CHANTER_CASE_READABLE && one->kind != CHANTER_CASE_WRITABLE) continue;
        if (--sock->waits == 0 && sock->is_closed) close_descriptor(sock);
    }
    if (c->slot) slot_free(S, c->slot);
}

/** Drops what a thread still waits for: it ends, or another coroutine of it was left in the middle of a wait. */
static void drop_pending(struct thread *t) {
    struct choice *c = t->choice;
    int was_sent = t->op && chanter_op_drop(&t->op) == EALREADY;
    if (t->is_sending && !was_sent) drop_word(t->word);
    if (c) {
        was_sent = c->op && chanter_op_drop(&c->op) == EALREADY;
        /* The case that was sent is not known. Its slot stays, since its receiver has it. */
        for (size_t i = 0; was_sent && i < c->count; i++)
            if (c->cases[i].kind == CHANTER_CASE_SEND) c->cases[i].data = NULL;
        settle(t->state, c, c->count);
    }
    t->waiter = NULL;
    t->choice = NULL;
    t->op = 0;
    t->is_sending = 0;
}

/** Makes the current thread wait in this coroutine. */
static void begin_wait(lua_State *L, struct thread *t) {
    if (t->waiter) drop_pending(t);
    t->waiter = L;
}

/** The thread that waits in this coroutine, in a continuation. */
static struct thread *waiting(lua_State *L, struct state *S) {
    struct thread *t = S->current;
    if (!t || t->waiter != L) luaL_error(L, "a thread that is blocked was resumed by another one");
    return t;
}

/** Yields to the scheduler. */
static int yield_to(lua_State *L, struct state *S, lua_KContext context, lua_KFunction k) {
    S->blocked = L;
    return lua_yieldk(L, 0, context, k);
}

/* -- Threads ------------------------------------------------------------------------------------------------------- */

/** The count hook: ends the turn of a thread that has run for a slice. */
static void preempt(lua_State *L, lua_Debug *at) {
    struct state *S = here;
    (void)at;
    if (!S || !S->current) return;
    uint64_t now = chanter_now();
    if (S->begun == 0) S->begun = now;
    else if (now - S->begun >= SLICE && S->inner == L && lua_isyieldable(L)) {
        S->blocked = L;
        lua_yield(L, 0);
    }
}

/** The poll function of a thread: resumes its coroutine. */
static int poll_thread(void *body, chanter_context *context) {
    struct thread *t = (struct thread *)body;
    struct state *S = t->state;
    if (S->is_closed) return CHANTER_PENDING;
    if (S->current) { /* another thread of this state is in the middle of its turn */
        chanter_context_wake(context);
        return CHANTER_PENDING;
    }
    S->current = t;
    S->context = context;
    S->inner = t->co;
    S->blocked = NULL;
    S->begun = 0;
    here = S;
    int count, nargs = t->nargs;
    t->nargs = 0;
    int status = lua_resume(t->co, NULL, nargs, &count);
    here = NULL;
    S->current = NULL;
    S->inner = NULL;
    if (S->is_closed) return CHANTER_PENDING;
    if (status == LUA_YIELD) {
        lua_pop(t->co, count);
        /* A yield of the program, or of the hook, waits for nothing. */
        if (!t->waiter || t->waiter != S->blocked) chanter_context_wake(context);
        return CHANTER_PENDING;
    }
    t->status = status == LUA_OK ? ENDED : FAILED;
    return CHANTER_DONE;
}

/** Moves the results, or the error, to a table, which is the thread's user value from then on. */
static int keep_results(lua_State *L) {
    struct thread *t = (struct thread *)lua_touserdata(L, 1);
    int count = t->status == FAILED ? 1 : lua_gettop(t->co);
    lua_rawgetp(L, LUA_REGISTRYINDEX, t->state);
    lua_rawgeti(L, 2, t->slot);
    lua_createtable(L, count, 0);
    for (int i = count; i >= 1; i--) {
        lua_xmove(t->co, L, 1);
        lua_rawseti(L, 4, i);
    }
    lua_settop(t->co, 0);
    t->count = count;
    lua_setiuservalue(L, 3, 1);
    t->co = NULL;
    return 0;
}

/** Runs once when a thread has ended: closes what it has left open, and tells its joiners. */
static void end_thread(void *body) {
    struct thread *t = (struct thread *)body;
    struct state *S = t->state;
    if (S->is_closed) return;
    drop_pending(t);
    if (t->status == RUNNING) {
        int was_ending = S->is_ending;
        S->is_ending = 1;
        t->status = CANCELLED;
        lua_resetthread(t->co); /* runs the `__close` of its variables, protected */
        lua_settop(t->co, 0);
        S->is_ending = was_ending;
    }
    if (t->status == FAILED && !t->done && lua_type(t->co, -1) == LUA_TSTRING) {
        lua_warning(S->aux, "chanter: a thread has failed: ", 1);
        lua_warning(S->aux, lua_tostring(t->co, -1), 0);
    }
    lua_pushcfunction(S->aux, keep_results);
    lua_pushlightuserdata(S->aux, t);
    if (lua_pcall(S->aux, 1, 0, 0)) t->status = CANCELLED, lua_pop(S->aux, 1); /* no memory */
    if (t->done) {
        chanter_event_set(t->done, 1);
        chanter_event_free(t->done);
    }
    chanter_thread_detach(t->handle);
    slot_free(S, t->slot);
}

/** Makes a thread of the function and its arguments, which are on the stack from `first` on. It is pushed. */
static struct thread *make_thread(lua_State *L, struct state *S, int first) {
    luaL_checkany(L, first);
    int count = lua_gettop(L) - first + 1;
    struct thread *t = (struct thread *)lua_newuserdatauv(L, sizeof *t, 1);
    memset(t, 0, sizeof *t);
    t->state = S;
    luaL_setmetatable(L, THREAD);
    luaL_checkstack(L, count + 4, "too many arguments");
    lua_State *co = t->co = lua_newthread(L);
    if (count > SHRT_MAX || !lua_checkstack(co, count)) luaL_error(L, "too many arguments");
    lua_sethook(co, S->is_free ? NULL : preempt, S->is_free ? 0 : LUA_MASKCOUNT, COUNT);
    lua_setiuservalue(L, -2, 1);
    for (int i = 0; i < count; i++) lua_pushvalue(L, first + i);
    lua_xmove(L, co, count);
    t->nargs = (short)(count - 1);
    lua_pushvalue(L, -1);
    t->slot = slot_put(L, S);
    return t;
}

/** spawn(function, ...), and spawn_as(priority, seconds, name, function, ...) */
static int spawn_from(lua_State *L, int first) {
    struct state *S = state_of(L);
    chanter_attr attr = {.size = sizeof attr, .flags = CHANTER_HOST};
    if (S->in_policy) return luaL_error(L, "neither a policy nor a thread that run has left can spawn");
    if (!S->is_running) return luaL_error(L, "threads can only be spawned within chanter.run");
    luaL_checkany(L, first);
    if (first > 1) {
        attr.priority = (int)luaL_optinteger(L, 1, 0);
        attr.deadline = deadline_at(L, 2);
        if (attr.deadline == CHANTER_FOREVER) attr.deadline = 0;
        attr.name = luaL_optstring(L, 3, NULL);
    }
    struct thread *t = make_thread(L, S, first);
    int error = chanter_thread_spawn_poll(CHANTER_NONE, &attr, poll_thread, t, end_thread, &t->handle);
    if (error) {
        slot_free(S, t->slot);
        t->status = CANCELLED;
        return luaL_error(L, "cannot spawn a thread: %s", strerror(error));
    }
    return 1;
}

static int spawn(lua_State *L) { return spawn_from(L, 1); }
static int spawn_as(lua_State *L) { return spawn_from(L, 4); }

/** The result of the thread at `index`: true and its values, false and its error, or nothing while it runs. */
static int result_of(lua_State *L, int index, struct thread *t) {
    if (t->status == RUNNING) return 0;
    luaL_checkstack(L, t->count + 3, "too many results");
    lua_getiuservalue(L, index, 1);
    int from = lua_gettop(L);
    lua_pushboolean(L, t->status == ENDED);
    for (int i = 1; i <= t->count && t->status != CANCELLED; i++) lua_rawgeti(L, from, i);
    if (t->status == CANCELLED) lua_pushliteral(L, "cancelled");
    return lua_gettop(L) - from;
}

static struct thread *check_thread(lua_State *L) { return (struct thread *)luaL_checkudata(L, 1, THREAD); }

static int thread_result(lua_State *L) { return result_of(L, 1, check_thread(L)); }

static int thread_status(lua_State *L) {
    static const char *const names[] = {"running", "ended", "failed", "cancelled"};
    lua_pushstring(L, names[(int)check_thread(L)->status]);
    return 1;
}

static int thread_cancel(lua_State *L) {
    struct thread *t = check_thread(L);
    if (t->status == RUNNING) chanter_thread_cancel(t->handle);
    return 0;
}

static int self(lua_State *L) {
    struct state *S = state_of(L);
    if (!S->current) return 0;
    lua_rawgeti(S->aux, 1, S->current->slot);
    lua_xmove(S->aux, L, 1);
    return 1;
}

static int yield(lua_State *L) {
    struct state *S = state_of(L);
    begin_wait(L, may_block(L, S));
    S->current->waiter = NULL;
    S->blocked = L;
    return lua_yield(L, 0);
}

static int now(lua_State *L) {
    lua_pushnumber(L, (lua_Number)chanter_now() / 1e9);
    return 1;
}

/* -- Coroutines within threads: what blocks or is preempted in one passes through all that have resumed it --------- */

static int resume_on(lua_State *L, int nargs);

static int resume_k(lua_State *L, int status, lua_KContext context) { return (void)status, (void)context, resume_on(L, 0); }

static int resume_on(lua_State *L, int nargs) {
    struct state *S = state_of(L);
    lua_State *co = lua_tothread(L, 1), *inner = S->inner;
    int count, may = inner == L && lua_isyieldable(L);
    if (S->current) {
        S->inner = may ? co : NULL;
        if (!lua_gethook(co) && !S->is_free) lua_sethook(co, preempt, LUA_MASKCOUNT, COUNT); /* it was made outside of a thread */
    }
    int status = lua_resume(co, L, nargs, &count);
    if (S->current) S->inner = inner;
    if (status == LUA_YIELD && S->current && S->blocked == co && may) {
        lua_pop(co, count);
        return yield_to(L, S, 0, resume_k);
    }
    int has_failed = status != LUA_OK && status != LUA_YIELD;
    if (has_failed) count = 1;
    if (!lua_checkstack(L, count + 1)) return lua_pop(co, count), luaL_error(L, "too many results to resume");
    lua_xmove(co, L, count);
    lua_pushboolean(L, !has_failed);
    lua_insert(L, -(count + 1)); /* after the move, since `co` may be `L` */
    return count + 1;
}

/** coroutine.resume */
static int co_resume(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTHREAD);
    int nargs = lua_gettop(L) - 1;
    if (!lua_checkstack(lua_tothread(L, 1), nargs)) return luaL_error(L, "too many arguments to resume");
    lua_xmove(L, lua_tothread(L, 1), nargs);
    return resume_on(L, nargs);
}

/* -- Channels ------------------------------------------------------------------------------------------------------ */

static struct channel *check_channel(lua_State *L) { return (struct channel *)luaL_checkudata(L, 1, CHANNEL); }

static struct channel *make_channel(lua_State *L, struct state *S, chanter_channel handle) {
    struct channel *channel = (struct channel *)lua_newuserdatauv(L, sizeof *channel, 0);
    *channel = (struct channel){S, handle, 0, NULL, NULL};
    luaL_setmetatable(L, CHANNEL);
    return channel;
}

static int create_channel(lua_State *L, struct state *S) {
    lua_Number number = luaL_optnumber(L, 1, 0);
    luaL_argcheck(L, number >= 0, 1, "a capacity is not negative");
    struct channel *channel = make_channel(L, S, 0);
    luaL_argcheck(L, number <= 1 << 24 || number > 1e300, 1, "a capacity is at most 16777216, or math.huge");
    size_t capacity = number <= 1 << 24 ? (size_t)number : CHANTER_UNBOUNDED;
    int error = chanter_channel_create(capacity, S ? drop_word : NULL, &channel->handle);
    if (error) return luaL_error(L, "cannot make a channel: %s", strerror(error));
    channel->is_owned = 1;
    if (!S) return 1;
    pthread_mutex_lock(&states_lock);
    channel->next = value_channels;
    channel->link = &value_channels;
    if (channel->next) channel->next->link = &channel->next;
    value_channels = channel;
    pthread_mutex_unlock(&states_lock);
    return 1;
}

/** channel(capacity): for values of this Lua state. words(capacity): for integers, shared with C and Rust. */
static int channel_new(lua_State *L) { return create_channel(L, state_of(L)); }
static int words_new(lua_State *L) { return create_channel(L, NULL); }

/** from_handle(handle): the channel of words that C or Rust has made, which stays theirs. */
static int words_from(lua_State *L) {
    chanter_channel handle = (chanter_channel)luaL_checkinteger(L, 1);
    size_t length;
    pthread_mutex_lock(&states_lock);
    struct channel *other = value_channels;
    while (other && other->handle != handle) other = other->next;
    pthread_mutex_unlock(&states_lock);
    luaL_argcheck(L, !other, 1, "a channel of Lua values has no ends outside; use chanter.words");
    if (chanter_channel_length(handle, &length)) return luaL_error(L, "the handle is stale, or is not of a channel");
    make_channel(L, NULL, handle);
    return 1;
}

static int channel_handle(lua_State *L) {
    struct channel *channel = check_channel(L);
    luaL_argcheck(L, !channel->state, 1, "a channel of Lua values has no ends outside; use chanter.words");
    lua_pushinteger(L, (lua_Integer)channel->handle);
    return 1;
}

static int sent(lua_State *L, struct channel *channel, int error, uint64_t word) {
    if (error && channel->state) drop_word(word);
    if (error) return failed(L, error);
    lua_pushboolean(L, 1);
    return 1;
}

static int received(lua_State *L, struct channel *channel, int error, uint64_t word) {
    if (error) return failed(L, error);
    push_word(L, channel->state, word);
    return 1;
}

static int send_k(lua_State *L, int status, lua_KContext deadline) {
    struct state *S = state_of(L);
    struct thread *t = waiting(L, S);
    struct channel *channel = (struct channel *)lua_touserdata(L, 1);
    (void)status;
    int error = chanter_poll_send(S->context, &t->op, channel->handle, t->word, (uint64_t)deadline);
    if (error == EAGAIN) return yield_to(L, S, 0, send_k);
    t->waiter = NULL;
    t->is_sending = 0;
    return sent(L, channel, error, t->word);
}

/** send(value [, seconds]): true; or nil, and "closed" or "timeout" */
static int channel_send(lua_State *L) {
    struct channel *channel = check_channel(L);
    struct thread *t = may_block(L, state_of(L));
    luaL_checkany(L, 2);
    uint64_t deadline = deadline_at(L, 3), word = word_of(L, 2, channel);
    begin_wait(L, t);
    t->word = word;
    t->is_sending = channel->state != NULL;
    return send_k(L, 0, (lua_KContext)deadline);
}

static int recv_k(lua_State *L, int status, lua_KContext deadline) {
    struct state *S = state_of(L);
    struct thread *t = waiting(L, S);
    struct channel *channel = (struct channel *)lua_touserdata(L, 1);
    uint64_t word = 0;
    (void)status;
    int error = chanter_poll_recv(S->context, &t->op, channel->handle, &word, (uint64_t)deadline);
    if (error == EAGAIN) return yield_to(L, S, 0, recv_k);
    t->waiter = NULL;
    return received(L, channel, error, word);
}

/** recv([seconds]): the value; or nil, and "closed" or "timeout" */
static int channel_recv(lua_State *L) {
    check_channel(L);
    uint64_t deadline = deadline_at(L, 2);
    begin_wait(L, may_block(L, state_of(L)));
    return recv_k(L, 0, (lua_KContext)deadline);
}

/** try_send(value), try_recv(): at once or not at all; these may be called anywhere */
static int channel_try_send(lua_State *L) {
    struct channel *channel = check_channel(L);
    luaL_checkany(L, 2);
    uint64_t word = word_of(L, 2, channel);
    return sent(L, channel, chanter_send(channel->handle, word, 0), word);
}

static int channel_try_recv(lua_State *L) {
    struct channel *channel = check_channel(L);
    uint64_t word = 0;
    int error = chanter_recv(channel->handle, &word, 0);
    return received(L, channel, error, word);
}

static int channel_close(lua_State *L) {
    chanter_channel_close(check_channel(L)->handle);
    return 0;
}

static int channel_length(lua_State *L) {
    size_t length = 0;
    chanter_channel_length(check_channel(L)->handle, &length);
    lua_pushinteger(L, (lua_Integer)length);
    return 1;
}

static int channel_gc(lua_State *L) {
    struct channel *channel = check_channel(L);
    if (channel->is_owned && channel->handle) chanter_channel_free(channel->handle);
    pthread_mutex_lock(&states_lock);
    if (channel->link) *channel->link = channel->next;
    if (channel->link && channel->next) channel->next->link = channel->link;
    pthread_mutex_unlock(&states_lock);
    channel->link = NULL;
    channel->handle = 0;
    return 0;
}

/* -- Choices ------------------------------------------------------------------------------------------------------- */

/** Fills a case of kind `kind` with the object at the top of the stack. */
static void fill(lua_State *L, chanter_case *one, int kind, int value) {
    void *object = lua_touserdata(L, -1);
    switch (kind) {
    case CHANTER_CASE_RECV: case CHANTER_CASE_SEND:
        one->handle = ((struct channel *)luaL_checkudata(L, -1, CHANNEL))->handle;
        if (kind == CHANTER_CASE_SEND) one->value = word_of(L, value, (struct channel *)object);
        if (((struct channel *)object)->state) one->data = object;
        break;
    case CHANTER_CASE_JOIN: {
        struct thread *t = (struct thread *)luaL_checkudata(L, -1, THREAD);
        if (t == t->state->current) luaL_error(L, "a thread would join itself");
        if (t->status == RUNNING && !t->done && chanter_event_create(&t->done)) luaL_error(L, "cannot join");
        kind = t->status == RUNNING ? CHANTER_CASE_EVENT : CHANTER_CASE_TIMER;
        one->handle = t->status == RUNNING ? t->done : 0;
        break;
    }
    case CHANTER_CASE_TIMER: one->value = deadline_at(L, value); break;
    case CHANTER_CASE_READABLE: case CHANTER_CASE_WRITABLE: {
        struct sock *sock = (struct sock *)luaL_checkudata(L, -1, SOCKET);
        if (sock->is_closed) kind = CHANTER_CASE_TIMER; /* it has ended: the next read tells so */
        else sock->waits++;
        one->handle = (uint64_t)sock->fd;
        one->data = sock;
        break;
    }
    default: kind = CHANTER_CASE_NEVER;
    }
    if (kind == CHANTER_CASE_TIMER && lua_isnil(L, value)) one->value = 0;
    one->kind = kind;
}

static int fill_all(lua_State *L) {
    struct choice *c = (struct choice *)lua_touserdata(L, 4);
    for (size_t i = 0; i < c->count; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i + 1);
        int kind = (int)lua_tointeger(L, -1);
        lua_rawgeti(L, 3, (lua_Integer)i + 1);
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        fill(L, &c->cases[i], kind, 6);
        lua_settop(L, 4);
    }
    return 0;
}

static int choose_k(lua_State *L, int status, lua_KContext context) {
    struct state *S = state_of(L);
    struct thread *t = waiting(L, S);
    struct choice *c = (struct choice *)context;
    size_t chosen = c->count;
    (void)status;
    int error = chanter_poll_choose(S->context, &c->op, c->cases, c->count, c->deadline, &chosen);
    if (error == EAGAIN) return yield_to(L, S, context, choose_k);
    t->choice = NULL;
    t->waiter = NULL;
    settle(S, c, error ? c->count : chosen);
    if (error) return failed(L, error);
    chanter_case *one = &c->cases[chosen];
    lua_pushinteger(L, (lua_Integer)chosen + 1);
    if (one->status) return 1 + failed(L, one->status);
    if (one->kind == CHANTER_CASE_RECV) push_word(L, one->data ? S : NULL, one->value);
    else lua_pushboolean(L, 1);
    return 2;
}

/** choose(kinds, objects, values, count [, seconds]): the index of the case, and its value; or nil, and "timeout" */
static int choose(lua_State *L) {
    struct state *S = state_of(L);
    for (int i = 1; i <= 3; i++) luaL_checktype(L, i, LUA_TTABLE);
    lua_Integer count = luaL_checkinteger(L, 4);
    luaL_argcheck(L, count >= 0 && count <= CHANTER_CASES_MOST, 4, "too many cases");
    struct thread *t = may_block(L, S);
    uint64_t deadline = deadline_at(L, 5);
    lua_settop(L, 5);
    size_t size = sizeof(struct choice) + (size_t)count * sizeof(chanter_case);
    struct choice *c = (struct choice *)memset(lua_newuserdatauv(L, size, 1), 0, size);
    c->deadline = deadline;
    c->count = (size_t)count;
    for (size_t i = 0; i < c->count; i++) c->cases[i].size = sizeof *c->cases;
    lua_pushvalue(L, 2);
    lua_setiuservalue(L, 6, 1);
    lua_pushvalue(L, 6);
    c->slot = slot_put(L, S);
    lua_pushcfunction(L, fill_all);
    for (int i = 1; i <= 4; i++) lua_pushvalue(L, i < 4 ? i : 6);
    if (lua_pcall(L, 4, 0, 0)) {
        settle(S, c, c->count); /* what the cases before the wrong one hold */
        return lua_error(L);
    }
    begin_wait(L, t);
    t->choice = c;
    return choose_k(L, 0, (lua_KContext)c);
}

/* -- Sockets: these calls never block. What waits is written in Lua, with a choice --------------------------------- */

static struct sock *check_sock(lua_State *L) { return (struct sock *)luaL_checkudata(L, 1, SOCKET); }

/** nil and "again", or nil and another reason */
static int sock_failed(lua_State *L, int error) {
    lua_pushnil(L);
    if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == EINPROGRESS) lua_pushliteral(L, "again");
    else lua_pushstring(L, error == EPIPE || error == EBADF ? "closed" : strerror(error));
    return 2;
}

static struct sock *make_sock(lua_State *L) {
    struct sock *sock = (struct sock *)lua_newuserdatauv(L, sizeof *sock, 0);
    *sock = (struct sock){-1, 0, 0};
    luaL_setmetatable(L, SOCKET);
    return sock;
}

/** open(host, port, listens): a socket that listens, or begins to connect; then a write or read tells how that ended */
static int sock_open(lua_State *L) {
    const char *host = luaL_checkstring(L, 1);
    int listens = lua_toboolean(L, 3), one = 1, error = 0;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = listens ? AI_PASSIVE : 0}, *found;
    char port[8];
    luaL_argcheck(L, luaL_checkinteger(L, 2) >= 0 && lua_tointeger(L, 2) <= 65535, 2, "a port is from 0 to 65535");
    snprintf(port, sizeof port, "%u", (unsigned)lua_tointeger(L, 2) & 65535);
    struct sock *sock = make_sock(L);
    if (getaddrinfo(host, port, &hints, &found)) return luaL_error(L, "no such host: %s", host);
    sock->fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (sock->fd < 0) error = errno;
    else if (!listens) error = connect(sock->fd, found->ai_addr, found->ai_addrlen) ? errno : 0;
    else if (setsockopt(sock->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
             bind(sock->fd, found->ai_addr, found->ai_addrlen) || listen(sock->fd, 1024)) error = errno;
    freeaddrinfo(found);
    return error && error != EINPROGRESS ? sock_failed(L, error) : 1;
}

static int sock_accept(lua_State *L) {
    struct sock *from = check_sock(L), *sock = make_sock(L);
    sock->fd = accept4(from->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    return sock->fd < 0 ? sock_failed(L, errno) : 1;
}

static int sock_error(lua_State *L) {
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(check_sock(L)->fd, SOL_SOCKET, SO_ERROR, &error, &size)) error = errno;
    if (error) return sock_failed(L, error);
    lua_pushboolean(L, 1);
    return 1;
}

static int sock_port(lua_State *L) {
    struct sockaddr_in6 at; /* the port is at the same place in an address of IPv4 */
    socklen_t size = sizeof at;
    if (getsockname(check_sock(L)->fd, (struct sockaddr *)&at, &size)) return sock_failed(L, errno);
    lua_pushinteger(L, ntohs(at.sin6_port));
    return 1;
}

/** try_read(most): some bytes; or nil, and "closed" at the end */
static int sock_read(lua_State *L) {
    struct sock *sock = check_sock(L);
    lua_Integer most = luaL_optinteger(L, 2, 4096);
    luaL_argcheck(L, most > 0 && most <= 1 << 24, 2, "from 1 to 16777216 bytes");
    luaL_Buffer buffer;
    char *bytes = luaL_buffinitsize(L, &buffer, (size_t)most); /* first, since a finalizer may close the socket */
    ssize_t count = recv(sock->fd, bytes, (size_t)most, 0);
    if (count <= 0) return sock_failed(L, count ? errno : EPIPE);
    luaL_pushresultsize(&buffer, (size_t)count);
    return 1;
}

/** try_write(bytes, from): the place where the rest begins */
static int sock_write(lua_State *L) {
    size_t size, from = (size_t)luaL_optinteger(L, 3, 1) - 1;
    const char *bytes = luaL_checklstring(L, 2, &size);
    luaL_argcheck(L, from <= size, 3, "beyond the bytes");
    ssize_t count = send(check_sock(L)->fd, bytes + from, size - from, MSG_NOSIGNAL);
    if (count < 0) return sock_failed(L, errno);
    lua_pushinteger(L, (lua_Integer)(from + (size_t)count) + 1);
    return 1;
}

/** Those that wait are woken at once. The descriptor is closed when none of them waits. */
static int sock_close(lua_State *L) {
    struct sock *sock = (struct sock *)luaL_checkudata(L, 1, SOCKET);
    if (sock->fd >= 0 && !sock->is_closed) shutdown(sock->fd, SHUT_RDWR);
    sock->is_closed = 1;
    if (sock->waits == 0) close_descriptor(sock);
    return 0;
}

/* -- Policies: a Lua table with `enqueue(self, token, priority, deadline, reason, thread)` and `next(self)` -------- */

static int policy_enqueue(lua_State *L) {
    static const char *const reasons[] = {"?", "new", "yielded", "spent", "woken", "timer", "io", "remote", "moved"};
    const chanter_ready *ready = (const chanter_ready *)lua_touserdata(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushinteger(L, (lua_Integer)ready->token);
    lua_pushinteger(L, ready->priority);
    if (ready->deadline == CHANTER_FOREVER) lua_pushnil(L);
    else lua_pushnumber(L, (lua_Number)ready->deadline / 1e9);
    lua_pushstring(L, reasons[ready->reason >= 1 && ready->reason <= 8 ? ready->reason : 0]);
    lua_pushinteger(L, (lua_Integer)ready->thread);
    lua_call(L, 5, 0);
    return 0;
}

/** Calls the function at `index` of the policy's stack. A finalizer may run meanwhile, and make a thread ready. */
static uint64_t call_policy(struct state *S, int index, const void *argument) {
    lua_State *P = S->policy;
    S->in_policy = 1;
    lua_pushvalue(P, index);
    lua_pushlightuserdata(P, (void *)argument);
    int status = lua_pcall(P, 1, 1, 0);
    if (status != LUA_OK && !S->has_failed++)
        fprintf(stderr, "chanter: the policy has failed: %s\n", lua_isstring(P, -1) ? lua_tostring(P, -1) : "?");
    uint64_t result = status != LUA_OK ? UINT64_MAX : lua_tointeger(P, -1) != -1 ? (uint64_t)lua_tointeger(P, -1) : 0;
    lua_pop(P, 1);
    S->in_policy = 0;
    return result;
}

static void keep_token(struct state *S, uint64_t token) {
    if (S->token_count == S->token_room) {
        uint64_t *tokens = (uint64_t *)realloc(S->tokens, (S->token_room * 2 + 64) * sizeof *tokens);
        if (!tokens) return;
        S->tokens = tokens;
        S->token_room = S->token_room * 2 + 64;
    }
    S->tokens[S->token_count++] = token;
}

/** A thread that the policy fails to take runs by its turn. */
static void enqueue(void *self, const chanter_ready *ready) {
    struct state *S = (struct state *)self;
    if (S->is_closed || S->in_policy || call_policy(S, 1, ready) == UINT64_MAX) keep_token(S, ready->token);
}

/** If the policy fails, all threads that it has run by their turn. Index 3 of its stack is the table of their tokens. */
static uint64_t next(void *self) {
    struct state *S = (struct state *)self;
    if (S->token_first == S->token_count) {
        S->token_first = S->token_count = 0;
        if (S->is_closed || S->in_policy) return 0;
        uint64_t token = call_policy(S, 2, NULL);
        if (token != UINT64_MAX) return token;
        for (lua_pushnil(S->policy); lua_next(S->policy, 3); lua_pop(S->policy, 1)) {
            keep_token(S, (uint64_t)lua_tointeger(S->policy, -2));
            lua_pushnil(S->policy);
            lua_rawseti(S->policy, 3, lua_tointeger(S->policy, -3)); /* a field that is there: nothing is allocated */
        }
    }
    return S->token_count ? S->tokens[S->token_first++] : 0;
}

/* -- The module ---------------------------------------------------------------------------------------------------- */

/** Begins the main thread, and waits for its end. The policy may run on this stack. */
static void *begin(void *argument) {
    struct thread *t = (struct thread *)argument;
    int *in_policy = &t->state->in_policy;
    chanter_attr attr = {.size = sizeof attr, .flags = CHANTER_HOST};
    chanter_event done = t->done;
    *in_policy = 0;
    int error = chanter_thread_spawn_poll(CHANTER_NONE, &attr, poll_thread, t, end_thread, &t->handle);
    if (!error) chanter_event_wait(done, NULL, CHANTER_FOREVER);
    *in_policy = 1;
    return error ? argument : NULL;
}

/** Runs `begin` on a large stack. This one is small, so neither Lua code nor the policy runs on it. */
static void *begin_small(void *argument) {
    chanter_attr attr = {.size = sizeof attr, .stack_size = 16 << 20};
    chanter_thread thread;
    void *has_failed = argument;
    if (!chanter_thread_spawn(CHANTER_NONE, &attr, begin, argument, &thread))
        chanter_thread_join(thread, &has_failed, CHANTER_FOREVER);
    return has_failed;
}

/** run(function, is_free [, next, tokens, enqueue]): runs a thread until it ends, and cancels all others. Its results, or its error */
static int run(lua_State *L) {
    struct state *S = state_of(L);
    chanter_policy policy = {.size = sizeof policy, .data = S, .enqueue = enqueue, .next = next};
    chanter_config config = {.size = sizeof config, .processors = 1, .hand_off = UINT64_MAX};
    luaL_checktype(L, 1, LUA_TFUNCTION);
    if (S->is_running) return luaL_error(L, "chanter.run does not run within chanter.run");
    if (S->is_closed) return luaL_error(L, "the Lua state is being closed");
    S->is_free = lua_toboolean(L, 2);
    S->token_first = S->token_count = 0;
    S->has_failed = 0;
    S->in_policy = 1; /* until there is a stack for it */
    lua_settop(S->policy, 0);
    if (lua_gettop(L) == 5) {
        lua_pushcclosure(L, policy_enqueue, 1);
        lua_insert(L, 3);
        lua_xmove(L, S->policy, 3);
        config.policy = &policy;
    }
    lua_settop(L, 1);
    struct thread *t = make_thread(L, S, 1);
    chanter_machine machine;
    void *has_failed = NULL;
    int error = chanter_event_create(&t->done);
    if (!error) error = chanter_machine_create(&config, &machine);
    if (!error) {
        S->is_running = 1;
        error = chanter_machine_run(machine, begin_small, t, &has_failed);
        /* Nothing of Lua may be touched until the machine's OS threads have ended. */
        chanter_machine_free(machine);
        S->is_running = S->in_policy = 0;
        lua_settop(S->policy, 0);
    }
    if (error || has_failed) {
        t->status = CANCELLED;
        slot_free(S, t->slot);
        return luaL_error(L, "cannot run: %s", error ? strerror(error) : "no thread");
    }
    int count = result_of(L, 2, t);
    if (t->status != ENDED) return lua_error(L);
    return count - 1;
}

static int close_state(lua_State *L) {
    struct state *S = (struct state *)lua_touserdata(L, lua_upvalueindex(1));
    S->is_closed = 1;
    if (S->is_running) return 0; /* os.exit in a thread: the process ends */
    free(S->free_slots);
    free(S->tokens); /* neither is used any more */
    return 0;
}

/** Makes what a Lua state has of this module. It is kept when the state is closed, since finalizers may call afterwards. */
static struct state *make_state(lua_State *L) {
    lua_getfield(L, LUA_REGISTRYINDEX, "chanter.state");
    struct state *S = (struct state *)lua_touserdata(L, -1);
    if (S) return S; /* the module has failed to load before */
    S = (struct state *)calloc(1, sizeof *S);
    if (!S) luaL_error(L, "not enough memory");
    pthread_mutex_lock(&states_lock);
    while (S->id < STATES && states[S->id] && !states[S->id]->is_closed) S->id++;
    if (S->id < STATES) states[S->id] = S;
    pthread_mutex_unlock(&states_lock);
    if (S->id == STATES) luaL_error(L, "too many Lua states");
    lua_newtable(L);
    S->aux = lua_newthread(L);
    lua_pushvalue(L, -2);
    lua_xmove(L, S->aux, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "chanter.aux");
    lua_rawsetp(L, LUA_REGISTRYINDEX, S);
    S->policy = lua_newthread(L);
    lua_setfield(L, LUA_REGISTRYINDEX, "chanter.policy");
    lua_newtable(L);
    lua_newtable(L);
    lua_pushlightuserdata(L, S);
    lua_pushcclosure(L, close_state, 1);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_setfield(L, LUA_REGISTRYINDEX, "chanter.close");
    lua_pushlightuserdata(L, S);
    lua_setfield(L, LUA_REGISTRYINDEX, "chanter.state");
    return S;
}

static void methods(lua_State *L, struct state *S, const char *name, const luaL_Reg *functions) {
    luaL_newmetatable(L, name);
    lua_pushvalue(L, -1);
    lua_setfield(L, -2, "__index");
    lua_pushlightuserdata(L, S);
    luaL_setfuncs(L, functions, 1);
    lua_setfield(L, -2, name);
}

static const char EVENTS[] =
#include <events.h>
    ;

int luaopen_chanter(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"spawn", spawn}, {"spawn_as", spawn_as}, {"self", self}, {"yield", yield}, {"now", now}, {"run", run},
        {"channel", channel_new}, {"words", words_new}, {"from_handle", words_from},
        {"choose_cases", choose}, {"open", sock_open}, {"resume", co_resume}, {NULL, NULL}};
    static const luaL_Reg thread[] = {{"result", thread_result}, {"status", thread_status}, {"cancel", thread_cancel},
                                      {NULL, NULL}};
    static const luaL_Reg channel[] = {
        {"send", channel_send}, {"recv", channel_recv}, {"try_send", channel_try_send}, {"try_recv", channel_try_recv},
        {"close", channel_close}, {"length", channel_length}, {"handle", channel_handle}, {"__gc", channel_gc},
        {"__len", channel_length}, {NULL, NULL}};
    static const luaL_Reg sock[] = {
        {"try_accept", sock_accept}, {"try_read", sock_read}, {"try_write", sock_write}, {"error", sock_error},
        {"port", sock_port}, {"close", sock_close}, {"__gc", sock_close}, {"__close", sock_close}, {NULL, NULL}};
    luaL_checkversion(L);
    if (chanter_abi_version() >> 16 != CHANTER_ABI_VERSION >> 16) return luaL_error(L, "another version of libchanter_c");
    if (lua_getfield(L, LUA_REGISTRYINDEX, "chanter.module") == LUA_TTABLE) return 1; /* it was required before */
    struct state *S = make_state(L);
    luaL_newlibtable(L, functions);
    lua_pushlightuserdata(L, S);
    luaL_setfuncs(L, functions, 1);
    methods(L, S, THREAD, thread);
    methods(L, S, CHANNEL, channel);
    methods(L, S, SOCKET, sock);
    if (luaL_loadbufferx(L, EVENTS, sizeof EVENTS - 1, "=chanter", "t")) return lua_error(L);
    lua_insert(L, -2);
    lua_call(L, 1, 1);
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, "chanter.module");
    return 1;
}
