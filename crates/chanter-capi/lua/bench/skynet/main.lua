local skynet = require "skynet"
local rounds = 200000
skynet.start(function()
    local pong = skynet.newservice("pong")
    local cpu, wall = os.clock(), skynet.hpc()
    local sum = 0
    for i = 0, rounds - 1 do sum = sum + skynet.call(pong, "lua", i) end
    assert(sum == rounds * (rounds + 1) // 2, "a wrong sum")
    print(("%-32s %8.0f ns of processor time a round trip, %8.0f ns in all"):format("services of skynet",
        (os.clock() - cpu) / rounds * 1e9, (skynet.hpc() - wall) / rounds))
    os.exit(0)
end)
