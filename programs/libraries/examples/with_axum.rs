//! A web service of axum's on Chanter: each connection is a thread, and the handlers ask a thread that keeps the
//! counts, over channels.

use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Json, Router};
use chanter::prelude::*;
use chanter::{
    io::{TcpListener, TcpStream},
    sync::CVar,
};
use chanter_libraries::serve;
use futures::{AsyncReadExt, AsyncWriteExt};
use serde_json::{Value, json};
use std::error::Error;
use std::io;

#[derive(Clone)]
struct Counts(Sender<(String, Sender<u64>)>);

async fn count(State(counts): State<Counts>, Path(word): Path<String>) -> Json<Value> {
    let (reply, answer) = channel();
    counts.0.send((word.clone(), reply)).await.expect("the counter listens");
    let count = answer.recv().await.expect("the counter answers");
    Json(json!({ "word": word, "count": count }))
}

fn counter() -> Counts {
    let (requests, inbox) = channel::<(String, Sender<u64>)>();
    spawn(async move {
        let mut counts = std::collections::HashMap::new();
        while let Ok((word, reply)) = inbox.recv().await {
            let count = counts.entry(word).or_default();
            *count += 1;
            let _ = reply.send(*count).await;
        }
    });
    Counts(requests)
}

#[chanter::main]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let router = Router::new().route("/words/{word}", post(count)).with_state(counter());
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let stop = CVar::new();
    let server = spawn(serve(listener, router, stop.clone()));

    // Two connections, at the same time.
    let request = async |word: &str| -> io::Result<String> {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("POST /words/{word} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    let (first, second) = futures::try_join!(request("parasite"), request("event"))?;
    let third = request("parasite").await?;
    for (answer, word, count) in [(first, "parasite", 1), (second, "event", 1), (third, "parasite", 2)] {
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        let (_, body) = answer.split_once("\r\n\r\n").ok_or("an answer has a body")?;
        assert_eq!(serde_json::from_str::<Value>(body)?, json!({ "word": word, "count": count }));
    }
    assert!(request("a/b").await?.starts_with("HTTP/1.1 404"));

    stop.set();
    server.await??;
    println!("axum: the counts are right");
    Ok(())
}
