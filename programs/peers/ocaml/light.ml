(* Lwt's threads: each runs as a call until it has to wait, and switches only where it waits. An Lwt_mvar is a channel
   of one place. There is no choose: Lwt.pick over several takes loses what the losers have taken. *)

open Lwt.Syntax

let timed thread = Clock.timed (fun () -> Lwt_main.run (thread ()))
let timed_low thread = timed (fun () -> Lwt.map Talk.low (thread ()))

let join_all threads =
  let rec next i sum =
    if i = Array.length threads then Lwt.return sum
    else
      let* value = threads.(i) in
      next (i + 1) (sum + value)
  in
  next 0 0

let spawn n =
  let rec batches first sum =
    if first >= n then Lwt.return sum
    else
      let start i = Lwt.return ((first + i) * (first + i) mod 1000003) in
      let* part = join_all (Array.init (min 1000 (n - first)) start) in
      batches (first + 1000) (sum + part)
  in
  timed (fun () -> batches 0 0)

let pair trips =
  let ping = Lwt_mvar.create_empty () and pong = Lwt_mvar.create_empty () in
  let rec partner () =
    let* x = Lwt_mvar.take ping in
    let* () = Lwt_mvar.put pong (x + 1) in
    partner ()
  in
  let rec calls x sum =
    if x = trips then Lwt.return sum
    else
      let* () = Lwt_mvar.put ping x in
      let* answer = Lwt_mvar.take pong in
      calls (x + 1) (sum + answer)
  in
  Lwt.async partner;
  calls 0 0

let ping_pong n = timed_low (fun () -> pair n)

let parallel_ping_pong n =
  let pairs = 100 in
  timed_low (fun () -> join_all (Array.init pairs (fun _ -> pair (n / pairs))))

let send n =
  let mailbox, sender = Lwt_stream.create_bounded 100 in
  let rec put x =
    if x = n then Lwt.return_unit
    else
      let* () = sender#push x in
      put (x + 1)
  in
  let rec take left sum =
    if left = 0 then Lwt.return sum
    else
      let* x = Lwt_stream.next mailbox in
      take (left - 1) (sum + x)
  in
  timed_low (fun () ->
      Lwt.async (fun () -> put 0);
      take n 0)

(* When the last prime is found the threads are left waiting, and the collector takes them. *)
let sieve primes =
  let rec generate out x =
    let* () = Lwt_mvar.put out x in
    generate out (x + 1)
  in
  let rec filter prime input out =
    let* x = Lwt_mvar.take input in
    let* () = if x mod prime = 0 then Lwt.return_unit else Lwt_mvar.put out x in
    filter prime input out
  in
  let rec nth left input =
    let* prime = Lwt_mvar.take input in
    if left <= 1 then Lwt.return prime
    else begin
      let out = Lwt_mvar.create_empty () in
      Lwt.async (fun () -> filter prime input out);
      nth (left - 1) out
    end
  in
  timed (fun () ->
      let first = Lwt_mvar.create_empty () in
      Lwt.async (fun () -> generate first 2);
      nth primes first)

let fib_channel n =
  let rec fib n =
    if n < 2 then Lwt.return n
    else begin
      let c = Lwt_mvar.create_empty () in
      let child () =
        let* a = fib (n - 1) in
        Lwt_mvar.put c a
      in
      Lwt.async child;
      let* b = fib (n - 2) in
      let+ a = Lwt_mvar.take c in
      a + b
    end
  in
  timed (fun () -> fib n)

let fib_join n =
  let rec fib n =
    if n < 2 then Lwt.return n
    else
      let a = fib (n - 1) in
      let* b = fib (n - 2) in
      let+ a = a in
      a + b
  in
  timed (fun () -> fib n)

let tak_join n =
  let rec tak x y z =
    if y >= x then Lwt.return z
    else
      let a = tak (x - 1) y z in
      let b = tak (y - 1) z x in
      let* c = tak (z - 1) x y in
      let* a = a in
      let* b = b in
      tak a b c
  in
  timed (fun () -> tak n (2 * n / 3) (n / 3))
