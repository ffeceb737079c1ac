//! The C interface beside the Rust one, and beside OS threads, in one run.
//!
//! The functions are called as C calls them: by pointers that the compiler cannot see through. The rows of one group are
//! measured in turns, and the median of each is shown.

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::io::Write;
use std::path::PathBuf;
use std::ptr;
use std::time::Instant;

use chanter::{Event, Machine, bounded, channel, spawn, spawn_fiber};
use comfy_table::{Cell, Table, presets};
use serde::Serialize;

use crate::figures::{Bound, Finding};
use crate::report::{json_line, number, right};
use crate::{Stop, json_out, show, strictly, table_of};

/// Makes a number of operations, and returns their time in nanoseconds.
type Work = fn(u64) -> u64;
type Body = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Poll = unsafe extern "C" fn(*mut c_void, *mut chanter_c::CContext) -> c_int;
type Recv = unsafe extern "C" fn(u64, *mut u64, u64) -> c_int;
type PollRecv = unsafe extern "C" fn(*mut chanter_c::CContext, *mut u64, u64, *mut u64, u64) -> c_int;
type Join = unsafe extern "C" fn(u64, *mut *mut c_void, u64) -> c_int;
type Spawn = unsafe extern "C" fn(u64, *const chanter_c::CAttr, Option<Body>, *mut c_void, *mut u64) -> c_int;
type SpawnPoll = unsafe extern "C" fn(
    u64,
    *const chanter_c::CAttr,
    Option<Poll>,
    *mut c_void,
    Option<unsafe extern "C" fn(*mut c_void)>,
    *mut u64,
) -> c_int;

/// The arguments of `chanter-bench capi`.
#[derive(clap::Args)]
pub(crate) struct CapiArgs {
    /// A twentieth of the work, three rounds
    #[arg(long)]
    quick: bool,
    /// Also write JSON lines to this file; `-` writes them to standard output instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Exit with code 1 when an aim is missed
    #[arg(long)]
    strict: bool,
}

/// Measures the C interface, prints the rows, and says which aims hold.
pub(crate) fn run(args: &CapiArgs) -> Result<(), Stop> {
    let (rounds, count) = if args.quick { (3, 10_000) } else { (9, 200_000) };
    let json = json_out(args.json.as_deref())?;
    let rows = measure(rounds, count);
    let findings = findings(&rows);
    if let Some(mut out) = json {
        for row in &rows {
            json_line(&mut out, row)?;
        }
        for finding in &findings {
            json_line(&mut out, finding)?;
        }
        out.flush()?;
    }
    show(args.json.as_deref(), &format!("{}\n{}", table(&rows), table_of(&findings)))?;
    strictly(args.strict, &findings)
}

fn findings(rows: &[Row]) -> Vec<Finding> {
    let of = |operation: &str, form: &str| {
        rows.iter().find(|row| row.operation == operation && row.form == form).map(|row| row.ns_per_op)
    };
    let beside = |operation: &str, other: &str, compare: fn(f64, f64) -> f64| {
        of(operation, "C").zip(of(operation, other)).map(|(c, other)| compare(c, other))
    };
    let (call, fibers, rendezvous) = ("one call", "spawn and join, a stack", "rendezvous of two fibers");
    [
        ("C: ns that a call takes more than in Rust", beside(call, "Rust", |c, rust| c - rust), 5.0),
        ("C: ns to spawn and join a poll body", of("spawn and join, no stack", "C"), 100.0),
        ("C: a rendezvous, as a part of Rust's", beside(rendezvous, "Rust", |c, rust| c / rust), 1.2),
        ("C: create and join, as a part of OS threads'", beside(fibers, "OS threads", |c, os| c / os), 0.1),
    ]
    .map(|(figure, value, aim)| Finding::new(figure.to_owned(), value, Bound::AtMost(aim)))
    .into()
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["operation", "form", "ns/op"]);
    for Row { operation, form, ns_per_op, .. } in rows {
        table.add_row([Cell::new(operation), Cell::new(form), right(&number(*ns_per_op))]);
    }
    table
}

/// The time of one operation.
#[derive(Debug, Serialize)]
struct Row {
    operation: &'static str,
    form: &'static str,
    /// The median of all rounds.
    ns_per_op: f64,
    /// Each round has compared what it got with the known result, or the process has ended.
    checked: bool,
}

