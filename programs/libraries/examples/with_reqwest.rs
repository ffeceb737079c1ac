//! reqwest, which needs Tokio's reactor, on Chanter: in place, as an event with a timeout, and from a parasite.

use axum::Router;
use axum::routing::{get, post};
use chanter::prelude::*;
use chanter::{
    bridge::tokio::{entered, on_tokio, shared_handle},
    io::TcpListener,
    sync::CVar,
};
use chanter_libraries::serve;
use reqwest::Client;
use serde_json::{Value, json};
use std::error::Error;
use std::time::Duration;

async fn title(client: Client, url: String) -> reqwest::Result<String> {
    client.get(url).send().await?.error_for_status()?.text().await
}

async fn first_of(client: Client, urls: [String; 2]) -> Option<String> {
    // Each request is a task of Tokio's. The one that loses is aborted.
    let asked = urls.map(|url| on_tokio(title(client.clone(), url)).wrap(|end| end.unwrap().ok()));
    choose(Vec::from(asked)).timeout(Duration::from_secs(30)).await.flatten()
}

async fn echo(client: Client, url: String, value: Value) -> reqwest::Result<Value> {
    client.post(url).json(&value).send().await?.json().await
}

#[chanter::main]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let (asked, hears) = mailbox();
    let silent = get(async move || {
        asked.try_send(()).expect("the program listens");
        never::<String>().await
    });
    let router = Router::new()
        .route("/title", get(async || "Featherweight Threads"))
        .route("/never", get(async || never::<String>().await))
        .route("/silent", silent)
        .route("/echo", post(async |body: String| body));
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    let stop = CVar::new();
    let server = spawn(serve(listener, router, stop.clone()));
    let client = Client::builder().no_proxy().build()?;

    // In place: on this thread, which Tokio's wakes.
    let here = entered(shared_handle(), title(client.clone(), format!("{url}/title")));
    assert_eq!(here.await?, "Featherweight Threads");

    // As an event: two requests race.
    let urls = [format!("{url}/never"), format!("{url}/title")];
    assert_eq!(first_of(client.clone(), urls).await.as_deref(), Some("Featherweight Threads"));

    // One that is known to wait for its answer is given up.
    let silent = on_tokio(title(client.clone(), format!("{url}/silent")));
    let given_up = choose((silent.wrap(|_| false), hears.recv().wrap(|heard| heard.is_ok())));
    assert!(given_up.await);

    // From a parasite, which is polled where it is unblocked.
    let (done, answers) = mailbox();
    spawn_parasite(entered(shared_handle(), async move {
        let _ = done.send(echo(client, format!("{url}/echo"), json!({ "from": "a parasite" })).await).await;
    }));
    assert_eq!(answers.recv().await??, json!({ "from": "a parasite" }));

    stop.set();
    server.await??;
    println!("reqwest: the answers are right");
    Ok(())
}
