/* Several Lua states, each in an OS thread: a channel of words between two, and a test in three others. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "chanter.h"

struct job { const char *code; lua_Integer handle; int has_failed; };

static void *run(void *argument) {
    struct job *job = (struct job *)argument;
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    job->has_failed = luaL_loadstring(L, job->code) != LUA_OK;
    lua_pushinteger(L, job->handle);
    if (job->has_failed || lua_pcall(L, 1, 0, 0) != LUA_OK) {
        fprintf(stderr, "states: %s\n", lua_tostring(L, -1));
        job->has_failed = 1;
    }
    lua_close(L);
    return NULL;
}

int main(int count, char **arguments) {
    char whole[1000];
    chanter_channel channel;
    if (count != 2 || chanter_channel_create(0, NULL, &channel)) return 2;
    snprintf(whole, sizeof whole, "dofile '%s'", arguments[1]);
    struct job jobs[] = {
        {"local chanter, handle = require 'chanter', ... "
         "chanter.run(function() local c = chanter.from_handle(handle) for i = 1, 10000 do c:send(i) end end)",
         (lua_Integer)channel, 0},
        {"local chanter, handle = require 'chanter', ... "
         "chanter.run(function() local c, sum = chanter.from_handle(handle), 0 "
         "for i = 1, 10000 do sum = sum + chanter.select(c:recv_event(), chanter.never) end "
         "assert(sum == 10000 * 10001 // 2) end)",
         (lua_Integer)channel, 0},
        {whole, 0, 0}, {whole, 0, 0}, {whole, 0, 0}};
    enum { JOBS = sizeof jobs / sizeof *jobs };
    pthread_t threads[JOBS];
    for (int i = 0; i < JOBS; i++)
        if (pthread_create(&threads[i], NULL, run, &jobs[i])) return 2;
    int failed = 0;
    for (int i = 0; i < JOBS; i++) {
        pthread_join(threads[i], NULL);
        failed += jobs[i].has_failed;
    }
    chanter_channel_free(channel);
    if (failed == 0) puts("states: passed");
    return failed != 0;
}
