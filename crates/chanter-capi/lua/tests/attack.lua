-- Misuse: none of it may crash, hang, or leave the library in a wrong state.
local chanter = require "chanter"
local LONG = 60
local function eq(a, b) if a ~= b then error(tostring(a) .. " is not " .. tostring(b), 2) end end

-- Garbage is collected at every step, in each mode.
for _, mode in ipairs { "incremental", "generational" } do
    collectgarbage(mode)
    chanter.run(function()
        local channels = {}
        for i = 1, 5 do channels[i] = chanter.channel(i - 1) end
        local threads = {}
        for i = 1, 20 do
            threads[i] = chanter.spawn(function()
                local sum = 0
                for round = 1, 20 do
                    collectgarbage()
                    local one, other = channels[i % 5 + 1], channels[(i + round) % 5 + 1]
                    if i % 2 == 0 then one:send({ round }) else
                        local value = chanter.select(one:recv_event(), other:recv_event(), chanter.after(0.0001))
                        if value then sum = sum + value[1] end
                    end
                    collectgarbage("step")
                end
                return sum
            end)
        end
        chanter.sleep(0.01)
        -- Channels that nobody else names are collected while values are in them.
        for _ = 1, 100 do
            local channel = chanter.channel(10)
            for i = 1, 10 do channel:try_send({ i }) end
        end
        collectgarbage()
        for i = 1, 20 do threads[i]:cancel() end
        for i = 1, 20 do threads[i]:join() end
    end)
end
collectgarbage("incremental")

-- Values that are destroyed by the library are collected.
chanter.run(function()
    local weak = setmetatable({}, { __mode = "v" })
    local function make(i) weak[i] = { i } return weak[i] end
    local channel = chanter.channel(1)
    channel:send(make(1))
    local sender = chanter.spawn(function() channel:send(make(2)) end)
    local chooser = chanter.spawn(function() chanter.select(channel:send_event(make(3)), chanter.never) end)
    chanter.spawn(function() channel:send(make(4), 0.001) end):join()
    chanter.spawn(function() chanter.select(channel:send_event(make(5)), chanter.after(0.001)) end):join()
    sender:cancel()
    chooser:cancel()
    sender:join()
    chooser:join()
    channel:try_send(make(6))
    channel:close()
    channel, sender, chooser = nil, nil, nil
    collectgarbage()
    collectgarbage()
    for i = 1, 6 do eq(weak[i], nil) end
end)

