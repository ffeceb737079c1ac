//! One run of `chanter-bench figures`: measured now, or read from the JSON lines of an earlier one.

use std::error::Error;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::Finding;
use crate::measure::Measured;

/// Findings of a run, and the times that stand behind them.
pub(crate) struct Run {
    pub(crate) findings: Vec<Finding>,
    pub(crate) times: Vec<Time>,
}

/// Median time of one operation of a case.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(crate) struct Time {
    pub(crate) bench: String,
    pub(crate) system: String,
    pub(crate) variant: String,
    pub(crate) vps: usize,
    /// Nanoseconds.
    pub(crate) ns_per_op: f64,
}

impl Run {
    pub(crate) fn new(measured: &[Measured], findings: Vec<Finding>) -> Self {
        let times = measured.iter().filter_map(|m| {
            Some(Time {
                bench: m.case.bench.to_owned(),
                system: m.case.system.to_owned(),
                variant: m.case.variant.to_owned(),
                vps: m.case.vps,
                ns_per_op: m.outcome.as_ref().ok()?.ns_per_op,
            })
        });
        Self { findings, times: times.collect() }
    }

    /// Reads the output of `--json FILE`. Lines of other kinds, such as skipped cases, are passed over.
    ///
    /// # Errors
    ///
    /// The file cannot be read, a line is not JSON, or no line is a figure.
    pub(crate) fn read(path: &Path) -> Result<Self, Box<dyn Error>> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut run = Self { findings: Vec::new(), times: Vec::new() };
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let value: Value = serde_json::from_str(line)
                .map_err(|error| format!("{}:{}: {error}", path.display(), number + 1))?;
            if value.get("figure").is_some() {
                run.findings.push(finding(&value).ok_or_else(|| {
                    format!("{}:{}: not a figure as `--json` writes it", path.display(), number + 1)
                })?);
            } else if value.get("ns_per_op").is_some() {
                run.times.push(serde_json::from_value(value)?);
            }
        }
        if run.findings.is_empty() {
            return Err(format!("{}: no figures in it", path.display()).into());
        }
        Ok(run)
    }

    /// Time of the fastest variant of `system`.
    pub(super) fn best(&self, bench: &str, system: &str, vps: usize) -> Option<f64> {
        let mine = |time: &&Time| (&*time.bench, &*time.system, time.vps) == (bench, system, vps);
        self.times.iter().filter(mine).map(|time| time.ns_per_op).min_by(f64::total_cmp)
    }
}

fn finding(value: &Value) -> Option<Finding> {
    let bound = match value.get("bound")?.as_str()? {
        "at most" => "at most",
        "at least" => "at least",
        _ => return None,
    };
    Some(Finding {
        figure: value.get("figure")?.as_str()?.to_owned(),
        value: value.get("value")?.as_f64(),
        floor: value.get("floor")?.as_f64()?,
        holds: value.get("holds")?.as_bool(),
        bound,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str) -> Result<Run, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        std::fs::write(&path, lines).unwrap();
        Run::read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn a_run_is_read_as_it_was_written() {
        let run = read(
            r#"{"bench":"host","system":"tokio","variant":"slow","vps":1,"ns_per_op":90.0,"n":5}
{"bench":"host","system":"tokio","variant":"fast","vps":1,"ns_per_op":60.0,"n":5}
{"bench":"host","system":"go","variant":"","vps":1,"checked":false,"skipped":"no go"}
{"figure":"host / tokio","value":0.5,"floor":0.4,"holds":false,"bound":"at most"}
{"figure":"host / go","value":null,"floor":0.4,"holds":null,"bound":"at most"}
"#,
        )
        .unwrap();
        assert_eq!(run.best("host", "tokio", 1), Some(60.0));
        assert_eq!(run.best("host", "tokio", 2), None);
        let seen: Vec<_> = run.findings.iter().map(|f| (&*f.figure, f.value, f.holds)).collect();
        assert_eq!(seen, [("host / tokio", Some(0.5), Some(false)), ("host / go", None, None)]);
    }

    #[test]
    fn a_file_of_something_else_is_refused_with_its_line() {
        assert!(read("").is_err_and(|why| why.contains("no figures")));
        assert!(read("{}\nnonsense").is_err_and(|why| why.contains(":2:")));
        assert!(read(r#"{"figure":"a","bound":"about"}"#).is_err_and(|why| why.contains(":1:")));
    }
}
