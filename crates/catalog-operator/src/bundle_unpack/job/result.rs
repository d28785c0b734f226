//! Decides whether the bundle in a ConfigMap belongs to a catalog and can be trusted. No I/O.

use std::sync::Arc;

use olm_api::v1alpha1::CatalogSource;
use olm_api::{labels, unpacked_bundle};
use olm_oci::{Digest, Reference};
use olm_runtime::NamespacedName;
use serde_json::Value;

use super::super::config_map::decode;
use super::super::content::UnpackedBundle;
use super::super::error::{UnpackClass, UnpackError};
use super::JobRequest;
use super::progress::pods_of;
use crate::object;
use crate::stores::unpacks::{Programs, Proof, UnpackJob, UnpackPod};

/// Evidence for the content of a ConfigMap.
pub(crate) struct Evidence<'a> {
    /// The key of the request.
    pub key: &'a NamespacedName,
    /// The catalog that the ConfigMap must belong to.
    pub source: &'a CatalogSource,
    /// The programs of our pods.
    pub runs: &'a Programs,
    /// The Job, which has succeeded.
    pub job: &'a UnpackJob,
    /// Pods labelled with the key.
    pub pods: &'a [Arc<UnpackPod>],
}

impl Evidence<'_> {
    /// True when a pod of the Job has reported what it wrote; such a pod may not exist (any more).
    pub(crate) fn has_proof(&self) -> bool {
        self.proofs().next().is_some()
    }

    /// Returns the reports of the Job's pods. A Job may have created several, and any may have been the last
    /// writer.
    fn proofs(&self) -> impl Iterator<Item = &Proof> {
        let ours = pods_of(self.job, self.pods).into_iter();
        ours.filter(|pod| pod.programs == *self.runs)
            .filter_map(|pod| pod.proof.as_ref())
    }
}

/// Returns the image of the bundle in a ConfigMap, by digest.
///
/// # Errors
/// The ConfigMap is not the Job's result for this catalog.
pub(crate) fn vouched_image(
    config_map: &Value,
    request: &JobRequest,
    evidence: &Evidence<'_>,
) -> Result<String, UnpackError> {
    let key = evidence.key;
    let refused = |cause: &str| UnpackError::new(UnpackClass::JobFailed, format!("ConfigMap {key} {cause}"));
    if !is_of_source(config_map, evidence.source) {
        return Err(refused("does not belong to the CatalogSource that requested it"));
    }
    let uid = object::metadata_text(config_map, "uid");
    if uid.is_none() || uid != evidence.job.config_map.as_deref() {
        return Err(refused("is not the ConfigMap that the Job was created for"));
    }
    if !evidence.has_proof() {
        return Err(refused(
            "cannot be verified: no pod of the Job reports what it wrote; --opmImage must be the opm of this version, and webhooks must not change its pods",
        ));
    }
    let hash = unpacked_bundle::content_hash(config_map);
    let Some(proof) = evidence.proofs().find(|proof| *proof.hash == *hash) else {
        return Err(refused("was changed by another client than the Job"));
    };
    let image = config_map
        .pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(labels::SOURCE_IMAGE)?.as_str());
    if image != Some(&request.image) {
        return Err(refused("has the content of a different image"));
    }
    pinned(&request.image, proof.image_id.as_deref())
}

/// A trusted bundle of a Job.
#[derive(Debug)]
pub(crate) struct VouchedBundle {
    /// The image, by digest.
    pub image: String,
    pub config_map: Value,
}

impl VouchedBundle {
    /// Decodes the bundle; slow if it is large.
    ///
    /// # Errors
    /// It is no bundle.
    pub(crate) fn read(self) -> Result<UnpackedBundle, UnpackError> {
        let image = self.image;
        match decode(&self.config_map) {
            Ok(bundle) => Ok(UnpackedBundle { image, ..bundle }),
            Err(error) => Err(UnpackError {
                cause: format!("image `{image}`: {}", error.cause),
                ..error
            }),
        }
    }
}

/// True when a ConfigMap is owned by exactly this CatalogSource, by uid.
pub(crate) fn is_of_source(config_map: &Value, source: &CatalogSource) -> bool {
    let mut owners = object::owner_references(config_map).iter();
    let uid = source.metadata.uid.as_deref();
    uid.is_some() && owners.any(|owner| owner["kind"] == "CatalogSource" && owner["uid"].as_str() == uid)
}

/// True when the result can go into an existing ConfigMap for the catalog `source`. Plans refer to the content of
/// upstream's ConfigMaps, which have no label of ours, so these are only used empty.
pub(crate) fn is_usable(config_map: &Value, source: &CatalogSource) -> bool {
    let metadata = &config_map["metadata"];
    let label = &metadata["labels"][labels::BUNDLE_UNPACK_REF];
    let is_labelled = label.is_string() && *label == metadata["name"];
    let is_empty = ["data", "binaryData"].iter().all(|field| {
        let entries = config_map.get(*field).and_then(Value::as_object);
        entries.is_none_or(serde_json::Map::is_empty)
    });
    !is_leaving(config_map) && is_of_source(config_map, source) && (is_labelled || is_empty)
}

/// True when a ConfigMap is being deleted.
pub(crate) fn is_leaving(config_map: &Value) -> bool {
    object::metadata_text(config_map, "deletionTimestamp").is_some()
}

/// Returns the image by digest: a plan installs the approved content, even if the tag moves.
fn pinned(image: &str, image_id: Option<&str>) -> Result<String, UnpackError> {
    let malformed = |error: &dyn std::fmt::Display| UnpackError::new(UnpackClass::Malformed, error);
    let reference: Reference = image.parse().map_err(|error| malformed(&error))?;
    if let Some(digest) = reference.digest() {
        return Ok(reference.pinned(digest.clone()).to_string());
    }
    let reported = image_id.and_then(|id| id.rsplit_once('@'));
    let digest = reported.and_then(|(_, digest)| digest.parse::<Digest>().ok());
    digest.map_or_else(
        || {
            let cause =
                format!("image `{image}`: the node does not report its digest; use a digest in the catalog");
            Err(UnpackError::new(UnpackClass::JobFailed, cause))
        },
        |digest| Ok(reference.pinned(digest).to_string()),
    )
}
