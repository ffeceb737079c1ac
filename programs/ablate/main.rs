//! Runs one program once, for `chanter-bench ablate`: `LIST PROGRAM VPS SIZE`, where LIST is `scale`, `peers`, a study of
//! `micro`, or `schemas`. Prints its operations and nanoseconds as a line of JSON, with the answer where others compute it too.
//!
//! It takes these modules of `chanter-programs`, and not the others, as it is built once for each mechanism.

#![allow(dead_code, unreachable_pub, reason = "the modules have more than is measured")]
#![allow(clippy::manual_async_fn, reason = "as in `chanter-programs`")]

#[path = "../kit"]
mod kit {
    mod form;
    mod program;
    mod run;
    mod style;

    pub use form::{Form, Size};
    pub use program::{Done, Program};
    pub use run::{Failure, Load, Run, bind_if_possible, ensure};
    pub use style::{
        AsynchronousHosts, AsynchronousParasites, PaperParasites, Style, Synchronous, answer, answers,
    };
}
#[path = "../micro/mod.rs"]
mod micro;
#[path = "../par_fib/mod.rs"]
mod par_fib;
#[path = "../par_tak/mod.rs"]
mod par_tak;
#[path = "../peers"]
mod peers {
    pub(crate) mod chanter;
}
#[path = "../scale/mod.rs"]
mod scale;
#[path = "../schemas/mod.rs"]
mod schemas;

use std::error::Error;
use std::time::Duration;

use micro::{Work, rows};
use peers::chanter::Chanter;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [list, name, vps, size] = args.as_slice() else { return Err("LIST PROGRAM VPS SIZE".into()) };
    let (vps, size) = (vps.parse()?, size.parse()?);
    let (operations, elapsed, answer) = run(list, name, vps, size)?;
    let answer = answer.map_or(String::new(), |answer| format!(r#", "detail": {{"answer": {answer}}}"#));
    println!(r#"{{"ops": {operations}, "nanos": {}{answer}}}"#, elapsed.as_nanos());
    Ok(())
}

fn run(
    list: &str,
    name: &str,
    vps: usize,
    size: u64,
) -> Result<(u64, Duration, Option<u64>), Box<dyn Error>> {
    let none = || format!("there is no program `{name}` in `{list}`");
    match list {
        "scale" => {
            let timed = scale::find(name).ok_or_else(none)?.run(vps, size)?;
            Ok((timed.operations, timed.elapsed, None))
        }
        "peers" => {
            let sample = chanter_peer_kit::sample::<Chanter>(name, size, vps).ok_or_else(none)?;
            Ok((size, sample.elapsed, Some(sample.answer)))
        }
        "schemas" => {
            let pair = schemas::Pair::all().into_iter().find(|pair| pair.to_string() == name);
            Ok((size, pair.ok_or_else(none)?.run(size)?, None))
        }
        study => {
            let row = rows().into_iter().find(|row| row.study == study && row.configuration == name);
            let done = row.ok_or_else(none)?.run(Work { operations: size, vps })?;
            Ok((done.operations, done.elapsed, None))
        }
    }
}
