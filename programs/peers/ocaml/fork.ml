(* Threads that fork and join, by Thread.join and a reference: a thread has no value of its own. There are no fib and
   tak: calls that spawn would have more threads of the operating system alive together than it allows. *)

type 'a value = { thread : Thread.t; result : 'a option ref }

let fork work =
  let result = ref None in
  { thread = Thread.create (fun () -> result := Some (work ())) (); result }

let join { thread; result } =
  Thread.join thread;
  Option.get !result

(* Merges numbers from low up to middle and from there up to high, both sorted. *)
let merge (numbers : int array) spare low middle high =
  Array.blit numbers low spare low (middle - low);
  let rec next i j k =
    if i = middle then ()
    else if j = high then Array.blit spare i numbers k (middle - i)
    else if spare.(i) <= numbers.(j) then begin
      numbers.(k) <- spare.(i);
      next (i + 1) j (k + 1)
    end
    else begin
      numbers.(k) <- numbers.(j);
      next i (j + 1) (k + 1)
    end
  in
  next low middle low

let rec sort numbers spare low high =
  if high - low > 1 then begin
    let middle = (low + high) / 2 in
    if high - low > 1024 then begin
      let left = Thread.create (fun () -> sort numbers spare low middle) () in
      sort numbers spare middle high;
      Thread.join left
    end
    else begin
      sort numbers spare low middle;
      sort numbers spare middle high
    end;
    merge numbers spare low middle high
  end

let mergesort n =
  let last = ref 1 in
  let random _ =
    last := ((!last * 1103515245) + 12345) land 0x7fffffff;
    !last
  in
  let numbers = Array.init n random and spare = Array.make n 0 in
  let elapsed, () = Clock.timed (fun () -> sort numbers spare 0 n) in
  let sum = ref 0 in
  Array.iteri (fun i x -> sum := (!sum + ((i + 1) * x)) mod 1000000007) numbers;
  (elapsed, !sum)
