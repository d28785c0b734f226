//! Installed ClusterServiceVersions as entries of a catalog of their own (`docs/reference/resolution.md`).

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use go_compat::semver::Version;
use kube_core::ResourceExt;
use olm_api::labels::PROPERTIES;
use olm_api::v1alpha1::{ClusterServiceVersion, Subscription as SubscriptionObject, SubscriptionStatus};
use olm_fbc::entry::{BundleEntry, EntryProperty};
use olm_fbc::property::{Gvk, PackageProperty, Typed, kinds};
use serde_json::value::RawValue;

use crate::entry::{Entry, Reader};
use crate::problem::{InstalledCsv, Problem, Subscription};
use crate::work::Work;

/// The installed ClusterServiceVersions cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct InstalledError {
    /// The fault, in upstream's words.
    text: String,
    /// The fault in plain words, with the way out.
    pub way_out: String,
}

const REPLACING: &str = "Replacing";
const DELETING: &str = "Deleting";
const FAILED: &str = "Failed";

/// Parsed annotations of installed ClusterServiceVersions. One problem's annotations are parsed once for all
/// its copies. Those that a simulation creates are parsed each time.
#[derive(Default)]
pub(crate) struct Readings {
    /// Parsed texts by address. The texts are kept, so that no other can get their address.
    known: HashMap<*const str, (Arc<str>, OnceCell<Properties>)>,
    reader: RefCell<Reader>,
}

/// Properties, or the fault of the annotation.
type Properties = Result<Arc<[EntryProperty]>, String>;

impl Readings {
    /// Returns readings for copies of this problem.
    pub(crate) fn new(problem: &Problem) -> Self {
        let annotations = problem.installed.iter().filter_map(|csv| csv.properties.as_ref());
        let known = annotations.map(|text| (Arc::as_ptr(text), (Arc::clone(text), OnceCell::new())));
        Self {
            known: known.collect(),
            reader: RefCell::default(),
        }
    }

    fn properties(&self, annotation: &Arc<str>, work: &Work) -> Properties {
        let read = || {
            work.add_text(annotation);
            parse_annotation(annotation).map(Into::into)
        };
        match self.known.get(&Arc::as_ptr(annotation)) {
            Some((_, known)) => known.get_or_init(read).clone(),
            None => read(),
        }
    }

    /// Returns an entry. Parsed properties are kept as long as the annotation they come from.
    fn entry(&self, csv: &InstalledCsv, bundle: BundleEntry) -> Entry {
        let annotation = csv.properties.as_ref();
        if annotation.is_some_and(|text| self.known.contains_key(&Arc::as_ptr(text))) {
            self.reader.borrow_mut().entry(bundle)
        } else {
            Entry::new(bundle)
        }
    }
}

/// Returns the entries in the order of preference as providers: by package, newest first along `replaces`,
/// then by name.
pub(crate) fn entries(
    problem: &Problem,
    readings: &Readings,
    work: &Work,
) -> Result<Vec<Arc<Entry>>, InstalledError> {
    let csvs: BTreeMap<&str, &InstalledCsv> = problem
        .installed
        .iter()
        .map(|csv| (csv.name.as_str(), csv))
        .collect();
    let successors = successors(problem);
    let mut packages: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for subscription in problem.subscriptions.iter().filter(|s| !s.package.is_empty()) {
        let known = packages.entry(&subscription.installed_csv).or_default();
        known.insert(&subscription.package);
    }
    let mut entries = Vec::new();
    for csv in csvs.values() {
        let failed_forward = problem.operator_group.fail_forward
            && fails_forward(&problem.namespace, csv, &successors)?
            && csv.phase == REPLACING;
        if csv.copied || failed_forward || is_being_replaced(problem, csv, &successors) {
            continue;
        }
        let depth = successor_count(csv, &successors);
        let of_subscriptions = packages.get(csv.name.as_str());
        work.add(1 + csv.owned.len() + csv.required.len());
        let entry = entry(&problem.namespace, csv, of_subscriptions, readings, work)?;
        entries.push((depth, Arc::new(entry)));
    }
    entries.sort_by(|(a_depth, a), (b_depth, b)| {
        (&a.package, a_depth, &a.name).cmp(&(&b.package, b_depth, &b.name))
    });
    Ok(entries.into_iter().map(|(_, entry)| entry).collect())
}

