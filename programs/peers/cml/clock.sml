(* What a program of this peer is: it does its work once, and tells how long that took and what came out. *)
structure Clock =
struct
  type program = int -> Time.time * LargeInt.int

  (* SML/NJ has no monotonic clock: this is the time of day. *)
  fun timed work =
    let
      val start = Time.now ()
      val value = work ()
    in
      (Time.- (Time.now (), start), value)
    end
end
