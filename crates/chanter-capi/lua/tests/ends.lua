-- One choice over channels whose other ends are held by C, by Rust, by an OS thread and by Lua.
local chanter = require "chanter"
local ends = require "ends"
local has_rust, rust = pcall(require, "rust_end")
if not has_rust then print("ends: skipped the end in Rust: there is no rust_end.so") end

local COUNT = 500
local got, total = {}, 0
chanter.run(function()
    -- All four send to one channel, and each to one of its own.
    local shared = chanter.words()
    local own = { chanter.words(), chanter.words(2), chanter.words(), chanter.words(math.huge) }
    local begin = {
        function(handle, first) assert(ends.fiber(handle, first, COUNT) == 0) end,
        function(handle, first) assert(ends.os_thread(handle, first, COUNT) == 0) end,
        function(handle, first)
            if has_rust then assert(rust(handle, first, COUNT) == 0) else assert(ends.fiber(handle, first, COUNT) == 0) end
        end,
        function(handle, first)
            chanter.spawn(function()
                local channel = chanter.from_handle(handle)
                for i = 0, COUNT - 1 do channel:send(first + i) end
            end)
        end,
    }
    local branches = { shared:recv_event() }
    for i, channel in ipairs(own) do
        begin[i](channel:handle(), i * 10000)
        begin[i](shared:handle(), i * 10000 + 5000)
        branches[#branches + 1] = channel:recv_event()
    end
    local any = chanter.choose(branches)
    for _ = 1, 8 * COUNT do
        local word = any:sync(60)
        assert(math.type(word) == "integer")
        assert(not got[word], "a word arrives once")
        got[word] = true
        total = total + 1
    end
    assert(chanter.sync(any, 0) == nil, "no word is left")
end)
for i = 1, 4 do
    for n = 0, COUNT - 1 do assert(got[i * 10000 + n] and got[i * 10000 + 5000 + n]) end
end
assert(total == 8 * COUNT)
print("ends: passed")
