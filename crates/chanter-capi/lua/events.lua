-- Events, scopes and sockets, over the functions of chanter.c. It is built into chanter.so.
--
-- An event is a table. `kind` is a number for a base event: the kind of its case. The others are "wrap", "choose", "guard" and
-- "nack". A synchronization lists the base events, makes one choice over them, and then applies the wraps.
local M = ...
local choose_cases = M.choose_cases
local Thread, Channel = M["chanter.thread"], M["chanter.channel"]
local Socket, resume, spawn_as = M["chanter.socket"], M.resume, M.spawn_as
for _, name in ipairs { "chanter.thread", "chanter.channel", "chanter.socket", "choose_cases", "resume", "spawn_as" } do M[name] = nil end

local NEVER, RECV, SEND, JOIN, TIMER, READABLE, WRITABLE = 0, 1, 2, 4, 5, 6, 7

local Event = {}
Event.__index = Event
M.Event = Event

local function event(kind, object, value)
    return setmetatable({ kind = kind, object = object, value = value }, Event)
end

local function check(e)
    if getmetatable(e) ~= Event then error("an event is expected, not a " .. type(e), 0) end
    return e
end

-- Base events.

-- Happens when a value is received: the value; or nil, and "closed".
function Channel:recv_event() return event(RECV, self) end
-- Happens when the value is received: true; or nil, and "closed".
function Channel:send_event(value) return event(SEND, self, value) end
-- Happens when the thread has ended: true and its results, or false and its error.
function Thread:join_event() return event(JOIN, self) end
function Socket:readable() return event(READABLE, self) end
function Socket:writable() return event(WRITABLE, self) end
-- Happens in so many seconds from the begin of the synchronization.
function M.after(seconds) return event(TIMER, nil, seconds) end
M.never = event(NEVER)
function M.always(...)
    local values = table.pack(...)
    return event(TIMER, nil, 0):wrap(function() return table.unpack(values, 1, values.n) end)
end

-- Signals: they happen once, and any number of threads may wait. A signal is a channel that is closed.
local Signal = {}
Signal.__index = Signal
local function truly() return true end
function M.signal() return setmetatable({ channel = M.channel() }, Signal) end
function Signal:set() self.channel:close() end
-- Happens when the signal is set, and ever after: true.
function Signal:event() return self.channel:recv_event():wrap(truly) end
function Signal:wait(seconds) return self:event():sync(seconds) end

-- Combinators.

-- An event whose result is that of `f`, called with the result of this one after the choice.
function Event:wrap(f) return setmetatable({ kind = "wrap", inner = self, f = f }, Event) end

-- One of several events, given as arguments, or as the only argument in a table without a metatable.
function M.choose(...)
    local list, count = { ... }, select("#", ...)
    if count == 1 and type(...) == "table" and not getmetatable(...) then
        list = { table.unpack((...)) }
        count = #list
    end
    for i = 1, count do check(list[i]) end
    list.kind = "choose"
    return setmetatable(list, Event)
end

-- The event that `f` returns when the synchronization begins.
function M.guard(f) return setmetatable({ kind = "guard", f = f }, Event) end

-- As a guard. `f` gets an event that happens if another branch is chosen, and if the synchronization ends without a choice.
function M.with_nack(f) return setmetatable({ kind = "nack", f = f }, Event) end

-- The base events of a synchronization, in arrays for choose_cases.
local List = {}
List.__index = List

function List:add(e, wraps)
    local kind = check(e).kind
    while kind == "wrap" do
        wraps = { f = e.f, outer = wraps }
        e = check(e.inner)
        kind = e.kind
    end
    if kind == "choose" then
        for i = 1, #e do self:add(e[i], wraps) end
    elseif kind == "guard" then
        self:add(e.f(), wraps)
    elseif kind == "nack" then
        local nack = { signal = M.signal(), first = self.count + 1, last = math.huge }
        self.nacks = { nack, rest = self.nacks }
        self:add(e.f(nack.signal:event()), wraps)
        nack.last = self.count
    else
        local i = self.count + 1
        self.count = i
        self.kinds[i], self.objects[i], self.values[i], self.wraps[i] = kind, e.object or false, e.value, wraps
    end
end

-- Sets the signals of all branches that do not hold the case that was chosen. It also runs after an error, and when the
-- thread is cancelled.
function List:__close()
    local nacks = self.nacks
    while nacks do
        local nack = nacks[1]
        if self.chosen < nack.first or self.chosen > nack.last then nack.signal:set() end
        nacks = nacks.rest
    end
    self.nacks = nil
end

local function apply(wraps, ...)
    if not wraps then return ... end
    return apply(wraps.outer, wraps.f(...))
end

local function settle(e, seconds)
    local list <close> = setmetatable({ count = 0, chosen = 0, kinds = {}, objects = {}, values = {}, wraps = {} }, List)
    list:add(e)
    local index, value, why = choose_cases(list.kinds, list.objects, list.values, list.count, seconds)
    if not index then return nil, nil, value end
    list.chosen = index
    return list, index, value, why
end

-- Waits until the event happens, and returns its result; or nil and "timeout" after some seconds.
local function sync(e, seconds)
    local list, index, value, why = settle(e, seconds)
    if not list then return nil, value end
    local wraps, kind = list.wraps[index], list.kinds[index]
    if kind == JOIN then return apply(wraps, list.objects[index]:result()) end
    if why then return apply(wraps, value, why) end
    return apply(wraps, value)
