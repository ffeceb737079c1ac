-- A policy with priorities, as a Lua table: the most urgent thread runs next, and equals run in turn. A thread that has waited
-- behind 100 others runs in any case, so none starves.
local chanter = require "chanter"

local function priorities()
    local policy = { levels = {}, count = 0, turns = 0 }

    function policy:enqueue(token, priority)
        local level = self.levels[priority]
        if not level then
            level = { priority = priority, first = 1, last = 0, passed = 0 }
            self.levels[priority] = level
        end
        level.last = level.last + 1
        level[level.last] = token
        self.count = self.count + 1
    end

    function policy:next()
        if self.count == 0 then return nil end
        local best
        for _, level in pairs(self.levels) do
            if level.first <= level.last then
                local urgency = level.passed >= 100 and math.huge or level.priority
                if not best or urgency > best.urgency then
                    best = level
                    best.urgency = urgency
                end
            end
        end
        for _, level in pairs(self.levels) do
            if level ~= best and level.first <= level.last then level.passed = level.passed + 1 end
        end
        best.passed = 0
        local token = best[best.first]
        best[best.first] = nil
        best.first = best.first + 1
        self.count = self.count - 1
        return token
    end

    return policy
end

-- Two threads are always busy. The urgent one has nearly all turns, and the idle one still gets on. When it has had 20 turns,
-- the alarm stops both.
local counts, order = { urgent = 0, idle = 0 }, {}
chanter.run(function()
    local stop, enough = false, chanter.signal()
    local function work(name)
        while not stop do
            counts[name] = counts[name] + 1
            order[#order + 1] = name
            if counts.idle == 20 then enough:set() end
            chanter.yield()
        end
    end
    local urgent = chanter.spawn_with({ priority = 10 }, work, "urgent")
    local idle = chanter.spawn_with({ priority = -10 }, work, "idle")
    local alarm = chanter.spawn_with({ priority = 100, name = "alarm" }, function()
        enough:wait()
        stop = true
    end)
    alarm:join()
    urgent:join()
    idle:join()
end, { policy = priorities() })

print(("urgent ran %d times, idle %d times"):format(counts.urgent, counts.idle))
assert(order[1] == "urgent" and counts.idle == 20 and counts.urgent > 50 * counts.idle)
