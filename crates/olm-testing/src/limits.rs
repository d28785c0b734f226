//! A page of the reference that lists the limits of a file of code.

use std::time::Duration;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Bytes as the page has them.
pub fn bytes(bytes: u64) -> String {
    if bytes >= MIB && bytes.is_multiple_of(MIB) {
        format!("{} MiB", bytes / MIB)
    } else {
        format!("{} KiB", bytes / KIB)
    }
}

/// A time as the page has it.
pub fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs())
}

/// Fails unless `rows`, each a name and its values, are all public constants and fields of `source` in their order, `sets` of
/// them left out, and the page has each row.
///
/// # Panics
/// When one is missing.
#[track_caller]
pub fn assert_listed(page: &str, source: &str, sets: &[&str], rows: &[(&str, Vec<String>)]) {
    let known: Vec<&str> = rows.iter().map(|(name, _)| *name).collect();
    let mut named = public_names(source);
    named.retain(|name| !sets.contains(name));
    assert_eq!(named, known, "the test knows every limit");
    for (name, values) in rows {
        let row = format!("| `{name}` | {} |", values.join(" | "));
        assert!(page.contains(&row), "no row {row}");
    }
}

/// Names of the public constants and fields in code before its tests.
fn public_names(source: &str) -> Vec<&str> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines()
        .filter_map(|line| line.trim().strip_prefix("pub "))
        .filter_map(|line| line.strip_prefix("const ").unwrap_or(line).split_once(": "))
        .map(|(name, _)| name)
        // No functions.
        .filter(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
        const PRIVATE: u64 = 1;
        pub const ONE: u64 = 2048;
        pub struct Limits {
            pub time: Duration,
        }
        impl Limits {
            pub const SET: Self = Self {};
            pub fn of(other: u64) -> Self {}
        }
        #[cfg(test)]
        pub const OF_TESTS: u64 = 1;
    ";
    const PAGE: &str = "| `ONE` | 2 KiB | why |\n| `time` | 3 s | 4 s |\n";

    fn check(page: &str, names: &[&str]) -> bool {
        let values = [
            vec![bytes(2048)],
            vec![seconds(Duration::from_secs(3)), "4 s".into()],
        ];
        let rows: Vec<_> = names.iter().copied().zip(values).collect();
        std::panic::catch_unwind(|| assert_listed(page, SOURCE, &["SET"], &rows)).is_ok()
    }

    #[test]
    fn every_public_figure_has_a_row() {
        assert_eq!(public_names(SOURCE), ["ONE", "time", "SET"]);
        assert_eq!(bytes(3 << 20), "3 MiB");
        assert!(check(PAGE, &["ONE", "time"]));
    }

    #[test]
    fn a_figure_without_a_row_is_missed() {
        assert!(!check(PAGE, &["ONE"]));
        assert!(!check("| `ONE` | 2 KiB |", &["ONE", "time"]));
    }
}
