(* The standard libraries have no monotonic clock: this is the time of day. *)
let timed work =
  let start = Unix.gettimeofday () in
  let value = work () in
  (Unix.gettimeofday () -. start, value)
