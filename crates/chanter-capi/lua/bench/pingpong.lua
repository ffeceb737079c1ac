-- Ping-pong between two threads, and between two coroutines with a scheduler written in Lua. Prints nanoseconds a round trip.
local chanter = require "chanter"
local rounds = tonumber(arg[1]) or 200000

local function report(name, begun, cpu, sum)
    assert(sum == rounds * (rounds + 1) // 2, "a wrong sum")
    local ns = (chanter.now() - begun) / rounds * 1e9
    local busy = (os.clock() - cpu) / rounds * 1e9
    print(string.format("%-32s %8.0f ns of processor time a round trip, %8.0f ns in all", name, busy, ns))
    return busy
end

local function threads(name, preempt)
    return chanter.run(function()
        local ping, pong = chanter.channel(), chanter.channel()
        chanter.spawn(function()
            for _ = 1, rounds do pong:send(ping:recv() + 1) end
        end)
        local begun, cpu, sum = chanter.now(), os.clock(), 0
        for i = 0, rounds - 1 do
            ping:send(i)
            sum = sum + pong:recv()
        end
        return report(name, begun, cpu, sum)
    end, { preempt = preempt })
end

-- A scheduler in Lua: a queue of coroutines that are ready, and channels as rendezvous.
local function coroutines()
    local queue, first, last = {}, 1, 0
    local function ready(co) last = last + 1; queue[last] = co end
    local function spawn(f) ready(coroutine.create(f)) end
    local Channel = {}
    Channel.__index = Channel
    local function channel() return setmetatable({ senders = {}, receivers = {} }, Channel) end
    function Channel:send(value)
        local receiver = table.remove(self.receivers, 1)
        if receiver then
            receiver.value = value
            ready(receiver.co)
        else
            table.insert(self.senders, { co = coroutine.running(), value = value })
            coroutine.yield()
        end
    end
    function Channel:recv()
        local sender = table.remove(self.senders, 1)
        if sender then
            ready(sender.co)
            return sender.value
        end
        local me = { co = coroutine.running() }
        table.insert(self.receivers, me)
        coroutine.yield()
        return me.value
    end
    local ping, pong, ns = channel(), channel(), nil
    spawn(function()
        for _ = 1, rounds do pong:send(ping:recv() + 1) end
    end)
    spawn(function()
        local begun, cpu, sum = chanter.now(), os.clock(), 0
        for i = 0, rounds - 1 do
            ping:send(i)
            sum = sum + pong:recv()
        end
        ns = report("coroutines, scheduler in Lua", begun, cpu, sum)
    end)
    while first <= last do
        local co = queue[first]
        queue[first] = nil
        first = first + 1
        assert(coroutine.resume(co))
    end
    return ns
end

local ours = threads("threads of chanter", true)
threads("the same without the count hook", false)
local theirs = coroutines()
print(string.format("chanter is %.2f times as fast", theirs / ours))
