//! Decides what the uninstallation of an operator deletes and keeps. Pure.

use std::collections::BTreeSet;
use std::iter::successors;

use anyhow::bail;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use olm_api::labels::{OWNER_KIND_CSV, component_label};
use olm_api::v1::{Operator, OperatorGroup, RichReference};
use olm_api::v1alpha1::{ClusterServiceVersion, InstallPlan, Subscription};
use olm_resolver::installed::package_of;

use super::leftovers::{self, CRD_KIND, refs};
use super::plans::{OpenPlan, open_plans};
use crate::args::change::{OperandStrategy, UninstallArgs};
use crate::args::shared::quoted;
use crate::command_line::CommandLine;
use crate::operands::Operand;
use crate::operators::{Gathered, NEEDED, OWNED_TOO, Operator as Found};
use crate::writer::subject;

/// Objects to delete and to keep.
#[derive(Debug, Clone, Default)]
pub(in crate::commands) struct Removal {
    pub namespace: String,
    /// Flags for the same cluster and namespace.
    pub flags: String,
    /// The Subscription; `None` for a ClusterServiceVersion without one.
    pub subscription: Option<Subscription>,
    /// Incomplete InstallPlans that are for no other operator.
    pub plans: Vec<OpenPlan>,
    /// Names of incomplete plans that stay because others need them, or because the user may not delete them.
    pub shared: BTreeSet<String>,
    /// Names of the operator's ClusterServiceVersions, including those that do not exist yet.
    pub names: BTreeSet<String>,
    /// Names that did not exist at the time and that a plan may still create.
    pub coming: BTreeSet<String>,
    /// Existing ClusterServiceVersions, oldest first; during an upgrade there are several.
    pub csvs: Vec<ClusterServiceVersion>,
    /// CustomResourceDefinitions of the operator.
    pub definitions: Vec<Definition>,
    /// Its custom resources, without those that are deleted with their definition.
    pub operands: Vec<Operand>,
    /// True if the operands are deleted.
    pub deletes_operands: bool,
    /// The Operator object, if everything that it lists is deleted.
    pub operator: Option<Operator>,
    /// Objects that it lists and that are not deleted otherwise.
    pub listed: Vec<RichReference>,
    /// The Operator object, if it is kept.
    pub kept_operator: Option<Operator>,
    /// OperatorGroups to delete if no Subscription is left.
    pub groups: Vec<OperatorGroup>,
    /// OperatorGroups that are kept although the namespace has no other operator.
    pub unused_groups: Vec<OperatorGroup>,
    pub notes: Vec<String>,
}

/// A CustomResourceDefinition of an operator.
#[derive(Debug, Clone, Default)]
pub(in crate::commands) struct Definition {
    pub name: String,
    /// True if it is to be deleted.
    pub is_deleted: bool,
    /// Other operators that own or require it.
    pub others: Vec<String>,
    pub crd: Option<CustomResourceDefinition>,
    pub objects: Objects,
    /// Number of its objects that are deleted while the operator runs.
    pub deleted: usize,
}

impl Definition {
    /// Returns true if another operator also owns it.
    pub(super) fn is_owned(&self) -> bool {
        self.others.iter().any(|other| other.starts_with(OWNED_TOO))
    }

    /// Returns true if the kind has objects, or may have some.
    pub(in crate::commands) fn has_objects(&self) -> bool {
        !matches!(
            self.objects,
            Objects::NoDefinition | Objects::Known { count: 0, .. }
        )
    }
}

/// Objects of a kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::commands) enum Objects {
    Unknown(String),
    /// The definition does not exist.
    #[default]
    NoDefinition,
    Known {
        count: usize,
        /// True if there are more.
        at_least: bool,
        /// Number with finalizers, among those read.
        with_finalizers: usize,
        /// Names of those read, without operands that are deleted.
        names: Vec<String>,
    },
}

impl Removal {
    /// Returns the Subscription, InstallPlans and ClusterServiceVersions to delete, each as the name of its kind in requests, its own
    /// name, and both for users.
    pub(in crate::commands) fn objects(&self) -> Vec<(&'static str, String, String)> {
        let own = self.subscription.iter();
        let own = own.map(|own| ("subscriptions", own.name_any(), subject(own)));
        let plans = self.plans.iter().map(|open| &open.plan);
        let plans = plans.map(|plan| ("installplans", plan.name_any(), subject(plan)));
        let csvs = self.csvs.iter();
        let csvs = csvs.map(|csv| ("clusterserviceversions", csv.name_any(), subject(csv)));
        own.chain(plans).chain(csvs).collect()
    }

