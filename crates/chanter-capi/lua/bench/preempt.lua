-- How late timers are beside threads that never block: what a loop delays others by.
local chanter = require "chanter"
local loops = tonumber(arg[1]) or 1
local ticks = 1000

chanter.run(function()
    local stop = false
    for _ = 1, loops do
        chanter.spawn(function()
            local n = 0
            while not stop do n = n + 1 end
        end)
    end
    local late, worst = {}, 0
    for i = 1, ticks do
        local due = chanter.now() + 0.001
        chanter.sleep(0.001)
        late[i] = (chanter.now() - due) * 1e3
        worst = math.max(worst, late[i])
    end
    stop = true
    table.sort(late)
    print(("%d loops: a timer is late by %.2f ms in the middle, %.2f ms at 99 %%, %.2f ms at most"):format(loops,
        late[ticks // 2], late[ticks * 99 // 100], worst))
end)
