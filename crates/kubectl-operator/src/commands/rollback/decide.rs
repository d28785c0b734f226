//! Decides how an operator is rolled back to an older version. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{anyhow, bail};
use kube::ResourceExt as _;
use olm_api::labels::{
    GENERATED_BY, UPGRADE_APPROVE, UPGRADE_HOLD, UPGRADE_STOP_AFTER_FAILURE, UPGRADE_WINDOW,
};
use olm_api::v1alpha1::{
    Approval, ClusterServiceVersion, ClusterServiceVersionPhase as Phase, Subscription, SubscriptionSpec,
};
use olm_resolver::entry::Entry;
use olm_resolver::hold::parse_range;
use serde::Deserialize as _;
use serde_json::Value;

use crate::catalogs::Bundle;
use crate::commands::uninstall::Removal;
use crate::terminal::plain;
use crate::writer::subject;

/// Annotations with which OLM approves plans of a Manual Subscription.
const POLICIES: [&str; 3] = [UPGRADE_APPROVE, UPGRADE_WINDOW, UPGRADE_STOP_AFTER_FAILURE];

/// A rollback.
#[derive(Debug)]
pub(super) struct Rollback {
    /// ClusterServiceVersion to install.
    pub target: String,
    /// The Subscription to create.
    pub subscription: Subscription,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// CustomResourceDefinitions by name, each with its versions.
type Definitions = BTreeMap<String, BTreeSet<String>>;

/// Returns the version to go back to, as the user names it or as the name of a ClusterServiceVersion.
///
/// # Errors
/// There is no failed upgrade, or no version before it.
pub(super) fn wanted(removal: &Removal, name: &str, to: Option<&str>) -> anyhow::Result<String> {
    if removal.subscription.is_none() {
        bail!(
            "cannot roll back {name}: it has no Subscription; install the version that you want with `install`"
        );
    }
    if let Some(to) = to {
        return Ok(to.to_owned());
    }
    let Some(newest) = removal.csvs.last() else {
        bail!("cannot roll back {name}: none of its versions is installed; choose a version with --to");
    };
    if *newest.phase() == Phase::Succeeded {
        bail!(
            "cannot roll back {name}: {} has succeeded, and no newer version is installed; to stay there use `hold`, to go back to an older version use --to",
            newest.name_any()
        );
    }
    let before = match removal.csvs.as_slice() {
        [] | [_] => newest.spec.replaces().map(str::to_owned),
        // Versions in between never succeeded: then OLM would have deleted the oldest.
        [oldest, ..] => Some(oldest.name_any()),
    };
    before.ok_or_else(|| {
        anyhow!(
            "cannot roll back {name}: {} replaces no version, so there is nothing to go back to; choose a version with --to",
            newest.name_any()
        )
    })
}

/// Decides how to roll back to an entry of the catalog.
///
/// # Errors
/// The rollback would lose data, or the version is installed already.
pub(super) fn decide(removal: &Removal, entry: &Entry, bundle: &Bundle) -> anyhow::Result<Rollback> {
    let target = entry.name.to_string();
    let Some(before) = &removal.subscription else {
        bail!("cannot roll back to {target}: there is no Subscription");
    };
    if let [only] = removal.csvs.as_slice()
        && only.name_any() == target
    {
        bail!("cannot roll back to {target}: it is the version that is installed");
    }
    if removal.has_cleanup() {
        bail!(
            "cannot roll back to {target}: the operator deletes its custom resources when it is removed (spec.cleanup of its ClusterServiceVersions); set spec.cleanup.enabled to false first"
        );
    }
    let mut notes = removal.notes.clone();
    stored_versions_stay(removal, &target, bundle, &mut notes)?;
    let subscription = subscription(before, entry, &mut notes);
    if let Some(newest) = removal.csvs.last() {
        notes.push(format!(
            "the operator does not run until {target} is installed; it must understand the custom resources that {} wrote",
            newest.name_any()
        ));
    }
    Ok(Rollback {
        target,
        subscription,
        notes,
    })
}

/// Checks that the older version has all versions of the definitions in which objects are stored.
fn stored_versions_stay(
    removal: &Removal,
    target: &str,
    bundle: &Bundle,
    notes: &mut Vec<String>,
) -> anyhow::Result<()> {
    let known = definitions(&bundle.objects);
    let csv = removal.csvs.iter().find(|csv| csv.name_any() == target);
    let described = match (csv, &bundle.csv) {
        (Some(csv), _) => described(csv),
        (None, Some(csv)) => {
            let csv = ClusterServiceVersion::deserialize(csv);
            csv.map(|csv| described(&csv)).unwrap_or_default()
        }
        (None, None) => Definitions::new(),
    };
    for definition in &removal.definitions {
        let (name, status) = (
            &definition.name,
            definition.crd.as_ref().and_then(|crd| crd.status.as_ref()),
        );
        let stored = status.and_then(|status| status.stored_versions.clone());
        let lost = |has: Option<&BTreeSet<String>>| {
            let mut lost = stored.clone().unwrap_or_default();
            lost.retain(|version| has.is_none_or(|has| !has.contains(version)));
            lost.join(", ")
        };
        let (lost, is_known) = match bundle.objects.is_empty() {
            // A definition that the older version does not have is not changed.
            false if !known.contains_key(name) => continue,
            true if !described.is_empty() && !described.contains_key(name) => continue,
            false => (lost(known.get(name)), true),
            true => (lost(described.get(name)), false),
        };
        match (lost.as_str(), is_known) {
            ("", _) => {}
            (lost, true) => bail!(
                "cannot roll back to {target}: objects of CustomResourceDefinition {name} are stored in {lost}, which {target} does not have; migrate them first, see status.storedVersions"
            ),
            (lost, false) => notes.push(format!(
                "the catalog does not serve the definitions of {target}; if its CustomResourceDefinition {name} lacks version {lost}, in which objects are stored, OLM does not install it"
            )),
        }
    }
    Ok(())
}

/// Returns the CustomResourceDefinitions among the objects of a bundle.
fn definitions(objects: &[Value]) -> Definitions {
    let crds = objects
        .iter()
        .filter(|object| object["kind"] == "CustomResourceDefinition");
    let text = |value: &Value| value.as_str().map(str::to_owned);
    crds.filter_map(|crd| {
        let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
        let names = versions.filter_map(|version| text(&version["name"]));
        // Definitions of v1beta1 may have this field alone.
        Some((
            text(&crd["metadata"]["name"])?,
            names.chain(text(&crd["spec"]["version"])).collect(),
        ))
    })
    .collect()
}

/// Returns the versions of definitions that a ClusterServiceVersion describes.
fn described(csv: &ClusterServiceVersion) -> Definitions {
    let mut found = Definitions::new();
    for crd in csv.spec.owned_crds() {
        found
            .entry(crd.name.clone())
            .or_default()
            .insert(crd.version.clone());
    }
    found
}

/// Returns the Subscription to create.
fn subscription(before: &Subscription, entry: &Entry, notes: &mut Vec<String>) -> Subscription {
    let spec = SubscriptionSpec {
        starting_csv: Some(entry.name.to_string()),
        install_plan_approval: Some(Approval::Manual),
        ..before.spec.clone()
    };
    let mut annotations = before.annotations().clone();
    // Otherwise OLM assumes that the plan of this name installs it.
    annotations.remove(GENERATED_BY);
    let has_policy = POLICIES.iter().any(|key| annotations.contains_key(*key));
    let is_excluded = annotations.get(UPGRADE_HOLD).is_some_and(|text| {
        let range = parse_range(text).ok();
        let allowed = range.zip(entry.version.as_ref());
        allowed.is_none_or(|(range, version)| !range.contains(version))
    });
    if let Some(version) = entry.version.as_ref().filter(|_| has_policy || is_excluded) {
        let range = format!("={version}");
        notes.push(format!(
            "the Subscription is held within {range}, because of its upgrade policies; `kubectl operator unhold` allows newer versions"
        ));
        annotations.insert(UPGRADE_HOLD.to_owned(), range);
    }
    let mut subscription = Subscription::new(&before.name_any(), spec);
    subscription.metadata.namespace = before.namespace();
    subscription.metadata.labels.clone_from(&before.metadata.labels);
    subscription.metadata.annotations = Some(annotations).filter(|found| !found.is_empty());
    subscription
}

impl Rollback {
    /// Describes what is done, one line for each object.
    pub(super) fn text(&self, removal: &Removal) -> String {
        let mut text = String::new();
        let mut line = |line: String| {
            let _ = writeln!(text, "{line}");
        };
        if let Some(subscription) = &removal.subscription {
            line(format!("deletes  {}", subject(subscription)));
        }
        for open in &removal.plans {
            line(format!("deletes  {}", subject(&open.plan)));
        }
        for csv in &removal.csvs {
            let again = match csv.name_any() == self.target {
                true => ", and installs it again",
                false => "",
            };
            line(format!(
                "deletes  {} ({}){again}",
                subject(csv),
                plain(csv.phase().as_str())
            ));
        }
        for definition in &removal.definitions {
            line(format!(
                "keeps    CustomResourceDefinition {} and its objects",
                plain(&definition.name)
            ));
        }
        line(format!("creates  {}, as below", subject(&self.subscription)));
        line(format!("approves the InstallPlan for {}", plain(&self.target)));
        for note in &self.notes {
            line(format!("note: {}", plain(note)));
        }
        text
    }
}
