//! Bundles by a Job: pulls that only a node can make, as upstream makes every pull.
//!
//! A kubelet may have credentials, mirrors and names that no pod has. When this process cannot pull an image
//! ([`super::retry::is_for_nodes`]), or Jobs are the only way (`--unpack=job`), a Job in the catalog's namespace
//! pulls it. The bundle image is an init container, from which a static program copies the manifests, and `opm`
//! writes them into a ConfigMap. So such a bundle has at most 1 MiB, compressed.
//!
//! # Expected flow
//! The unpacker registers a request ([`requests`]) and waits for its result ([`waiting`]). The reconciler of the request's key
//! creates the ConfigMap, the account with its rights, and the Job ([`decide`]). Changes of the Job and of
//! its pods trigger both. When the Job is complete the unpacker reads the ConfigMap ([`result`]). The Job
//! expires five minutes after its end. Then the ConfigMap is deleted, and with it the objects that it owns.
//!
//! # Guarantees
//! - The result is only for the catalog of the request, and in no shared cache.
//! - A ConfigMap is trusted when all of these are true ([`result::vouched_image`]). Our CatalogSource owns it.
//!   A Job of ours for exactly this ConfigMap, by uid, has succeeded. A pod of that Job with our programs
//!   reported this exact content at its end. The ConfigMap names the image of the request. If that is a tag,
//!   the node reported the digest. Content that others wrote is reported as a failure.
//!
//! Rules: `docs/reference/install-plans.md`.

pub(crate) mod decide;
pub(crate) mod objects;
pub(crate) mod observed;
pub(crate) mod progress;
pub(crate) mod reconciler;
pub(crate) mod requests;
pub(crate) mod result;
pub(crate) mod triggers;
pub(crate) mod waiting;

use std::collections::BTreeSet;
use std::time::Duration;

use olm_oci::Digest;
use olm_runtime::NamespacedName;

use crate::stores::unpacks::NAME_LENGTH;

pub(crate) use crate::stores::unpacks::is_name;
pub(crate) use reconciler::UnpackJobReconciler;
pub(crate) use requests::UnpackJobs;

/// Request for a bundle that a Job unpacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobRequest {
    /// The image, by tag or digest.
    pub image: String,
    /// Name of the ClusterServiceVersion in it, according to the catalog.
    pub bundle: String,
    /// The CatalogSource that names it; the Job runs in its namespace.
    pub catalog: NamespacedName,
    /// Deadline of the Job; zero for none.
    pub deadline: Duration,
    /// Uids of Jobs that ended before this request: their result was already reported, or is of a former
    /// process.
    pub passed_over: BTreeSet<String>,
}

/// Returns the name of ConfigMap, Job and rights of an image, the same as upstream's.
pub(crate) fn name_of_image(image: &str) -> String {
    let hash = Digest::sha256(image.as_bytes());
    hash.hex().chars().take(NAME_LENGTH).collect()
}

/// Returns the name to use if that of the image is taken: two catalogs of a namespace may have the same
/// bundle, and neither may trust the other's result.
pub(crate) fn name_for_catalog(image: &str, catalog: &str) -> String {
    name_of_image(&format!("{image}\n{catalog}"))
}

#[cfg(test)]
mod tests;