end
M.sync = sync
function Event:sync(seconds) return sync(self, seconds) end
function M.select(...) return sync(M.choose(...)) end

-- One case without the lists of a synchronization.
local function wait(kind, object, value, seconds)
    local index, result, why = choose_cases({ kind }, { object or false }, { value }, 1, seconds)
    if not index then return nil, result end
    return result, why
end

function M.sleep(seconds)
    if type(seconds) ~= "number" then error("sleep takes a number of seconds", 2) end
    wait(TIMER, nil, seconds)
end

-- Waits until the thread has ended: true and its results, or false and its error; nil and "timeout".
function Thread:join(seconds)
    if self:status() == "running" then
        local done, why = wait(JOIN, self, nil, seconds)
        if not done then return nil, why end
    end
    return self:result()
end

-- Coroutines within threads: what blocks or is preempted in one passes through all that have resumed it. So these stand in
-- place of Lua's own.

local function checked(co, ok, ...)
    if ok then return ... end
    if coroutine.status(co) == "dead" then coroutine.close(co) end
    error(..., 0)
end

coroutine.resume = resume
function coroutine.wrap(f)
    local co = coroutine.create(f)
    return function(...) return checked(co, resume(co, ...)) end
end

-- Spawns a thread with attributes for the policy: `priority` from -128 to 127, `deadline` in seconds from now, `name`.
function M.spawn_with(attributes, f, ...)
    return spawn_as(attributes.priority, attributes.deadline, attributes.name, f, ...)
end

-- run(function [, {policy = table, preempt = false}]). `tokens` has those that the policy has: they run if it fails.
local run = M.run
function M.run(f, options)
    local policy, tokens = options and options.policy, {}
    local is_free = options and options.preempt == false
    if policy == nil then return run(f, is_free) end
    if type(policy) ~= "table" then error("a policy is a table, not a " .. type(policy), 2) end
    local function next()
        local token = policy:next()
        if token then tokens[token] = nil end
        return token
    end
    local function enqueue(token, ...)
        policy:enqueue(token, ...)
        tokens[token] = true
    end
    return run(f, is_free, next, tokens, enqueue)
end

-- Scopes.

local Scope = {}
Scope.__index = Scope

-- Cancels the threads that the scope has spawned.
function Scope:cancel()
    for _, thread in ipairs(self) do thread:cancel() end
end

function Scope:__close()
    self:cancel()
    if self.owner then self.owner:cancel() end
end

local function child(scope, f, ...)
    local function after(ok, ...)
        if ok then return ... end
        if not scope.has_failed then
            scope.has_failed, scope.fault = true, (...)
            Scope.__close(scope)
        end
        error(..., 0)
    end
    return after(pcall(f, ...))
end

-- Spawns a thread that ends before the scope does. If it fails, the other threads of the scope are cancelled.
function Scope:spawn(f, ...)
    local thread = M.spawn(child, self, f, ...)
    self[#self + 1] = thread
    if self.has_failed then thread:cancel() end
    return thread
end

local function leave(scope, ok, ...)
    local i = 1
    while scope[i] do -- threads may spawn others meanwhile
        scope[i]:join()
        i = i + 1
    end
    if scope.has_failed then error(scope.fault, 0) end
    if not ok then error(..., 0) end
    return ...
end

-- Calls f(scope, ...) in a thread, and returns its results when all threads of the scope have ended. The first error cancels all
-- of them, and is raised.
function M.scope(f, ...)
    local scope <close> = setmetatable({}, Scope)
    scope.owner = M.spawn(child, scope, f, scope, ...)
    return leave(scope, scope.owner:join())
end

-- Sockets. The calls that wait take seconds as their last argument.

local function limit_of(seconds) return seconds and M.now() + seconds end

local function retry(socket, kind, try, limit, ...)
    while true do
        local result, why = try(socket, ...)
        if why ~= "again" then return result, why end
        local ready, reason = wait(kind, socket, nil, limit and limit - M.now())
        if not ready then return nil, reason end
    end
end

local open = M.open
M.open = nil

-- Listens: a socket, whose accept() waits for a client. Port 0 takes one that is free; see socket:port().
function M.listen(host, port) return open(host, port, true) end

function M.connect(host, port, seconds)
    local socket, why = open(host, port, false)
    if not socket then return nil, why end
    local ready, reason = wait(WRITABLE, socket, nil, seconds)
    if ready then ready, reason = socket:error() end
    if ready then return socket end
    socket:close()
    return nil, reason
end

function Socket:accept(seconds) return retry(self, READABLE, self.try_accept, limit_of(seconds)) end

-- Some bytes, at most `most`; or nil and "closed" at the end.
function Socket:read(most, seconds) return retry(self, READABLE, self.try_read, limit_of(seconds), most) end

-- Writes all bytes: true, or nil and the reason.
function Socket:write(bytes, seconds)
    local from, limit = 1, limit_of(seconds)
    while from <= #bytes do
        local rest, why = retry(self, WRITABLE, self.try_write, limit, bytes, from)
        if not rest then return nil, why end
        from = rest
    end
    return true
end

return M
