/* Ends of channels in C, as a module of Lua: fibers of the machine that runs the caller, and OS threads. */
#include <pthread.h>
#include <stdlib.h>

#include <lauxlib.h>
#include <lua.h>

#include "chanter.h"

struct end { chanter_channel channel; uint64_t first, count; };

static void *send_all(void *arg) {
    struct end *end = (struct end *)arg;
    for (uint64_t i = 0; i < end->count; i++)
        if (chanter_send(end->channel, end->first + i, CHANTER_FOREVER)) break;
    free(end);
    return NULL;
}

static struct end *end_of(lua_State *L) {
    struct end *end = (struct end *)malloc(sizeof *end);
    end->channel = (chanter_channel)luaL_checkinteger(L, 1);
    end->first = (uint64_t)luaL_checkinteger(L, 2);
    end->count = (uint64_t)luaL_checkinteger(L, 3);
    return end;
}

/* fiber(handle, first, count): a thread with a stack sends so many words */
static int fiber(lua_State *L) {
    chanter_attr attr = {.size = sizeof attr, .flags = CHANTER_DETACHED};
    lua_pushinteger(L, chanter_thread_spawn(CHANTER_NONE, &attr, send_all, end_of(L), NULL));
    return 1;
}

/* os_thread(handle, first, count): an OS thread sends so many words */
static int os_thread(lua_State *L) {
    pthread_t thread;
    lua_pushinteger(L, pthread_create(&thread, NULL, send_all, end_of(L)));
    pthread_detach(thread);
    return 1;
}

int luaopen_ends(lua_State *L) {
    static const luaL_Reg functions[] = {{"fiber", fiber}, {"os_thread", os_thread}, {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}
