-- Sockets: many clients, long messages, deadlines, both ends closed, readiness in a choice.
local chanter = require "chanter"
local LONG = 60
local function eq(a, b) if a ~= b then error(tostring(a) .. " is not " .. tostring(b), 2) end end

chanter.run(function()
    local listener = assert(chanter.listen("127.0.0.1", 0))
    local port = listener:port()
    assert(port > 0)
    eq(select(2, listener:accept(0.001)), "timeout")
    local server = chanter.spawn(function()
        while true do
            local client = listener:accept()
            if not client then return end
            chanter.spawn(function()
                while true do
                    local bytes = client:read(65536)
                    if not bytes then return client:close() end
                    assert(client:write(bytes))
                end
            end)
        end
    end)

    chanter.scope(function(scope)
        for i = 1, 50 do
            scope:spawn(function()
                local client = assert(chanter.connect("127.0.0.1", port, LONG))
                for round = 1, 20 do
                    local text = i .. ":" .. round
                    assert(client:write(text))
                    eq(client:read(100, LONG), text)
                end
                client:close()
                eq(select(2, client:read()), "closed")
                eq(select(2, client:write("x")), "closed")
            end)
        end
    end)

    -- More than the buffers hold: the writer waits for the reader.
    local client = assert(chanter.connect("localhost", port, LONG) or chanter.connect("127.0.0.1", port, LONG))
    local text = ("0123456789abcdef"):rep(1 << 16)
    local writer = chanter.spawn(function() return client:write(text) end)
    local parts, size = {}, 0
    while size < #text do
        local part = assert(client:read(65536, LONG))
        parts[#parts + 1] = part
        size = size + #part
    end
    eq(table.concat(parts), text)
    eq(select(2, writer:join()), true)

    -- Readiness is an event like others.
    local channel = chanter.channel()
    chanter.spawn(function() channel:send("message") end)
    eq(chanter.select(client:readable(), channel:recv_event()), "message")
    client:write("x")
    eq(chanter.select(client:readable():wrap(function() return "ready" end), channel:recv_event()), "ready")
    eq(client:read(1), "x")
    eq(select(2, client:read(1, 0.001)), "timeout")

    -- Readers that wait are told when the socket is closed, and readers that were cancelled leave no trace.
    local reader = chanter.spawn(function() return client:read(1) end)
    local cancelled = chanter.spawn(function() return client:read(1) end)
    chanter.yield()
    cancelled:cancel()
    cancelled:join(LONG)
    client:close()
    eq(select(2, reader:join(LONG)), nil)
    listener:close()
    server:join(LONG)
    assert(chanter.connect("127.0.0.1", port, LONG) == nil, "nobody listens")
end)
print("sockets: passed")
