//! A finding of a check.

use kube::{Resource, ResourceExt as _};
use serde::Serialize;

use crate::terminal::{Mark, first_line, full_name, plain};

/// Maximum number of findings per check; the rest is counted.
pub(super) const MAX_FINDINGS: usize = 200;

/// Severity of a finding, the most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Severity {
    /// Something does not work.
    Error,
    /// Something waits for a user, or will stop working soon.
    Warning,
    /// Unknown, because the check could not run.
    NotChecked,
    /// It does no harm, and a user may remove it.
    Note,
}

impl Severity {
    /// Returns the severity of an object with this mark; `None` if it is as it should be.
    pub(super) fn of(mark: Mark) -> Option<Self> {
        match mark {
            Mark::Fine => None,
            Mark::Waits => Some(Self::Warning),
            Mark::Bad => Some(Self::Error),
        }
    }

    /// Returns the severity as text.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::NotChecked => "not checked",
            Self::Note => "note",
        }
    }
}

/// A problem and its remedy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    pub severity: Severity,
    /// Name of the check.
    pub check: &'static str,
    /// `Kind namespace/name`, or the subject of a check that could not run.
    pub object: String,
    /// Cause of the problem, in one line.
    pub cause: String,
    /// Command or edit that fixes it.
    pub remedy: String,
}

impl Finding {
    pub(super) fn error(object: String, cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Severity::Error, object, cause, remedy)
    }

    pub(super) fn warning(object: String, cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Severity::Warning, object, cause, remedy)
    }

    pub(super) fn not_checked(object: String, cause: impl Into<String>) -> Self {
        let remedy = "request permission to read it, or let a user with that permission run this command";
        Self::new(Severity::NotChecked, object, cause, remedy)
    }

    pub(super) fn new(
        severity: Severity,
        object: String,
        cause: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            severity,
            check: "",
            object,
            cause: first_line(&cause.into()),
            remedy: remedy.into(),
        }
    }

    /// Returns the namespace of the object; empty if it has none.
    pub(super) fn namespace(&self) -> &str {
        let of_object = self
            .object
            .split_once(' ')
            .and_then(|(_, name)| name.split_once('/'));
        of_object.map_or("", |(namespace, _)| namespace)
    }
}

/// Returns `Kind namespace/name` without control characters for the terminal.
pub(super) fn object(kind: &str, namespace: &str, name: &str) -> String {
    format!("{kind} {}", full_name(&plain(namespace), &plain(name)))
}

/// Returns `Kind namespace/name` of an object.
pub(super) fn about<K: Resource<DynamicType = ()>>(found: &K) -> String {
    let namespace = found.namespace().unwrap_or_default();
    object(&K::kind(&()), &namespace, &found.name_any())
}

/// Returns `NAME -n NAMESPACE` of an object, for a suggested command.
pub(super) fn at<K: Resource<DynamicType = ()>>(found: &K) -> String {
    let namespace = found.namespace().unwrap_or_default();
    format!("{} -n {}", word(&found.name_any()), word(&namespace))
}

/// Returns a name for a suggested command. A text that is no Kubernetes name becomes `NAME`, because it may be made up to run in
/// a shell.
pub(super) fn word(name: &str) -> &str {
    match is_name(name) {
        true => name,
        false => "NAME",
    }
}

/// Returns true if an object can have this name. Other texts are never requested, because they could change the path of a
/// request.
fn is_name(name: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    name.starts_with(|first: char| first.is_ascii_alphanumeric()) && name.chars().all(fits)
}
