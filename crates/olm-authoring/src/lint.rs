//! Checks for valid catalogs that will cause problems: users without upgrades, mirrors without images, consoles without icons.
//!
//! The rules are ours. Upstream's validation accepts all of this on purpose, because production catalogs break the rules.

use std::fmt;
use std::path::Path;

use olm_fbc::load::{self, LoadError, Origin};
use olm_fbc::misspelling::Misspelling;
use olm_fbc::schema::Blob;
use olm_fbc::validate::{self, Checker, Faults};
use serde::{Serialize, Serializer};

use crate::manifest_validator::{ManifestValidator, ShapeValidator};

mod blob;
mod graph;
mod negation;
mod required;

/// Rules of findings. The names are stable: users pass them to `--allow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// An entry has no upgrade path to the channel's head.
    NoUpgradePath,
    /// An edge leads to a lower version.
    Downgrade,
    /// An entry replaces a bundle that the catalog does not have.
    DanglingReplaces,
    /// A skip range contains the entry's own version.
    SkipRangeOfItself,
    /// The default channel does not offer the newest version.
    DefaultChannelBehind,
    /// The head of the default channel is deprecated.
    DeprecatedHead,
    /// The icon cannot be displayed.
    Icon,
    /// A related image without reference.
    EmptyRelatedImage,
    /// A bundle without related images, which cannot be mirrored.
    NoRelatedImages,
    /// A bundle without image.
    NoImage,
    /// A bundle without a CSV or its metadata.
    NoCsv,
    /// A ClusterServiceVersion that does not decode.
    UnreadableCsv,
    /// A CustomResourceDefinition of an API version that clusters no longer accept.
    OldCrd,
    /// A property without type or value.
    EmptyProperty,
    /// A range of versions that cannot be parsed.
    RequiredRange,
    /// An expression or compound that cannot be a constraint.
    Constraint,
    /// A constraint with `not`.
    Negation,
    /// A schema or package name that the registry cannot serve.
    SchemaName,
    /// A bundle larger than clients accept.
    LargeBundle,
    /// A required range without a matching version of the package in the catalog.
    UnmetRange,
    /// An unknown schema, key or property type that resembles a known one, or a required package that resembles one of the
    /// catalog.
    Misspelling,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 21] = [
        Self::NoUpgradePath,
        Self::Downgrade,
        Self::DanglingReplaces,
        Self::SkipRangeOfItself,
        Self::DefaultChannelBehind,
        Self::DeprecatedHead,
        Self::Icon,
        Self::EmptyRelatedImage,
        Self::NoRelatedImages,
        Self::NoImage,
        Self::NoCsv,
        Self::UnreadableCsv,
        Self::OldCrd,
        Self::EmptyProperty,
        Self::RequiredRange,
        Self::Constraint,
        Self::Negation,
        Self::SchemaName,
        Self::LargeBundle,
        Self::UnmetRange,
        Self::Misspelling,
    ];

    /// Returns the name, for example `no-upgrade-path`.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoUpgradePath => "no-upgrade-path",
            Self::Downgrade => "downgrade",
            Self::DanglingReplaces => "dangling-replaces",
            Self::SkipRangeOfItself => "skip-range-of-itself",
            Self::DefaultChannelBehind => "default-channel-behind",
            Self::DeprecatedHead => "deprecated-head",
            Self::Icon => "icon",
            Self::EmptyRelatedImage => "empty-related-image",
            Self::NoRelatedImages => "no-related-images",
            Self::NoImage => "no-image",
            Self::NoCsv => "no-csv",
            Self::UnreadableCsv => "unreadable-csv",
            Self::OldCrd => "old-crd",
            Self::EmptyProperty => "empty-property",
            Self::RequiredRange => "required-range",
            Self::Constraint => "constraint",
            Self::Negation => "negation",
            Self::SchemaName => "schema-name",
            Self::LargeBundle => "large-bundle",
            Self::UnmetRange => "unmet-range",
            Self::Misspelling => "misspelling",
        }
    }

    /// Returns a short description for lists of rules.
    pub fn summary(self) -> &'static str {
        match self {
            Self::NoUpgradePath => "versions from which no upgrades lead to the channel's head",
            Self::Downgrade => "edges that lead to a lower version",
            Self::DanglingReplaces => "entries that replace what the package does not have",
            Self::SkipRangeOfItself => "skip ranges that include the entry's own version",
            Self::DefaultChannelBehind => "a default channel without the newest version",
            Self::DeprecatedHead => "a default channel whose head is deprecated",
            Self::Icon => "icons that cannot be shown",
            Self::EmptyRelatedImage => "related images without a reference",
            Self::NoRelatedImages => "bundles without related images, which mirrors need",
            Self::NoImage => "bundles without an image to install from",
            Self::NoCsv => "bundles without data that consoles show",
            Self::UnreadableCsv => "ClusterServiceVersions that clusters cannot read",
            Self::OldCrd => "CRDs of API versions that clusters no longer accept",
            Self::EmptyProperty => "properties without type or value",
            Self::RequiredRange => "required versions that cannot be parsed",
            Self::Constraint => "constraints that can never be met",
            Self::Negation => "constraints with `not`, which rarely means what is intended",
            Self::SchemaName => "names that the registry cannot serve",
            Self::LargeBundle => "bundles larger than clients accept",
            Self::UnmetRange => "required ranges without a version of the package in the catalog",
            Self::Misspelling => {
                "schemas, keys, property types and required packages that look like known ones"
            }
        }
    }

    /// Returns the rule with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
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

/// Does the same as [`lint_with`], checking only the shape of expressions.
pub fn lint(root: &Path) -> Report {
    lint_with(root, &ShapeValidator)
}

/// Reads and checks the catalog below `root`, valid or not.
pub fn lint_with(root: &Path, validator: &dyn ManifestValidator) -> Report {
    let mut linter = Linter {
        validator,
        findings: Vec::new(),
        checker: Checker::default(),
        requirements: Vec::new(),
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
                self.keep_requirements(bundle);
                self.checker.add_bundle(bundle, origin);
                return;
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
