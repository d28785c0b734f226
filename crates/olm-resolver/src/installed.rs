//! Installed ClusterServiceVersions as entries of a catalog of their own (`docs/reference/resolution.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use go_compat::semver::Version;
use olm_fbc::entry::{BundleEntry, EntryProperty};
use olm_fbc::property::{Gvk, Typed, kinds};
use serde_json::value::RawValue;

use crate::entry::Entry;
use crate::problem::{InstalledCsv, Problem};

/// Why the installed ClusterServiceVersions cannot be read. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstalledError {
    /// The properties annotation is not what it should be.
    #[error("failed to retrieve properties of csv {csv:?}: {cause}")]
    Properties {
        /// The ClusterServiceVersion.
        csv: String,
        /// What is wrong with its annotation.
        cause: String,
    },
    /// With fail forward, what has been replaced must know it.
    #[error("csv {namespace}/{csv} in phase {phase} instead of Replacing")]
    NotReplacing {
        /// Namespace of both.
        namespace: String,
        /// The ClusterServiceVersion that has a successor.
        csv: String,
        /// Its phase.
        phase: String,
    },
    /// With fail forward, replacements that lead back to themselves.
    #[error("csv {namespace}/{csv} has already been seen")]
    ReplacedInCircle {
        /// Namespace of all of them.
        namespace: String,
        /// The ClusterServiceVersion met twice.
        csv: String,
    },
}

const REPLACING: &str = "Replacing";
const DELETING: &str = "Deleting";
const FAILED: &str = "Failed";

/// The entries, in the order in which they are preferred as providers: by package, newest first along `replaces`,
/// then by name.
pub(crate) fn entries(problem: &Problem) -> Result<Vec<Arc<Entry>>, InstalledError> {
    let csvs: BTreeMap<&str, &InstalledCsv> = problem
        .installed
        .iter()
        .map(|csv| (csv.name.as_str(), csv))
        .collect();
    let successors: BTreeMap<&str, &InstalledCsv> = csvs
        .values()
        .filter(|csv| !csv.replaces.is_empty())
        .map(|csv| (csv.replaces.as_str(), *csv))
        .collect();
    let mut entries = Vec::new();
    for csv in csvs.values() {
        let failed_forward = problem.operator_group.fail_forward
            && fails_forward(&problem.namespace, csv, &successors)?
            && csv.phase == REPLACING;
        if csv.copied || failed_forward || is_being_replaced(problem, csv, &successors) {
            continue;
        }
        let depth = successor_count(csv, &successors);
        entries.push((depth, Arc::new(entry(problem, csv)?)));
    }
    entries.sort_by(|(a_depth, a), (b_depth, b)| {
        (&a.package, a_depth, &a.name).cmp(&(&b.package, b_depth, &b.name))
    });
    Ok(entries.into_iter().map(|(_, entry)| entry).collect())
}

/// Whether the chain of successors ends in a failed ClusterServiceVersion.
fn fails_forward(
    namespace: &str,
    start: &InstalledCsv,
    successors: &BTreeMap<&str, &InstalledCsv>,
) -> Result<bool, InstalledError> {
    let mut seen = BTreeSet::new();
    let mut current = start;
    while let Some(&next) = successors.get(current.name.as_str()) {
        if current.phase != REPLACING {
            return Err(InstalledError::NotReplacing {
                namespace: namespace.to_owned(),
                csv: current.name.clone(),
                phase: current.phase.clone(),
            });
        }
        if !seen.insert(&current.name) {
            return Err(InstalledError::ReplacedInCircle {
                namespace: namespace.to_owned(),
                csv: current.name.clone(),
            });
        }
        current = next;
    }
    Ok(current.phase == FAILED)
}

/// During an upgrade the old version lives on beside the new one for a moment. Upstream calls the namespace
/// unsatisfiable then, since both provide the same API; here the old one no longer counts, provided the one
/// that takes its place is healthy and belongs to a Subscription.
fn is_being_replaced(
    problem: &Problem,
    csv: &InstalledCsv,
    successors: &BTreeMap<&str, &InstalledCsv>,
) -> bool {
    let mut current = csv;
    for _ in 0..=successors.len() {
        let Some(&next) = successors.get(current.name.as_str()) else {
            break;
        };
        // Deleting follows Replacing, and lasts until the finalizer is through.
        if ![REPLACING, DELETING].contains(&current.phase.as_str()) {
            return false;
        }
        current = next;
    }
    let owned = || {
        problem
            .subscriptions
            .iter()
            .any(|s| s.installed_csv == current.name)
    };
    current.name != csv.name && current.phase != FAILED && current.phase != REPLACING && owned()
}

fn successor_count(csv: &InstalledCsv, successors: &BTreeMap<&str, &InstalledCsv>) -> usize {
    let mut current = csv;
    for count in 0..successors.len() {
        match successors.get(current.name.as_str()) {
            Some(next) => current = next,
            None => return count,
        }
    }
    successors.len()
}

