//! Settings of a process that takes part in a job.

use std::path::PathBuf;
use std::time::Duration;

use chanter_engine::Pace;
use chanter_engine::launcher;

use crate::access::Access;
use crate::error::StartError;
use crate::frames::EAGER;
use crate::keys::{self, Once};

/// Frames of a lane that may be on their way to a peer, if the [pace](Config::pace) is not another one.
const WINDOW: u32 = 128;
/// For how long a broken connection with TLS may be away.
const RECONNECT: Duration = Duration::from_secs(2);

/// A process of a job, and how it gets there.
///
/// ```
/// use chanter_zenoh::Config;
///
/// // Process 1 of 2, which knows where process 0 listens. Nobody multicasts.
/// let config = Config::new("heat", 1, 2)
///     .listen(["tcp/127.0.0.1:0"])
///     .connect(["tcp/127.0.0.1:7447"])
///     .scouting(false);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The job's name: 1 to 64 letters, digits, `-`, `_`, `.`. Jobs of different names do not see each other.
    pub job: String,
    /// This process's number.
    pub number: u32,
    /// Number of processes of the job.
    pub count: u32,
    /// Further settings of Zenoh, which the engine does not make: for example the mode, or those of a router. Its
    /// identity is drawn at each start.
    pub zenoh: zenoh::Config,
    /// Zenoh's endpoints that it listens at. If none is given, [`zenoh`](Self::zenoh) decides, which means any port
    /// of all interfaces.
    pub listen: Vec<String>,
    /// Endpoints that it connects to, of processes or routers. One is enough: processes tell each other of all
    /// others.
    pub connect: Vec<String>,
    /// Whether processes on the same network find each other by multicast.
    pub scouting: bool,
    /// Mutual TLS. With it there are endpoints of `tls/` only.
    pub tls: Option<Tls>,
    /// Access control.
    pub access: Option<Access>,
    /// Time within which all processes must be there. 60 seconds by default.
    pub start: Duration,
    /// Interval between two heartbeats of a process. 200 ms by default.
    pub heartbeat: Duration,
    /// Missed heartbeats after which a peer is suspect. 5 by default.
    pub suspect_after: u32,
    /// Missed heartbeats after which it is unreachable, for good. 150 by default: a process that was stopped for less
    /// goes on. Zenoh's own lease is made equally long.
    pub lost_after: u32,
    /// Time that a process whose connection has broken may be away, if it has not said good-bye. Zenoh connects anew,
    /// and lost messages are sent again. The default is 0: it is dead at once. With [`tls`](Self::tls) it is 2
    /// seconds.
    pub reconnect: Duration,
    /// The links above Zenoh. All processes must have the same.
    pub pace: Pace,
}

/// Mutual TLS, by files in PEM: each process shows a certificate, which an authority of the job has signed.
///
/// **Let one thread of Zenoh's do all input and output**: start the program with the environment variable
/// `ZENOH_RUNTIME='(rx:(handover:tx),tx:(worker_threads:1))'`. Zenoh 1.10 reads and writes a TLS connection by two tasks that share
/// the state of rustls without a lock (`UnsafeCell` in its `zenoh-link-tls`). On two threads they race: under load in both directions,
/// a connection breaks now and then (`handshake not complete`), and worse cannot be excluded. On one thread they take turns.
/// A connection that breaks is made anew ([`Config::reconnect`]), and nothing that was accepted is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificates of the authorities that sign the job's.
    pub authority: PathBuf,
    /// The chain of this process's certificate.
    pub certificate: PathBuf,
    /// The key of that.
    pub key: PathBuf,
    /// Whether a certificate must be for the host that is connected to. Without it, any of the authority's will do.
    pub verify_name: bool,
}

