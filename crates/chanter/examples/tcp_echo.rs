//! An echo server. Accepting is an event, so the server's life is one choice: the next connection,
//! or the word to stop. Streams implement the `futures-io` traits.

use chanter::io::{TcpListener, TcpStream};
use chanter::prelude::*;
use futures::{AsyncReadExt, AsyncWriteExt};
use std::io;

async fn echo(mut stream: TcpStream) -> io::Result<u64> {
    let mut buffer = [0; 4096];
    let mut echoed = 0;
    loop {
        let n = stream.read(&mut buffer).await?;
        if n == 0 {
            return Ok(echoed);
        }
        stream.write_all(&buffer[..n]).await?;
        echoed += n as u64;
    }
}

/// Serves until `stop` is determined, then waits for the connections that are left.
async fn serve(listener: TcpListener, stop: IVar<()>) -> io::Result<u64> {
    let mut connections = Vec::new();
    loop {
        let next = choose((listener.accept().wrap(Some), stop.get().wrap(|()| None)));
        match next.await {
            Some(accepted) => connections.push(spawn(echo(accepted?.0))),
            None => break,
        }
    }
    let mut echoed = 0;
    for connection in connections {
        echoed += connection.join().await.expect("echo does not panic")?;
    }
    Ok(echoed)
}

#[chanter::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let stop = IVar::new();
    let server = spawn(serve(listener, stop.clone()));

    for line in ["first\n", "second\n"] {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(line.as_bytes()).await?;
        stream.close().await?; // No more from us; what the server still sends, arrives.
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        assert_eq!(answer, line);
    }

    stop.put(()).expect("only one thread says stop");
    let echoed = server.join().await??;
    assert_eq!(echoed, "first\nsecond\n".len() as u64);
    println!("{echoed} bytes went there and back through {address}");
    Ok(())
}