    /// Returns true if an object that the Operator object lists is deleted.
    pub(super) fn deletes(&self, reference: &RichReference) -> bool {
        let is = |name: String| reference.name.as_ref() == Some(&name);
        let is_here = reference.namespace.as_ref() == Some(&self.namespace);
        match reference.kind.as_deref().unwrap_or_default() {
            CRD_KIND => {
                let mut going = self.definitions.iter().filter(|definition| definition.is_deleted);
                going.any(|definition| is(definition.name.clone()))
            }
            OWNER_KIND_CSV => is_here && self.csvs.iter().any(|csv| is(csv.name_any())),
            "Subscription" => is_here && self.subscription.iter().any(|own| is(own.name_any())),
            "InstallPlan" if is_here && self.plans.iter().any(|open| is(open.plan.name_any())) => true,
            _ => {
                let key = leftovers::key(reference);
                self.listed.iter().any(|listed| leftovers::key(listed) == key)
            }
        }
    }

    /// Returns the newest ClusterServiceVersion and those that it replaces, one by one, newest first. The other ones are the
    /// operator's by their label alone.
    pub(in crate::commands) fn chain(&self) -> impl Iterator<Item = &ClusterServiceVersion> {
        let older = move |csv: &&ClusterServiceVersion| {
            let replaces = csv.spec.replaces()?;
            self.csvs.iter().find(|found| found.name_any() == replaces)
        };
        // A cycle of versions has no end.
        successors(self.csvs.last(), older).take(self.csvs.len())
    }

    /// Returns the commands to continue with after the Subscription is deleted.
    pub(super) fn again(&self) -> String {
        let Some(csv) = self.csvs.last() else {
            let plans = self.plans.iter().map(|open| quoted(&open.plan.name_any()));
            let plans: Vec<String> = plans.collect();
            if plans.is_empty() {
                return format!("`kubectl operator list {}`", self.flags);
            }
            return format!("`kubectl delete installplan {} {}`", plans.join(" "), self.flags);
        };
        let crds = self.definitions.iter().filter(|definition| definition.is_deleted);
        let crds = crds.map(|definition| format!(" --delete-crd {}", quoted(&definition.name)));
        let strategy = match (self.operands.is_empty(), self.deletes_operands) {
            (true, _) => "",
            (false, true) => " --operand-strategy delete",
            (false, false) => " --operand-strategy ignore",
        };
        // `uninstall` of a version without a Subscription takes only its chain, as it knows no package.
        let in_chain: BTreeSet<String> = self.chain().map(|csv| csv.name_any()).collect();
        let others = self.csvs.iter().map(|csv| csv.name_any());
        let others = others.filter(|name| !in_chain.contains(name));
        let others: Vec<String> = others.map(|name| quoted(&name)).collect();
        let then = match others.is_empty() {
            true => String::new(),
            false => format!("; then `kubectl delete csv {} {}`", others.join(" "), self.flags),
        };
        format!(
            "`kubectl operator uninstall {} {}{}{strategy}`{then}",
            quoted(&csv.name_any()),
            self.flags,
            crds.collect::<String>(),
        )
    }
}

