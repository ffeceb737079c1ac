//! Times on the command line.

use std::time::Duration;

/// Fractions are allowed; a day is as good as for ever.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds")?;
    if !(0.0..=86_400.0).contains(&seconds) {
        return Err("not between 0 and 86400 seconds".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// The same, but not none.
pub(crate) fn some_seconds(text: &str) -> Result<Duration, String> {
    let some = seconds(text)?;
    if some.is_zero() { Err("not more than 0 seconds".into()) } else { Ok(some) }
}