fn entry(problem: &Problem, csv: &InstalledCsv) -> Result<Entry, InstalledError> {
    let version = Version::parse_tolerant(&csv.version).unwrap_or(Version::new(0, 0, 0));
    let properties = match &csv.properties {
        Some(annotation) => parse_annotation(annotation).map_err(|cause| InstalledError::Properties {
            csv: csv.name.clone(),
            cause,
        })?,
        None => derived_properties(problem, csv, &version),
    };
    let package = properties
        .iter()
        .rev()
        .filter(|p| &*p.kind == kinds::PACKAGE)
        .find_map(|p| match p.parse() {
            Ok(Typed::Package(package)) => Some(package.package_name),
            _ => None,
        });
    Ok(Entry::new(BundleEntry {
        name: csv.name.as_str().into(),
        package: package.unwrap_or_default().into(),
        channel: "".into(),
        default_channel: false,
        version: Some(version),
        replaces: None,
        skips: Arc::default(),
        skip_range: None,
        properties: properties.into(),
        provided_apis: csv.owned.clone().into(),
        required_apis: csv.required.clone().into(),
        bundle_path: None,
        inline: None,
        deprecation: None,
    }))
}

/// What the spec says of itself, and the package its Subscriptions name, if they agree on one.
fn derived_properties(problem: &Problem, csv: &InstalledCsv, version: &Version) -> Vec<EntryProperty> {
    let gvk = |api: &Gvk| {
        json(&[
            ("group", &api.group),
            ("kind", &api.kind),
            ("version", &api.version),
        ])
    };
    let required = |api: &Gvk| {
        json(&[
            ("group", &api.group),
            ("version", &api.version),
            ("kind", &api.kind),
        ])
    };
    let owned: BTreeSet<String> = csv.owned.iter().map(gvk).collect();
    let needed: BTreeSet<String> = csv.required.iter().map(required).collect();
    let mut properties: Vec<EntryProperty> = owned
        .into_iter()
        .map(|value| EntryProperty::new(kinds::GVK, value))
        .collect();
    properties.extend(
        needed
            .into_iter()
            .map(|value| EntryProperty::new(kinds::GVK_REQUIRED, value)),
    );
    let packages: BTreeSet<&String> = problem
        .subscriptions
        .iter()
        .filter(|s| s.installed_csv == csv.name && !s.package.is_empty())
        .map(|s| &s.package)
        .collect();
    if let (Some(package), 1) = (packages.first(), packages.len()) {
        let version = if *version == Version::new(0, 0, 0) {
            String::new()
        } else {
            version.to_string()
        };
        let value = json(&[("packageName", package), ("version", &version)]);
        properties.push(EntryProperty::new(kinds::PACKAGE, value));
    }
    properties
}

