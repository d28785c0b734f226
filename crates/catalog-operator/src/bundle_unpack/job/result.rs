//! The bundle that a Job left in its ConfigMap, if it can be believed. Pure.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use olm_api::v1alpha1::CatalogSource;
use olm_api::{labels, unpacked_bundle};
use olm_oci::{Digest, Reference};
use olm_runtime::NamespacedName;
use serde_json::Value;

use super::super::config_map::decode;
use super::super::content::UnpackedBundle;
use super::super::error::{UnpackClass, UnpackError};
use super::JobWish;
use super::objects::{PULL, runs_the_same};
use super::progress::{config_map_owner, pods_of, proof};

/// What vouches for the content of a ConfigMap.
pub(crate) struct Evidence<'a> {
    /// The key of the wish.
    pub key: &'a NamespacedName,
    /// The catalog that the ConfigMap must be of.
    pub source: &'a CatalogSource,
    /// What a pod of ours runs.
    pub runs: &'a PodSpec,
    /// The Job, which has succeeded.
    pub job: &'a Job,
    /// Pods of the namespace.
    pub pods: &'a [Arc<Pod>],
}

impl Evidence<'_> {
    /// Hash and image id that a pod of the Job gave; none when there is no such pod (any more), or it said nothing.
    pub(crate) fn proof(&self) -> Option<(String, Option<String>)> {
        let pods = pods_of(self.job, self.pods).into_iter();
        let ours = pods.filter(|pod| {
            pod.spec
                .as_ref()
                .is_some_and(|spec| runs_the_same(spec, self.runs))
        });
        ours.into_iter().find_map(|pod| proof(pod, PULL))
    }
}

/// Reads the bundle.
///
/// # Errors
/// The ConfigMap is not what the Job left there for this catalog, or no bundle.
pub(crate) fn read(
    config_map: &Value,
    wish: &JobWish,
    evidence: &Evidence<'_>,
) -> Result<UnpackedBundle, UnpackError> {
    let key = evidence.key;
    let refused = |cause: &str| UnpackError::new(UnpackClass::JobFailed, format!("ConfigMap {key} {cause}"));
    if !is_of_source(config_map, evidence.source) {
        return Err(refused("is not of the CatalogSource that asked for it"));
    }
    let uid = config_map.pointer("/metadata/uid").and_then(Value::as_str);
    let owner = config_map_owner(key, evidence.job).map(|owner| owner.uid.as_str());
    if uid.is_none() || uid != owner {
        return Err(refused("is not the one that its Job was made for"));
    }
    let (hash, image_id) = evidence.proof().ok_or_else(|| {
        refused(
            "is not vouched for: no pod of the Job says what it wrote; --opmImage has to be the opm of this version, and pods may \
             not be changed on their way in",
        )
    })?;
    if unpacked_bundle::content_hash(config_map) != hash {
        return Err(refused("was changed by somebody else than its Job"));
    }
    let image = config_map
        .pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(labels::SOURCE_IMAGE)?.as_str());
    if image != Some(&wish.image) {
        return Err(refused("holds the content of another image"));
    }
    let image = pinned(&wish.image, image_id.as_deref())?;
    let of_image = |error: UnpackError| UnpackError {
        cause: format!("image `{image}`: {}", error.cause),
        ..error
    };
    let bundle = decode(config_map).map_err(of_image)?;
    Ok(UnpackedBundle { image, ..bundle })
}

/// Whether a ConfigMap is owned by this very CatalogSource.
pub(crate) fn is_of_source(config_map: &Value, source: &CatalogSource) -> bool {
    let owners = config_map
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let uid = source.metadata.uid.as_deref();
    uid.is_some()
        && owners
            .into_iter()
            .flatten()
            .any(|owner| owner["kind"] == "CatalogSource" && owner["uid"].as_str() == uid)
}

/// The image by digest: a plan installs what was approved, whatever is behind the tag by then.
fn pinned(image: &str, image_id: Option<&str>) -> Result<String, UnpackError> {
    let malformed = |error: &dyn std::fmt::Display| UnpackError::new(UnpackClass::Malformed, error);
    let reference: Reference = image.parse().map_err(|error| malformed(&error))?;
    if let Some(digest) = reference.digest() {
        return Ok(reference.pinned(digest.clone()).to_string());
    }
    let told = image_id.and_then(|id| id.rsplit_once('@'));
    let digest = told.and_then(|(_, digest)| digest.parse::<Digest>().ok());
    digest.map_or_else(
        || {
            let cause = format!(
                "image `{image}`: the node does not tell its digest; name the image by digest in the catalog"
            );
            Err(UnpackError::new(UnpackClass::JobFailed, cause))
        },
        |digest| Ok(reference.pinned(digest).to_string()),
    )
}
