//! Ages in the format of Kubernetes' tables.

use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

/// Returns an age in at most two units. The second unit is omitted when it no longer matters.
pub fn text(age: Duration) -> String {
    let seconds = age.as_secs();
    let pair = |unit: u64, large: char, part: u64, small: char| match seconds % unit / part {
        0 => format!("{}{large}", seconds / unit),
        rest => format!("{}{large}{rest}{small}", seconds / unit),
    };
    match seconds {
        ..120 => format!("{seconds}s"),
        120..600 => pair(MINUTE, 'm', 1, 's'),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => pair(HOUR, 'h', MINUTE, 'm'),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => pair(DAY, 'd', HOUR, 'h'),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => pair(YEAR, 'y', DAY, 'd'),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_formatted_as_kubectl_does() {
        let rows = [
            (0, "0s"),
            (32, "32s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_000, "3h3m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (63_072_000 + 86_400, "2y1d"),
            (252_288_000, "8y"),
        ];
        for (seconds, expected) in rows {
            assert_eq!(text(Duration::from_secs(seconds)), expected);
        }
    }
}
