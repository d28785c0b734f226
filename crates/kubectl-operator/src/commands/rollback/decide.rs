//! Decides how an operator is rolled back to an older version. Pure.

use std::fmt::Write as _;

use anyhow::{anyhow, bail};
use kube::ResourceExt as _;
use olm_api::labels::{
    GENERATED_BY, UPGRADE_APPROVE, UPGRADE_HOLD, UPGRADE_STOP_AFTER_FAILURE, UPGRADE_WINDOW,
};
use olm_api::v1alpha1::{
    ClusterServiceVersion, ClusterServiceVersionPhase as Phase, InstallPlan, InstallPlanPhase, Subscription,
    SubscriptionSpec,
};
use olm_resolver::entry::Entry;
use olm_resolver::hold::parse_range;
use olm_resolver::installed::package_of;

use super::definitions::{Replaced, replaced};
use crate::args::shared::quoted;
use crate::catalogs::Bundle;
use crate::commands::approve::Shown;
use crate::commands::uninstall::Removal;
use crate::operators::refers;
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
    /// Definitions that the version replaces.
    pub replaced: Replaced,
    /// Other ClusterServiceVersions that OLM may install with it.
    pub also: Vec<String>,
    /// True if the user accepts every loss of data.
    pub accepts_loss: bool,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Returns the version to go back to, as the user names it or as the name of a ClusterServiceVersion. `plans` are those of the
/// namespace.
///
/// # Errors
/// There is no failed upgrade, or no version that is known to have been installed before it.
pub(super) fn wanted(
    removal: &Removal,
    name: &str,
    to: Option<&str>,
    plans: &[InstallPlan],
) -> anyhow::Result<String> {
    let Some(subscription) = &removal.subscription else {
        bail!(
            "cannot roll back {name}: it has no Subscription; {}",
            first_subscribe(removal)
        );
    };
    if let Some(to) = to {
        return Ok(to.to_owned());
    }
    let mut own_plans = plans.iter().filter(|plan| refers(subscription, plan));
    let open = own_plans.find(|plan| plan.phase() != InstallPlanPhase::Complete);
    let flags = &removal.flags;
    let Some(newest) = removal.csvs.last() else {
        let way = match open {
            Some(plan) if plan.waits_for_approval() => {
                let plan = plan.name_any();
                let command = format!("kubectl operator approve {} {flags}", quoted(&plan));
                format!("approve InstallPlan {plan} with `{command}`, or ")
            }
            Some(plan) if plan.phase() == InstallPlanPhase::Failed => {
                format!("{}, or ", start_again(name, flags))
            }
            _ => String::new(),
        };
        bail!("cannot roll back {name}: none of its versions is installed; {way}choose a version with --to");
    };
    if *newest.phase() == Phase::Succeeded {
        let is_newer = |plan: &&InstallPlan| {
            !plan
                .spec
                .cluster_service_version_names
                .contains(&newest.name_any())
        };
        if let Some(plan) = open.filter(is_newer) {
            bail!(
                "cannot roll back {name}: {} has succeeded, and InstallPlan {plan} is not complete; to stay there use \
                 `kubectl operator hold {} {flags}`, then delete the plan with `kubectl delete installplan {} {flags}`",
                newest.name_any(),
                quoted(name),
                quoted(&plan.name_any()),
                plan = plan.name_any()
            );
        }
        bail!(
            "cannot roll back {name}: {} has succeeded, and no newer version is installed; to stay there use `hold`, to go back to an older version use --to",
            newest.name_any()
        );
    }
    let has_failed = |csv: &ClusterServiceVersion| *csv.phase() == Phase::Failed;
    let has_failed_plan = plans.iter().any(|plan| {
        let names = &plan.spec.cluster_service_version_names;
        plan.phase() == InstallPlanPhase::Failed && names.contains(&newest.name_any())
    });
    // A version that waits for a failed one never begins, nor does one that waits for objects which its failed plan did not create.
    let waits_in_vain =
        *newest.phase() == Phase::Pending && (has_failed_plan || removal.chain().any(has_failed));
    if !has_failed(newest) && !waits_in_vain {
        bail!(
            "cannot roll back {name}: {} has not failed, it is {}; wait, or choose a version with --to",
            newest.name_any(),
            plain(newest.phase().as_str())
        );
    }
    // Versions in between never succeeded: then OLM would have deleted the oldest.
    let oldest = removal.chain().last().map(|csv| csv.name_any());
    if let Some(oldest) = oldest.filter(|oldest| *oldest != newest.name_any()) {
        return Ok(oldest);
    }
    let before = newest.spec.replaces().ok_or_else(|| {
        anyhow!(
            "cannot roll back {name}: {} replaces no version, so there is nothing to go back to; {}, or choose a version with --to",
            newest.name_any(),
            start_again(name, flags)
        )
    })?;
    // A ClusterServiceVersion may name a version that never was in the cluster.
    let is_own = |plan: &InstallPlan| {
        let mut owners = plan.owner_references().iter();
        let subscription = subscription.name_any();
        owners.any(|owner| owner.kind == "Subscription" && owner.name == subscription)
    };
    let mut completed = plans
        .iter()
        .filter(|plan| plan.phase() == InstallPlanPhase::Complete && is_own(plan))
        .flat_map(|plan| &plan.spec.cluster_service_version_names);
    if !completed.any(|csv| csv == before) {
        bail!(
            "cannot roll back {name}: no completed InstallPlan installed {before}, which {} replaces; if {} is the first version, {}; if \
             {before} was installed, use --to {before}",
            newest.name_any(),
            newest.name_any(),
            start_again(name, flags)
        );
    }
    Ok(before.to_owned())
}

