//! Summaries of ClusterServiceVersions for the controller of copies, and the fields that a copy inherits from
//! its original.
//!
//! A cluster can have tens of thousands of copies. So only their origin and two hashes are kept in memory,
//! computed while they are decoded: one of labels, annotations and spec, one of the status. The hashes of an
//! original are those its copy must have, so copy and original match when their hashes do.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hasher},
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use olm_api::{
    condition::csv as reason,
    labels,
    v1alpha1::{ClusterServiceVersion, ClusterServiceVersionPhase as Phase},
};
use olm_runtime::store::{Projected, Projection};
use serde::Serialize;

/// Summary of a ClusterServiceVersion, as kept in its store.
pub(crate) type Sketch = Projected<CsvSketch>;

/// Summary of a ClusterServiceVersion, besides names, uid and version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CsvSketch {
    /// Hash of the labels, annotations and spec that a copy has or must have.
    pub(crate) content: u64,
    /// Hash of the status that a copy has or must have.
    pub(crate) status: u64,
    pub(crate) role: Role,
}

/// Role of a ClusterServiceVersion: original or copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Role {
    Copy(Copied),
    Original(Box<Original>),
}

/// The identifying fields of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copied {
    /// Namespace of the original.
    pub(crate) from: Box<str>,
    /// True when more than the label identifies the copy, because any user who can update the object can
    /// write that label. Either its status says so, which only OLM writes, or it has no status yet and
    /// everything that OLM creates a copy with. Only such copies are ever deleted.
    pub(crate) is_proven: bool,
}

/// Fields of an original that determine its copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Original {
    /// Its annotation `olm.operatorGroup`.
    pub(crate) group: Option<String>,
    /// Its annotation `olm.operatorNamespace`.
    pub(crate) group_namespace: Option<String>,
    pub(crate) stage: Stage,
    /// Start time of its phase.
    pub(crate) since: Option<Timestamp>,
}

/// Progress of an original, as far as its copies depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No phase was set yet.
    Unseen,
    /// It provides an API that another group provides already.
    Rival,
    /// It does not match its OperatorGroup.
    Unfit,
    /// It is in a transient phase.
    Moving,
    /// It has succeeded or failed.
    Resting,
}

impl Projection for CsvSketch {
    type Object = ClusterServiceVersion;

    fn of(csv: ClusterServiceVersion) -> Self {
        let metadata = &csv.metadata;
        if let Some(copied) = copied(&csv) {
            return Self {
                content: hash(&(csv.labels(), csv.annotations(), &csv.spec)),
                status: hash(&csv.status),
                role: Role::Copy(copied),
            };
        }
        let mut status = csv.status.clone();
        if let Some(status) = &mut status {
            status.reason = Some(reason::COPIED.to_owned());
            status.message = Some(message(&csv.namespace().unwrap_or_default()));
        }
        Self {
            content: hash(&(copied_labels(metadata), copied_annotations(metadata), &csv.spec)),
            status: hash(&status),
            role: Role::Original(Box::new(original(&csv))),
        }
    }
}

impl CsvSketch {
    /// Returns the fields of an original; `None` for a copy.
    pub(crate) fn original(&self) -> Option<&Original> {
        match &self.role {
            Role::Original(original) => Some(original),
            Role::Copy(_) => None,
        }
    }

    /// Returns its fields as a copy; `None` for an original.
    pub(crate) fn copied(&self) -> Option<&Copied> {
        match &self.role {
            Role::Copy(copied) => Some(copied),
            Role::Original(_) => None,
        }
    }
}

/// Copies have the label and never OLM's finalizer. A copy whose label was removed is identified by its
/// status and its annotation.
fn copied(csv: &ClusterServiceVersion) -> Option<Copied> {
    if csv.has_cleanup_finalizer() {
        return None;
    }
    let says_copied = csv.reason() == reason::COPIED;
    let annotated = csv.annotations().get(labels::OPERATOR_NAMESPACE);
    let annotated = annotated.filter(|from| csv.metadata.namespace.as_ref() != Some(*from));
    match csv.labels().get(labels::COPIED_FROM) {
        Some(from) => Some(Copied {
            from: from.as_str().into(),
            is_proven: says_copied || *csv.phase() == Phase::None && annotated == Some(from),
        }),
        None => Some(Copied {
            from: annotated.filter(|_| says_copied)?.as_str().into(),
            is_proven: true,
        }),
    }
}

fn original(csv: &ClusterServiceVersion) -> Original {
    let annotation = |key: &str| csv.annotations().get(key).cloned();
    let since = csv
        .status
        .as_ref()
        .and_then(|status| status.last_transition_time.as_ref());
    Original {
        group: annotation(labels::OPERATOR_GROUP),
        group_namespace: annotation(labels::OPERATOR_NAMESPACE),
        stage: stage(csv),
        since: since.map(|time| time.0),
    }
}

fn stage(csv: &ClusterServiceVersion) -> Stage {
    match csv.phase() {
        Phase::None => Stage::Unseen,
        _ if csv.reason() == reason::INTER_OPERATOR_GROUP_OWNER_CONFLICT => Stage::Rival,
        _ if csv.is_uncopiable() => Stage::Unfit,
        Phase::Succeeded | Phase::Failed => Stage::Resting,
        _ => Stage::Moving,
    }
}

/// Returns the labels of a copy: those of the original without component labels, and its origin.
pub(crate) fn copied_labels(original: &ObjectMeta) -> BTreeMap<String, String> {
    let own = original.labels.clone().unwrap_or_default();
    let mut kept: BTreeMap<String, String> = own
        .into_iter()
        .filter(|(key, _)| !key.starts_with(labels::COMPONENT_PREFIX))
        .collect();
    let from = original.namespace.clone().unwrap_or_default();
    kept.insert(labels::COPIED_FROM.to_owned(), from);
    kept
}

/// Returns the annotations of a copy. The target namespaces are removed, because not every namespace may read
/// them.
pub(crate) fn copied_annotations(original: &ObjectMeta) -> BTreeMap<String, String> {
    let mut kept = original.annotations.clone().unwrap_or_default();
    kept.remove(labels::TARGET_NAMESPACES);
    kept.remove(labels::LAST_APPLIED_CONFIGURATION);
    kept
}

/// Message in the status of copies of an original in this namespace.
pub(crate) fn message(namespace: &str) -> String {
    format!("The operator is running in {namespace} but is managing this namespace")
}

/// Hash of the JSON form, stable during the lifetime of a process. Values that do not serialize are
/// considered equal; API types always serialize.
pub(crate) fn hash(value: &impl Serialize) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(&serde_json::to_vec(value).unwrap_or_default());
    hasher.finish()
}

#[cfg(test)]
mod tests;
