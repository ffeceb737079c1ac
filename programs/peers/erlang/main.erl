%% The command line: --list, or PROGRAM SIZE PROCESSORS (the schedulers are erl's option +S).
-module(main).
-export([main/0]).

programs() ->
    [{"spawn", fun talk:spawn/1},
     {"ping-pong", fun talk:ping_pong/1},
     {"parallel-ping-pong", fun talk:parallel_ping_pong/1},
     {"send", fun talk:send/1},
     {"choose", fun talk:choose/1},
     {"sieve/call", fun talk:sieve_by_call/1},
     {"sieve/cast", fun talk:sieve_by_cast/1},
     {"fib-channel", fun fork:fib/1},
     {"fib-join", fun fork:fib/1},
     {"tak-join", fun fork:tak/1},
     {"mergesort", {fun fork:numbers/1, fun fork:sort/1, fun fork:checksum/1}}].

main() ->
    halt(command(init:get_plain_arguments())).

command(["--list"]) ->
    [io:format("~s~n", [Name]) || {Name, _} <- programs()],
    0;
command([Name, Size, _Processors]) ->
    case {lists:keyfind(Name, 1, programs()), string:to_integer(Size)} of
        {{Name, Program}, {N, ""}} ->
            timed(Program, smaller(N)),
            {Nanoseconds, Answer} = timed(Program, N),
            io:format("{\"seconds\": ~.9f, \"answer\": \"~b\"}~n", [Nanoseconds / 1.0e9, Answer]),
            0;
        _ ->
            refuse()
    end;
command(_) ->
    refuse().

%% For warmth: a tenth of the work, or a few levels of recursion less.
smaller(N) when N < 100 -> max(0, N - 3);
smaller(N) -> N div 10.

refuse() ->
    io:format(standard_error, "expected --list, or PROGRAM SIZE PROCESSORS of that list~n", []),
    64.

%% Runs a program in a process of its own, whose end takes all that it has linked with it.
timed({Prepare, Work, Check}, N) ->
    {_, Monitor} = spawn_monitor(fun() ->
        Input = Prepare(N),
        Start = erlang:monotonic_time(nanosecond),
        Output = Work(Input),
        Elapsed = erlang:monotonic_time(nanosecond) - Start,
        exit({done, Elapsed, Check(Output)})
    end),
    receive
        {'DOWN', Monitor, process, _, {done, Elapsed, Answer}} -> {Elapsed, Answer}
    end;
timed(Program, N) ->
    Same = fun(Value) -> Value end,
    timed({Same, Program, Same}, N).
