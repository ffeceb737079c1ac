//! Measurements, for people and for machines.

use std::fmt::Write;

/// A row: its samples, one a round.
pub(crate) struct Measured {
    row: &'static str,
    system: String,
    what: String,
    unit: &'static str,
    samples: Vec<f64>,
}

impl Measured {
    pub(crate) fn new(
        row: &'static str,
        system: &str,
        what: &str,
        unit: &'static str,
        samples: Vec<f64>,
    ) -> Self {
        Self { row, system: system.to_owned(), what: what.to_owned(), unit, samples }
    }

    fn median(&self) -> f64 {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => f64::NAN,
            many if many % 2 == 1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
        }
    }

    fn range(&self) -> (f64, f64) {
        let fold = |start, better: fn(f64, f64) -> f64| self.samples.iter().copied().fold(start, better);
        (fold(f64::INFINITY, f64::min), fold(f64::NEG_INFINITY, f64::max))
    }
}

/// A floor, and whether it was reached.
pub(crate) struct Verdict {
    what: &'static str,
    value: f64,
    most: f64,
}

impl Verdict {
    pub(crate) fn all(measured: &[Measured]) -> Vec<Self> {
        let median = |row: &str, system: &str| {
            let found = measured.iter().find(|measured| measured.row == row && measured.system == system);
            found.map(Measured::median)
        };
        let ratio = |row, over, under| Some(median(row, over)? / median(row, under)?);
        let loss = |after, before| Some(1.0 - median("stopped", after)? / median("stopped", before)?);
        let verdict = |what, value: Option<f64>, most| Some(Self { what, value: value?, most });
        let trip = "round-trip";
        let verdicts = [
            verdict(
                "round trip of 1 KB: engine of sockets / Zenoh alone",
                ratio(trip, "sockets", "zenoh"),
                0.4,
            ),
            verdict(
                "round trip of 1 KB: Zenoh under credits / Zenoh alone",
                ratio(trip, "credits", "zenoh"),
                1.25,
            ),
            verdict(
                "round trip of 1 KB: .. / Zenoh alone, between threads",
                ratio(trip, "credits", "zenoh-threads"),
                1.25,
            ),
            verdict(
                "a stopped receiver: what another one loses",
                loss("credits, one is stopped", "credits, all run"),
                0.05,
            ),
            verdict("a killed process is known after, ms", median("killed", "credits"), 10.0),
        ];
        verdicts.into_iter().flatten().collect()
    }

    pub(crate) fn holds(&self) -> bool {
        self.value <= self.most
    }
}

pub(crate) fn table(measured: &[Measured], verdicts: &[Verdict]) -> String {
    let mut text = String::new();
    for one in measured {
        let (least, most) = one.range();
        let _ = writeln!(
            text,
            "{:<11} {:<25} {:>9.2} {:<7} ({:.2} to {:.2}, {} rounds)  {}",
            one.row,
            one.system,
            one.median(),
            one.unit,
            least,
            most,
            one.samples.len(),
            one.what
        );
    }
    text.push('\n');
    for verdict in verdicts {
        let holds = if verdict.holds() { "holds" } else { "FAILS" };
        let _ =
            writeln!(text, "{holds}  {:<60} {:.3}, at most {}", verdict.what, verdict.value, verdict.most);
    }
    text
}

/// A line of JSON a row, then one a floor.
pub(crate) fn json(measured: &[Measured], verdicts: &[Verdict]) -> String {
    let rows = measured.iter().map(|one| {
        serde_json::json!({
            "row": one.row, "system": one.system, "what": one.what, "unit": one.unit,
            "median": one.median(), "samples": one.samples,
        })
    });
    let floors = verdicts.iter().map(|verdict| {
        serde_json::json!({"floor": verdict.what, "value": verdict.value, "most": verdict.most, "holds": verdict.holds()})
    });
    rows.chain(floors).map(|line| format!("{line}\n")).collect()
}
