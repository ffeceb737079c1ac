(* peer --list, or peer PROGRAM SIZE PROCESSORS: threads share one processor. *)

let programs =
  [
    ("spawn", Talk.spawn);
    ("ping-pong", Talk.ping_pong);
    ("parallel-ping-pong", Talk.parallel_ping_pong);
    ("send", Talk.send_buffered);
    ("choose", Talk.choose);
    ("sieve", Talk.sieve);
    ("fib-channel", Fork.fib_channel);
    ("fib-join", Fork.fib_join);
    ("tak-join", Fork.tak_join);
    ("mergesort", Fork.mergesort);
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
