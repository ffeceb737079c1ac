//! A remote call as one event. It can be a branch of a choice, like any other. If another branch is chosen, a negative
//! acknowledgement (nack) tells the server, which then stops its work.

use chanter::prelude::*;
use std::time::Duration;

#[derive(Debug)]
struct Request {
    number: u64,
    takes: Duration,
    reply: Sender<u64>,
    nack: Nack,
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Answered,
    GivenUp,
}

/// Works on each request in a thread of its own, and logs how it went.
async fn server(requests: Receiver<Request>, log: Sender<Outcome>) {
    while let Ok(request) = requests.recv().await {
        let log = log.clone();
        spawn(async move {
            let Request { number, takes, reply, nack } = request;
            let given_up = nack.clone().wrap(|()| None);
            let answer = choose((after(takes).wrap(|()| Some(number * number)), given_up)).await;
            let given_up = nack.wrap(|()| None);
            let sent = match answer {
                // The answer is offered, not pushed: the client may still choose something else.
                Some(answer) => choose((reply.send(answer).wrap(Result::ok), given_up)).await,
                None => None,
            };
            let outcome = if sent.is_some() { Outcome::Answered } else { Outcome::GivenUp };
            log.send(outcome).await.expect("the log is open");
        });
    }
}

/// The call. Nothing is sent before somebody synchronizes on it.
fn square(server: &Sender<Request>, number: u64, takes: Duration) -> impl Event<Output = Option<u64>> {
    let server = server.clone();
    with_nack(move |nack| {
        let (reply, answer) = channel();
        let request = Request { number, takes, reply, nack };
        server.try_send(request).expect("the server is there");
        answer.into_recv().wrap(Result::ok)
    })
}

#[chanter::main]
async fn main() {
    let (requests, inbox) = mailbox();
    let (log, outcomes) = channel();
    let server = spawn(server(inbox, log));

    let quick = Duration::from_millis(1);
    let limit = Duration::from_secs(10);
    let call = square(&requests, 12, quick);
    let answer = choose((call, after(limit).wrap(|()| None))).await;
    assert_eq!(answer, Some(144));
    assert_eq!(outcomes.recv().await, Ok(Outcome::Answered));

    // The server would take ten seconds; the client has twenty milliseconds.
    let call = square(&requests, 12, limit);
    let answer = choose((call, after(Duration::from_millis(20)).wrap(|()| None))).await;
    assert_eq!(answer, None);
    assert_eq!(outcomes.recv().await, Ok(Outcome::GivenUp));

    drop(requests);
    server.join().await.unwrap();
    println!("one call was answered, one was given up, and the server knew");
}
