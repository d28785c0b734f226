//! What validates but will hurt: catalogs that are formally right and leave users without upgrades, mirrors without images or
//! consoles without icons.
//!
//! Rules are ours; upstream's validation accepts all of this on purpose, as production catalogs break it.

use std::fmt;
use std::path::Path;

use olm_fbc::load::{self, LoadError, Origin};
use olm_fbc::schema::Blob;
use olm_fbc::validate::{Checker, Faults};
use serde::Serialize;

use crate::manifest_validator::{ManifestValidator, ShapeValidator};

mod blob;
mod graph;

/// What a finding is about. The names are stable: they are given to `--allow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// An entry from which no edges lead to the channel's head.
    NoUpgradePath,
    /// An edge that leads to a lower version.
    Downgrade,
    /// An entry replaces a bundle that the catalog does not have.
    DanglingReplaces,
    /// A skip range that holds the entry's own version.
    SkipRangeOfItself,
    /// The default channel does not offer the newest version.
    DefaultChannelBehind,
    /// The head of the default channel is deprecated.
    DeprecatedHead,
    /// The icon cannot be shown.
    Icon,
    /// A related image without reference.
    EmptyRelatedImage,
    /// A bundle without related images cannot be mirrored.
    NoRelatedImages,
    /// Nothing says what the bundle is called or installs.
    NoCsv,
    /// A CustomResourceDefinition of an API version that clusters no longer take.
    OldCrd,
    /// A property without type or value.
    EmptyProperty,
    /// A range of versions that cannot be parsed.
    RequiredRange,
    /// An expression or compound that cannot be a constraint.
    Constraint,
    /// A schema or package name that the registry cannot serve.
    SchemaName,
    /// A bundle larger than clients take.
    LargeBundle,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 16] = [
        Self::NoUpgradePath,
        Self::Downgrade,
        Self::DanglingReplaces,
        Self::SkipRangeOfItself,
        Self::DefaultChannelBehind,
        Self::DeprecatedHead,
        Self::Icon,
        Self::EmptyRelatedImage,
        Self::NoRelatedImages,
        Self::NoCsv,
        Self::OldCrd,
        Self::EmptyProperty,
        Self::RequiredRange,
        Self::Constraint,
        Self::SchemaName,
        Self::LargeBundle,
    ];

    /// Its name, for example `no-upgrade-path`.
    pub fn name(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(name)) => name,
            _ => String::new(),
        }
    }

    /// The rule of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }
}

/// Something that will hurt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which rule it breaks.
    pub rule: Rule,
    /// Package, may be empty.
    pub package: String,
    /// Channel, bundle or schema, as `channel "stable"`; empty for the package.
    pub object: String,
    /// What is wrong, and what comes of it.
    pub message: String,
    /// The document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.package.is_empty() {
            write!(f, "package {:?}, ", self.package)?;
        }
        if !self.object.is_empty() {
            write!(f, "{}, ", self.object)?;
        }
        write!(f, "{}: {}", self.rule.name(), self.message)?;
        match &self.file {
            Some(file) => write!(f, " ({file})"),
            None => Ok(()),
        }
    }
}

/// Collects findings of one blob after the other; [`Linter::finish`] adds those about graphs.
struct Linter<'a> {
    validator: &'a dyn ManifestValidator,
    findings: Vec<Finding>,
    checker: Checker,
    place: Option<Origin>,
}

/// As [`lint_with`], judging expressions by their shape.
///
/// # Errors
/// The catalog does not validate: its faults come first.
pub fn lint(root: &Path) -> Result<Vec<Finding>, Faults> {
    lint_with(root, &ShapeValidator)
}

/// Reads and checks the catalog below `root`. Findings are sorted by package, object and rule.
///
/// # Errors
/// The catalog does not validate: its faults come first.
pub fn lint_with(root: &Path, validator: &dyn ManifestValidator) -> Result<Vec<Finding>, Faults> {
    let mut linter = Linter {
        validator,
        findings: Vec::new(),
        checker: Checker::default(),
        place: None,
    };
    let result = load::read(root, |blob, origin| -> Result<(), LoadError> {
        match blob {
            Ok(blob) => linter.add(blob, origin),
            Err(error) => linter.checker.add_error(&error),
        }
        Ok(())
    });
    if let Err(error) = result {
        linter.checker.add_error(&error);
    }
    linter.finish()
}

impl Linter<'_> {
    fn add(&mut self, blob: Blob, origin: &Origin) {
        self.place = Some(origin.clone());
        match &blob {
            Blob::Bundle(bundle) => {
                self.bundle(bundle);
                self.checker.add_bundle(bundle, origin);
                return;
            }
            Blob::Package(package) => self.package(package),
            Blob::Other(other) => self.other(other),
            Blob::Channel(_) | Blob::Deprecations(_) => {}
        }
        self.checker.add(blob, origin);
    }

    /// A finding about the blob at hand.
    fn find(&mut self, rule: Rule, package: &str, object: String, message: impl Into<String>) {
        self.findings.push(Finding {
            rule,
            package: package.to_owned(),
            object,
            message: message.into(),
            file: self.place.as_ref().map(ToString::to_string),
        });
    }

    fn finish(mut self) -> Result<Vec<Finding>, Faults> {
        self.place = None;
        let model = std::mem::take(&mut self.checker).finish()?;
        for (name, package) in &model.packages {
            self.graph(name, package);
        }
        self.findings.sort_by(|a, b| {
            (&a.package, &a.object, a.rule, &a.message).cmp(&(&b.package, &b.object, b.rule, &b.message))
        });
        Ok(self.findings)
    }
}

#[cfg(test)]
mod tests;
