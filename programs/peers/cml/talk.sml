(* Threads that talk. An int has 31 bits here: sums modulo 2^32 are Word32. *)
structure Talk : sig
  val spawn : Clock.program
  val pingPong : Clock.program
  val parallelPingPong : Clock.program
  val send : Clock.program
  val choose : Clock.program
  val sieve : Clock.program
end =
struct
  fun timedSum work =
    let val (elapsed, sum) = Clock.timed work in (elapsed, Word32.toLargeInt sum) end

  fun add (sum, x) = sum + Word32.fromInt x

  (* i * i mod 1000003 for i < 2^20; no intermediate value reaches 2^30. *)
  fun square i =
    let
      val high = Int.rem (i * (i div 1024), 1000003)
    in
      Int.rem (Int.rem (high * 1024, 1000003) + Int.rem (i * Int.rem (i, 1024), 1000003), 1000003)
    end

  fun spawn n =
    let
      fun start i =
        let val value = SyncVar.iVar ()
        in
          ignore (CML.spawn (fn () => SyncVar.iPut (value, square i)));
          value
        end
      fun batches (first, sum) =
        if first >= n then sum
        else
          let
            val values = List.tabulate (Int.min (1000, n - first), fn i => start (first + i))
            val part = foldl (fn (value, part) => SyncVar.iGet value + part) 0 values
          in
            batches (first + 1000, sum + Int.toLarge part)
          end
    in
      Clock.timed (fn () => batches (0, 0))
    end

  (* The calls of one pair: the partner is a new thread. *)
  fun pair trips =
    let
      val ping = CML.channel ()
      val pong = CML.channel ()
      fun partner () = (CML.send (pong, CML.recv ping + 1); partner ())
      fun calls (x, sum) =
        if x = trips then sum
        else (CML.send (ping, x); calls (x + 1, add (sum, CML.recv pong)))
    in
      ignore (CML.spawn partner);
      calls (0, 0w0)
    end

  fun pingPong n = timedSum (fn () => pair n)

  fun parallelPingPong n =
    let
      val pairs = 100
      val sums = CML.channel ()
      fun take (0, sum) = sum
        | take (left, sum) = take (left - 1, sum + CML.recv sums)
    in
      timedSum (fn () =>
        (List.tabulate (pairs, fn _ => CML.spawn (fn () => CML.send (sums, pair (n div pairs))));
         take (pairs, 0w0)))
    end

  fun send n =
    let
      val mailbox = Mailbox.mailbox ()
      fun put x = if x = n then () else (Mailbox.send (mailbox, x); put (x + 1))
      fun take (0, sum) = sum
        | take (left, sum) = take (left - 1, add (sum, Mailbox.recv mailbox))
    in
      timedSum (fn () => (ignore (CML.spawn (fn () => put 0)); take (n, 0w0)))
    end

  fun choose n =
    let
      val each = n div 8
      fun producer () =
        let
          val out = CML.channel ()
          fun put x = if x = each then () else (CML.send (out, x); put (x + 1))
        in
          ignore (CML.spawn (fn () => put 0));
          CML.recvEvt out
        end
      fun consume () =
        let
          val any = CML.choose (List.tabulate (8, fn _ => producer ()))
          fun take (0, sum) = sum
            | take (left, sum) = take (left - 1, add (sum, CML.sync any))
        in
          take (8 * each, 0w0)
        end
    in
      timedSum consume
    end

  (* When the last prime is found the threads are left blocked, and the collector takes them. *)
  fun sieve primes =
    let
      fun generate () =
        let
          val out = CML.channel ()
          fun from x = (CML.send (out, x); from (x + 1))
        in
          ignore (CML.spawn (fn () => from 2));
          out
        end
      fun filter (prime, input) =
        let
          val out = CML.channel ()
          fun pass () =
            let val x = CML.recv input
            in
              if Int.rem (x, prime) = 0 then () else CML.send (out, x);
              pass ()
            end
        in
          ignore (CML.spawn pass);
          out
        end
      fun nth (left, input) =
        let val prime = CML.recv input
        in if left <= 1 then prime else nth (left - 1, filter (prime, input))
        end
    in
      Clock.timed (fn () => Int.toLarge (nth (primes, generate ())))
    end
end
