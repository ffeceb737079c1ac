//! An engine's promises, tried with processes that are sessions of Zenoh in one process.

mod common;

use chanter_conformance::engine::Kit;
use chanter_zenoh::Zenoh;

async fn over_tcp(count: u32) -> Vec<Zenoh> {
    let first = format!("127.0.0.1:{}", common::free_port());
    common::start_all(common::configs("kit", count, "tcp", &first)).await.unwrap()
}

#[chanter::test]
async fn it_keeps_what_an_engine_promises() {
    Kit::new(over_tcp).killed_by(Zenoh::kill).run().await.unwrap();
}

#[chanter::test]
async fn it_does_so_over_unix_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let count_jobs = std::sync::atomic::AtomicU32::new(0);
    let make = async |count: u32| {
        let job = count_jobs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let first = folder.path().join(job.to_string());
        common::start_all(common::configs("kit", count, "unixsock-stream", &first.to_string_lossy()))
            .await
            .unwrap()
    };
    Kit::new(make).killed_by(Zenoh::kill).run().await.unwrap();
}