chanter.run(function()
    local channel = chanter.channel()

    -- Errors in guards, wraps, and wrong events.
    local function bad() error("bad", 0) end
    eq(select(2, pcall(chanter.sync, chanter.guard(bad))), "bad")
    eq(select(2, pcall(chanter.sync, chanter.always(1):wrap(bad))), "bad")
    assert(not pcall(chanter.sync, chanter.guard(function() return 7 end)))
    assert(not pcall(chanter.sync, 7))
    assert(not pcall(chanter.select, chanter.never, {}))
    for kind = -1, 9 do
        for _, object in ipairs { false, 5, "x", channel, chanter.self(), io.stdout } do
            local e = setmetatable({ kind = kind, object = object, value = {} }, chanter.Event)
            pcall(chanter.sync, chanter.choose(channel:send_event({}), e), 0)
        end
    end
    -- An error in a case leaves nothing behind of the cases before it.
    local weak = setmetatable({ {} }, { __mode = "v" })
    local wrong = setmetatable({ kind = 1, object = 5 }, chanter.Event)
    assert(not pcall(chanter.select, channel:send_event(weak[1]), wrong))
    collectgarbage()
    eq(weak[1], nil)

    -- Errors in finalizers, and finalizers that would block.
    for i = 1, 10 do
        setmetatable({}, { __gc = function()
            if i % 2 == 0 then error("in a finalizer") end
            assert(not pcall(channel.recv, channel))
            chanter.spawn(function() end)
            channel:try_send(1)
        end })
    end
    warn("@off")
    collectgarbage()
    chanter.yield()

    -- A thread that resumes itself, and one whose coroutine is resumed by others.
    local co = coroutine.running()
    eq(select(2, coroutine.resume(co)), "cannot resume non-suspended coroutine")
    assert(not coroutine.close or not pcall(coroutine.close, co))
    local theirs
    local victim = chanter.spawn(function() theirs = coroutine.running() channel:recv() end)
    chanter.yield()
    local good, reason = coroutine.resume(theirs)
    assert(not good and reason:find("was resumed by another one"))
    channel:try_send(1)
    victim:cancel()
    eq((victim:join(LONG)), false)
    local inner = coroutine.create(function() channel:recv() end)
    local first = chanter.spawn(function() coroutine.resume(inner) return channel:recv() end)
    chanter.yield()
    coroutine.resume(inner)
    local sender = chanter.spawn(function() channel:send("for the first") end)
    first:join(0.01)
    first:cancel()
    sender:cancel()
    local closed = chanter.spawn(function() local c = coroutine.create(function() channel:recv() end)
        theirs = c
        coroutine.resume(c)
        return "survived"
    end)
    chanter.yield()
    pcall(coroutine.close, theirs)
    closed:cancel()
    closed:join(LONG)

    -- The coroutine of a choice is closed and collected, with all that the choice names, while the thread waits.
    local left = setmetatable({}, { __mode = "k" })
    local chooser = chanter.spawn(function()
        local c = coroutine.create(function()
            local mine = assert(chanter.listen("127.0.0.1", 0))
            local own = chanter.channel()
            chanter.select(mine:readable(), own:send_event({}), own:recv_event())
        end)
        left[c] = true
        return coroutine.resume(c)
    end)
    chanter.yield()
    for c in pairs(left) do coroutine.close(c) end
    for _ = 1, 3 do collectgarbage() end
    chooser:cancel()
    chooser:join(LONG)
    for _ = 1, 3 do collectgarbage() end

    -- Nothing blocks across a call of C, and nothing is preempted there.
    local ok, why = pcall(string.gsub, "x", "x", function() channel:recv() end)
    assert(not ok and why:find("call of C"))
    ok, why = pcall(table.sort, { 3, 2, 1 }, function() chanter.sleep(1) end)
    assert(not ok and why:find("call of C"))
    local turns = 0
    string.gsub("xxx", "x", function() for _ = 1, 1000000 do turns = turns + 1 end end)
    eq(turns, 3000000)
    ok, why = pcall(string.gsub, "x", "x", function() coroutine.wrap(function() channel:recv() end)() end)
    assert(not ok and why:find("call of C"))

    -- Deep recursion: of Lua, of C, and of threads that spawn threads.
    local function deep(n) return 1 + deep(n + 1) end
    local stack = chanter.spawn(deep, 1)
    good, reason = stack:join(LONG)
    assert(not good and reason:find("stack overflow"))
    local function nest(n)
        if n == 0 then return channel:recv(0.001) end
        return coroutine.wrap(nest)(n - 1)
    end
    assert(chanter.spawn(nest, 50):join(LONG))
    good, reason = chanter.spawn(nest, 500):join(LONG)
    assert(not good and reason:find("C stack overflow"))
    local function spawns(n) if n > 0 then return select(2, chanter.spawn(spawns, n - 1):join()) end return "bottom" end
    eq(spawns(1000), "bottom")

    -- Arguments and results in great number.
    local many = {}
    for i = 1, 5000 do many[i] = i end
    eq(select("#", chanter.spawn(function(...) return ... end, table.unpack(many)):join()), 5001)
    assert(not pcall(chanter.spawn, print, table.unpack(many, 1, 40000)))
    assert(not pcall(chanter.choose(table.unpack(many, 1, 0)).sync, chanter.choose {}, "x"))
    local events = {}
    for i = 1, 4096 do events[i] = chanter.never end
    events[4096] = chanter.always(1)
    eq(chanter.sync(chanter.choose(events)), 1)
    events[4097] = chanter.never
    assert(not pcall(chanter.sync, chanter.choose(events)))

    -- Stale handles and wrong objects.
    local words = chanter.words()
    local handle = words:handle()
    local alias = chanter.from_handle(handle)
    assert(not pcall(channel.handle, channel))
    for _, wrong in ipairs { 0, -1, 1, handle + 1, handle ~ (1 << 62), math.mininteger } do
        assert(not pcall(chanter.from_handle, wrong))
    end
    getmetatable(words).__gc(words)
    getmetatable(words).__gc(words)
    eq(select(2, alias:recv()), "stale")
    eq(select(2, alias:send(1)), "stale")
    eq(select(2, words:try_recv()), "stale")
    assert(not pcall(alias.send, alias, {}))
    assert(not pcall(chanter.from_handle, handle))
    for _, method in pairs(getmetatable(channel)) do
        if type(method) == "function" then
            for _, wrong in ipairs { 1, "x", {}, io.stdout, chanter.self() } do pcall(method, wrong, wrong, wrong) end
            pcall(method)
        end
    end
    local self = chanter.self()
    for name, method in pairs(getmetatable(self)) do
        if type(method) == "function" and name ~= "join" then pcall(method, channel) pcall(method) end
    end

    -- A thread that is cancelled before it has begun, that cancels itself, and that cancels its canceller.
    local never = chanter.spawn(function() error("ran") end)
    never:cancel()
    local reason = select(2, never:join(LONG)) -- it has run if this thread was preempted before it could cancel
    assert(reason == "cancelled" or reason:find("ran"))
    eq(select(2, chanter.spawn(function() chanter.self():cancel() chanter.yield() return 1 end):join(LONG)), "cancelled")
    local one, two
    one = chanter.spawn(function() two:cancel() chanter.sleep(LONG) end)
    two = chanter.spawn(function() one:cancel() chanter.sleep(LONG) end)
    one:cancel()
    two:cancel()
    one:join()
    two:join()

    -- An error in `__close` while a thread is cancelled.
    local dies = chanter.spawn(function()
        local a <close> = setmetatable({}, { __close = function() error("in close") end })
        local b <close> = setmetatable({}, { __close = function() chanter.spawn(print):cancel() end })
        channel:recv()
    end)
    chanter.yield()
    dies:cancel()
    eq(dies:join(LONG), false)

    -- Sockets that are closed while a thread waits, and used afterwards.
    local listener = assert(chanter.listen("127.0.0.1", 0))
    local waits = chanter.spawn(function() return listener:accept() end)
    chanter.yield()
    listener:close()
    eq(select(2, waits:join(LONG)), nil)
    eq(listener:accept(), nil)
    assert(not pcall(chanter.listen, "no such host.invalid", 0))
    eq(chanter.connect("127.0.0.1", 1, LONG), nil)
    debug.sethook()
end)

