-- Threads that are blocked on channels: the memory of each, from the resident set of the process.
local chanter = require "chanter"
local count = tonumber(arg[1]) or 1000000

local function resident()
    for line in io.lines("/proc/self/status") do
        local kib = line:match("^VmRSS:%s+(%d+)")
        if kib then return tonumber(kib) end
    end
end

chanter.run(function()
    local channel = chanter.channel()
    local function body() return channel:recv() end
    collectgarbage()
    local before, lua_before, begun = resident(), collectgarbage("count"), chanter.now()
    local threads = {}
    for i = 1, count do
        threads[i] = chanter.spawn(body)
        if i % 1000 == 0 then chanter.yield() end
    end
    chanter.yield()
    local seconds = chanter.now() - begun
    collectgarbage()
    local lua = (collectgarbage("count") - lua_before) * 1024 / count
    local all = (resident() - before) * 1024 / count
    print(string.format("%d threads blocked: %.0f bytes each, of which Lua %.0f; %.0f ns to spawn and block", count, all, lua,
        seconds / count * 1e9))
    local woken = chanter.now()
    local sum = 0
    for i = 1, count do channel:send(i) end
    for i = 1, count do
        local _, value = threads[i]:join()
        sum = sum + value
    end
    assert(sum == count * (count + 1) // 2)
    print(string.format("%.0f ns to wake and join each", (chanter.now() - woken) / count * 1e9))
end)
