(* Threads that fork and join: by a channel (fib-channel), or by an IVar. *)
structure Fork : sig
  val fibChannel : Clock.program
  val fibJoin : Clock.program
  val takJoin : Clock.program
  val mergesort : Clock.program
end =
struct
  fun timedInt work =
    let val (elapsed, value) = Clock.timed work in (elapsed, Int.toLarge value) end

  fun fork work =
    let val value = SyncVar.iVar ()
    in
      ignore (CML.spawn (fn () => SyncVar.iPut (value, work ())));
      value
    end

  val join = SyncVar.iGet

  fun fibChannel n =
    let
      fun fib n =
        if n < 2 then n
        else
          let val c = CML.channel ()
          in
            ignore (CML.spawn (fn () => CML.send (c, fib (n - 1))));
            fib (n - 2) + CML.recv c
          end
    in
      timedInt (fn () => fib n)
    end

  fun fibJoin n =
    let
      fun fib n =
        if n < 2 then n
        else
          let val a = fork (fn () => fib (n - 1))
          in fib (n - 2) + join a
          end
    in
      timedInt (fn () => fib n)
    end

  fun takJoin n =
    let
      fun tak (x, y, z) =
        if y >= x then z
        else
          let
            val a = fork (fn () => tak (x - 1, y, z))
            val b = fork (fn () => tak (y - 1, z, x))
            val c = tak (z - 1, x, y)
          in
            tak (join a, join b, c)
          end
    in
      timedInt (fn () => tak (n, 2 * n div 3, n div 3))
    end

  (* Sorts the numbers from low up to high with the help of spare, which is as long as all; a word has 31 bits here,
     enough for them, and unlike a Word32 it is not boxed in an array. *)
  fun sort (numbers : word array, spare : word array) =
    let
      val get = Array.sub
      val put = Array.update
      fun merge (low, middle, high) =
        let
          fun save i = if i = middle then () else (put (spare, i, get (numbers, i)); save (i + 1))
          fun rest (i, k) =
            if i = middle then () else (put (numbers, k, get (spare, i)); rest (i + 1, k + 1))
          fun next (i, j, k) =
            if i = middle orelse j = high then rest (i, k)
            else
              let
                val x = get (spare, i)
                val y = get (numbers, j)
              in
                if x <= y then (put (numbers, k, x); next (i + 1, j, k + 1))
                else (put (numbers, k, y); next (i, j + 1, k + 1))
              end
        in
          save low;
          next (low, middle, low)
        end
      fun between (low, high) =
        if high - low < 2 then ()
        else
          let val middle = (low + high) div 2
          in
            if high - low > 1024 then
              let val left = fork (fn () => between (low, middle))
              in
                between (middle, high);
                join left
              end
            else (between (low, middle); between (middle, high));
            merge (low, middle, high)
          end
    in
      between (0, Array.length numbers)
    end

  fun mergesort n =
    let
      val last = ref 0w1
      fun random _ =
        (last := Word.andb (!last * 0w1103515245 + 0w12345, 0wx7fffffff); !last)
      val numbers = Array.tabulate (n, random)
      val spare = Array.array (n, 0w0)
      val (elapsed, ()) = Clock.timed (fn () => sort (numbers, spare))
      fun add (i, x, sum) = (sum + LargeInt.fromInt (i + 1) * Word.toLargeInt x) mod 1000000007
    in
      (elapsed, Array.foldli add 0 numbers)
    end
end
