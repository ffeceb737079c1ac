//! Child processes: their exit is an event, their pipes are streams.
#![cfg(all(unix, not(miri)))]

mod common;

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use chanter::prelude::*;
use chanter::process::Command;
use common::{eventually, machine, millis, poll, watchdog};
use futures::{AsyncReadExt, AsyncWriteExt};

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// Whether the process is there, be it only as a zombie.
fn exists(id: u32) -> bool {
    let status =
        std::process::Command::new("kill").args(["-0", &id.to_string()]).stderr(Stdio::null()).status();
    status.unwrap().success()
}

#[test]
fn exits_are_events() {
    watchdog!();
    for vps in [1, 2] {
        machine(vps).block_on(async {
            let child = shell("exit 7").spawn().unwrap();
            let status = child.exit().await.unwrap();
            assert_eq!(status.code(), Some(7));
            // Ready for ever, for all.
            assert_eq!(child.try_exit().unwrap(), Some(status));
            assert_eq!(child.exit().await.unwrap(), status);
            child.kill().unwrap();
            // In a choice; a loser does nothing to the child.
            let slow = shell("exec sleep 3600").spawn().unwrap();
            let quick = shell("exit 3").spawn().unwrap();
            let first = choose((slow.exit().wrap(|_| None), quick.exit().wrap(Some))).await;
            assert_eq!(first.unwrap().unwrap().code(), Some(3));
            assert!(slow.exit().timeout(millis(10)).await.is_none());
            let mut waits = Box::pin(slow.exit().sync());
            assert!(poll(&mut waits).is_pending());
            drop(waits);
            slow.kill().unwrap();
            assert_eq!(slow.exit().await.unwrap().signal(), Some(9));
        });
    }
}

/// Outside of a machine, on Tokio, and when the machine ends before the child.
#[test]
fn exits_are_told_anywhere() {
    watchdog!();
    let child = shell("exit 5").spawn().unwrap();
    assert_eq!(child.exit().sync_blocking().unwrap().code(), Some(5));
    let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
    tokio.block_on(async {
        let child = shell("exit 6").spawn().unwrap();
        assert_eq!(child.exit().await.unwrap().code(), Some(6));
    });
    for vps in [1, 2] {
        let machine = machine(vps);
        let child = machine.block_on(async { shell("sleep 0.2; exit 4").spawn().unwrap() });
        drop(machine);
        assert_eq!(child.exit().sync_blocking().unwrap().code(), Some(4));
    }
    assert!(Command::new("/nonexistent/program").spawn().is_err());
}

#[test]
fn children_are_reaped_unasked() {
    watchdog!();
    let ids: Vec<u32> = machine(1).block_on(async {
        let ids: Vec<_> = (0..5).map(|_| shell("exit 0").spawn().unwrap().id()).collect();
        // Dropped, it goes on; or it is killed, if it is told to be.
        let lives = shell("exec sleep 3600").spawn().unwrap();
        let dies = shell("exec sleep 3600").kill_on_drop(true).spawn().unwrap();
        let (exit, id) = (dies.exit(), lives.id());
        drop((lives, dies));
        assert_eq!(exit.await.unwrap().signal(), Some(9));
        assert!(exists(id));
        assert!(std::process::Command::new("kill").arg(id.to_string()).status().unwrap().success());
        ids.into_iter().chain([id]).collect()
    });
    for id in ids {
        eventually("it is reaped", || !exists(id));
    }
}

#[test]
fn pipes_are_streams() {
    watchdog!();
    machine(2).block_on(async {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        assert_eq!(from.try_read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        // More than both pipes hold.
        let sent: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
        let copy = sent.clone();
        let writer = spawn(async move {
            to.write_all(&copy).await.unwrap();
            to.close().await.unwrap();
            assert!(to.write(b"more").await.is_err());
        });
        let mut got = Vec::new();
        from.read_to_end(&mut got).await.unwrap();
        assert!(got == sent);
        writer.join().await.unwrap();
        assert!(child.exit().await.unwrap().success());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "");
        // A choice between output and exit.
        let mut child = shell("echo one; sleep 0.1; exit 2").stdout(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let mut line = [0; 4];
        while output.try_read(&mut line).is_err() {
            output.readable().await.unwrap();
        }
        assert_eq!(&line, b"one\n");
        assert_eq!(child.exit().await.unwrap().code(), Some(2));
    });
    // Pipes need a poller; the child does not outlive the error.
    let error = shell("exec sleep 3600").stdin(Stdio::piped()).spawn().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Other);
}