/// Measures all rows. `rounds` samples of `count` operations are taken of each.
fn measure(rounds: usize, count: u64) -> Vec<Row> {
    let cases: [(&str, &str, Work); 14] = [
        ("one call", "Rust", calls_rust),
        ("one call", "C", calls_c),
        ("send and receive at once", "Rust", at_once_rust),
        ("send and receive at once", "C", at_once_c),
        ("spawn and join, no stack", "Rust", spawn_rust),
        ("spawn and join, no stack", "C", spawn_c),
        ("spawn and join, a stack", "Rust", fiber_rust),
        ("spawn and join, a stack", "C", fiber_c),
        ("spawn and join, a stack", "OS threads", os_thread),
        ("rendezvous of two fibers", "Rust", rendezvous_rust),
        ("rendezvous of two fibers", "C", rendezvous_c),
        ("rendezvous of two poll bodies", "C", rendezvous_poll),
        ("wait for a timer that is not needed", "Rust", timed_rust),
        ("wait for a timer that is not needed", "C", timed_c),
    ];
    let mut samples = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        for ((_, form, work), samples) in cases.iter().zip(&mut samples) {
            let count = if *form == "OS threads" { count / 50 + 1 } else { count };
            samples.push(work(count) as f64 / count as f64);
        }
    }
    let rows = cases.iter().zip(samples).map(|(&(operation, form, _), mut samples)| {
        samples.sort_by(f64::total_cmp);
        Row { operation, form, ns_per_op: samples[samples.len() / 2], checked: true }
    });
    rows.collect()
}

fn time(work: impl FnOnce()) -> u64 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_nanos() as u64
}

/// Runs `work` on a fiber of a machine with one processor.
fn on_fiber(work: impl FnOnce() -> u64 + Send + 'static) -> u64 {
    let machine = Machine::builder().vps(1).build().expect("the OS has room");
    machine.block_on(async { spawn_fiber(work).join().await }).expect("the body ends")
}

fn check(code: c_int) {
    assert_eq!(code, 0);
}

/// Runs `body` with a number on a fiber of C.
fn on_c(body: unsafe extern "C" fn(*mut c_void) -> *mut c_void, count: u64) -> u64 {
    let (mut machine, mut status) = (0, ptr::null_mut::<c_void>());
    // SAFETY: `CConfig` has the layout of the header; all pointers lead to values of this frame.
    unsafe {
        let mut config: chanter_c::CConfig = std::mem::zeroed();
        config.size = size_of::<chanter_c::CConfig>();
        config.processors = 1;
        check(chanter_c::chanter_machine_create(&raw const config, &raw mut machine));
        check(chanter_c::chanter_machine_run(machine, Some(body), count as *mut c_void, &raw mut status));
    }
    check(chanter_c::chanter_machine_free(machine));
    status as u64
}

fn channel_c(capacity: usize) -> u64 {
    let mut made = 0;
    // SAFETY: the handle may be written.
    check(unsafe { chanter_c::chanter_channel_create(capacity, None, &raw mut made) });
    made
}

fn calls_rust(count: u64) -> u64 {
    on_fiber(move || {
        let (_tx, rx) = bounded::<u64>(4);
        time(|| {
            (0..count).for_each(|_| {
                black_box(black_box(&rx).len());
            })
        })
    })
}

fn calls_c(count: u64) -> u64 {
    unsafe extern "C" fn body(count: *mut c_void) -> *mut c_void {
        let length =
            black_box(chanter_c::chanter_channel_length as unsafe extern "C" fn(u64, *mut usize) -> c_int);
        let (made, mut got) = (channel_c(4), 0);
        // SAFETY: the length may be written.
        let taken = time(|| (0..count as u64).for_each(|_| check(unsafe { length(made, &raw mut got) })));
        check(chanter_c::chanter_channel_free(made));
        taken as *mut c_void
    }
    on_c(body, count)
}

fn at_once_rust(count: u64) -> u64 {
    on_fiber(move || {
        let (tx, rx) = bounded::<u64>(4);
        time(|| {
            for n in 0..count {
                tx.try_send(n).expect("there is room");
                assert_eq!(rx.try_recv(), Ok(n));
            }
        })
    })
}

