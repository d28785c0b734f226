//! Tests on a single bundle that print as upstream does in its messages (`docs/reference/resolution.md`).
//! [`Entry::meets`](crate::entry::Entry::meets) evaluates them.

use std::fmt;

use go_compat::quote;
use go_compat::semver::Range;
use olm_fbc::property::Gvk;

use crate::cel::Rule;

/// A test on one bundle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Predicate {
    /// Has an `olm.gvk` property with this API.
    ProvidesApi(Gvk),
    /// Belongs to this package, by an `olm.package` property or by its catalog.
    Package(String),
    /// Has a version within the range, by an `olm.package` property or its own.
    VersionInRange(Range),
    /// Has this `olm.label`.
    Label(String),
    /// All parts hold for the same bundle; without parts, true.
    All(Vec<Predicate>),
    /// Some part holds; without parts, false.
    Any(Vec<Predicate>),
    /// No part holds; without parts, true.
    Not(Vec<Predicate>),
    /// The rule holds for the properties; with its author's message, which may be empty.
    Cel(Rule, String),
    /// The test, with its author's message for users if it cannot be met. Texts omit it, as upstream's do.
    WithMessage(String, Box<Predicate>),
}

impl Predicate {
    /// Returns the bytes of all its texts together, plus one for each part.
    pub(crate) fn text_len(&self) -> usize {
        let of_parts = |parts: &[Predicate]| parts.iter().map(Predicate::text_len).sum();
        let texts: usize = match self {
            Predicate::ProvidesApi(Gvk { group, version, kind }) => group.len() + version.len() + kind.len(),
            Predicate::Package(text) | Predicate::Label(text) => text.len(),
            Predicate::VersionInRange(range) => range.as_str().len(),
            Predicate::All(parts) | Predicate::Any(parts) | Predicate::Not(parts) => of_parts(parts),
            Predicate::Cel(rule, message) => rule.text().len() + message.len(),
            Predicate::WithMessage(message, test) => message.len() + test.text_len(),
        };
        texts + 1
    }

    /// Returns its author's messages for users: its own first, then those of its parts.
    pub fn messages(&self) -> Vec<&str> {
        match self {
            Predicate::Cel(_, message) if !message.is_empty() => vec![message],
            Predicate::WithMessage(message, test) => {
                let inner = test.messages();
                std::iter::once(message.as_str()).chain(inner).collect()
            }
            Predicate::All(parts) | Predicate::Any(parts) | Predicate::Not(parts) => {
                parts.iter().flat_map(Predicate::messages).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Predicate::ProvidesApi(Gvk { group, version, kind }) => {
                write!(
                    f,
                    "providing an API with group: {group}, version: {version}, kind: {kind}"
                )
            }
            Predicate::Package(package) => write!(f, "with package: {package}"),
            Predicate::VersionInRange(range) => write!(f, "with version in range: {}", range.as_str()),
            Predicate::Label(label) => write!(f, "with label: {label}"),
            Predicate::All(parts) => join(f, parts, " and "),
            Predicate::Any(parts) => join(f, parts, " or "),
            // Upstream prints no leading "not"; its users match these texts word for word.
            Predicate::Not(parts) => join(f, parts, " and not "),
            Predicate::Cel(rule, message) => {
                let (rule, message) = (quote(rule.text()), quote(message));
                write!(f, "with constraint: {rule} and message: {message}")
            }
            Predicate::WithMessage(_, test) => write!(f, "{test}"),
        }
    }
}

fn join(f: &mut fmt::Formatter<'_>, parts: &[Predicate], separator: &str) -> fmt::Result {
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            f.write_str(separator)?;
        }
        write!(f, "{part}")?;
    }
    Ok(())
}
