//! Catalogs in ConfigMaps: the keys that form a catalog, its maximum size, and the hash that identifies its contents.
//!
//! The operator hashes the object in the API server. The server in the catalog's pod hashes the files that the node mounted. It
//! serves only if both hashes agree.

use std::borrow::Cow;

use sha2::{Digest as _, Sha224};

use crate::hash;

/// Key of the list of CustomResourceDefinitions.
pub const CRDS: &str = "customResourceDefinitions";
/// Key of the list of ClusterServiceVersions.
pub const CSVS: &str = "clusterServiceVersions";
/// Key of the list of packages.
pub const PACKAGES: &str = "packages";
/// Keys that are read; other keys of the ConfigMap are ignored.
pub const KEYS: [&str; 3] = [CRDS, CSVS, PACKAGES];
/// Maximum size of the three texts together, in bytes. A Kubernetes ConfigMap can hold one MiB.
pub const MAX_BYTES: usize = 8 << 20;

/// Returns the hash of a catalog's content: the texts under [`KEYS`] and the set of missing keys.
pub fn content_hash<'a>(text: impl Fn(&str) -> Option<Cow<'a, [u8]>>) -> String {
    let mut hasher = Sha224::new();
    for key in KEYS {
        match text(key) {
            None => hasher.update([0]),
            Some(text) => {
                hasher.update([1]);
                hasher.update((text.len() as u64).to_be_bytes());
                hasher.update(&*text);
            }
        }
    }
    hash::base62(&hasher.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_that_differ_have_other_hashes() {
        let of = |texts: [Option<&str>; 3]| {
            content_hash(|key| {
                let at = KEYS.iter().position(|known| *known == key)?;
                Some(Cow::Owned(texts[at]?.as_bytes().to_vec()))
            })
        };
        let all = [
            of([None, None, None]),
            of([Some(""), None, None]),
            of([None, Some(""), None]),
            of([Some("ab"), Some("c"), None]),
            of([Some("a"), Some("bc"), None]),
            of([Some("a"), Some("b"), Some("c")]),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(of([Some("a"), None, None]), of([Some("a"), None, None]));
    }
}
