//! Memory of a snapshot.

use std::collections::HashSet;
use std::sync::Arc;

use super::Snapshot;

/// Approximate bytes of an entry, with its names and its places in the indexes.
const ENTRY_BYTES: usize = 512;

impl Snapshot {
    /// Returns the approximate bytes in memory: those of each entry, and of each list of properties, which entries
    /// share. Properties count twice, since they are parsed. Cached test results have a limit of their own.
    pub fn held(&self) -> usize {
        let mut seen = HashSet::new();
        let lists = self.entries.iter().map(|entry| &entry.properties);
        let lists = lists.filter(|list| seen.insert(Arc::as_ptr(list)));
        let texts = lists
            .flat_map(|list| list.iter())
            .map(|property| property.value.len());
        self.entries.len() * ENTRY_BYTES + 2 * texts.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use olm_fbc::entry::{BundleEntry, EntryProperty};

    use super::*;

    #[test]
    fn a_list_of_properties_counts_once_in_however_many_channels() {
        let large = EntryProperty::new("olm.label", "x".repeat(1_000));
        let of = |lists: [Arc<[EntryProperty]>; 2]| {
            let entries = lists
                .into_iter()
                .enumerate()
                .map(|(number, properties)| BundleEntry {
                    name: format!("a.v{number}").into(),
                    properties,
                    ..BundleEntry::default()
                });
            Snapshot::new(entries).held()
        };
        let list: Arc<[EntryProperty]> = [large.clone()].into();
        assert_eq!(of([Arc::clone(&list), list]), 2 * ENTRY_BYTES + 2_000);
        assert_eq!(
            of([[large.clone()].into(), [large].into()]),
            2 * ENTRY_BYTES + 4_000
        );
    }
}
