//! Tests of the engine over TLS: its promises, and which peers get in.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

use super::tests::{On, launched, unhurried};
use super::*;
use crate::conformance::Kit;
use crate::launcher::Secret;
use crate::launcher::TlsFiles;

/// An authority, and the text of its certificate.
struct Authority(Issuer<'static, KeyPair>, String);

/// A certificate and its key.
struct Signed(String, String);

impl Authority {
    fn new() -> Self {
        Self::called("the job's")
    }

    fn called(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let text = params.self_signed(&key).unwrap().pem();
        Self(Issuer::new(params, key), text)
    }

    fn sign(&self, name: &str, year: i32) -> Signed {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(year, 1, 1));
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Signed(certificate.pem(), key.serialize_pem())
    }

    fn good(&self) -> Tls {
        self.takes(&self.sign("127.0.0.1", 4000))
    }

    /// The settings of a process with that certificate, which trusts this authority.
    fn takes(&self, signed: &Signed) -> Tls {
        Tls::from_pem(signed.0.as_bytes(), signed.1.as_bytes(), self.1.as_bytes()).unwrap()
    }
}

fn with(tls: Option<Tls>) -> Config {
    Config { tls, ..unhurried() }
}

/// Starts two processes with these settings, and returns the result of the connecting one. If that fails, the other
/// goes on waiting.
async fn start(accepts: Option<Tls>, connects: Option<Tls>) -> Result<(), String> {
    let (launched, _folder) = launched(2, On::Tcp);
    let [zero, one] = <[Launched; 2]>::try_from(launched).unwrap();
    let accepting = spawn(Sockets::start(zero, with(accepts)));
    let connected = Sockets::start(one, with(connects)).await;
    match connected {
        Ok(one) => {
            let zero = accepting.join().await.unwrap().map_err(|error| error.to_string())?;
            assert!(one.shared.links().chain(zero.shared.links()).all(|(_, link)| link.is_tls()));
            Ok(())
        }
        Err(error) => {
            assert!(matches!(error, StartError::Stranger(ProcessId(0), _)), "{error:?}");
            assert!(!accepting.is_determined(), "it waits for who is of the job");
            let _ = accepting.cancel().await;
            Err(error.to_string())
        }
    }
}

async fn engines(count: u32, config: &Config) -> Vec<Sockets> {
    let (launched, _folder) = launched(count, On::Tcp);
    let starting: Vec<_> =
        launched.into_iter().map(|launched| spawn(Sockets::start(launched, config.clone()))).collect();
    let mut engines = Vec::new();
    for starting in starting {
        engines.push(starting.join().await.unwrap().unwrap());
    }
    engines
}

#[chanter::test]
async fn tls_keeps_what_an_engine_promises() {
    let config = with(Some(Authority::new().good()));
    let kit = Kit::new(async move |count| engines(count, &config).await);
    kit.killed_by(Sockets::kill).run().await.unwrap();
}

#[chanter::test]
async fn narrow_queues_over_tls_keep_it_too() {
    let config = Config { queue: 1 << 16, inbox: 0, ..with(Some(Authority::new().good())) };
    let kit = Kit::new(async move |count| engines(count, &config).await);
    kit.killed_by(Sockets::kill).run().await.unwrap();
}

#[chanter::test]
async fn who_has_the_right_certificate_gets_in() {
    let authority = Authority::new();
    assert_eq!(start(Some(authority.good()), Some(authority.good())).await, Ok(()));
    // For a name that both know, at any address.
    let named =
        || Some(authority.takes(&authority.sign("job.example", 4000)).for_name("job.example").unwrap());
    assert_eq!(start(named(), named()).await, Ok(()));
}

