//! What a revision is made from. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt as _;
use olm_api::extension_v1::{
    ClusterExtension, ClusterObjectSet, CollisionProtection, ExtensionConfigType, LifecycleState,
};
use olm_api::labels;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::choose::Chosen;
use crate::apply::revisions::{DesiredRevision, RevisionDecision, decide_revision};
use crate::render::{Bundle, CertificateProvider, Features, Options, RenderError, render};

/// Annotation of a ClusterServiceVersion with the properties of its bundle.
const PROPERTIES: &str = "olm.properties";
/// Fields of a revision that are not made from the bundle change with this number.
const FORM: u32 = 1;

/// Returns the configuration of an extension.
fn inline_config(extension: &ClusterExtension) -> Option<&Value> {
    let config = extension.spec.config.as_ref()?;
    (config.config_type == ExtensionConfigType::Inline)
        .then_some(config.inline.as_ref())
        .flatten()
}

/// Returns a digest of what a revision of the bundle is made from.
pub(super) fn made_from(extension: &ClusterExtension, chosen: &Chosen) -> String {
    let spec = &extension.spec;
    let inputs = json!({
        "program": [env!("CARGO_PKG_VERSION"), FORM],
        "uid": extension.metadata.uid,
        "bundle": [chosen.name, chosen.version, chosen.image, chosen.package],
        "namespace": spec.namespace,
        "config": inline_config(extension),
        "deadline": spec.progress_deadline_minutes,
    });
    hex::encode(Sha256::digest(inputs.to_string()))
}

/// Returns true if the newest revision was made from this.
pub(super) fn is_current(revisions: &[Arc<ClusterObjectSet>], made_from: &str) -> bool {
    let newest = revisions.iter().max_by_key(|revision| revision.spec.revision);
    newest.is_some_and(|revision| {
        revision.spec.lifecycle_state != LifecycleState::Archived
            && revision.metadata.deletion_timestamp.is_none()
            && revision
                .annotations()
                .get(labels::REVISION_MADE_FROM)
                .map(String::as_str)
                == Some(made_from)
    })
}

/// Error: there is no revision of a bundle.
#[derive(Debug, thiserror::Error)]
pub(super) enum RevisionError {
    /// The bundle cannot be rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// An object is too large.
    #[error("{0}")]
    Size(String),
}

/// Compares the objects of a bundle with the newest revision.
///
/// # Errors
/// The bundle cannot be rendered, or an object of it is too large.
pub(super) fn compare(
    extension: &ClusterExtension,
    revisions: &[Arc<ClusterObjectSet>],
    chosen: &Chosen,
    bundle: &Bundle,
    certificates: Option<&CertificateProvider>,
    system_namespace: &str,
) -> Result<RevisionDecision, RevisionError> {
    let spec = &extension.spec;
    let options = Options {
        namespace: &spec.namespace,
        config: inline_config(extension),
        certificates,
        features: Features::ALL,
    };
    let rendered = render(bundle, &options)?;
    let name = extension.name_any();
    let mut annotations = BTreeMap::from([
        (labels::EXTENSION_BUNDLE_NAME.to_owned(), chosen.name.clone()),
        (
            labels::EXTENSION_BUNDLE_VERSION.to_owned(),
            chosen.version.clone(),
        ),
        (
            labels::EXTENSION_BUNDLE_REFERENCE.to_owned(),
            chosen.image.clone(),
        ),
        (labels::EXTENSION_PACKAGE_NAME.to_owned(), chosen.package.clone()),
        (
            labels::REVISION_MADE_FROM.to_owned(),
            made_from(extension, chosen),
        ),
    ]);
    if let Some(properties) = bundle.csv.annotations().get(PROPERTIES) {
        annotations.insert(PROPERTIES.to_owned(), properties.clone());
    }
    let desired = DesiredRevision {
        extension: &name,
        extension_uid: extension.metadata.uid.as_deref().unwrap_or_default(),
        annotations,
        objects: rendered.into_iter().map(|rendered| rendered.object).collect(),
        protection: CollisionProtection::Prevent,
        progress_deadline_minutes: spec.progress_deadline_minutes,
        system_namespace,
    };
    decide_revision(revisions, &desired).map_err(RevisionError::Size)
}
