-- Policies as Lua tables: order, errors, and a policy that forgets.
local chanter = require "chanter"
local function eq(a, b) if a ~= b then error(tostring(a) .. " is not " .. tostring(b), 2) end end

local function fifo()
    return { first = 1, last = 0,
        enqueue = function(self, token) self.last = self.last + 1 self[self.last] = token end,
        next = function(self)
            if self.first > self.last then return nil end
            local token = self[self.first]
            self[self.first] = nil
            self.first = self.first + 1
            return token
        end }
end

-- The policy sees each thread with its attributes and its reason, and its order holds.
local function lifo()
    local policy = { seen = {} }
    function policy:enqueue(token, priority, deadline, reason, thread)
        assert(math.type(token) == "integer" and math.type(thread) == "integer")
        assert(deadline == nil or deadline > 0)
        self.seen[reason] = (self.seen[reason] or 0) + 1
        self.last_priority = priority
        self[#self + 1] = token
    end
    function policy:next() return table.remove(self) end
    return policy
end
local policy = lifo()
local order = {}
chanter.run(function()
    local threads = {}
    for i = 1, 5 do threads[i] = chanter.spawn_with({ priority = i, deadline = 1, name = "t" .. i }, function() order[#order + 1] = i end) end
    eq(policy.last_priority, 5)
    assert(not pcall(chanter.spawn_with, { priority = 128 }, print))
    assert(not pcall(chanter.spawn_with, { priority = {} }, print))
    for i = 1, 5 do threads[i]:join() end
end, { policy = policy })
eq(table.concat(order), "54321")
assert(policy.seen.new >= 6) -- five, the main thread, and perhaps that in which `run` waits: it comes from outside
assert(policy.seen.woken)

-- All works under a policy, also when garbage is collected at every step.
chanter.run(function()
    local channel = chanter.channel()
    local sum = 0
    chanter.scope(function(scope)
        for i = 1, 20 do scope:spawn(function() for _ = 1, 20 do collectgarbage() channel:send({ i }) end end) end
        scope:spawn(function() for _ = 1, 400 do sum = sum + channel:recv()[1] collectgarbage("step") end end)
        scope:spawn(function() for _ = 1, 10 do chanter.sleep(0.0005) end end)
    end)
    eq(sum, 4200)
end, { policy = fifo() })

-- A policy that fails is told once, and its threads run by their turns.
local stderr_is_told = 0
local failing = { enqueue = function() stderr_is_told = stderr_is_told + 1 error("policy: this error is part of the test") end,
    next = function() error("policy: this error is part of the test") end }
eq(chanter.run(function() return select(2, chanter.spawn(function() chanter.yield() return 9 end):join()) end,
    { policy = failing }), 9)
assert(stderr_is_told > 2)

-- What is not a token is ignored; threads that are forgotten end with the machine.
local forgetful = fifo()
local enqueue, take = forgetful.enqueue, forgetful.next
function forgetful:enqueue(token, priority, ...) if priority == 0 then enqueue(self, token, priority, ...) end end
local wrong = { 12345, -1, "x", {}, 1.5, 1 << 62 }
function forgetful:next()
    local bad = table.remove(wrong)
    if bad and self.first > self.last then return bad end
    return take(self)
end
local ran = false
chanter.run(function()
    chanter.spawn_with({ priority = 1 }, function() ran = true end)
    for _ = 1, 10 do chanter.sleep(0.0005) end
end, { policy = forgetful })
eq(ran, false)

-- A policy has no thread, so it may not block or spawn.
local blocked
local blocking = fifo()
function blocking:enqueue(token) self.last = self.last + 1 self[self.last] = token
    blocked = not pcall(chanter.sleep, 1) and not pcall(function() chanter.channel():recv() end) end
eq(chanter.run(function() return 1 end, { policy = blocking }), 1)
eq(blocked, true)
assert(not pcall(chanter.run, print, { policy = 5 }))
print("policy: passed")
