(* peer --list, or peer PROGRAM SIZE PROCESSORS. Both kinds of threads share one processor. *)

let programs =
  [
    ("spawn/threads", Talk.spawn);
    ("ping-pong/threads", Talk.ping_pong);
    ("parallel-ping-pong/threads", Talk.parallel_ping_pong);
    ("send/threads", Talk.send);
    ("choose/threads", Talk.choose);
    ("sieve/threads", Talk.sieve);
    ("mergesort/threads", Fork.mergesort);
    ("spawn/lwt", Light.spawn);
    ("ping-pong/lwt", Light.ping_pong);
    ("parallel-ping-pong/lwt", Light.parallel_ping_pong);
    ("send/lwt", Light.send);
    ("sieve/lwt", Light.sieve);
    ("fib-channel/lwt", Light.fib_channel);
    ("fib-join/lwt", Light.fib_join);
    ("tak-join/lwt", Light.tak_join);
  ]

(* For warmth: a tenth of the work, or a few levels of recursion less. *)
let smaller size = if size < 100 then max 0 (size - 3) else size / 10

let refuse why =
  prerr_endline why;
  exit 64

let () =
  match Array.to_list Sys.argv with
  | [ _; "--list" ] -> List.iter (fun (name, _) -> print_endline name) programs
  | [ _; name; size; "1" ] -> (
      match (List.assoc_opt name programs, int_of_string_opt size) with
      | Some program, Some size ->
          ignore (program (smaller size));
          let elapsed, answer = program size in
          Printf.printf "{\"seconds\": %.6f, \"answer\": \"%d\"}\n" elapsed answer
      | _ -> refuse "expected a program of --list, and its size")
  | [ _; _; _; _ ] -> refuse "OCaml's threads share one processor"
  | _ -> refuse "usage: peer --list | peer PROGRAM SIZE 1"
