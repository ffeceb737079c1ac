//! Access control of a job, by the names of certificates.

use std::fmt;
use std::sync::Arc;

use crate::config::text;
use crate::keys;

/// Access control: a certificate with the common name of `n` makes its owner process `n` of a job. Everything else is
/// denied, in both directions.
///
/// Zenoh looks at each message of a connection. The owner of a name may put frames and heartbeats of its own number,
/// declare its own presence, and subscribe to frames for it. So nobody can speak for another process, pass for it, or
/// listen to its frames. A peer without a name of the job is not heard at all.
///
/// Each process has these rules for the peers that are connected to it. A router between them needs the same
/// ([`rules`](Self::rules) gives them in Zenoh's words). It is trusted: it passes messages on under its own name.
#[derive(Clone)]
pub struct Access {
    name: Arc<dyn Fn(u32) -> String + Send + Sync>,
    /// Common names of routers.
    routers: Vec<String>,
}

impl Access {
    /// Process `n` has the common name that `name` says.
    ///
    /// ```
    /// use chanter_zenoh::Access;
    ///
    /// let access = Access::new(|number| format!("heat-{number}"));
    /// ```
    pub fn new(name: impl Fn(u32) -> String + Send + Sync + 'static) -> Self {
        Self { name: Arc::new(name), routers: Vec::new() }
    }

    /// Lets a peer with this common name forward everything of the job, as a router.
    #[must_use]
    pub fn router(mut self, name: impl Into<String>) -> Self {
        self.routers.push(name.into());
        self
    }

    /// Zenoh's `access_control`, in JSON, for a job of this number of processes.
    pub fn rules(&self, job: &str, count: u32) -> String {
        let root = keys::root(job);
        let mut rules = vec![
            // Keys that all may hear: births and deaths.
            rule(
                "all",
                &["ingress", "egress"],
                &["declare_liveliness_subscriber", "liveliness_query", "declare_subscriber"],
                &[format!("{root}/t/**"), format!("{root}/b/**")],
            ),
            // Keys of this process.
            rule(
                "out",
                &["egress"],
                &["put", "liveliness_token", "reply"],
                &[format!("{root}/b/**"), format!("{root}/t/**")],
            ),
            rule("listens", &["egress"], &["declare_subscriber"], &[format!("{root}/f/**")]),
        ];
        let (mut subjects, mut policies) = (Vec::new(), Vec::new());
        for number in 0..count {
            let id = format!("process-{number}");
            rules.push(rule(
                &format!("says-{number}"),
                &["ingress"],
                &["put", "liveliness_token", "reply"],
                &[
                    format!("{root}/f/{number}/**"),
                    format!("{root}/b/{number}/**"),
                    format!("{root}/t/{number}/**"),
                ],
            ));
            rules.push(rule(
                &format!("hears-{number}"),
                &["ingress"],
                &["declare_subscriber"],
                &[format!("{root}/f/*/*/{number}/**")],
            ));
            rules.push(rule(
                &format!("gets-{number}"),
                &["egress"],
                &["put"],
                &[format!("{root}/f/*/*/{number}/**")],
            ));
            let own = ["says", "hears", "gets"].map(|what| format!("{what}-{number}"));
            subjects.push(subject(&id, &(self.name)(number)));
            policies.push(policy(&["all", "out", "listens", &own[0], &own[1], &own[2]], &id));
        }
        if !self.routers.is_empty() {
            let messages = [
                "put",
                "declare_subscriber",
                "liveliness_token",
                "liveliness_query",
                "reply",
                "declare_liveliness_subscriber",
            ];
            rules.push(rule("router", &["ingress", "egress"], &messages, &[format!("{root}/**")]));
        }
        for (number, name) in self.routers.iter().enumerate() {
            let id = format!("router-{number}");
            subjects.push(subject(&id, name));
            policies.push(policy(&["router"], &id));
        }
        format!(
            r#"{{"enabled":true,"default_permission":"deny","rules":[{}],"subjects":[{}],"policies":[{}]}}"#,
            rules.join(","),
            subjects.join(","),
            policies.join(",")
        )
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("first", &(self.name)(0)).field("routers", &self.routers).finish()
    }
}

fn words(words: &[&str]) -> String {
    words.iter().map(|word| text(word)).collect::<Vec<_>>().join(",")
}

fn rule(id: &str, flows: &[&str], messages: &[&str], keys: &[String]) -> String {
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    format!(
        r#"{{"id":{},"permission":"allow","flows":[{}],"messages":[{}],"key_exprs":[{}]}}"#,
        text(id),
        words(flows),
        words(messages),
        words(&keys)
    )
}

fn subject(id: &str, name: &str) -> String {
    format!(r#"{{"id":{},"cert_common_names":[{}]}}"#, text(id), text(name))
}

fn policy(rules: &[&str], subject: &str) -> String {
    format!(r#"{{"rules":[{}],"subjects":[{}]}}"#, words(rules), text(subject))
}
