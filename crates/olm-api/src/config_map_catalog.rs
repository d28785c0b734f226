//! Catalogs in ConfigMaps: which keys make one, how large it may be, and the hash that tells its contents apart.
//!
//! The operator hashes what the API server holds, the server in the catalog's pod what the node mounted: only when both agree
//! does it serve.

use std::borrow::Cow;

use sha2::{Digest as _, Sha224};

use crate::hash;

/// Key of the list of CustomResourceDefinitions.
pub const CRDS: &str = "customResourceDefinitions";
/// Key of the list of ClusterServiceVersions.
pub const CSVS: &str = "clusterServiceVersions";
/// Key of the list of packages.
pub const PACKAGES: &str = "packages";
/// The keys that are read; whatever else the ConfigMap has is nobody's concern.
pub const KEYS: [&str; 3] = [CRDS, CSVS, PACKAGES];
/// Bytes of the three texts together. A ConfigMap of Kubernetes has room for one MiB.
pub const MAX_BYTES: usize = 8 << 20;

/// Hash of a catalog's content: of the texts under [`KEYS`], and of which of them are missing.
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
