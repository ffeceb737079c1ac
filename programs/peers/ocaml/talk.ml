(* Threads that talk, by the channels of the Event module. *)

let receive c = Event.sync (Event.receive c)
let pass c x = Event.sync (Event.send c x)
let low sum = sum land 0xffffffff

(* Fork.join takes the value of a thread. *)
let spawn n =
  let rec batches first sum =
    if first >= n then sum
    else
      let start i = Fork.fork (fun () -> (first + i) * (first + i) mod 1000003) in
      let values = Array.init (min 1000 (n - first)) start in
      batches (first + 1000) (Array.fold_left (fun sum value -> sum + Fork.join value) sum values)
  in
  Clock.timed (fun () -> batches 0 0)

(* The calls of one pair: the partner is a new thread. *)
let pair trips =
  let ping = Event.new_channel () and pong = Event.new_channel () in
  let partner () =
    for _ = 1 to trips do
      pass pong (receive ping + 1)
    done
  in
  let thread = Thread.create partner () in
  let sum = ref 0 in
  for x = 0 to trips - 1 do
    pass ping x;
    sum := !sum + receive pong
  done;
  Thread.join thread;
  !sum

let ping_pong n = Clock.timed (fun () -> low (pair n))

let parallel_ping_pong n =
  let pairs = 100 in
  Clock.timed (fun () ->
      let sums = Array.init pairs (fun _ -> Fork.fork (fun () -> pair (n / pairs))) in
      low (Array.fold_left (fun sum value -> sum + Fork.join value) 0 sums))

(* A mailbox with 100 places, out of a queue: an Event channel has none. *)
let send n =
  let queue = Queue.create () and mutex = Mutex.create () in
  let filled = Condition.create () and emptied = Condition.create () in
  let put x =
    Mutex.lock mutex;
    while Queue.length queue = 100 do
      Condition.wait emptied mutex
    done;
    Queue.push x queue;
    Condition.signal filled;
    Mutex.unlock mutex
  in
  let take () =
    Mutex.lock mutex;
    while Queue.is_empty queue do
      Condition.wait filled mutex
    done;
    let x = Queue.pop queue in
    Condition.signal emptied;
    Mutex.unlock mutex;
    x
  in
  let sender () =
    for x = 0 to n - 1 do
      put x
    done
  in
  Clock.timed (fun () ->
      let thread = Thread.create sender () in
      let sum = ref 0 in
      for _ = 1 to n do
        sum := !sum + take ()
      done;
      Thread.join thread;
      low !sum)

let choose n =
  let each = n / 8 in
  let producer _ =
    let out = Event.new_channel () in
    let produce () =
      for x = 0 to each - 1 do
        pass out x
      done
    in
    ignore (Thread.create produce ());
    Event.receive out
  in
  Clock.timed (fun () ->
      let any = Event.choose (List.init 8 producer) in
      let sum = ref 0 in
      for _ = 1 to 8 * each do
        sum := !sum + Event.sync any
      done;
      low !sum)

(* 0 goes through the pipeline behind the last number and ends its threads. *)
let sieve primes =
  let enough = ref false in
  let generate out =
    let x = ref 2 in
    while not !enough do
      pass out !x;
      incr x
    done;
    pass out 0
  in
  let rec filter prime input out =
    let x = receive input in
    if x = 0 then pass out 0
    else begin
      if x mod prime <> 0 then pass out x;
      filter prime input out
    end
  in
  let rec nth left input =
    let prime = receive input in
    if left <= 1 then (prime, input)
    else begin
      let out = Event.new_channel () in
      ignore (Thread.create (filter prime input) out);
      nth (left - 1) out
    end
  in
  let find () =
    let first = Event.new_channel () in
    ignore (Thread.create generate first);
    nth primes first
  in
  let elapsed, (prime, last) = Clock.timed find in
  enough := true;
  while receive last <> 0 do
    ()
  done;
  (elapsed, prime)
