%% Processes that fork and join: the child sends its value with a reference that is made for it alone, which is as near
%% to a channel as to a join.
-module(fork).
-export([fork/1, join/1, fib/1, tak/1, numbers/1, sort/1, checksum/1]).

fork(Work) ->
    Self = self(),
    Value = make_ref(),
    spawn(fun() -> Self ! {Value, Work()} end),
    Value.

join(Value) ->
    receive {Value, X} -> X end.

fib(N) when N < 2 ->
    N;
fib(N) ->
    A = fork(fun() -> fib(N - 1) end),
    B = fib(N - 2),
    join(A) + B.

tak(N) ->
    tak(N, 2 * N div 3, N div 3).

tak(X, Y, Z) when Y >= X ->
    Z;
tak(X, Y, Z) ->
    A = fork(fun() -> tak(X - 1, Y, Z) end),
    B = fork(fun() -> tak(Y - 1, Z, X) end),
    C = tak(Z - 1, X, Y),
    tak(join(A), join(B), C).

%% mergesort: a list with its length.
numbers(N) ->
    {N, numbers(N, 1)}.

numbers(0, _) ->
    [];
numbers(N, Last) ->
    X = (Last * 1103515245 + 12345) band 16#7fffffff,
    [X | numbers(N - 1, X)].

sort({N, Numbers}) when N > 1024 ->
    Half = N div 2,
    {Left, Right} = lists:split(Half, Numbers),
    Other = fork(fun() -> sort({Half, Left}) end),
    Sorted = sort({N - Half, Right}),
    merge(join(Other), Sorted);
sort({N, Numbers}) ->
    {Sorted, []} = sort_first(N, Numbers),
    Sorted.

%% The first N of the numbers sorted, and the rest of the numbers.
sort_first(0, Numbers) ->
    {[], Numbers};
sort_first(1, [X | Rest]) ->
    {[X], Rest};
sort_first(N, Numbers) ->
    Half = N div 2,
    {Left, Others} = sort_first(Half, Numbers),
    {Right, Rest} = sort_first(N - Half, Others),
    {merge(Left, Right), Rest}.

merge([X | Xs], [Y | _] = Right) when X =< Y ->
    [X | merge(Xs, Right)];
merge([_ | _] = Left, [Y | Ys]) ->
    [Y | merge(Left, Ys)];
merge([], Right) ->
    Right;
merge(Left, []) ->
    Left.

checksum(Sorted) ->
    checksum(Sorted, 1, 0).

checksum([], _, Sum) ->
    Sum;
checksum([X | Rest], I, Sum) ->
    checksum(Rest, I + 1, (Sum + I * X) rem 1000000007).
