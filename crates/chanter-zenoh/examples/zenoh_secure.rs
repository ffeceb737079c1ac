//! One of four processes that prove their identity: `zenoh_secure NUMBER CA CERTIFICATE KEY`, with the certificate of
//! `heat-NUMBER`.

use chanter::Machine;
use chanter_cluster::Process;
use chanter_zenoh::{Access, Config, StartError, Tls, Zenoh};

async fn start(number: u32, tls: Tls) -> Result<Process, StartError> {
    let config = Config::new("heat", number, 4)
        .connect(["tls/head.example:7447"])
        .tls(tls)
        .access(Access::new(|number| format!("heat-{number}")));
    Ok(Process::start(Zenoh::start(config).await?))
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [number, authority, certificate, key] = args.as_slice() else {
        println!("usage: zenoh_secure NUMBER CA CERTIFICATE KEY");
        return Ok(());
    };
    let (authority, certificate, key) = (authority.into(), certificate.into(), key.into());
    let tls = Tls { authority, certificate, key, verify_name: true };
    let number = number.parse()?;
    Machine::new()?.block_on_local(async {
        let here = start(number, tls).await?;
        println!("process {} of {}, all with good certificates", here.number(), here.count());
        here.leave().await;
        Ok(())
    })
}
