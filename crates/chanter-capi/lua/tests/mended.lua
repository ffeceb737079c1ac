-- Cases of faults that were mended.
local chanter = require "chanter"

local function eq(a, b) if a ~= b then error(tostring(a) .. " is not " .. tostring(b), 2) end end
local LONG = 60

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
    local closed = 0
    local outer = chanter.spawn(chanter.scope, function(scope)
        local at <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
        scope:spawn(function()
            local at <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
            chanter.channel():recv()
        end)
        chanter.channel():recv()
    end)
    chanter.sleep(0.01)
    outer:cancel()
    outer:join()
    chanter.sleep(0.01)
    eq(closed, 2)

    -- What is no event is an error.
    assert(not pcall(chanter.select, chanter.signal(), chanter.after(0.1)))
    assert(not pcall(chanter.select, chanter.after(0.1), nil))
    assert(not pcall(chanter.select, nil, chanter.after(0.1)))
    assert(not pcall(chanter.select, { chanter.never }, chanter.after(0.1)))
    assert(not pcall(chanter.sleep, nil))
end)
print("mended: passed")