/// Returns the way out of a failed first installation. OLM does not carry out a failed InstallPlan again, and makes no other one for a
/// version that exists.
fn start_again(name: &str, flags: &str) -> String {
    format!(
        "uninstall it with `kubectl operator uninstall {} {flags}`, correct the cause and install it again",
        quoted(name)
    )
}

/// Returns the commands that give an operator a Subscription and roll it back then. OLM adopts only the newest version, and only one
/// that names its package.
fn first_subscribe(removal: &Removal) -> String {
    let newest = removal.csvs.last();
    let Some((csv, package)) = newest.and_then(|csv| Some((csv, package_of(csv)?))) else {
        return "install the version that you want with `install`".to_owned();
    };
    let (csv, package, flags) = (csv.name_any(), quoted(&package), &removal.flags);
    format!(
        "subscribe to it with `kubectl operator install {package} --version {} {flags}`, then go back with `kubectl operator \
         rollback {package} {flags}`",
        quoted(&csv)
    )
}

/// Decides how to roll back to an entry of the catalog.
///
/// # Errors
/// The rollback would lose objects, the version is installed already, or OLM would not install it or would upgrade it again.
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
    if entry.is_deprecated() {
        bail!("cannot roll back to {target}: it is deprecated in the catalog, and OLM does not install it");
    }
    let mut notes = removal.notes.clone();
    let replaced = replaced(removal, &target, bundle, &mut notes)?;
    let subscription = subscription(removal, before, entry, &mut notes)?;
    if let Some(image) = &entry.bundle_path {
        notes.push(format!(
            "OLM needs bundle image {image} to install {target} again; if it cannot be pulled any more, nothing runs until it can"
        ));
    }
    if let Some(newest) = removal.csvs.last() {
        notes.push(format!(
            "the operator does not run until {target} is installed; it must understand the custom resources that {} wrote",
            newest.name_any()
        ));
    }
    Ok(Rollback {
        target,
        subscription,
        replaced,
        also: Vec::new(),
        accepts_loss: false,
        notes,
    })
}