impl Config {
    /// Process `number` of the `count` of `job`. It listens at any port, and finds the others by multicast.
    pub fn new(job: impl Into<String>, number: u32, count: u32) -> Self {
        Self {
            job: job.into(),
            number,
            count,
            zenoh: zenoh::Config::default(),
            listen: Vec::new(),
            connect: Vec::new(),
            scouting: true,
            tls: None,
            access: None,
            start: Duration::from_secs(60),
            heartbeat: Duration::from_millis(200),
            suspect_after: 5,
            lost_after: 150,
            reconnect: Duration::ZERO,
            pace: Pace { window: WINDOW, acknowledge: Duration::from_millis(10), ..Pace::default() },
        }
    }

    /// Settings in the environment.
    ///
    /// | variable | value |
    /// |---|---|
    /// | `CHANTER_ZENOH_JOB`, `.._NUMBER`, `.._COUNT` | see the fields; without a job this gives `None` |
    /// | `CHANTER_ZENOH_LISTEN`, `.._CONNECT` | endpoints, with commas between them |
    /// | `CHANTER_ZENOH_SCOUTING` | `0`: no multicast |
    /// | `CHANTER_ZENOH_CA`, `.._CERT`, `.._KEY` | the files for mutual TLS, all of them or none |
    /// | `CHANTER_ZENOH_CONFIG` | a file of Zenoh's, in JSON5, for everything else |
    ///
    /// # Errors
    /// A variable is missing, or says nothing that makes sense; Zenoh does not read its file.
    pub fn from_env() -> Result<Option<Self>, StartError> {
        Self::read(|name| std::env::var(name).ok())
    }

    /// Whether the environment names a job.
    pub(crate) fn is_in_env() -> bool {
        std::env::var_os("CHANTER_ZENOH_JOB").is_some()
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, StartError> {
        let Some(job) = variable("CHANTER_ZENOH_JOB") else { return Ok(None) };
        let number = |name: &'static str| {
            variable(name).and_then(|text| text.parse().ok()).ok_or(StartError::Environment(name))
        };
        let list = |name| -> Vec<String> {
            let text = variable(name).unwrap_or_default();
            text.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect()
        };
        let mut config = Self::new(job, number("CHANTER_ZENOH_NUMBER")?, number("CHANTER_ZENOH_COUNT")?);
        config.listen = list("CHANTER_ZENOH_LISTEN");
        config.connect = list("CHANTER_ZENOH_CONNECT");
        config.scouting = variable("CHANTER_ZENOH_SCOUTING").is_none_or(|text| text != "0");
        let file =
            |name: &'static str| variable(name).map(PathBuf::from).ok_or(StartError::Environment(name));
        let files = ["CHANTER_ZENOH_CA", "CHANTER_ZENOH_CERT", "CHANTER_ZENOH_KEY"];
        if files.iter().any(|name| variable(name).is_some()) {
            let [authority, certificate, key] = files.map(file);
            config.tls =
                Some(Tls { authority: authority?, certificate: certificate?, key: key?, verify_name: true });
        }
        if let Some(file) = variable("CHANTER_ZENOH_CONFIG") {
            config.zenoh = zenoh::Config::from_file(&file)
                .map_err(|error| StartError::Config(format!("Zenoh cannot read {file}: {error}")))?;
        }
        config.check()?;
        Ok(Some(config))
    }

    /// Listens at these endpoints.
    #[must_use]
    pub fn listen<S: Into<String>>(mut self, endpoints: impl IntoIterator<Item = S>) -> Self {
        self.listen = endpoints.into_iter().map(Into::into).collect();
        self
    }

    /// Connects to these endpoints.
    #[must_use]
    pub fn connect<S: Into<String>>(mut self, endpoints: impl IntoIterator<Item = S>) -> Self {
        self.connect = endpoints.into_iter().map(Into::into).collect();
        self
    }

    /// Whether it multicasts.
    #[must_use]
    pub fn scouting(mut self, scouting: bool) -> Self {
        self.scouting = scouting;
        self
    }

