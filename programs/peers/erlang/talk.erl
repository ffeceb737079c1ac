%% Processes that talk. Erlang has no channels: messages go to a process, and sending never waits. The nearest to a
%% rendezvous is call/2: it waits until the receiver's take/0 has acknowledged the message.
-module(talk).
-export([spawn/1, ping_pong/1, parallel_ping_pong/1, send/1, choose/1, sieve_by_call/1, sieve_by_cast/1]).

call(Receiver, X) ->
    Receiver ! {self(), X},
    receive acknowledged -> ok end.

take() ->
    receive
        {Sender, X} -> Sender ! acknowledged, X;
        X when is_integer(X) -> X
    end.

modulo(Sum) ->
    Sum band 16#ffffffff.

spawn(N) ->
    batches(0, N, 0).

batches(N, N, Sum) ->
    Sum;
batches(First, N, Sum) ->
    End = min(First + 1000, N),
    Values = [fork:fork(fun() -> I * I rem 1000003 end) || I <- lists:seq(First, End - 1)],
    batches(End, N, lists:foldl(fun(Value, Part) -> Part + fork:join(Value) end, Sum, Values)).

%% The answer is all the acknowledgement that a partner needs.
ping_pong(N) ->
    Self = self(),
    modulo(calls(spawn_link(fun() -> answer(Self) end), 0, N, 0)).

calls(_, N, N, Sum) ->
    Sum;
calls(Partner, X, N, Sum) ->
    Partner ! X,
    receive Y -> calls(Partner, X + 1, N, Sum + Y) end.

answer(Caller) ->
    receive X -> Caller ! X + 1 end,
    answer(Caller).

parallel_ping_pong(N) ->
    Pairs = 100,
    Sums = [fork:fork(fun() -> ping_pong(N div Pairs) end) || _ <- lists:seq(1, Pairs)],
    modulo(lists:sum([fork:join(Sum) || Sum <- Sums])).

send(N) ->
    Self = self(),
    spawn_link(fun() -> produce(Self, 0, N, fun erlang:send/2) end),
    modulo(sum(N, 0)).

produce(_, N, N, _) ->
    ok;
produce(Receiver, X, N, Pass) ->
    Pass(Receiver, X),
    produce(Receiver, X + 1, N, Pass).

sum(0, Sum) ->
    Sum;
sum(Left, Sum) ->
    sum(Left - 1, Sum + take()).

%% All producers send to the one mailbox, which is Erlang's way to choose.
choose(N) ->
    Self = self(),
    Each = N div 8,
    [spawn_link(fun() -> produce(Self, 0, Each, fun call/2) end) || _ <- lists:seq(1, 8)],
    modulo(sum(8 * Each, 0)).

%% Every number waits for its acknowledgement.
sieve_by_call(Primes) ->
    sieve(Primes, fun call/2).

%% Only the first stage acknowledges, so that the generator cannot run ahead; behind it numbers are sent as messages
%% are in Erlang.
sieve_by_cast(Primes) ->
    sieve(Primes, fun erlang:send/2).

sieve(Primes, Pass) ->
    Self = self(),
    First = spawn_link(fun() -> stage(Self, Primes, Pass) end),
    spawn_link(fun() -> generate(First, 2) end),
    receive {last, Prime} -> Prime end.

generate(First, X) ->
    call(First, X),
    generate(First, X + 1).

stage(Asker, Left, Pass) ->
    Prime = take(),
    if
        Left =< 1 -> Asker ! {last, Prime};
        true -> filter(Prime, spawn_link(fun() -> stage(Asker, Left - 1, Pass) end), Pass)
    end.

filter(Prime, Next, Pass) ->
    case take() of
        X when X rem Prime =:= 0 -> ok;
        X -> Pass(Next, X)
    end,
    filter(Prime, Next, Pass).
