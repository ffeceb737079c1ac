-- An echo server: one thread for each client, and a line of statistics each second.
--
--     lua5.4 echo.lua [PORT]      serves until it is stopped; without a port, it tries itself and ends
local chanter = require "chanter"

local function serve(listener, served)
    while true do
        local client = listener:accept()
        if not client then return end
        chanter.spawn(function()
            local guard <close> = client
            while true do
                -- A client that says nothing for a minute is let go.
                local bytes = client:read(4096, 60)
                if not bytes or not client:write(bytes) then return end
                served:try_send(#bytes)
            end
        end)
    end
end

local function count(served)
    local bytes, messages = 0, 0
    local tick = chanter.guard(function() return chanter.after(1) end)
    while true do
        chanter.select(
            served:recv_event():wrap(function(size) bytes, messages = bytes + size, messages + 1 end),
            tick:wrap(function() print(("%d messages, %d bytes"):format(messages, bytes)) end))
    end
end

local function try(port)
    local received = 0
    chanter.scope(function(scope)
        for i = 1, 100 do
            scope:spawn(function()
                local server = assert(chanter.connect("127.0.0.1", port))
                local guard <close> = server
                for round = 1, 10 do
                    local text = ("client %d, round %d"):format(i, round)
                    assert(server:write(text))
                    assert(server:read() == text)
                    received = received + 1
                end
            end)
        end
    end)
    assert(received == 1000)
    print("echo: 100 clients had 1000 answers")
end

chanter.run(function()
    local port = tonumber(arg and arg[1])
    local listener = assert(chanter.listen("127.0.0.1", port or 0))
    local served = chanter.channel(math.huge)
    chanter.spawn(count, served)
    if port then return serve(listener, served) end
    chanter.spawn(serve, listener, served)
    try(listener:port())
end)
