//! Comparison of the reference page of limits with the code.

use std::time::Duration;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Formats bytes as on the page.
pub fn bytes(bytes: u64) -> String {
    if bytes >= MIB && bytes.is_multiple_of(MIB) {
        format!("{} MiB", bytes / MIB)
    } else {
        format!("{} KiB", bytes / KIB)
    }
}

/// Formats a time as on the page.
pub fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs())
}

/// Asserts that the page has each of `rows`, given as the first cell and the values after it.
///
/// # Panics
/// If a row is missing.
#[track_caller]
pub fn assert_listed(page: &str, rows: &[(&str, Vec<String>)]) {
    for (limit, values) in rows {
        let row = format!("| {limit} | {} |", values.join(" | "));
        assert!(page.contains(&row), "no row {row}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "| Size | 2 KiB | why |\n| Time | 3 s | 4 s |\n";

    fn check(limit: &str, values: &[String]) -> bool {
        std::panic::catch_unwind(|| assert_listed(PAGE, &[(limit, values.to_vec())])).is_ok()
    }

    #[test]
    fn a_figure_without_its_row_is_missed() {
        assert_eq!(bytes(3 << 20), "3 MiB");
        assert!(check("Size", &[bytes(2048)]));
        assert!(check("Time", &[seconds(Duration::from_secs(3)), "4 s".into()]));
        assert!(!check("Size", &[bytes(4096)]));
        assert!(!check("Weight", &[bytes(2048)]));
    }
}