    /// Sets that it talks TLS only; see [`Tls`] for the setting that Zenoh needs besides.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self.reconnect = RECONNECT;
        self
    }

    /// Access control.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.access = Some(access);
        self
    }

    pub(crate) fn check(&self) -> Result<(), StartError> {
        let wrong = |why: String| Err(StartError::Config(why));
        if !keys::is_job(&self.job) {
            return wrong(format!(
                "a job cannot be called `{}`: 1 to 64 letters, digits, `-`, `_`, `.`",
                self.job
            ));
        }
        if !(1..=launcher::MOST).contains(&self.count) || self.number >= self.count {
            return wrong(format!(
                "there is no process {} of {}: numbers begin at 0, and at most {} processes make a job",
                self.number,
                self.count,
                launcher::MOST
            ));
        }
        if self.suspect_after == 0 || self.lost_after <= self.suspect_after || self.heartbeat.is_zero() {
            return wrong(
                "a peer is suspect after 1 heartbeat or more, and lost after more than that".to_owned(),
            );
        }
        if self.access.is_some() && self.tls.is_none() {
            return wrong("access goes by the names of certificates: give it TLS".to_owned());
        }
        Ok(())
    }

    /// Zenoh's configuration, for the process that has drawn this.
    pub(crate) fn settings(&self, once: Once) -> Result<zenoh::Config, StartError> {
        let mut settings = self.zenoh.clone();
        let mut set = |key: &str, value: String| {
            let refused =
                |error| StartError::Config(format!("Zenoh does not take {value} for {key}: {error}"));
            settings.insert_json5(key, &value).map_err(refused)
        };
        // A copied configuration has no identity.
        set("id", format!("\"{:x}\"", once.0.max(1)))?;
        if !self.listen.is_empty() {
            set("listen/endpoints", list(&self.listen))?;
        } else if self.tls.is_some() {
            set("listen/endpoints", list(&["tls/[::]:0".to_owned()]))?;
        }
        if !self.connect.is_empty() {
            set("connect/endpoints", list(&self.connect))?;
        }
        set("scouting/multicast/enabled", self.scouting.to_string())?;
        // Processes start at once: the first is tried again soon.
        let retry = r#"{"period_init_ms":100,"period_max_ms":1000,"period_increase_factor":2}"#;
        set("connect/retry", retry.to_owned())?;
        // Nobody waits for room: a frame that does not go at once is lost, and sent again by its link. A lane has
        // room for a window.
        let drop = "transport/link/tx/queue/congestion_control/drop";
        set(&format!("{drop}/wait_before_drop"), "0".to_owned())?;
        set(&format!("{drop}/max_wait_before_drop_fragments"), "0".to_owned())?;
        for lane in ["real_time", "data", "background"] {
            set(&format!("transport/link/tx/queue/size/{lane}"), "16".to_owned())?;
        }
        // This engine decides which processes are dead. Zenoh decides when its connection ends.
        let lease = self.heartbeat.saturating_mul(self.lost_after).as_millis().max(10_000);
        set("transport/link/tx/lease", lease.to_string())?;
        // Foreign frames are not gathered.
        set("transport/link/rx/max_message_size", (16 * EAGER).to_string())?;
        if let Some(tls) = &self.tls {
            let file = |path: &PathBuf| text(&path.to_string_lossy());
            set("transport/link/protocols", list(&["tls".to_owned()]))?;
            set("transport/link/tls/enable_mtls", "true".to_owned())?;
            set("transport/link/tls/root_ca_certificate", file(&tls.authority))?;
            for side in ["listen", "connect"] {
                set(&format!("transport/link/tls/{side}_certificate"), file(&tls.certificate))?;
                set(&format!("transport/link/tls/{side}_private_key"), file(&tls.key))?;
            }
            set("transport/link/tls/verify_name_on_connect", tls.verify_name.to_string())?;
        }
        if let Some(access) = &self.access {
            set("access_control", access.rules(&self.job, self.count))?;
        }
        Ok(settings)
    }
}

