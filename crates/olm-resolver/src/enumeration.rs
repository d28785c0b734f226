//! Lists of names as parts of a sentence.

use std::fmt::Display;

/// Returns `a`, `a or b`, or `a, b or c`.
pub(crate) fn enumerate(items: &[impl Display], conjunction: &str) -> String {
    let texts: Vec<String> = items.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} {conjunction} {last}", first.join(", ")),
    }
}

/// Returns a limited number of the names, so that a hint stays readable.
pub(crate) fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    const SHOWN: usize = 12;
    let names: Vec<&str> = names.collect();
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(SHOWN) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}
