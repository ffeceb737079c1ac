-- Cases of faults that were mended.
local chanter
-- `run` in a finalizer, after the module was closed, is an error. Its finalizer runs after the module's, since it is older.
AT_CLOSE = setmetatable({}, { __gc = function()
    if pcall(chanter.run, function() chanter.yield() end) then os.exit(1) end
    pcall(function() chanter.channel(5):try_send({}) end)
end })
chanter = require "chanter"

local function eq(a, b) if a ~= b then error(tostring(a) .. " is not " .. tostring(b), 2) end end

-- The module is made once.
local loaded = package.loaded.chanter
package.loaded.chanter = nil
eq(require "chanter", loaded)

chanter.run(function()
    -- A child that fails ends a scope whose owner waits.
    local ok, why = pcall(chanter.scope, function(scope)
        local never = chanter.channel()
        scope:spawn(function() error("child", 0) end)
        return never:recv()
    end)
    assert(not ok and why == "child")
    eq(select("#", chanter.scope(function() return nil, 1, nil end)), 3)
    -- The owner goes on after it has cancelled its threads.
    eq(chanter.scope(function(scope)
        scope:spawn(function() chanter.channel():recv() end)
        scope:cancel()
        chanter.yield()
        return 5
    end), 5)
    -- All threads of a scope end with the thread that has called it.
    local closed, begun = 0, chanter.channel()
    local outer = chanter.spawn(chanter.scope, function(scope)
        local at <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
        scope:spawn(function()
            local at <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
            begun:send(1)
            chanter.channel():recv()
        end)
        chanter.channel():recv()
    end)
    begun:recv()
    outer:cancel()
    outer:join()
    while closed < 2 do chanter.yield() end

    -- What is no event is an error.
    assert(not pcall(chanter.select, chanter.signal(), chanter.after(0.1)))
    assert(not pcall(chanter.select, chanter.after(0.1), nil))
    assert(not pcall(chanter.select, nil, chanter.after(0.1)))
    assert(not pcall(chanter.select, { chanter.never }, chanter.after(0.1)))
    assert(not pcall(chanter.sleep, nil))
end)
-- Messages and channels of Lua values are out of reach for channels of words.
chanter.run(function()
    local before, values, after = chanter.words(), chanter.channel(1), chanter.words()
    local handle = (before:handle() + after:handle()) // 2 -- handles are given in order
    assert(not pcall(chanter.from_handle, handle))
    eq((values:try_recv()), nil)
    assert(not pcall(chanter.listen, "127.0.0.1", 65536))
    assert(not pcall(chanter.channel, 1e14))
    assert(pcall(chanter.channel, math.huge))

    -- The coroutine of a thread that has ended has nothing to run.
    local co
    local thread = chanter.spawn(function() co = coroutine.running() return 1, print end)
    thread:join()
    eq((coroutine.resume(co)), false)
    eq(select("#", thread:result()), 3)

    -- An error that is no string is not changed.
    local failing = chanter.spawn(function() error(42) end)
    chanter.sleep(0.001)
    eq(math.type(select(2, failing:join())), "integer")
end)

-- A policy that only fails to give out its threads.
local broken = { enqueue = function() end, next = function() error("policy: this error is part of the test") end }
eq(chanter.run(function()
    return select(2, chanter.spawn(function() chanter.sleep(0.001) return 9 end):join())
end, { policy = broken }), 9)

-- A policy may use much stack, and is collected as other code is.
local function deep(n) return n == 0 and "x" or (("x"):gsub("x", function() return deep(n - 1) end)) end
local used, in_policy = {}, nil
local policy = { first = 1, last = 0 }
function policy:enqueue(token)
    used.enqueue = deep(150)
    in_policy = in_policy or not pcall(chanter.spawn, print)
    self.last = self.last + 1
    self[self.last] = token
end
function policy:next()
    used.next = deep(150)
    if self.first > self.last then return 0 end
    local token = self[self.first]
    self[self.first] = nil
    self.first = self.first + 1
    return token
end
chanter.run(function()
    local channel, freed = chanter.channel(1), 0
    for i = 1, 300 do
        setmetatable({}, { __gc = function() freed = freed + 1 channel:try_send({}) end })
        chanter.spawn(function() channel:recv(0.0001) end)
        chanter.yield()
    end
    assert(freed > 0)
end, { policy = policy })
eq(used.enqueue, "x")
eq(used.next, "x")
eq(in_policy, true)

print("mended: passed")
