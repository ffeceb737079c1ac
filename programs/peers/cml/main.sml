(* peer --list, or peer PROGRAM SIZE PROCESSORS; one processor is all that SML/NJ has. *)
structure Main : sig
  val main : string * string list -> OS.Process.status
end =
struct
  val programs : (string * Clock.program) list =
    [ ("spawn", Talk.spawn)
    , ("ping-pong", Talk.pingPong)
    , ("parallel-ping-pong", Talk.parallelPingPong)
    , ("send", Talk.send)
    , ("choose", Talk.choose)
    , ("sieve", Talk.sieve)
    , ("fib-channel", Fork.fibChannel)
    , ("fib-join", Fork.fibJoin)
    , ("tak-join", Fork.takJoin)
    , ("mergesort", Fork.mergesort)
    ]

  fun refuse why =
    (TextIO.output (TextIO.stdErr, why ^ "\n");
     Posix.Process.exit 0w64)

  fun report (elapsed, answer) =
    print (concat ["{\"seconds\": ", Time.fmt 6 elapsed, ", \"answer\": \"", LargeInt.toString answer, "\"}\n"])

  (* For warmth: a tenth of the work, or a few levels of recursion less. *)
  fun smaller size = if size < 100 then Int.max (0, size - 3) else size div 10

  fun measure (program : Clock.program, size) =
    let
      val result = ref NONE
      fun both () =
        (program (smaller size);
         result := SOME (program size);
         RunCML.shutdown OS.Process.success)
      val status = RunCML.doit (both, NONE)
    in
      Option.app report (!result);
      status
    end

  fun main (_, ["--list"]) =
        (app (fn (name, _) => print (name ^ "\n")) programs;
         OS.Process.success)
    | main (_, [name, size, "1"]) =
        (case (List.find (fn (known, _) => known = name) programs, Int.fromString size) of
           (SOME (_, program), SOME size) => measure (program, size)
         | (NONE, _) => refuse ("no program " ^ name)
         | (_, NONE) => refuse ("SIZE: " ^ size))
    | main (_, [_, _, _]) = refuse "SML/NJ has one processor"
    | main _ = refuse "usage: peer --list | peer PROGRAM SIZE 1"
end
