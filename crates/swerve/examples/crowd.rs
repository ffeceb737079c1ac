//! Holds a crowd of idle connections against a server, then sees that each of them still works:
//! `cargo run --release --example crowd -- [ADDR] [CONNECTIONS] [SECONDS]`.
//!
//! Every second connection asks once before it falls silent; all ask at the end.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |i: usize, default: &'static str| args.get(i).map_or(default, String::as_str);
    let (Ok(addr), Ok(wanted), Ok(seconds)) = (
        arg(0, "127.0.0.1:8080").parse::<SocketAddr>(),
        arg(1, "10000").parse::<usize>(),
        arg(2, "5").parse::<u64>(),
    ) else {
        eprintln!("crowd [ADDR] [CONNECTIONS] [SECONDS]");
        return ExitCode::from(2);
    };
    let allowed = swerve::raise_descriptor_limit(wanted).allowed;
    if allowed < wanted as u64 + 16 {
        eprintln!("only {allowed} descriptors are allowed here");
        return ExitCode::FAILURE;
    }

    let began = Instant::now();
    let mut crowd = Vec::with_capacity(wanted);
    for i in 0..wanted {
        match TcpStream::connect_timeout(&addr, Duration::from_secs(10)) {
            Ok(stream) => crowd.push(stream),
            Err(error) => {
                eprintln!("connection {i}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("{wanted} connected in {:?}", began.elapsed());
    let first = crowd.iter_mut().step_by(2).map(answers).filter(|answered| *answered).count();
    println!("{first} of {} answered; idle for {seconds} s", wanted.div_ceil(2));
    sleep(Duration::from_secs(seconds));
    let began = Instant::now();
    let last = crowd.iter_mut().map(answers).filter(|answered| *answered).count();
    println!("{last} of {wanted} answered in {:?}", began.elapsed());
    if first == wanted.div_ceil(2) && last == wanted { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Asks for nothing much, and takes the whole of the answer.
fn answers(stream: &mut TcpStream) -> bool {
    let mut head = Vec::new();
    let mut bytes = [0; 1024];
    if stream.set_read_timeout(Some(Duration::from_secs(10))).is_err()
        || stream.write_all(b"HEAD / HTTP/1.1\r\nhost: crowd\r\n\r\n").is_err()
    {
        return false;
    }
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut bytes) {
            Ok(n) if n > 0 => head.extend_from_slice(&bytes[..n]),
            _ => return false,
        }
    }
    head.starts_with(b"HTTP/1.1 200 ")
}
