//! What can be known about a bundle before anything of it is applied.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use olm_api::crd;
use serde_json::Value;

use super::content::{BundleFile, UnpackedBundle};
use super::error::{UnpackClass, UnpackError};
use crate::object;
use crate::step_kind::StepKind;

/// Bytes a label's value takes at most.
const MAX_LABEL_BYTES: usize = 63;

/// Why a bundle cannot be installed, whatever the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The image holds another operator than the catalog says.
    OtherCsv {
        /// What is in the image.
        found: String,
        /// What the catalog says.
        expected: String,
    },
    /// A ClusterServiceVersion whose name is no label: no object that it owns could be made.
    LongName {
        /// Its name.
        name: String,
    },
    /// A CustomResourceDefinition in a form that no Kubernetes since 1.22 takes.
    CrdNotServed {
        /// File it is in.
        file: String,
        /// Its name.
        name: String,
        /// Its `apiVersion`.
        api_version: String,
    },
    /// Two objects of one name: which of them is meant nobody can know.
    Twins {
        /// File the first is in.
        file: String,
        /// File the second is in.
        other: String,
        /// Their kind.
        kind: String,
        /// Their name.
        name: String,
    },
    /// A kind that operators may not bring.
    UnsupportedKind {
        /// File it is in.
        file: String,
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// Something of another API whose kind has the name of one that operators may bring.
    OtherGroup {
        /// File it is in.
        file: String,
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// Its group.
        group: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherCsv { found, expected } => {
                write!(
                    f,
                    "it holds ClusterServiceVersion {found}, the catalog says {expected}"
                )
            }
            Self::LongName { name } => write!(
                f,
                "the name of ClusterServiceVersion {name} has {} characters; every object of the operator is labelled with it, and a label takes {MAX_LABEL_BYTES}",
                name.len()
            ),
            Self::CrdNotServed {
                file,
                name,
                api_version,
            } => write!(
                f,
                "{file}: CustomResourceDefinition {name} has apiVersion {api_version}, which Kubernetes 1.22 and later do not serve; only {} works",
                crd::API_VERSION
            ),
            Self::Twins {
                file,
                other,
                kind,
                name,
            } => write!(
                f,
                "{file} and {other} both hold {kind} {name}, each with another content"
            ),
            Self::UnsupportedKind { file, kind, name } => {
                write!(
                    f,
                    "{file}: {kind} {name} cannot be part of a bundle: operators may not bring objects of kind {kind}"
                )
            }
            Self::OtherGroup {
                file,
                kind,
                name,
                group,
            } => write!(
                f,
                "{file}: {kind}.{group} {name} cannot be part of a bundle: operators may not bring objects of kind {kind} of group {group}; samples of custom resources do not belong in the manifests folder"
            ),
        }
    }
}

/// Everything that is wrong with a bundle whose ClusterServiceVersion the catalog calls `expected`.
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
    let of_csv = other.into_iter().chain(long);
    of_csv.chain(files).chain(twins(bundle)).collect()
}

/// Objects that are one in the cluster, whatever their namespaces say: a plan writes all into its own.
fn twins(bundle: &UnpackedBundle) -> Vec<Problem> {
    let mut seen: BTreeMap<ObjectId<'_>, &BundleFile> = BTreeMap::new();
    let mut twins = Vec::new();
    for file in &bundle.objects {
        let Some(id) = ObjectId::of(&file.object) else {
            continue;
        };
        let first = *seen.entry(id).or_insert(file);
        if !std::ptr::eq(first, file) && content_hash(&first.object) != content_hash(&file.object) {
            twins.push(Problem::Twins {
                file: first.name.clone(),
                other: file.name.clone(),
                kind: id.kind.to_owned(),
                name: id.name.to_owned(),
            });
        }
    }
    twins
}

/// What an object of a plan is known by in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectId<'a> {
    group: &'a str,
    kind: &'a str,
    name: &'a str,
}

impl<'a> ObjectId<'a> {
    /// None for what may stand in a plan more than once: a ServiceAccount is only added to, and authors often bring the one that
    /// the permissions imply anyway.
    pub(crate) fn of(object: &'a Value) -> Option<Self> {
        let kind = object::kind(object);
        let (group, _) = object::group_version(object::api_version(object));
        let is_one = StepKind::of(kind) != Some(StepKind::ServiceAccount);
        is_one.then(|| Self {
            group,
            kind,
            name: object::name(object),
        })
    }
}

impl ObjectId<'_> {
    /// Group, kind and name.
    pub(crate) fn to_owned(self) -> (String, String, String) {
        (self.group.to_owned(), self.kind.to_owned(), self.name.to_owned())
    }
}

/// Of an object without its namespace.
pub(crate) fn content_hash(object: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    let Some(fields) = object.as_object() else {
        return 0;
    };
    for (name, value) in fields {
        name.hash(&mut hasher);
        match value.as_object().filter(|_| name == "metadata") {
            Some(metadata) => metadata
                .iter()
                .filter(|(name, _)| *name != "namespace")
                .for_each(|field| field.hash(&mut hasher)),
            None => value.hash(&mut hasher),
        }
    }
    hasher.finish()
}

/// [`preflight`] as one error that names the image, if there is one, and every problem.
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
        .any(|problem| matches!(problem, Problem::OtherCsv { .. } | Problem::Twins { .. }))
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
