//! Checks for valid catalogs that will cause problems: users without upgrades, mirrors without images, consoles without icons.
//!
//! The rules are ours. Upstream's validation accepts all of this on purpose, because production catalogs break the rules.

use std::fmt;
use std::path::Path;

use clap::ValueEnum;
use olm_fbc::load::{self, LoadError, Origin};
use olm_fbc::misspelling::Misspelling;
use olm_fbc::schema::Blob;
use olm_fbc::validate::{self, Checker, Faults};
use serde::Serialize;

use crate::manifest_validator::ManifestValidator;

mod blob;
mod graph;
mod negation;
mod required;

/// Rules of findings. The names are stable: users pass them to `--allow`. The texts are those of `--help`, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// versions from which no upgrades lead to the channel's head
    NoUpgradePath,
    /// edges that lead to a lower version
    Downgrade,
    /// entries that replace what the package does not have
    DanglingReplaces,
    /// skip ranges that include the entry's own version
    SkipRangeOfItself,
    /// a default channel without the newest version
    DefaultChannelBehind,
    /// a default channel whose head is deprecated
    DeprecatedHead,
    /// icons that cannot be shown
    Icon,
    /// related images without a reference
    EmptyRelatedImage,
    /// bundles without related images, which mirrors need
    NoRelatedImages,
    /// bundles without an image to install from
    NoImage,
    /// bundles without data that consoles show
    NoCsv,
    /// ClusterServiceVersions that clusters cannot read
    UnreadableCsv,
    /// CRDs of API versions that clusters no longer accept
    OldCrd,
    /// properties without type or value
    EmptyProperty,
    /// required versions that cannot be parsed
    RequiredRange,
    /// constraints that can never be met
    Constraint,
    /// constraints with `not`, which rarely means what is intended
    Negation,
    /// names that the registry cannot serve
    SchemaName,
    /// bundles larger than clients accept
    LargeBundle,
    /// required ranges without a version of the package in the catalog
    UnmetRange,
    /// schemas, keys, property types and required packages that look like known ones
    Misspelling,
}

impl Rule {
    /// Returns the name, for example `no-upgrade-path`.
    pub fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}

/// A problem that lint found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Rule that is broken.
    pub rule: Rule,
    /// Package; may be empty.
    pub package: String,
    /// Channel, bundle or schema, as `channel "stable"`; empty for the package.
    pub object: String,
    /// Problem and its consequence.
    pub message: String,
    /// File of the document.
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

/// Collects findings for each blob in turn; [`Linter::finish`] adds findings about graphs.
struct Linter<'a> {
    validator: &'a dyn ManifestValidator,
    findings: Vec<Finding>,
    checker: Checker,
    requirements: Vec<required::Requirement>,
    place: Option<Origin>,
}

/// Result of linting a catalog.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Faults that make the catalog invalid. Findings may be consequences of a fault.
    pub faults: Faults,
    /// Problems of a valid catalog, sorted by package, object and rule.
    pub findings: Vec<Finding>,
}

/// Reads and checks the catalog below `root`, valid or not.
pub fn lint(root: &Path, validator: &dyn ManifestValidator) -> Report {
    let mut linter = Linter {
        validator,
        findings: Vec::new(),
        checker: Checker::default(),
        requirements: Vec::new(),
        place: None,
    };
    let result = load::read(root, |blob, origin| -> Result<(), LoadError> {
        match blob {
            Ok(blob) => linter.add(&blob, origin),
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
    fn add(&mut self, blob: &Blob, origin: &Origin) {
        self.place = Some(origin.clone());
        match blob {
            Blob::Bundle(bundle) => {
                self.bundle(bundle);
                self.keep_requirements(bundle);
            }
            Blob::Package(package) => self.package(package),
            Blob::Other(other) => self.other(other),
            Blob::Channel(_) | Blob::Deprecations(_) => {}
        }
        self.checker.add(blob, origin);
    }

    /// Adds a finding about the current blob.
    fn find(&mut self, rule: Rule, package: &str, object: String, message: impl Into<String>) {
        self.findings.push(Finding {
            rule,
            package: package.to_owned(),
            object,
            message: message.into(),
            file: self.place.as_ref().map(ToString::to_string),
        });
    }

    fn finish(mut self) -> Report {
        let validate::Report {
            model,
            faults,
            misspellings,
            ..
        } = std::mem::take(&mut self.checker).report();
        for (misspelling, origin) in &misspellings {
            self.place = Some(origin.clone());
            self.misspelling(misspelling);
        }
        self.required_packages(&model);
        for (name, package) in &model.packages {
            self.graph(name, package);
        }
        self.findings.sort_by(|a, b| {
            (&a.package, &a.object, a.rule, &a.message).cmp(&(&b.package, &b.object, b.rule, &b.message))
        });
        Report {
            faults,
            findings: self.findings,
        }
    }

    fn misspelling(&mut self, misspelling: &Misspelling) {
        let Misspelling { package, object, .. } = misspelling;
        self.find(Rule::Misspelling, package, object.clone(), misspelling.message());
    }
}

#[cfg(test)]
mod tests;