/// Returns the successor of each ClusterServiceVersion, by its name. The last one by name wins.
fn successors(problem: &Problem) -> BTreeMap<&str, &InstalledCsv> {
    let mut replacing: Vec<&InstalledCsv> = problem
        .installed
        .iter()
        .filter(|csv| !csv.replaces.is_empty())
        .collect();
    replacing.sort_by(|a, b| a.name.cmp(&b.name));
    replacing
        .into_iter()
        .map(|csv| (csv.replaces.as_str(), csv))
        .collect()
}

/// Returns true if a new Subscription adopts an installed ClusterServiceVersion: `startingCSV` names it, it is of the package, and it
/// stays. `status` is that of the Subscription, and `subscribed` has the ClusterServiceVersions that other Subscriptions have.
///
/// Otherwise there would be two providers of the same APIs, and a deleted Subscription could not be created again.
pub fn adopts(
    object: &SubscriptionObject,
    status: &SubscriptionStatus,
    csv: &ClusterServiceVersion,
    subscribed: &BTreeSet<String>,
) -> bool {
    let name = csv.name_any();
    let known = [&status.installed_csv, &status.current_csv];
    let is_new = status.install_plan_ref.is_none()
        && known.into_iter().flatten().all(|csv| csv.is_empty())
        && !subscribed.contains(&name);
    let stays = csv.metadata.deletion_timestamp.is_none()
        && ![REPLACING, DELETING].contains(&csv.phase().as_str())
        && !csv.is_copied();
    is_new
        && stays
        && object.spec.starting_csv() == Some(name.as_str())
        && package_of(csv).as_deref() == Some(object.spec.name.as_str())
}

/// Returns the installed ClusterServiceVersions, by package, that a new Subscription adopts if its `startingCSV` names one, by the
/// rule of [`adopts`].
pub(crate) fn adoptable(problem: &Problem) -> BTreeMap<String, BTreeSet<String>> {
    let subscriptions = problem.subscriptions.iter();
    let subscribed: BTreeSet<&String> = subscriptions
        .flat_map(|s| [&s.installed_csv, &s.current_csv])
        .collect();
    let stays = |csv: &&InstalledCsv| !csv.copied && ![REPLACING, DELETING].contains(&csv.phase.as_str());
    let mut adoptable: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for csv in problem.installed.iter().filter(stays) {
        if subscribed.contains(&csv.name) {
            continue;
        }
        if let Some(package) = csv.properties.as_deref().and_then(package_in) {
            let names = adoptable.entry(package.package_name).or_default();
            names.insert(csv.name.clone());
        }
    }
    adoptable
}

/// Returns the package of an installed ClusterServiceVersion; `None` if its annotation names none.
pub fn package_of(csv: &ClusterServiceVersion) -> Option<String> {
    package_in(csv.annotations().get(PROPERTIES)?).map(|package| package.package_name)
}

/// Returns the package in the text of an annotation with properties; `None` if it names none.
pub fn package_in(annotation: &str) -> Option<PackageProperty> {
    package_among(&parse_annotation(annotation).ok()?)
}

/// Returns the package that properties name, the last one if there are several.
fn package_among(properties: &[EntryProperty]) -> Option<PackageProperty> {
    let mut packages = properties.iter().rev().filter(|p| &*p.kind == kinds::PACKAGE);
    packages.find_map(|p| match p.parse() {
        Ok(Typed::Package(package)) => Some(package),
        _ => None,
    })
}

/// Marks the predecessors of Subscriptions' installed versions as replaced, as olm-operator does a moment
/// after it created the successor. At that moment a resolution would otherwise find two operators for the
/// same APIs, one without an owner.
pub fn mark_replaced(installed: &mut [InstalledCsv], subscriptions: &[Subscription]) {
    let owned: BTreeSet<&str> = subscriptions.iter().map(|s| s.installed_csv.as_str()).collect();
    let replaced: BTreeSet<String> = installed
        .iter()
        .filter(|csv| owned.contains(csv.name.as_str()) && !csv.replaces.is_empty())
        .map(|csv| csv.replaces.clone())
        .collect();
    for csv in installed {
        if replaced.contains(&csv.name) && csv.phase != DELETING {
            REPLACING.clone_into(&mut csv.phase);
        }
    }
}

