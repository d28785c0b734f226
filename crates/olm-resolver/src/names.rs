//! Search for names that were probably meant, within bounds.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use olm_fbc::did_you_mean::did_you_mean;

use crate::catalog::{CatalogKey, Snapshot};

/// Comparisons of names for all explanations of one resolution, and as many for all its advice. A pair of
/// names costs one, and one more for each 64 pairs of their letters. A large catalog cannot be compared with
/// every misspelt name of a namespace in reasonable time.
pub const COMPARED_NAMES: usize = 1_000_000;

/// Maximum length of a name that is searched, in bytes. Comparing takes the square of it.
const MAX_NAME: usize = 64;

/// Remaining budget of comparisons.
#[derive(Debug)]
pub(crate) struct Names {
    left: Cell<usize>,
    /// Cached packages that were meant, by catalog and the given name.
    packages: RefCell<BTreeMap<(CatalogKey, String), Option<String>>>,
}

impl Names {
    pub(crate) fn new(budget: usize) -> Self {
        Self {
            left: Cell::new(budget),
            packages: RefCell::default(),
        }
    }

    /// Returns the known name that was probably meant by `word`. Also `None` if there is too much to compare:
    /// a partial result would depend on the alphabet.
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

    /// Returns the package of a catalog that was probably meant, cached.
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
        // One comparison is left, which is not enough for all three.
        assert_eq!(names.meant("etdc", known.into_iter()), None);
        assert_eq!(names.meant("etdc", ["etcd"].into_iter()), None);
    }
}
