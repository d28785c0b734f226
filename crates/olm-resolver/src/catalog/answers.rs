//! Cached results of tests on all entries of a snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cel::TooCostly;
use crate::predicate::Predicate;

/// Entries that pass a test, or the error of a test that is too costly.
pub(crate) type Found = Result<Arc<[usize]>, TooCostly>;

/// Maximum number of tests with a cached result. Any user can add tests by an annotation of an installed
/// operator, and all namespaces share a snapshot.
pub const REMEMBERED_TESTS: usize = 128;

/// Maximum length of a cached test's texts, in bytes.
pub const REMEMBERED_TEXT: usize = 16 << 10;

/// Maximum number of entries in all cached results, 8 bytes each.
pub const REMEMBERED_ENTRIES: usize = 512 << 10;

/// Cached results, cleared all at once when there are too many.
#[derive(Debug, Default)]
pub(super) struct Answers {
    found: BTreeMap<Predicate, Found>,
    /// Number of entries in all of them.
    entries: usize,
}

impl Answers {
    pub(super) fn get(&self, predicate: &Predicate) -> Option<Found> {
        self.found.get(predicate).cloned()
    }

    /// Caches a result, unless it or its test is very long.
    pub(super) fn remember(&mut self, predicate: &Predicate, found: &Found) {
        let size = found.as_ref().map_or(0, |passing| passing.len());
        if size > REMEMBERED_ENTRIES || predicate.text_len() > REMEMBERED_TEXT {
            return;
        }
        if self.found.len() >= REMEMBERED_TESTS || self.entries + size > REMEMBERED_ENTRIES {
            *self = Answers::default();
        }
        if self.found.insert(predicate.clone(), found.clone()).is_none() {
            self.entries += size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(text: &str) -> Predicate {
        Predicate::Not(vec![Predicate::Label(text.to_owned())])
    }

    fn found(entries: usize) -> Found {
        Ok((0..entries).collect())
    }

    #[test]
    fn there_is_never_more_than_is_remembered_however_many_ask() {
        let mut answers = Answers::default();
        for asked in 0..10 * REMEMBERED_TESTS {
            let (test, found) = (test(&asked.to_string()), found(asked % 3));
            answers.remember(&test, &found);
            assert_eq!(answers.get(&test), Some(found));
            assert!(answers.found.len() <= REMEMBERED_TESTS);
        }
        for asked in 0..10 {
            answers.remember(&test(&format!("large {asked}")), &found(REMEMBERED_ENTRIES / 3));
            let held: usize = answers
                .found
                .values()
                .flatten()
                .map(|passing| passing.len())
                .sum();
            assert!(held <= REMEMBERED_ENTRIES && held == answers.entries, "{held}");
        }
    }

    #[test]
    fn very_long_tests_and_answers_are_not_remembered() {
        let mut answers = Answers::default();
        let long = test(&"x".repeat(REMEMBERED_TEXT));
        answers.remember(&long, &found(1));
        answers.remember(&test("all"), &found(REMEMBERED_ENTRIES + 1));
        assert_eq!((answers.get(&long), answers.get(&test("all"))), (None, None));
        // The same result again counts once.
        for _ in 0..3 {
            answers.remember(&test("some"), &found(REMEMBERED_ENTRIES / 2));
        }
        assert_eq!(answers.entries, REMEMBERED_ENTRIES / 2);
    }

    #[test]
    fn the_page_of_limits_has_these_figures() {
        use crate::requirement::{MAX_CONSTRAINT_SIZE, MAX_REQUIREMENTS};
        let page = include_str!("../../../../docs/reference/limits.md");
        for (limit, value) in [
            ("Requirements of one bundle", MAX_REQUIREMENTS.to_string()),
            (
                "Size of one `olm.constraint`",
                format!("{} KiB", MAX_CONSTRAINT_SIZE >> 10),
            ),
            ("Work for one namespace", crate::work::MAX_WORK.to_string()),
            (
                "Work for trying changes that may help",
                crate::advice::SHARED_WORK.to_string(),
            ),
        ] {
            let row = format!("| {limit} | {value} |");
            assert!(page.contains(&row), "{row}");
        }
    }
}
