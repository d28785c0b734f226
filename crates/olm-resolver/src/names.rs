//! Names that were probably meant, looked for within bounds.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use olm_fbc::did_you_mean::did_you_mean;

use crate::catalog::{CatalogKey, Snapshot};

/// Comparisons of names for all explanations of one resolution, and as many for all its advice; one for each pair of names,
/// and one more for each 64 pairs of their letters. A catalog may have more packages than anybody can wait for to be compared
/// with every misspelt name of a namespace.
pub const COMPARED_NAMES: usize = 1_000_000;

/// Longest name that another one is looked for, in bytes. Comparing takes the square of it.
const MAX_NAME: usize = 64;

/// How much may still be compared.
#[derive(Debug)]
pub(crate) struct Names {
    left: Cell<usize>,
    /// Packages that were meant, by catalog and the name given.
    packages: RefCell<BTreeMap<(CatalogKey, String), Option<String>>>,
}

impl Names {
    pub(crate) fn new(budget: usize) -> Self {
        Self {
            left: Cell::new(budget),
            packages: RefCell::default(),
        }
    }

    /// The known name that `word` was probably meant to be. None as well where there is too much to compare: half an answer
    /// would depend on the alphabet.
    pub(crate) fn meant<'n>(&self, word: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
        if word.len() > MAX_NAME {
            return None;
        }
        let mut left = Some(self.left.get());
        let found = did_you_mean(
            word,
            known.take_while(|name| {
                let cost = 1 + word.len() * name.len().min(2 * MAX_NAME) / 64;
                left = left.and_then(|left| left.checked_sub(cost));
                left.is_some()
            }),
        );
        self.left.set(left.unwrap_or(0));
        left.and(found)
    }

    /// The package of a catalog that was probably meant; the same answer each time.
    pub(crate) fn package(&self, key: &CatalogKey, snapshot: &Snapshot, word: &str) -> Option<String> {
        let asked = (key.clone(), word.to_owned());
        let mut packages = self.packages.borrow_mut();
        let found = packages
            .entry(asked)
            .or_insert_with(|| self.meant(word, snapshot.package_names()).map(str::to_owned));
        found.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_compared_than_there_is_time_for() {
        let known = ["etcd", "quay", "vault"];
        let names = Names::new(7);
        assert_eq!(names.meant("etdc", known.into_iter()), Some("etcd"));
        assert_eq!(names.meant(&"x".repeat(MAX_NAME + 1), known.into_iter()), None);
        assert_eq!(names.meant("quai", known.into_iter()), Some("quay"));
        // One is left, which is not enough for all three.
        assert_eq!(names.meant("etdc", known.into_iter()), None);
        assert_eq!(names.meant("etdc", ["etcd"].into_iter()), None);
    }
}
