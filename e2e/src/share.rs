//! A smaller share than [`olm_testing::long::pick`] takes, for what takes a minute each.

use std::io::Write as _;

use olm_testing::long;

/// Those of `all` to do, in their order: in the long form all of them, else one in `share` beginning with the first.
pub fn one_in<T>(share: usize, what: &str, all: impl IntoIterator<Item = T>) -> Vec<T> {
    let all: Vec<T> = all.into_iter().collect();
    let total = all.len();
    if long::is_long() {
        return all;
    }
    let picked: Vec<T> = all.into_iter().step_by(share).collect();
    let line = format!("{} {} of {total} {what}\n", long::LINE, picked.len());
    // Not `eprintln!`, which the test harness keeps to itself when all is well.
    let _ = std::io::stderr().write_all(line.as_bytes());
    picked
}
