//! Checks of a bundle before any of its objects is applied.

use olm_api::crd;
use olm_fbc::bundle_files::contradictions;
use serde_json::Value;

use super::content::UnpackedBundle;
use super::error::{UnpackClass, UnpackError};
use crate::object;
use crate::step_kind::StepKind;

/// Maximum length of a label value, in bytes.
const MAX_LABEL_BYTES: usize = 63;

/// Reason why a bundle cannot be installed on any cluster: its class, and a text that names file and object.
pub(crate) type Problem = (UnpackClass, String);

/// Returns all problems of a bundle whose ClusterServiceVersion is `expected` in the catalog.
pub(crate) fn preflight(bundle: &UnpackedBundle, expected: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let found = object::name(&bundle.csv);
    if found != expected {
        let text = format!("it contains ClusterServiceVersion {found}, the catalog names {expected}");
        problems.push((UnpackClass::InvalidManifest, text));
    }
    if found.len() > MAX_LABEL_BYTES {
        // No object that it owns could be created.
        let text = format!(
            "the name of ClusterServiceVersion {found} has {} characters; it becomes a label value, which is limited to {MAX_LABEL_BYTES}",
            found.len()
        );
        problems.push((UnpackClass::Unsupported, text));
    }
    let objects = bundle.objects.iter();
    let objects = objects.map(|file| (file.name.as_str(), &file.object));
    for (file, object) in objects.clone() {
        let text = unsupported(file, object);
        problems.extend(text.map(|text| (UnpackClass::Unsupported, text)));
    }
    let twins = contradictions(objects).into_iter();
    problems.extend(twins.map(|twins| (UnpackClass::InvalidManifest, twins.to_string())));
    problems
}

/// Returns why no cluster takes an object: for its kind, or for the version of a CustomResourceDefinition.
fn unsupported(file: &str, object: &Value) -> Option<String> {
    let (kind, name, api_version) = (
        object::kind(object),
        object::name(object),
        object::api_version(object),
    );
    let (group, version) = object::group_version(api_version);
    match StepKind::of(kind) {
        Some(known) if !known.is_of_group(group) => Some(format!(
            "{file}: {kind}.{group} {name} cannot be part of a bundle: OLM does not support objects of kind {kind} of group {group}; remove samples of custom resources from the manifests folder"
        )),
        None => Some(format!(
            "{file}: {kind} {name} cannot be part of a bundle: OLM does not support objects of kind {kind}"
        )),
        Some(StepKind::CustomResourceDefinition) if version != crd::VERSION => Some(format!(
            "{file}: CustomResourceDefinition {name} has apiVersion {api_version}, which Kubernetes 1.22 and later do not serve; use {}",
            crd::API_VERSION
        )),
        Some(_) => None,
    }
}

/// Runs [`preflight`] and returns one error with the image, if any, and every problem.
///
/// # Errors
/// There is a problem.
pub fn check(bundle: &UnpackedBundle, expected: &str) -> Result<(), UnpackError> {
    let problems = preflight(bundle, expected);
    let Some(&(first, _)) = problems.first() else {
        return Ok(());
    };
    let is_invalid = |(class, _): &Problem| *class == UnpackClass::InvalidManifest;
    let class = if problems.iter().any(is_invalid) {
        UnpackClass::InvalidManifest
    } else {
        first
    };
    let texts: Vec<String> = problems.into_iter().map(|(_, text)| text).collect();
    let origin = match bundle.image.as_str() {
        "" => "content in the catalog".to_owned(),
        image => format!("image `{image}`"),
    };
    Err(UnpackError::new(class, format!("{origin}: {}", texts.join("; "))))
}
