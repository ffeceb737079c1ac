//! Dates for people, in UTC: those of the access log and of directory listings.

use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A moment in the Gregorian calendar.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) struct Moment {
    year: i64,
    /// Month of the year, from 1.
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
}

impl Moment {
    /// The moment, in UTC, of a number of seconds since 1970.
    pub(crate) fn from_unix(seconds: i64) -> Moment {
        let days = seconds.div_euclid(86_400);
        let rest = seconds.rem_euclid(86_400) as u32;
        // Days to a date, counting in eras of 400 years that begin on the first of March, so that
        // the leap day is the last of a year (H. Hinnant, "chrono-compatible date algorithms").
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Moment {
            year: era * 400 + year_of_era + i64::from(month <= 2),
            month: month as u32,
            day: day as u32,
            hour: rest / 3_600,
            minute: rest / 60 % 60,
            second: rest % 60,
        }
    }

    /// As the combined log format writes it: `10/Oct/2000:13:55:36 +0000`.
    pub(crate) fn for_log(self) -> String {
        let Moment { year, day, hour, minute, second, .. } = self;
        let month = MONTHS[self.month as usize - 1];
        format!("{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000")
    }

    /// As a listing writes it: `2000-10-10 13:55`.
    pub(crate) fn for_listing(self) -> String {
        let Moment { year, month, day, hour, minute, .. } = self;
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}")
    }
}

/// Whole seconds since 1970; negative before. Times that no calendar needs are cut off.
pub(crate) fn unix_seconds(time: SystemTime) -> i64 {
    const FAR: u64 = 1 << 40;
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_secs().min(FAR) as i64,
        Err(before) => -(before.duration().as_secs().min(FAR) as i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        for (seconds, log, listing) in [
            (0, "01/Jan/1970:00:00:00 +0000", "1970-01-01 00:00"),
            (971_186_136, "10/Oct/2000:13:55:36 +0000", "2000-10-10 13:55"),
            (951_782_400, "29/Feb/2000:00:00:00 +0000", "2000-02-29 00:00"),
            (4_107_542_399, "28/Feb/2100:23:59:59 +0000", "2100-02-28 23:59"),
            (4_107_542_400, "01/Mar/2100:00:00:00 +0000", "2100-03-01 00:00"),
            (-1, "31/Dec/1969:23:59:59 +0000", "1969-12-31 23:59"),
        ] {
            assert_eq!(Moment::from_unix(seconds).for_log(), log);
            assert_eq!(Moment::from_unix(seconds).for_listing(), listing);
        }
    }

    #[test]
    fn agrees_with_the_dates_of_http() {
        // Two ways of counting, one calendar: every 37th hour and a bit, to the year 2400.
        for seconds in (0..13_569_465_600_i64).step_by(133_337) {
            let time = UNIX_EPOCH + std::time::Duration::from_secs(seconds as u64);
            let http = httpdate::fmt_http_date(time); // Tue, 10 Oct 2000 13:55:36 GMT
            let ours = Moment::from_unix(seconds).for_log();
            let expect =
                format!("{}/{}/{}:{} +0000", &http[5..7], &http[8..11], &http[12..16], &http[17..25]);
            assert_eq!(ours, expect);
        }
    }
}
