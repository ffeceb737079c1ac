-- The sieve of Eratosthenes: a chain of threads. Each keeps one prime, and lets its multiples fall out of the stream.
--
--     lua5.4 sieve.lua [COUNT]
local chanter = require "chanter"
local COUNT = tonumber(arg and arg[1]) or 200

local function numbers()
    local out = chanter.channel()
    chanter.spawn(function()
        local n = 2
        while out:send(n) do n = n + 1 end
    end)
    return out
end

local function filter(prime, from)
    local out = chanter.channel()
    chanter.spawn(function()
        while true do
            local n = from:recv()
            if n % prime ~= 0 and not out:send(n) then return end
        end
    end)
    return out
end

chanter.run(function()
    local stream, primes = numbers(), {}
    for i = 1, COUNT do
        primes[i] = stream:recv()
        stream = filter(primes[i], stream)
    end
    print(("prime number %d is %d"):format(COUNT, primes[COUNT]))
    for i, prime in ipairs { 2, 3, 5, 7, 11, 13, 17, 19, 23, 29 } do assert(primes[i] == nil or primes[i] == prime) end
    assert(COUNT ~= 200 or primes[200] == 1223)
end)