fn at_once_c(count: u64) -> u64 {
    unsafe extern "C" fn body(count: *mut c_void) -> *mut c_void {
        let send = black_box(chanter_c::chanter_send as extern "C" fn(u64, u64, u64) -> c_int);
        let recv = black_box(chanter_c::chanter_recv as Recv);
        let (made, mut got) = (channel_c(4), 0);
        let taken = time(|| {
            for n in 0..count as u64 {
                check(send(made, n, 0));
                // SAFETY: the value may be written.
                check(unsafe { recv(made, &raw mut got, 0) });
                assert_eq!(got, n);
            }
        });
        check(chanter_c::chanter_channel_free(made));
        taken as *mut c_void
    }
    on_c(body, count)
}

fn spawn_rust(count: u64) -> u64 {
    on_fiber(move || {
        time(|| {
            for n in 0..count {
                assert_eq!(spawn(async move { black_box(n) }).join().sync_blocking().ok(), Some(n));
            }
        })
    })
}

unsafe extern "C" fn poll_once(state: *mut c_void, context: *mut chanter_c::CContext) -> c_int {
    // SAFETY: the library passes the context of this poll.
    check(unsafe { chanter_c::chanter_context_value(context, state) });
    1
}

fn spawn_c(count: u64) -> u64 {
    unsafe extern "C" fn body(count: *mut c_void) -> *mut c_void {
        let spawn = black_box(chanter_c::chanter_thread_spawn_poll as SpawnPoll);
        let join = black_box(chanter_c::chanter_thread_join as Join);
        let (mut thread, mut status) = (0, ptr::null_mut::<c_void>());
        time(|| {
            for n in 0..count as u64 {
                // SAFETY: the poll function takes any state; the handle and the status may be written.
                unsafe {
                    check(spawn(0, ptr::null(), Some(poll_once), n as *mut c_void, None, &raw mut thread));
                    check(join(thread, &raw mut status, u64::MAX));
                }
                assert_eq!(status as u64, n);
            }
        }) as *mut c_void
    }
    on_c(body, count)
}

fn fiber_rust(count: u64) -> u64 {
    on_fiber(move || {
        time(|| {
            for n in 0..count {
                assert_eq!(spawn_fiber(move || black_box(n)).join().sync_blocking().ok(), Some(n));
            }
        })
    })
}

unsafe extern "C" fn same(argument: *mut c_void) -> *mut c_void {
    black_box(argument)
}

fn fiber_c(count: u64) -> u64 {
    unsafe extern "C" fn body(count: *mut c_void) -> *mut c_void {
        let spawn = black_box(chanter_c::chanter_thread_spawn as Spawn);
        let join = black_box(chanter_c::chanter_thread_join as Join);
        let (mut thread, mut status) = (0, ptr::null_mut::<c_void>());
        time(|| {
            for n in 0..count as u64 {
                // SAFETY: the body takes any argument; the handle and the status may be written.
                unsafe {
                    check(spawn(0, ptr::null(), Some(same), n as *mut c_void, &raw mut thread));
                    check(join(thread, &raw mut status, u64::MAX));
                }
                assert_eq!(status as u64, n);
            }
        }) as *mut c_void
    }
    on_c(body, count)
}

/// The OS threads of the standard library are pthreads.
fn os_thread(count: u64) -> u64 {
    time(|| {
        for n in 0..count {
            assert_eq!(std::thread::spawn(move || black_box(n)).join().ok(), Some(n));
        }
    })
}

fn rendezvous_rust(count: u64) -> u64 {
    on_fiber(move || {
        let (tx, rx) = channel::<u64>();
        let other = spawn_fiber(move || {
            let mut sum = 0;
            while let Ok(n) = rx.recv().sync_blocking() {
                sum += n;
            }
            sum
        });
        time(|| {
            for _ in 0..count {
                tx.send(1).sync_blocking().expect("it receives");
            }
            drop(tx);
            assert_eq!(other.join().sync_blocking().ok(), Some(count));
        })
    })
}

unsafe extern "C" fn sums(channel: *mut c_void) -> *mut c_void {
    let recv = black_box(chanter_c::chanter_recv as Recv);
    let (mut sum, mut got) = (0_u64, 0);
    // SAFETY: the value may be written.
    while unsafe { recv(channel as u64, &raw mut got, u64::MAX) } == 0 {
        sum += got;
    }
    sum as *mut c_void
}