/// Decides what to delete for the operator of this name, given the InstallPlans of its namespace, and its Operator object if that is
/// deleted too. `doubt` is the reason why other namespaces are unknown.
///
/// # Errors
/// For the user: there is no such operator, a running plan that others share installs it, or a definition must not be deleted.
pub(super) fn decide(
    gathered: &Gathered,
    plans: &[InstallPlan],
    namespace: &str,
    args: &UninstallArgs,
    object: Option<Operator>,
    doubt: Option<String>,
) -> anyhow::Result<Removal> {
    let commands = CommandLine::of(&args.connection);
    let name = gathered.of_package(namespace, &args.name);
    let name = name.as_str();
    let operator = &gathered.find(namespace, name, &commands)?;
    let known = gathered.chain(operator);
    let mut more = unsubscribed(gathered, operator);
    more.retain(|csv| known.iter().all(|known| known.name_any() != csv.name_any()));
    // The oldest is deleted first, so that no older version starts to run again.
    let csvs: Vec<ClusterServiceVersion> = more.into_iter().chain(known).cloned().collect();
    let flags = commands.flags(Some(namespace));
    let names = names_of(operator, &csvs);
    let mut notes: Vec<String> = Vec::new();
    let (mut own_plans, mut shared) = (Vec::new(), BTreeSet::new());
    for open in open_plans(plans, &gathered.subscriptions, operator.subscription, &names) {
        let (plan, others) = (open.plan.name_any(), open.others.join(", "));
        match (open.others.is_empty(), open.is_approved()) {
            (true, _) => own_plans.push(open),
            // Its objects are created after the deletion, and stopping it would affect other operators.
            (false, true) => bail!(
                "cannot uninstall {name}: InstallPlan {plan} is in progress, also for {others}; wait until it completes (`kubectl operator status {} {flags} --watch`), or delete it for all of them (`kubectl delete installplan {} {flags}`)",
                quoted(name),
                quoted(&open.plan.name_any())
            ),
            (false, false) => {
                shared.insert(open.plan.name_any());
                notes.push(format!(
                    "InstallPlan {plan} is kept because it is also for {others}; approving it installs {name} again"
                ));
            }
        }
    }
    let owned = csvs.iter().flat_map(|csv| csv.spec.owned_crds());
    let owned = owned.map(|crd| crd.name.as_str());
    let mut listed: Vec<&RichReference> = object.iter().flat_map(refs).collect();
    let listed_definitions = listed
        .iter()
        .filter(|reference| reference.kind.as_deref() == Some(CRD_KIND))
        .filter_map(|reference| reference.name.as_deref());
    let crds: BTreeSet<&str> = owned.chain(listed_definitions).collect();
    let definitions = definitions(
        gathered,
        namespace,
        &csvs,
        &crds,
        args,
        doubt.as_deref(),
        &mut notes,
    )?;
    let own = operator.subscription.map(|own| own.name_any());
    let is_free = |reference: &&RichReference| {
        let is_own_plan = |open: &OpenPlan| reference.name.as_ref() == Some(&open.plan.name_any());
        leftovers::is_valid(reference)
            && match reference.kind.as_deref().unwrap_or_default() {
                // They are deleted in other steps, or belong to others.
                CRD_KIND | OWNER_KIND_CSV | "Subscription" | "Namespace" => false,
                "InstallPlan" => {
                    reference.namespace.as_deref() == Some(namespace)
                        && !own_plans.iter().any(is_own_plan)
                        && !leftovers::is_of_others(gathered, own.as_ref(), reference)
                }
                _ => true,
            }
    };
    // The Deployments and permissions of a version that stays are listed, too.
    let has_others = listed
        .iter()
        .any(|found| stays(gathered, namespace, &csvs, found));
    listed.retain(|found| !has_others && is_free(found));
    notes.extend(doubt.map(|doubt| {
        format!("cannot check whether operators in other namespaces need these kinds: {doubt}")
    }));
    let of_plans = own_plans
        .iter()
        .flat_map(|open| open.plan.spec.cluster_service_version_names.iter());
    let coming = of_plans.chain(&names).cloned();
    let is_there = |csv: &String| gathered.csvs.contains_key(&(namespace.to_owned(), csv.clone()));
    Ok(Removal {
        namespace: namespace.to_owned(),
        flags,
        subscription: operator.subscription.cloned(),
        coming: coming.filter(|csv| !is_there(csv)).collect(),
        plans: own_plans,
        shared,
        names,
        csvs,
        definitions,
        listed: listed.into_iter().cloned().collect(),
        operator: object,
        deletes_operands: args.strategy() == Some(OperandStrategy::Delete),
        notes,
        ..Removal::default()
    })
}

