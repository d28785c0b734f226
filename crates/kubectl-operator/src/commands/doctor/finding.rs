//! What a check says.

use serde::Serialize;

use crate::terminal::{first_line, plain};

/// Findings of one check that are told; more of them are counted.
pub(super) const MAX_FINDINGS: usize = 200;

/// How bad it is, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Severity {
    /// Something does not work.
    Error,
    /// Something waits for somebody, or will not work for long.
    Warning,
    /// Nobody knows, which is not to be taken for fine.
    NotChecked,
}

impl Severity {
    /// Its word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::NotChecked => "not checked",
        }
    }
}

/// Something that is not well, and how it is mended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    pub severity: Severity,
    /// Name of the check.
    pub check: &'static str,
    /// `Kind namespace/name`, or what a check is about where it could not be made.
    pub object: String,
    /// Why it is not well, in a line.
    pub cause: String,
    /// The command or the edit that mends it.
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
        let remedy = "ask for the right to read it, or have somebody run this who has it";
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

    /// Namespace of what it is about; empty where it has none.
    pub(super) fn namespace(&self) -> &str {
        let of_object = self
            .object
            .split_once(' ')
            .and_then(|(_, name)| name.split_once('/'));
        of_object.map_or("", |(namespace, _)| namespace)
    }
}

/// `Kind namespace/name`, in which nothing is obeyed by a terminal.
pub(super) fn object(kind: &str, namespace: &str, name: &str) -> String {
    match namespace {
        "" => format!("{kind} {}", plain(name)),
        namespace => format!("{kind} {}/{}", plain(namespace), plain(name)),
    }
}

/// A name for a command that somebody pastes into a shell. What is no name of Kubernetes' was written by whoever, and is left for
/// the reader to fill in.
pub(super) fn word(name: &str) -> &str {
    match is_name(name) {
        true => name,
        false => "NAME",
    }
}

/// Whether an object can be called so. Others are not asked for: they would be a part of a path.
pub(super) fn is_name(name: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    name.starts_with(|first: char| first.is_ascii_alphanumeric()) && name.chars().all(fits)
}
