//! Bundles by a Job: the pull that only a node can make, as upstream makes every pull.
//!
//! A kubelet may have credentials, mirrors and names that no pod has. When this process cannot pull an image
//! ([`super::retry::is_for_nodes`]), a Job in the catalog's namespace pulls it: the bundle image is an init
//! container, out of which a static program copies the manifests, and `opm` puts them into a ConfigMap.
//!
//! # Expected flow
//! The unpacker registers a wish ([`UnpackJobs::unpack`]) and waits. The reconciler of the wish's key makes the ConfigMap, the
//! account with its rights, and the Job ([`decide`]). Changes of the Job and of its pods wake both. When the Job is complete the
//! unpacker reads the ConfigMap ([`result`]). The Job goes five minutes after its end, by itself; then the ConfigMap goes, and
//! takes the rest along.
//!
//! # Guarantees
//! - The result serves the catalog whose wish it was, and is in no cache that others read.
//! - A ConfigMap is believed when it is our CatalogSource's, a Job of ours has succeeded, and a pod of that Job told of this very
//!   content at its end; what anybody else put into it, before or after, is told as a failure.
//! - A namespace waits for no more than [`JOBS_OF_A_NAMESPACE`] Jobs at a time, [`JOBS_OF_A_CATALOG_NAMESPACE`] go on in one, and
//!   [`JOBS`] in all; namespaces that wait take turns.
//!
//! Rules: `docs/reference/install-plans.md`.

pub(crate) mod decide;
pub(crate) mod objects;
pub(crate) mod observed;
pub(crate) mod occupant;
pub(crate) mod progress;
pub(crate) mod reconciler;
pub(crate) mod result;
pub(crate) mod triggers;
pub(crate) mod waiting;
pub(crate) mod wishes;

use std::collections::BTreeSet;
use std::time::Duration;

use olm_runtime::NamespacedName;
use sha2::{Digest as _, Sha256};

use crate::stores::unpacks::NAME_LENGTH;

pub(crate) use crate::stores::unpacks::is_name;
pub(crate) use reconciler::UnpackJobReconciler;
pub(crate) use waiting::Waiters;
pub(crate) use wishes::{JobStores, UnpackJobs};

/// Jobs that go on at a time: what one costs us is a task that waits, and a node that cannot pull takes its place for ten minutes.
pub(crate) const JOBS: usize = 4096;
/// Those that one namespace waits for.
pub(crate) const JOBS_OF_A_NAMESPACE: usize = 8;
/// Those in one namespace, whoever waits: of the global catalogs that is everybody.
pub(crate) const JOBS_OF_A_CATALOG_NAMESPACE: usize = 128;

/// A bundle that somebody waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobWish {
    /// The image, by tag or digest.
    pub image: String,
    /// Name of the ClusterServiceVersion the catalog says is in it.
    pub bundle: String,
    /// The CatalogSource that names it; the Job stands in its namespace.
    pub catalog: NamespacedName,
    /// Longest time of the Job; zero for none.
    pub deadline: Duration,
    /// Jobs, by uid, that were over before anybody had this wish: what came of them was told, or cannot be trusted any more.
    pub passed_over: BTreeSet<String>,
    /// Uid of a ConfigMap that stands where the bundle is to go and that no Job can fill: it goes first.
    pub discarded: Option<String>,
}

/// Name of the ConfigMap, Job and rights of an image, the same as upstream's.
pub(crate) fn name_of_image(image: &str) -> String {
    hashed_name(&[image])
}

/// The name where that of the image is taken: two catalogs of a namespace may have the same bundle, and neither is to believe
/// what was made for the other.
pub(crate) fn name_for_catalog(image: &str, catalog: &str) -> String {
    hashed_name(&[image, "\n", catalog])
}

fn hashed_name(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    let mut name: String = hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    name.truncate(NAME_LENGTH);
    name
}

#[cfg(test)]
mod tests;