/// Returns the versions that OLM labelled as components of the operator and that no Subscription has, with those that they replace,
/// oldest first. The Subscription does not name them if it was created again, or if a user deleted the version that replaced them.
/// None are returned if another Subscription of the namespace has the package, because they may be its versions.
fn unsubscribed<'a>(gathered: &'a Gathered, operator: &Found<'_>) -> Vec<&'a ClusterServiceVersion> {
    let namespace = operator.namespace();
    let mut all = gathered.operators();
    all.retain(|found| found.namespace() == namespace);
    let of_package = all.iter().filter(|found| found.package() == operator.package());
    let label = operator.package().filter(|_| of_package.count() == 1);
    let Some(label) = label.and_then(|package| component_label(package, &namespace)) else {
        return Vec::new();
    };
    let is_component = |csv: &ClusterServiceVersion| {
        // Labels of long names are cut, so another package may have the same.
        let is_of_other = package_of(csv).is_some_and(|of| Some(of.as_str()) != operator.package());
        !is_of_other && csv.labels().contains_key(&label)
    };
    let lone = all.iter().filter(|found| found.subscription.is_none());
    let labelled = lone.filter(|found| found.installed.is_some_and(is_component));
    labelled.flat_map(|found| gathered.chain(found)).collect()
}

/// Returns true for a reference to a ClusterServiceVersion of the namespace that exists and is not deleted.
fn stays(
    gathered: &Gathered,
    namespace: &str,
    going: &[ClusterServiceVersion],
    reference: &RichReference,
) -> bool {
    let name = reference.name.as_deref().unwrap_or_default();
    let is_here = reference.namespace.as_deref() == Some(namespace);
    reference.kind.as_deref() == Some(OWNER_KIND_CSV)
        && is_here
        && going.iter().all(|csv| csv.name_any() != name)
        && gathered.has_csv(&(namespace.to_owned(), name.to_owned()))
}

/// Returns the names of an operator's ClusterServiceVersions, including those that do not exist.
fn names_of(operator: &Found<'_>, csvs: &[ClusterServiceVersion]) -> BTreeSet<String> {
    let status = operator.status().into_iter();
    let named = status.flat_map(|status| [&status.installed_csv, &status.current_csv]);
    let named = named.flatten().filter(|name| !name.is_empty()).cloned();
    named.chain(csvs.iter().map(|csv| csv.name_any())).collect()
}

/// Returns the CustomResourceDefinitions of an operator with these names, and whether each is deleted.
fn definitions(
    gathered: &Gathered,
    namespace: &str,
    csvs: &[ClusterServiceVersion],
    names: &BTreeSet<&str>,
    args: &UninstallArgs,
    doubt: Option<&str>,
    notes: &mut Vec<String>,
) -> anyhow::Result<Vec<Definition>> {
    for wanted in &args.delete_crd {
        if !names.contains(wanted.as_str()) {
            let owned: Vec<&str> = names.iter().copied().collect();
            let owned = match owned.is_empty() {
                true => "none".to_owned(),
                false => owned.join(", "),
            };
            let name = &args.name;
            bail!("cannot delete CustomResourceDefinition {wanted}: {name} does not own it; it owns {owned}");
        }
    }
    let mut definitions = Vec::new();
    for &crd in names {
        let is_named = args.delete_crd.iter().any(|wanted| wanted == crd);
        let others = gathered.sharers(crd, usize::MAX, |(of, name), _| {
            of == namespace && csvs.iter().any(|csv| csv.name_any() == *name)
        });
        // A request to delete everything of the operator does not include what others share.
        let is_free = others.is_empty() && doubt.is_none();
        let is_deleted = is_named || (args.deletes_operator() && is_free);
        if args.deletes_operator() && !is_deleted {
            let why = doubt.map_or_else(
                || obstacle(&others),
                |doubt| format!("cannot check who needs it: {doubt}"),
            );
            notes.push(format!("CustomResourceDefinition {crd} is kept: {why}"));
        }
        if is_deleted && !others.is_empty() {
            let text = obstacle(&others);
            bail!("cannot delete CustomResourceDefinition {crd}: {text}");
        }
        if is_deleted && let Some(doubt) = doubt {
            bail!("cannot delete CustomResourceDefinition {crd}: cannot check who else needs it: {doubt}");
        }
        definitions.push(Definition {
            name: crd.to_owned(),
            is_deleted,
            others,
            ..Definition::default()
        });
    }
    Ok(definitions)
}

/// Describes why a kind cannot be deleted, and what to do about it.
fn obstacle(others: &[String]) -> String {
    let text = others.join("; ");
    let is_known = |other: &String| other.starts_with(OWNED_TOO) || other.starts_with(NEEDED);
    match others.iter().any(is_known) {
        true => format!("{text}; uninstall these first"),
        false => text,
    }
}
