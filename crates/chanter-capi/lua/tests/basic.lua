-- Threads, channels, choices, wraps, guards, nacks, timers, scopes, coroutines.
local chanter = require "chanter"

local function eq(a, b) if a ~= b then error(tostring(a) .. " is not " .. tostring(b), 2) end end
local LONG = 60

assert(not pcall(chanter.spawn, print), "no threads outside of run")
assert(not pcall(chanter.sleep, 1), "nothing blocks outside of run")
assert(not pcall(chanter.run, 3))
eq(select("#", chanter.run(function() end)), 0)
eq(chanter.run(function() return 7, nil end), 7)
local ok, why = pcall(chanter.run, function() error({ code = 5 }) end)
eq(ok, false)
eq(why.code, 5)

chanter.run(function()
    assert(not pcall(chanter.run, print), "run does not nest")

    -- Values of all kinds pass as they are, through each kind of channel.
    local shared = {}
    local values = { 0, 1, -1, 1 << 59, 1 << 60, -(1 << 60), -(1 << 60) - 1, math.maxinteger, math.mininteger, 0.5, 0.1, -0.0,
        1 / 0, 1e300, true, false, "", "text", ("x"):rep(1000), shared, print, coroutine.create(print), io.stdout }
    for _, capacity in ipairs { 0, 1, 100, math.huge } do
        local channel = chanter.channel(capacity)
        chanter.spawn(function()
            for _, value in ipairs(values) do eq(channel:send(value), true) end
            eq(channel:send(nil), true)
            channel:close()
        end)
        for _, value in ipairs(values) do
            local got = channel:recv()
            eq(got, value)
            eq(math.type(got), math.type(value))
        end
        local value, reason = channel:recv()
        assert(value == nil and reason == nil)
        value, reason = channel:recv()
        assert(value == nil and reason == "closed")
        eq(select(2, channel:send(1)), "closed")
        eq(select(2, channel:try_send({})), "closed")
    end

    -- Deadlines.
    local channel = chanter.channel()
    eq(select(2, channel:recv(0)), "timeout")
    eq(select(2, channel:recv(0.001)), "timeout")
    eq(select(2, channel:send({}, 0.001)), "timeout")
    eq(select(2, channel:send({}, 0)), "timeout")
    eq(select(2, channel:recv_event():sync(0.001)), "timeout")
    eq(select(2, channel:try_recv()), "timeout")
    local begun = chanter.now()
    chanter.sleep(0.01)
    assert(chanter.now() - begun >= 0.01)

    -- Joins: any number, before and after the end.
    local thread = chanter.spawn(function(...) return select("#", ...), ... end, nil, 2, nil)
    for _ = 1, 2 do
        local t = table.pack(thread:join())
        eq(t.n, 5)
        eq(t[2], 3)
        eq(t[4], 2)
    end
    eq(thread:status(), "ended")
    local failing = chanter.spawn(function() chanter.yield() error("no", 0) end)
    local others = {}
    for i = 1, 3 do others[i] = chanter.spawn(function() return failing:join() end) end
    for i = 1, 3 do eq(select(3, others[i]:join()), "no") end
    eq(failing:status(), "failed")
    eq(select(2, chanter.select(failing:join_event(), channel:recv_event())), "no")
    eq(chanter.self():join_event() ~= nil, true)
    assert(not pcall(function() chanter.self():join() end), "a thread would join itself")

    -- Cancellation: variables are closed, and joiners are told.
    local closed = 0
    local blocked = chanter.spawn(function()
        local guard <close> = setmetatable({}, { __close = function()
            closed = closed + 1
            assert(not pcall(chanter.sleep, 1), "nothing blocks while a thread is cancelled")
        end })
        channel:recv()
    end)
    chanter.yield()
    blocked:cancel()
    local good, reason = blocked:join(LONG)
    assert(good == false and reason == "cancelled")
    eq(closed, 1)
    blocked:cancel()

    -- Choices.
    local a, b = chanter.channel(), chanter.channel()
    chanter.spawn(function() b:send(20) end)
    local got = chanter.select(
        a:recv_event():wrap(function() return "a" end),
        b:recv_event():wrap(function(v) return v + 1 end):wrap(function(v) return v * 2, "b" end))
    eq(got, 42)
    eq(chanter.choose { chanter.always(1, 2), chanter.never }:sync(), 1)
    eq(select(2, chanter.sync(chanter.never, 0)), "timeout")
    eq(select(2, chanter.sync(chanter.choose {}, 0)), "timeout")
    local sent = chanter.spawn(function() return a:recv() end)
    eq(chanter.select(a:send_event(shared), chanter.after(LONG)), true)
    eq(select(2, sent:join()), shared)
    local counts = { 0, 0 }
    local x, y = chanter.channel(1000), chanter.channel(1000)
    for _ = 1, 1000 do x:send(1) y:send(2) end
    for _ = 1, 1000 do
        local which = chanter.select(x:recv_event(), y:recv_event())
        counts[which] = counts[which] + 1
    end
    assert(counts[1] > 100 and counts[2] > 100, "a choice is fair")

    -- Guards run at each synchronization. Nacks tell the branches that were not chosen, and only those.
    local runs = 0
    local guarded = chanter.guard(function() runs = runs + 1 return chanter.always(runs) end)
    eq(guarded:sync(), 1)
    eq(guarded:sync(), 2)
    local function nacked(label, other, inner, seconds)
        local signal
        chanter.sync(chanter.choose(other, chanter.with_nack(function(nack)
            signal = nack
            return inner
        end)), seconds)
        return (chanter.select(signal:wrap(function() return true end), chanter.after(0.01):wrap(function() return false end)))
    end
    eq(nacked("other", chanter.always(1), chanter.never), true)
    eq(nacked("chosen", chanter.never, chanter.always(1)), false)
    eq(nacked("one of two", chanter.never, chanter.choose(chanter.never, chanter.always(1))), false)
    eq(nacked("timeout", chanter.never, chanter.never, 0.001), true)
    local outer
    local cancelled = chanter.spawn(function()
        chanter.sync(chanter.with_nack(function(nack) outer = nack return chanter.never end))
    end)
    chanter.yield()
    cancelled:cancel()
    eq(outer:sync(LONG), true)
    eq(select(1, pcall(chanter.sync, chanter.with_nack(function(nack) outer = nack error("x") end))), false)
    eq(outer:sync(LONG), true)

    -- Coroutines within threads may block.
    local generator = coroutine.wrap(function()
        for i = 1, 3 do chanter.sleep(0.0001) coroutine.yield(i) end
        local co = coroutine.create(function() return a:recv() end)
        chanter.spawn(function() a:send("deep") end)
        coroutine.yield(select(2, coroutine.resume(co)))
        error("end", 0)
    end)
    eq(generator(), 1)
    eq(generator(), 2)
    eq(generator(), 3)
    eq(generator(), "deep")
    eq(select(2, pcall(generator)), "end")
    eq(select(2, pcall(generator)), "cannot resume dead coroutine")

    -- A yield of the program's own lets others run.
    local order = {}
    local first = chanter.spawn(function() for i = 1, 3 do order[#order + 1] = i coroutine.yield(i) end end)
    first:join()
    eq(#order, 3)

    -- Scopes.
    local total = 0
    eq(chanter.scope(function(scope, start)
        for i = 1, 10 do scope:spawn(function() chanter.yield() total = total + i end) end
        return start
    end, 5), 5)
    eq(total, 55)
    good, reason = pcall(chanter.scope, function(scope)
        scope:spawn(function() a:recv() end)
        scope:spawn(function() error("child", 0) end)
    end)
    assert(not good and reason == "child")
    good, reason = pcall(chanter.scope, function(scope)
        scope:spawn(function() a:recv() end)
        error("owner", 0)
    end)
    assert(not good and reason == "owner")

    -- Threads of endless loops do not keep others from running.
    local stop = false
    local function spin() while not stop do end end
    local spinners = { chanter.spawn(spin), chanter.spawn(function() coroutine.wrap(spin)() end),
        chanter.spawn(function() pcall(spin) end) }
    chanter.sleep(0.01)
    stop = true
    for _, spinner in ipairs(spinners) do assert(spinner:join(LONG)) end
end)

-- Threads that are left are cancelled when the main thread ends, and their variables are closed.
local closed = 0
chanter.run(function()
    local channel = chanter.channel()
    for _ = 1, 10 do
        chanter.spawn(function()
            local guard <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
            channel:send({})
        end)
        chanter.spawn(function()
            local guard <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
            while true do end
        end)
    end
    chanter.sleep(0.02)
end)
eq(closed, 20)
print("basic: passed")
