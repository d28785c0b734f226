//! Rules about packages that bundles require from their own catalog.

use std::collections::{BTreeMap, BTreeSet};

use go_compat::semver::{Range, Version};
use olm_fbc::did_you_mean::did_you_mean;
use olm_fbc::load::Origin;
use olm_fbc::property::{PackageRequired, Typed};
use olm_fbc::schema::Bundle;
use olm_fbc::validate::{Model, PackageModel};
use serde_json::Value;

use super::{Linter, Rule};

/// Maximum number of requirements of a catalog that are checked.
const MAX_REQUIREMENTS: usize = 20_000;
/// Maximum number of packages that are compared with an unknown name.
const MAX_COMPARED: usize = 10_000;
/// Maximum number of versions of a package that a finding lists.
const MAX_VERSIONS: usize = 5;

/// Requirement of a bundle for another package.
pub(super) struct Requirement {
    package: String,
    bundle: String,
    origin: Option<Origin>,
    required: PackageRequired,
}

impl Linter<'_> {
    /// Keeps the requirements of a bundle until all packages are known.
    pub(super) fn keep_requirements(&mut self, bundle: &Bundle) {
        let mut found = Vec::new();
        for property in &bundle.properties {
            match property.parse() {
                Ok(Typed::PackageRequired(required)) => found.push(required),
                Ok(Typed::Constraint(value)) => packages_of(&value, &mut found),
                _ => {}
            }
        }
        let room = MAX_REQUIREMENTS.saturating_sub(self.requirements.len());
        for required in found.into_iter().take(room) {
            self.requirements.push(Requirement {
                package: bundle.package.clone(),
                bundle: bundle.name.clone(),
                origin: self.place.clone(),
                required,
            });
        }
    }

    /// Reports unmet requirements. A missing package, and its versions, may be in another catalog. But a name that resembles a
    /// package of this catalog is probably a misspelling, and a package is rarely spread over catalogs.
    pub(super) fn required_packages(&mut self, model: &Model) {
        let mut known: BTreeMap<PackageRequired, Option<(Rule, String)>> = BTreeMap::new();
        for requirement in std::mem::take(&mut self.requirements) {
            let required = requirement.required;
            let problem = known
                .entry(required)
                .or_insert_with_key(|required| problem(required, model));
            if let Some((rule, problem)) = problem {
                self.place = requirement.origin;
                let object = format!("bundle {:?}", requirement.bundle);
                self.find(*rule, &requirement.package, object, problem.clone());
            }
        }
        self.place = None;
    }
}

/// Collects the packages that a constraint cannot do without.
fn packages_of(constraint: &Value, found: &mut Vec<PackageRequired>) {
    if let Some(package) = constraint.get("package") {
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        found.push(PackageRequired {
            package_name: text("packageName"),
            version_range: text("versionRange"),
        });
    }
    let parts = constraint["all"]["constraints"].as_array();
    for part in parts.into_iter().flatten() {
        packages_of(part, found);
    }
}

fn problem(required: &PackageRequired, model: &Model) -> Option<(Rule, String)> {
    let PackageRequired {
        package_name: name,
        version_range: range,
    } = required;
    let Some(package) = model.packages.get(name) else {
        let names = model.packages.keys().map(String::as_str);
        let meant = did_you_mean(name, names.take(MAX_COMPARED))?;
        let message =
            format!("it needs package {name:?}, which the catalog does not have: did you mean {meant:?}?");
        return Some((Rule::Misspelling, message));
    };
    let range_parsed = Range::parse(range).ok()?;
    let versions = versions(package);
    if versions.iter().any(|version| range_parsed.contains(version)) {
        return None;
    }
    Some((
        Rule::UnmetRange,
        format!(
            "it needs package {name:?} in range {range:?}, and the catalog has {}",
            listed(&versions)
        ),
    ))
}

fn versions(package: &PackageModel) -> BTreeSet<&Version> {
    let bundles = package.bundles.values();
    bundles
        .filter_map(|bundle| Some(&bundle.version.as_ref()?.version))
        .collect()
}

/// Returns a list such as `2.0.0 and 1.0.0`, the newest first.
fn listed(versions: &BTreeSet<&Version>) -> String {
    let newest = versions.iter().rev().take(MAX_VERSIONS);
    let mut words: Vec<String> = newest.map(ToString::to_string).collect();
    match versions.len() - words.len() {
        0 => {}
        more => words.push(format!("{more} older")),
    }
    match words.pop() {
        None => "no version of it".to_owned(),
        Some(last) if words.is_empty() => last,
        Some(last) => format!("{} and {last}", words.join(", ")),
    }
}