-- Requiring the module again makes no second machine within the first.
local again = (function() package.loaded.chanter = nil return require "chanter" end)()
eq(again.run(function() return again.spawn(function() return 3 end):join() end), true)
eq(chanter.run(function() return chanter.spawn(function() return 3 end):join() end), true)

-- The state is closed while threads are blocked, also from within a thread.
local function shell(script)
    local lua = arg[-1] or "lua5.4"
    local pipe = io.popen(("%s - 2>&1 <<'END'\n%s\nEND"):format(lua, script))
    local text = pipe:read("a")
    local _, _, code = pipe:close()
    return text, code
end
local text, code = shell([[
    local chanter = require "chanter"
    setmetatable({}, { __gc = function() print(pcall(chanter.channel)) print("late") end })
    chanter.run(function()
        local channel = chanter.channel()
        for _ = 1, 10 do chanter.spawn(function() channel:recv() end) end
        for _ = 1, 10 do chanter.spawn(function() chanter.select(channel:send_event({}), chanter.after(1)) end) end
        chanter.spawn(function() os.exit(7, true) end)
        chanter.sleep(60)
    end)]])
eq(code, 7)
assert(text:find("late"), text)
text, code = shell([[
    local chanter = require "chanter"
    local weak = setmetatable({}, { __gc = function() print(pcall(chanter.run, function() end)) end })
    chanter.run(function() chanter.spawn(function() chanter.channel():recv() end) error("main", 0) end)]])
eq(code, 1)
assert(text:find("main"), text)
print("attack: passed")