fn json(fields: &[(&str, &String)]) -> String {
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{name:?}:{}", serde_json::Value::from(value.as_str())))
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// The annotation a ClusterServiceVersion got from its bundle: `{"properties":[{"type":…,"value":…}]}`.
fn parse_annotation(annotation: &str) -> Result<Vec<EntryProperty>, String> {
    #[derive(serde::Deserialize)]
    struct Projection {
        #[serde(default)]
        properties: Option<Vec<Published>>,
    }
    #[derive(serde::Deserialize)]
    struct Published {
        #[serde(rename = "type", default)]
        kind: String,
        #[serde(default)]
        value: Option<Box<RawValue>>,
    }
    let projection: Projection = serde_json::from_str(annotation).map_err(|error| error.to_string())?;
    let published = projection.properties.unwrap_or_default();
    Ok(published
        .into_iter()
        .map(|p| EntryProperty::new(p.kind, p.value.as_ref().map_or("null", |value| value.get())))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{OperatorGroup, Subscription};

    fn csv(name: &str, replaces: &str, phase: &str) -> InstalledCsv {
        InstalledCsv {
            name: name.into(),
            replaces: replaces.into(),
            phase: phase.into(),
            version: "1.2.3".into(),
            ..InstalledCsv::default()
        }
    }

    fn owner(name: &str, package: &str, installed: &str) -> Subscription {
        Subscription {
            name: name.into(),
            package: package.into(),
            installed_csv: installed.into(),
            ..Subscription::default()
        }
    }

    /// Names of the entries, or the error.
    fn check(fail_forward: bool, subscriptions: &[Subscription], installed: &[InstalledCsv]) -> String {
        let problem = Problem {
            namespace: "ns".into(),
            subscriptions: subscriptions.to_vec(),
            installed: installed.to_vec(),
            operator_group: OperatorGroup {
                fail_forward,
                ..OperatorGroup::default()
            },
            ..Problem::default()
        };
        match entries(&problem) {
            Ok(entries) => entries.iter().map(|e| &*e.name).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn fail_forward_leaves_out_what_the_failed_one_replaces() {
        let chain = [
            csv("v1", "", "Replacing"),
            csv("v2", "v1", "Replacing"),
            csv("v3", "v2", "Failed"),
        ];
        assert_eq!(check(false, &[owner("s", "p", "v3")], &chain), "v2 v1 v3");
        assert_eq!(check(true, &[owner("s", "p", "v3")], &chain), "v3");
        assert_eq!(check(true, &[], &[csv("v1", "", "Failed")]), "v1");
        let ends_well = [csv("v1", "", "Replacing"), csv("v2", "v1", "Succeeded")];
        assert_eq!(check(true, &[], &ends_well), "v2 v1");
    }

    #[test]
    fn what_was_replaced_does_not_count_while_it_is_deleted() {
        for phase in ["Replacing", "Deleting"] {
            let chain = [csv("v1", "", phase), csv("v2", "v1", "Succeeded")];
            assert_eq!(check(false, &[owner("s", "p", "v2")], &chain), "v2", "{phase}");
        }
        let beside = [csv("v1", "", "Succeeded"), csv("v2", "v1", "Pending")];
        assert_eq!(check(false, &[owner("s", "p", "v2")], &beside), "v1 v2");
    }

    #[test]
    fn fail_forward_refuses_chains_it_does_not_understand() {
        let broken = [
            csv("v1", "", "Replacing"),
            csv("v2", "v1", "Failed"),
            csv("v3", "v2", "Failed"),
        ];
        assert_eq!(
            check(true, &[], &broken),
            "csv ns/v2 in phase Failed instead of Replacing"
        );
        let circle = [csv("v1", "v2", "Replacing"), csv("v2", "v1", "Replacing")];
        assert_eq!(check(true, &[], &circle), "csv ns/v1 has already been seen");
    }

    #[test]
    fn a_version_being_replaced_by_a_healthy_one_no_longer_counts() {
        let upgrade = [csv("v1", "", "Replacing"), csv("v2", "v1", "Installing")];
        assert_eq!(check(false, &[owner("s", "p", "v2")], &upgrade), "v2");
        assert_eq!(check(false, &[], &upgrade), "v2 v1", "nobody answers for v2");
        let circle = [csv("v1", "v2", "Replacing"), csv("v2", "v1", "Replacing")];
        assert_eq!(check(false, &[owner("s", "p", "v2")], &circle), "v1 v2");
    }

    #[test]
    fn copies_are_left_out() {
        assert_eq!(
            check(
                false,
                &[],
                &[InstalledCsv {
                    copied: true,
                    ..csv("v1", "", "")
                }]
            ),
            ""
        );
    }

    #[test]
    fn the_package_is_inferred_from_subscriptions_that_agree() {
        let package = |subscriptions: &[Subscription], version: &str| {
            let installed = vec![InstalledCsv {
                version: version.into(),
                ..csv("a", "", "")
            }];
            let problem = Problem {
                subscriptions: subscriptions.to_vec(),
                installed,
                ..Problem::default()
            };
            let entries = entries(&problem).unwrap();
            entries[0]
                .properties
                .iter()
                .map(|p| format!("{} {}", p.kind, p.value))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let inferred = r#"olm.package {"packageName":"x","version":"1.2.3"}"#;
        assert_eq!(package(&[owner("s", "x", "a")], "1.2.3"), inferred);
        assert_eq!(
            package(&[owner("s", "x", "a"), owner("t", "x", "a")], "1.2.3"),
            inferred
        );
        assert_eq!(
            package(&[owner("s", "x", "a")], ""),
            r#"olm.package {"packageName":"x","version":""}"#
        );
        assert_eq!(package(&[], "1.2.3"), "");
        assert_eq!(package(&[owner("s", "x", "b")], "1.2.3"), "");
        assert_eq!(package(&[owner("s", "", "a")], "1.2.3"), "");
        assert_eq!(
            package(&[owner("s", "x", "a"), owner("t", "y", "a")], "1.2.3"),
            ""
        );
    }

    #[test]
    fn the_annotation_replaces_everything_derived() {
        let read = |annotation: &str| {
            let api = Gvk {
                group: "g".into(),
                version: "v1".into(),
                kind: "K".into(),
            };
            let installed = vec![InstalledCsv {
                properties: Some(annotation.into()),
                owned: vec![api],
                ..csv("a", "", "")
            }];
            let subscriptions = vec![owner("s", "x", "a")];
            entries(&Problem {
                installed,
                subscriptions,
                ..Problem::default()
            })
            .map(|entries| {
                entries[0]
                    .properties
                    .iter()
                    .map(|p| p.value.to_string())
                    .collect::<Vec<_>>()
                    .join(" ")
            })
        };
        assert_eq!(read("{}"), Ok(String::new()));
        assert_eq!(read(r#"{"properties":[]}"#), Ok(String::new()));
        assert_eq!(
            read(r#"{"properties":[{"type":"t","value":"x > y"}]}"#),
            Ok(r#""x > y""#.into())
        );
        for bad in ["", "]", r#"{"properties":1}"#, r#"{"properties":["x"]}"#] {
            assert!(
                matches!(read(bad), Err(InstalledError::Properties { .. })),
                "{bad}"
            );
        }
    }
}