/// Returns the Subscription to create: the former one with another `startingCSV`, held at that version.
///
/// The approval stays as it is, because one `Manual` Subscription makes all plans of its namespace wait for a user. OLM's resolver
/// applies the hold to every bundle of a catalog, for every approver: only the bundle of `startingCSV` remains installable in the
/// channel, and there is no upgrade. A hold compares versions without build metadata.
///
/// # Errors
/// A hold cannot exclude the newer version, and OLM would approve it.
fn subscription(
    removal: &Removal,
    before: &Subscription,
    entry: &Entry,
    notes: &mut Vec<String>,
) -> anyhow::Result<Subscription> {
    let spec = SubscriptionSpec {
        starting_csv: Some(entry.name.to_string()),
        ..before.spec.clone()
    };
    let mut annotations = before.annotations().clone();
    // Otherwise OLM assumes that the plan of this name installs it.
    annotations.remove(GENERATED_BY);
    let is_approved_by_olm =
        !before.spec.is_manual() || POLICIES.iter().any(|key| annotations.contains_key(*key));
    let newest = removal
        .csvs
        .last()
        .filter(|newest| newest.name_any() != *entry.name);
    let newest = newest.and_then(|newest| newest.spec.version().ok());
    let excludes = |range: &String| {
        let parsed = parse_range(range);
        parsed.is_ok_and(|range| newest.as_ref().is_none_or(|version| !range.contains(version)))
    };
    let range = entry.version.as_ref().map(|version| format!("={version}"));
    let was = annotations.remove(UPGRADE_HOLD);
    match range.filter(excludes) {
        Some(range) => {
            let was = was.filter(|was| *was != range);
            let was = was.map(|was| format!(" (before: {was})")).unwrap_or_default();
            notes.push(format!(
                "the Subscription is held within {range}{was}, so that OLM does not upgrade it again; `kubectl operator unhold` allows newer versions"
            ));
            annotations.insert(UPGRADE_HOLD.to_owned(), range);
        }
        None if is_approved_by_olm => bail!(
            "cannot roll back to {}: its version does not differ from the newer one, or is unknown, so a hold cannot keep OLM from upgrading again; set installPlanApproval: Manual without upgrade policies first",
            entry.name
        ),
        None => {}
    }
    let mut subscription = Subscription::new(&before.name_any(), spec);
    subscription.metadata.namespace = before.namespace();
    subscription.metadata.labels.clone_from(&before.metadata.labels);
    subscription.metadata.annotations = Some(annotations).filter(|found| !found.is_empty());
    Ok(subscription)
}

impl Rollback {
    /// Returns what an InstallPlan does that [`Self::text`] did not say; `None` if the user agreed to all of it.
    pub(super) fn unforeseen(&self, shown: &Shown) -> Option<String> {
        if !shown.operators.contains(&self.target) {
            return Some(format!("does not install {}", plain(&self.target)));
        }
        let is_known = |csv: &String| *csv == self.target || self.also.contains(csv);
        if let Some(csv) = shown.operators.iter().find(|csv| !is_known(csv)) {
            return Some(format!("also installs {}", plain(csv)));
        }
        // The reports about losses concern this operator alone.
        let is_agreed = self.replaced.loses_data && self.also.is_empty();
        if self.accepts_loss || is_agreed {
            return None;
        }
        let mut definitions = shown.preview.iter().flat_map(|preview| &preview.definitions);
        let lost = definitions.find(|found| {
            let loses = !found.fields_removed.is_empty() || !found.versions_removed.is_empty();
            // A definition without objects may lose fields: no data is lost with them.
            loses && !self.replaced.names.contains(&found.name)
        });
        lost.map(|found| {
            let name = plain(&found.name);
            format!("also removes fields or versions of CustomResourceDefinition {name}")
        })
    }

    /// Returns the names of what may be installed besides, separated by commas.
    pub(super) fn others(&self) -> String {
        let names: Vec<String> = self.also.iter().map(|csv| plain(csv)).collect();
        names.join(", ")
    }

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
            let name = plain(&definition.name);
            let others = definition.others.iter().map(|other| format!("; {other}"));
            let others: String = others.collect();
            line(match self.replaced.names.contains(&definition.name) {
                true => format!(
                    "replaces CustomResourceDefinition {name} by that of {}; fields it lacks are lost{others}",
                    plain(&self.target)
                ),
                false => format!("keeps    CustomResourceDefinition {name}{others}"),
            });
        }
        for lost in &self.replaced.losses {
            line(format!("loses    {}", plain(lost)));
        }
        line(format!("creates  {}, as below", subject(&self.subscription)));
        let also = match self.also.is_empty() {
            true => String::new(),
            false => format!("; it may also install {}", self.others()),
        };
        line(format!(
            "approves the InstallPlan for {}, unless OLM does{also}",
            plain(&self.target)
        ));
        for note in &self.notes {
            line(format!("note: {}", plain(note)));
        }
        text
    }
}
