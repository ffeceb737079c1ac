local skynet = require "skynet"
skynet.start(function()
    skynet.dispatch("lua", function(_, _, i) skynet.ret(skynet.pack(i + 1)) end)
end)