fn rendezvous_c(count: u64) -> u64 {
    unsafe extern "C" fn body(count: *mut c_void) -> *mut c_void {
        let send = black_box(chanter_c::chanter_send as extern "C" fn(u64, u64, u64) -> c_int);
        let (made, mut thread, mut status) = (channel_c(0), 0, ptr::null_mut::<c_void>());
        // SAFETY: the body takes the handle of a channel; the thread's handle and the status may be written.
        unsafe {
            check(chanter_c::chanter_thread_spawn(
                0,
                ptr::null(),
                Some(sums),
                made as *mut c_void,
                &raw mut thread,
            ));
        }
        let taken = time(|| {
            (0..count as u64).for_each(|_| check(send(made, 1, u64::MAX)));
            check(chanter_c::chanter_channel_close(made));
            // SAFETY: the status may be written.
            check(unsafe { chanter_c::chanter_thread_join(thread, &raw mut status, u64::MAX) });
        });
        assert_eq!(status, count);
        check(chanter_c::chanter_channel_free(made));
        taken as *mut c_void
    }
    on_c(body, count)
}

/// A poll body that receives until its channel is closed.
struct Summer {
    channel: u64,
    operation: u64,
    sum: u64,
}

unsafe extern "C" fn poll_sum(state: *mut c_void, context: *mut chanter_c::CContext) -> c_int {
    let recv = black_box(chanter_c::chanter_poll_recv as PollRecv);
    // SAFETY: the state is a summer, and polls do not overlap.
    let state = unsafe { &mut *state.cast::<Summer>() };
    loop {
        let mut got = 0;
        // SAFETY: the context is that of this poll; the operation and the value may be written.
        match unsafe { recv(context, &raw mut state.operation, state.channel, &raw mut got, u64::MAX) } {
            0 => state.sum += got,
            AGAIN => return 0,
            _ => return 1,
        }
    }
}

/// `EAGAIN`.
const AGAIN: c_int = if cfg!(target_os = "linux") { 11 } else { 35 };

fn rendezvous_poll(count: u64) -> u64 {
    unsafe extern "C" fn body(count: *mut c_void) -> *mut c_void {
        let send = black_box(chanter_c::chanter_send as extern "C" fn(u64, u64, u64) -> c_int);
        let mut state = Summer { channel: channel_c(0), operation: 0, sum: 0 };
        let (at, made, mut thread) = (&raw mut state, state.channel, 0);
        // SAFETY: the state lives until the thread was joined; the handle may be written.
        unsafe {
            check(chanter_c::chanter_thread_spawn_poll(
                0,
                ptr::null(),
                Some(poll_sum),
                at.cast(),
                None,
                &raw mut thread,
            ));
        }
        let taken = time(|| {
            (0..count as u64).for_each(|_| check(send(made, 1, u64::MAX)));
            check(chanter_c::chanter_channel_close(made));
            // SAFETY: there is no status to be written.
            check(unsafe { chanter_c::chanter_thread_join(thread, ptr::null_mut(), u64::MAX) });
        });
        // SAFETY: the thread has ended.
        assert_eq!(unsafe { (*at).sum }, count as u64);
        check(chanter_c::chanter_channel_free(made));
        taken as *mut c_void
    }
    on_c(body, count)
}

fn timed_rust(count: u64) -> u64 {
    on_fiber(move || {
        let (tx, rx) = bounded::<u64>(4);
        time(|| {
            for n in 0..count {
                tx.try_send(n).expect("there is room");
                let soon = Instant::now() + std::time::Duration::from_secs(60);
                assert_eq!(rx.recv().by(soon).sync_blocking(), Some(Ok(n)));
            }
        })
    })
}

fn timed_c(count: u64) -> u64 {
    unsafe extern "C" fn body(count: *mut c_void) -> *mut c_void {
        let send = black_box(chanter_c::chanter_send as extern "C" fn(u64, u64, u64) -> c_int);
        let recv = black_box(chanter_c::chanter_recv as Recv);
        let (made, mut got) = (channel_c(4), 0);
        let taken = time(|| {
            for n in 0..count as u64 {
                check(send(made, n, 0));
                let soon = chanter_c::chanter_now() + 60_000_000_000;
                // SAFETY: the value may be written.
                check(unsafe { recv(made, &raw mut got, soon) });
                assert_eq!(got, n);
            }
        });
        check(chanter_c::chanter_channel_free(made));
        taken as *mut c_void
    }
    on_c(body, count)
}