/// A string as JSON writes it.
pub(crate) fn text(text: &str) -> String {
    let escaped: String = text
        .chars()
        .map(|sign| match sign {
            '"' | '\\' => format!("\\{sign}"),
            sign if sign.is_control() => format!("\\u{:04x}", sign as u32),
            sign => sign.to_string(),
        })
        .collect();
    format!("\"{escaped}\"")
}

/// A list of strings as JSON writes it.
pub(crate) fn list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|one| text(one)).collect();
    format!("[{}]", texts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(changed: &str, value: Option<&str>) -> Result<Option<Config>, StartError> {
        Config::read(|name| {
            let value = if name == changed {
                value
            } else {
                Some(match name {
                    "CHANTER_ZENOH_JOB" => "heat",
                    "CHANTER_ZENOH_NUMBER" => "1",
                    "CHANTER_ZENOH_COUNT" => "3",
                    "CHANTER_ZENOH_LISTEN" => "tcp/127.0.0.1:0",
                    "CHANTER_ZENOH_CONNECT" => "tcp/127.0.0.1:1,tcp/127.0.0.1:2",
                    "CHANTER_ZENOH_SCOUTING" => "0",
                    _ => return None,
                })
            };
            value.map(str::to_owned)
        })
    }

    #[test]
    fn the_environment_is_read() {
        let config = read("", None).unwrap().unwrap();
        assert_eq!((config.job.as_str(), config.number, config.count), ("heat", 1, 3));
        assert_eq!(config.connect, ["tcp/127.0.0.1:1", "tcp/127.0.0.1:2"]);
        assert!(!config.scouting && config.tls.is_none());
        let settings = config.settings(Once(7)).unwrap();
        assert_eq!(settings.get_json("scouting/multicast/enabled").unwrap(), "false");
        assert_eq!(settings.get_json("transport/link/tx/lease").unwrap(), "30000");
        assert!(read("CHANTER_ZENOH_JOB", None).unwrap().is_none());
        assert!(read("CHANTER_ZENOH_SCOUTING", None).unwrap().unwrap().scouting);
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (name, value) in [("CHANTER_ZENOH_NUMBER", "x"), ("CHANTER_ZENOH_COUNT", "-1")] {
            assert_eq!(read(name, Some(value)).unwrap_err(), StartError::Environment(name));
            assert_eq!(read(name, None).unwrap_err(), StartError::Environment(name));
        }
        for name in ["CHANTER_ZENOH_CA", "CHANTER_ZENOH_CERT", "CHANTER_ZENOH_KEY"] {
            assert!(
                matches!(read(name, Some("file")).unwrap_err(), StartError::Environment(_)),
                "all or none"
            );
        }
        let wrong =
            [("CHANTER_ZENOH_JOB", "a/b"), ("CHANTER_ZENOH_NUMBER", "3"), ("CHANTER_ZENOH_COUNT", "0")];
        for (name, value) in wrong {
            assert!(matches!(read(name, Some(value)).unwrap_err(), StartError::Config(_)), "{name}={value}");
        }
        let missing = read("CHANTER_ZENOH_CONFIG", Some("/nowhere/zenoh.json5")).unwrap_err();
        assert!(missing.to_string().contains("/nowhere/zenoh.json5"), "{missing}");
        let endpoint = Config::new("heat", 0, 1).listen(["nonsense"]).settings(Once(7)).unwrap_err();
        assert!(endpoint.to_string().contains("nonsense"), "{endpoint}");
        let access = Config::new("heat", 0, 1).access(Access::new(|number| format!("p{number}")));
        assert!(access.check().unwrap_err().to_string().contains("TLS"));
    }

    #[test]
    fn paths_are_written_as_json() {
        assert_eq!(text("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
        assert_eq!(list(&["a".to_owned(), "b".to_owned()]), r#"["a","b"]"#);
    }
}
