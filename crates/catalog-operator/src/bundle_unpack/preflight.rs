//! Checks of a bundle before any of its objects is applied.

use std::fmt;

use olm_api::crd;
use olm_fbc::bundle_files::{Contradiction, contradictions};

use super::content::UnpackedBundle;
use super::error::{UnpackClass, UnpackError};
use crate::object;
use crate::step_kind::StepKind;

/// Maximum length of a label value, in bytes.
const MAX_LABEL_BYTES: usize = 63;

/// Reason why a bundle cannot be installed on any cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The image contains another operator than the catalog claims.
    OtherCsv {
        /// Name in the image.
        found: String,
        /// Name in the catalog.
        expected: String,
    },
    /// The name of the ClusterServiceVersion is too long for a label, so no object owned by it could be
    /// created.
    LongName {
        /// Its name.
        name: String,
    },
    /// A CustomResourceDefinition in a version that no Kubernetes since 1.22 serves.
    CrdNotServed {
        file: String,
        name: String,
        api_version: String,
    },
    /// Two objects with the same name, and different content.
    Twins(Contradiction),
    /// A kind that operators may not contain.
    UnsupportedKind {
        file: String,
        kind: String,
        name: String,
    },
    /// An object of another API group whose kind has the name of a supported one.
    OtherGroup {
        file: String,
        kind: String,
        name: String,
        group: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherCsv { found, expected } => {
                write!(
                    f,
                    "it contains ClusterServiceVersion {found}, the catalog names {expected}"
                )
            }
            Self::LongName { name } => write!(
                f,
                "the name of ClusterServiceVersion {name} has {} characters; it becomes a label value, which is limited to {MAX_LABEL_BYTES}",
                name.len()
            ),
            Self::CrdNotServed {
                file,
                name,
                api_version,
            } => write!(
                f,
                "{file}: CustomResourceDefinition {name} has apiVersion {api_version}, which Kubernetes 1.22 and later do not serve; use {}",
                crd::API_VERSION
            ),
            Self::Twins(twins) => twins.fmt(f),
            Self::UnsupportedKind { file, kind, name } => {
                write!(
                    f,
                    "{file}: {kind} {name} cannot be part of a bundle: OLM does not support objects of kind {kind}"
                )
            }
            Self::OtherGroup {
                file,
                kind,
                name,
                group,
            } => write!(
                f,
                "{file}: {kind}.{group} {name} cannot be part of a bundle: OLM does not support objects of kind {kind} of group {group}; remove samples of custom resources from the manifests folder"
            ),
        }
    }
}

/// Returns all problems of a bundle whose ClusterServiceVersion is `expected` in the catalog.
pub(crate) fn preflight(bundle: &UnpackedBundle, expected: &str) -> Vec<Problem> {
    let found = object::name(&bundle.csv);
    let other = (found != expected).then(|| Problem::OtherCsv {
        found: found.to_owned(),
        expected: expected.to_owned(),
    });
    let files = bundle.objects.iter().filter_map(|file| {
        let (kind, name) = (object::kind(&file.object), object::name(&file.object).to_owned());
        let (group, version) = object::group_version(object::api_version(&file.object));
        match StepKind::of(kind) {
            Some(known) if !known.is_of_group(group) => Some(Problem::OtherGroup {
                file: file.name.clone(),
                kind: kind.to_owned(),
                name,
                group: group.to_owned(),
            }),
            None => Some(Problem::UnsupportedKind {
                file: file.name.clone(),
                kind: kind.to_owned(),
                name,
            }),
            Some(StepKind::CustomResourceDefinition) if version != crd::VERSION => {
                let api_version = object::api_version(&file.object).to_owned();
                Some(Problem::CrdNotServed {
                    file: file.name.clone(),
                    name,
                    api_version,
                })
            }
            Some(_) => None,
        }
    });
    let long = (found.len() > MAX_LABEL_BYTES).then(|| Problem::LongName {
        name: found.to_owned(),
    });
    let objects = bundle
        .objects
        .iter()
        .map(|file| (file.name.as_str(), &file.object));
    let twins = contradictions(objects).into_iter().map(Problem::Twins);
    other.into_iter().chain(long).chain(files).chain(twins).collect()
}

/// Runs [`preflight`] and returns one error with the image, if any, and every problem.
///
/// # Errors
/// There is a problem.
pub fn check(bundle: &UnpackedBundle, expected: &str) -> Result<(), UnpackError> {
    let problems = preflight(bundle, expected);
    if problems.is_empty() {
        return Ok(());
    }
    let class = if problems
        .iter()
        .any(|problem| matches!(problem, Problem::OtherCsv { .. } | Problem::Twins(_)))
    {
        UnpackClass::InvalidManifest
    } else {
        UnpackClass::Unsupported
    };
    let texts: Vec<String> = problems.iter().map(Problem::to_string).collect();
    let origin = match bundle.image.as_str() {
        "" => "content in the catalog".to_owned(),
        image => format!("image `{image}`"),
    };
    Err(UnpackError::new(class, format!("{origin}: {}", texts.join("; "))))
}