#[chanter::test]
async fn who_has_the_wrong_one_does_not() {
    let (authority, other) = (Authority::new(), Authority::called("somebody's"));
    let (good, foreign) = (|| authority.good(), || authority.takes(&other.sign("127.0.0.1", 4000)));
    let expired = || authority.takes(&authority.sign("127.0.0.1", 2001));
    let elsewhere = || authority.takes(&authority.sign("127.0.0.9", 4000));
    // The connecting process reports the fault, whichever of the two is wrong.
    let wrong = [
        (foreign(), good(), "invalid peer certificate: UnknownIssuer"),
        (good(), foreign(), "fatal alert: UnknownCA"),
        (expired(), good(), "expired"),
        (good(), expired(), "fatal alert: CertificateExpired"),
        (elsewhere(), good(), "not valid for name"),
    ];
    for (accepts, connects, expected) in wrong {
        let error = start(Some(accepts), Some(connects)).await.unwrap_err();
        assert!(error.contains("process 0") && error.contains(expected), "{error}, not {expected}");
    }
}

#[chanter::test]
async fn who_talks_plainly_to_tls_or_tls_to_who_talks_plainly_is_told_so() {
    let authority = Authority::new();
    let error = start(Some(authority.good()), None).await.unwrap_err();
    assert!(error.contains("wants TLS"), "{error}");
    let error = start(None, Some(authority.good())).await.unwrap_err();
    assert!(error.contains("instead of talking TLS"), "{error}");
}

/// The job's secret is required nevertheless.
#[chanter::test]
async fn a_certificate_is_not_enough() {
    let authority = Authority::new();
    let (launched, _folder) = launched(2, On::Tcp);
    let [zero, one] = <[Launched; 2]>::try_from(launched).unwrap();
    let _accepting = spawn(Sockets::start(zero, with(Some(authority.good()))));
    let liar = Launched { secret: Secret::new([1; 32]), ..one };
    let error = Sockets::start(liar, with(Some(authority.good()))).await.unwrap_err().to_string();
    assert!(error.contains("does not know the job's secret"), "{error}");
}

#[chanter::test]
async fn a_launcher_says_where_the_certificates_are() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let Signed(certificate, key) = authority.sign("job", 4000);
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let files = TlsFiles {
        certificate: file("cert", &certificate),
        key: file("key", &key),
        authority: file("ca", &authority.1),
        name: Some("job".into()),
    };
    let (launched, _folder) = launched(2, On::Tcp);
    let starting: Vec<_> = launched
        .into_iter()
        .map(|one| Launched { tls: Some(files.clone()), ..one })
        .map(|one| spawn(Sockets::start(one, unhurried())))
        .collect();
    for starting in starting {
        assert!(starting.join().await.unwrap().unwrap().shared.links().all(|(_, link)| link.is_tls()));
    }
    let bad = [
        (TlsFiles { key: folder.path().join("none"), ..files.clone() }, "none: No such file"),
        (TlsFiles { certificate: files.key.clone(), ..files.clone() }, "the certificate: there is none"),
        (TlsFiles { name: Some("a b".into()), ..files }, "\"a b\""),
    ];
    for (files, expected) in bad {
        let (mut launched, _folder) = super::tests::launched(1, On::Tcp);
        let one = Launched { tls: Some(files), ..launched.remove(0) };
        let error = Sockets::start(one, unhurried()).await.unwrap_err();
        assert!(matches!(error, StartError::Tls(_)) && error.to_string().contains(expected), "{error}");
    }
}

/// Over Unix sockets TLS is not used, so no process shows a certificate.
#[chanter::test]
async fn a_process_of_this_machine_shows_no_certificate() {
    let (launched, _folder) = launched(2, On::Unix);
    let tls = with(Some(Authority::new().good()));
    let starting: Vec<_> =
        launched.into_iter().map(|launched| spawn(Sockets::start(launched, tls.clone()))).collect();
    for starting in starting {
        let engine = starting.join().await.unwrap().unwrap();
        let other = ProcessId(1 - engine.me().0);
        assert_eq!(engine.certificate(other), None);
    }
}
