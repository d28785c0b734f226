//! The short and the long form of tests that could go on for ever: laws with many steps, lists of many cases.
//!
//! `cargo xtask test --long` sets [`VARIABLE`] and everything is done. Otherwise a fixed share is, always the same, a fifth unless the test says another, and a
//! line on stderr says so, which `cargo xtask test` repeats at its end.

use std::io::Write as _;

/// Set and not empty: the long form.
pub const VARIABLE: &str = "OLM_LONG";
/// How the lines begin that tell what was left out.
pub const LINE: &str = "short form:";
/// One in so many is done in the short form.
pub const SHARE: usize = 5;

/// Whether the long form is asked for.
pub fn is_long() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty())
}

/// How many of `all` to do, `what` being their name in the plural: all of them, or a fifth and at least one.
pub fn count(what: &str, all: usize) -> usize {
    let count = count_in(is_long(), all);
    tell(what, count, all);
    count
}

/// How many of `all` to do where even a fifth takes too long for every run: all of them, or `short`.
pub fn count_or(what: &str, short: u32, all: u32) -> u32 {
    let count = if is_long() { all } else { short };
    tell(what, count as usize, all as usize);
    count
}

/// Those of `all` to do, in their order: all of them, or every fifth beginning with the first.
pub fn pick<T>(what: &str, all: impl IntoIterator<Item = T>) -> Vec<T> {
    every_nth(SHARE, what, all)
}

/// The same with a share of its own, where even a fifth takes too long for every run.
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
    // Not `eprintln!`, which the test harness keeps to itself when all is well.
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
