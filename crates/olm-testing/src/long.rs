//! Short and long form of tests that could run very long: property tests with many steps, lists of many cases.
//!
//! `cargo xtask test --long` sets [`VARIABLE`] and runs everything. Otherwise a fixed share runs, the same each time: a fifth, unless the
//! test sets another. A line on stderr reports it, and `cargo xtask test` repeats these lines at its end.

use std::io::Write as _;

/// Environment variable that selects the long form if it is not empty.
pub const VARIABLE: &str = "OLM_LONG";
/// Start of the lines that report what was left out.
pub const LINE: &str = "short form:";
/// The short form runs one in this many.
pub const SHARE: usize = 5;

/// True if the long form is selected.
pub fn is_long() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty())
}

/// Returns how many of `all` to run: all, or a fifth and at least one. `what` is their name in the plural.
pub fn count(what: &str, all: usize) -> usize {
    let count = count_in(is_long(), all);
    tell(what, count, all);
    count
}

/// Returns how many of `all` to run if even a fifth takes too long for every run: all of them, or `short`.
pub fn count_or(what: &str, short: u32, all: u32) -> u32 {
    let count = if is_long() { all } else { short };
    tell(what, count as usize, all as usize);
    count
}

/// Returns the items to run, in order: all of them, or every fifth starting with the first.
pub fn pick<T>(what: &str, all: impl IntoIterator<Item = T>) -> Vec<T> {
    every_nth(SHARE, what, all)
}

/// Like [`pick`], with another share if even a fifth takes too long for every run.
pub fn every_nth<T>(share: usize, what: &str, all: impl IntoIterator<Item = T>) -> Vec<T> {
    let all: Vec<T> = all.into_iter().collect();
    let total = all.len();
    let picked = pick_in(is_long(), share, all);
    tell(what, picked.len(), total);
    picked
}

fn pick_in<T>(long: bool, share: usize, all: Vec<T>) -> Vec<T> {
    all.into_iter().step_by(if long { 1 } else { share }).collect()
}

fn count_in(long: bool, all: usize) -> usize {
    if long || all == 0 {
        all
    } else {
        (all / SHARE).max(1)
    }
}

fn tell(what: &str, count: usize, all: usize) {
    if count == all {
        return;
    }
    let line = format!("{LINE} {count} of {all} {what}\n");
    // The test harness hides `eprintln!` of passing tests, so this writes to stderr directly.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_is_at_least_one_and_the_long_form_is_everything() {
        let short: Vec<usize> = [0, 1, 4, 5, 1_000_000].map(|all| count_in(false, all)).to_vec();
        assert_eq!(short, [0, 1, 1, 1, 200_000]);
        assert_eq!(count_in(true, 7), 7);
    }

    #[test]
    fn what_is_picked_is_in_order_and_begins_with_the_first() {
        let all: Vec<u32> = (1..=7).collect();
        assert_eq!(pick_in(false, SHARE, all.clone()), [1, 6]);
        assert_eq!(pick_in(true, SHARE, all.clone()), all);
    }
}