/// Removes the operators that are being replaced: they are gone after a completed step.
pub(crate) fn drop_replaced(problem: &mut Problem) {
    let gone: BTreeSet<String> = {
        let successors = successors(problem);
        let replaced = problem
            .installed
            .iter()
            .filter(|csv| is_being_replaced(problem, csv, &successors));
        replaced.map(|csv| csv.name.clone()).collect()
    };
    problem.installed.retain(|csv| !gone.contains(&csv.name));
}

/// Returns whether the chain of successors ends in a failed ClusterServiceVersion.
fn fails_forward(
    namespace: &str,
    start: &InstalledCsv,
    successors: &BTreeMap<&str, &InstalledCsv>,
) -> Result<bool, InstalledError> {
    let mut seen = BTreeSet::new();
    let mut current = start;
    while let Some(&next) = successors.get(current.name.as_str()) {
        if current.phase != REPLACING {
            let InstalledCsv { name, phase, .. } = current;
            return Err(InstalledError {
                text: format!("csv {namespace}/{name} in phase {phase} instead of Replacing"),
                way_out: format!(
                    "clusterserviceversion {name} in namespace {namespace} has a successor and is in phase {phase}: wait until it is \
                     in phase {REPLACING}, or set spec.upgradeStrategy of the OperatorGroup to Default"
                ),
            });
        }
        if !seen.insert(&current.name) {
            let name = &current.name;
            return Err(InstalledError {
                text: format!("csv {namespace}/{name} has already been seen"),
                way_out: format!(
                    "clusterserviceversion {name} in namespace {namespace} is in a cycle of spec.replaces: correct the field of \
                     one of them"
                ),
            });
        }
        current = next;
    }
    Ok(current.phase == FAILED)
}

/// Returns whether an operator is being replaced, so that it no longer counts. During an upgrade the old
/// version exists beside the new one for a moment. Upstream calls the namespace unsatisfiable then, since
/// both provide the same API. The successor must be healthy and belong to a Subscription.
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
        // Deleting follows Replacing, and lasts until the finalizer has run.
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

/// Returns the entry of a ClusterServiceVersion of a namespace. `packages` are those that its Subscriptions name.
fn entry(
    namespace: &str,
    csv: &InstalledCsv,
    packages: Option<&BTreeSet<&str>>,
    readings: &Readings,
    work: &Work,
) -> Result<Entry, InstalledError> {
    let version = Version::parse_tolerant(&csv.version).unwrap_or(Version::new(0, 0, 0));
    let properties = match &csv.properties {
        Some(annotation) => {
            readings
                .properties(annotation, work)
                .map_err(|cause| InstalledError {
                    text: format!("failed to retrieve properties of csv {:?}: {cause}", csv.name),
                    way_out: format!(
                        "the annotation {PROPERTIES} of clusterserviceversion {} in namespace {namespace} cannot be read: correct \
                         it or remove it; until then OLM resolves nothing in this namespace",
                        csv.name
                    ),
                })?
        }
        None => derived_properties(csv, packages, &version).into(),
    };
    let package = package_among(&properties).map(|package| package.package_name);
    let bundle = BundleEntry {
        name: csv.name.as_str().into(),
        package: package.unwrap_or_default().into(),
        version: Some(version),
        properties,
        provided_apis: csv.owned.clone().into(),
        required_apis: csv.required.clone().into(),
        ..BundleEntry::default()
    };
    Ok(readings.entry(csv, bundle))
}

/// Returns the properties from the spec, and the package of its Subscriptions if they agree on one.
fn derived_properties(
    csv: &InstalledCsv,
    packages: Option<&BTreeSet<&str>>,
    version: &Version,
) -> Vec<EntryProperty> {
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
    if let Some(packages) = packages
        && let (Some(package), 1) = (packages.first(), packages.len())
    {
        let version = if *version == Version::new(0, 0, 0) {
            String::new()
        } else {
            version.to_string()
        };
        let value = json(&[("packageName", &(*package).to_owned()), ("version", &version)]);
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

/// Parses the annotation that a ClusterServiceVersion got from its bundle:
/// `{"properties":[{"type":…,"value":…}]}`.
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
mod tests;
