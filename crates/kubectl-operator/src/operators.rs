//! The operators of a namespace and their state. Pure: values in, rows and trees out.

mod cause;
mod kinds;
mod policy;
mod state;
#[cfg(test)]
pub(crate) mod tests;
mod tree;
mod way_out;

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;

use anyhow::bail;
use go_compat::semver::Version;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use olm_api::condition::subscription as condition;
use olm_api::labels::OWNER_KIND_CSV;
use olm_api::v1alpha1::{
    Approval, ClusterServiceVersion, ClusterServiceVersionPhase as Phase, InstallPlan, Subscription,
    SubscriptionState, SubscriptionStatus,
};
use olm_resolver::installed::package_of;
use serde::Serialize;

use crate::command_line::CommandLine;
use crate::printer;
use crate::reader::Unreadable;

pub(crate) use self::cause::{PART_GROUPS, message_or_reason, next_unread, retry_error, stated_misfit};
pub(crate) use self::kinds::{NEEDED, OWNED_TOO};
pub(crate) use self::state::{State, Verdict};
pub(crate) use self::tree::{Node, deployments, flat, lines, pod_node, replicas};
use self::way_out::WayOut;

/// Maximum number of older versions that are known of an operator. Users can name any version in `spec.replaces`.
const MAX_OLDER: usize = 50;

/// Namespace and name.
pub(crate) type Key = (String, String);

/// The objects of one namespace or all.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gathered {
    /// All Subscriptions.
    pub subscriptions: Vec<Subscription>,
    /// InstallPlans that Subscriptions refer to, as far as they are needed.
    pub plans: BTreeMap<Key, InstallPlan>,
    /// InstallPlans of ClusterServiceVersions that OLM no longer works on, by these, if they failed or are carried out again after an
    /// error.
    pub failed_plans: BTreeMap<Key, InstallPlan>,
    /// InstallPlans that were not requested, because there are too many.
    pub unasked: BTreeSet<Key>,
    /// ClusterServiceVersions without copies.
    pub csvs: BTreeMap<Key, ClusterServiceVersion>,
    /// Deployments of ClusterServiceVersions, with their pods.
    pub workloads: BTreeMap<Key, Workload>,
    /// Subscriptions and ClusterServiceVersions that do not match their schemas.
    pub unreadable: Vec<Unreadable>,
}

/// A Deployment of a ClusterServiceVersion.
#[derive(Debug, Clone, Default)]
pub(crate) struct Workload {
    /// The Deployment; `None` if it does not exist.
    pub deployment: Option<Deployment>,
    /// Its pods.
    pub pods: Vec<Pod>,
    /// Reason why they could not be read.
    pub unread: Option<String>,
}

/// An operator: a Subscription with its objects, or the newest ClusterServiceVersion of a chain without Subscription.
#[derive(Debug, Clone, Default)]
pub(crate) struct Operator<'a> {
    pub subscription: Option<&'a Subscription>,
    pub plan: Option<&'a InstallPlan>,
    /// The InstallPlan of a version that waits, if it failed or is carried out again after an error, and OLM created a plan for a
    /// newer version since.
    pub failed_plan: Option<&'a InstallPlan>,
    pub installed: Option<&'a ClusterServiceVersion>,
    pub current: Option<&'a ClusterServiceVersion>,
    /// The ClusterServiceVersions that the newest one replaces, one by one, while they exist, newest first. OLM reports a new
    /// version as installed as soon as it is created. If the newest one was deleted, the one of the package that runs instead.
    pub older: Vec<&'a ClusterServiceVersion>,
    /// True if a version that the Subscription names exists but cannot be read.
    pub is_hidden: bool,
}

impl Gathered {
    /// Prints warnings about objects that are missing from the result.
    pub(crate) fn warn(&self) {
        self.notes().for_each(|note| printer::warning(&note));
    }

    /// Returns notes on objects that are not known.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let unreadable = self.unreadable.iter().map(|object| object.text.clone());
        let unasked = self.unasked.len();
        let unasked = (unasked > 0).then(|| format!("skipped {unasked} InstallPlans: there are too many"));
        unreadable.chain(unasked)
    }

    /// Returns true if this ClusterServiceVersion exists, also if it cannot be read.
    pub(crate) fn has_csv(&self, key: &Key) -> bool {
        let is_it = |found: &Unreadable| {
            found.kind == OWNER_KIND_CSV && found.namespace == key.0 && found.name == key.1
        };
        self.csvs.contains_key(key) || self.unreadable.iter().any(is_it)
    }

    /// Returns all operators by namespace and name, those with Subscriptions first.
    pub(crate) fn operators(&self) -> Vec<Operator<'_>> {
        let older = |key: &Key| {
            let replaces = self.csvs.get(key)?.spec.replaces()?;
            Some((key.0.clone(), replaces.to_owned()))
        };
        let all_older = |key: &Key| {
            let keys = successors(older(key), older).take(MAX_OLDER);
            let found = keys.map_while(|key| self.csvs.get(&key));
            found.collect::<Vec<&ClusterServiceVersion>>()
        };
        let mut subscriptions: Vec<&Subscription> = self.subscriptions.iter().collect();
        subscriptions.sort_by_key(|subscription| (subscription.namespace(), subscription.name_any()));
        // Hardly any version was deleted by hand.
        let unnamed = LazyCell::new(|| self.unnamed());
        let mut of_subscriptions = BTreeSet::new();
        let mut operators = Vec::new();
        for subscription in subscriptions {
            let namespace = subscription.namespace().unwrap_or_default();
            let status = subscription.status.as_ref();
            let mut is_hidden = false;
            let mut csv = |name: Option<&String>| {
                let key = (namespace.clone(), name?.clone());
                let found = self.csvs.get(&key);
                is_hidden |= found.is_none() && self.has_csv(&key);
                of_subscriptions.insert(key);
                found
            };
            let installed = csv(status.and_then(|status| status.installed_csv.as_ref()));
            let current = csv(status.and_then(|status| status.current_csv.as_ref()));
            let plan = status.and_then(plan_name);
            let newest = current
                .or(installed)
                .map(|csv| (namespace.clone(), csv.name_any()));
            let mut operator = Operator {
                subscription: Some(subscription),
                plan: plan.and_then(|plan| self.plans.get(&(namespace, plan.to_owned()))),
                failed_plan: None,
                installed,
                current,
                older: newest.map(|key| all_older(&key)).unwrap_or_default(),
                is_hidden,
            };
            let failed = operator.left_behind().find_map(|csv| {
                let key = (operator.namespace(), csv.name_any());
                self.failed_plans.get(&key)
            });
            operator.failed_plan = failed;
            if let Some(deleted) = operator.deleted_csv().and_then(version_in) {
                let package = (operator.namespace(), subscription.spec.name.clone());
                let older = unnamed
                    .iter()
                    .filter(|(of, version, _)| *of == package && *version < deleted);
                let newest = older.max_by(|a, b| a.1.cmp(&b.1)).map(|(.., csv)| *csv);
                of_subscriptions.extend(newest.map(|csv| (package.0, csv.name_any())));
                operator.older.extend(newest);
            }
            operators.push(operator);
        }
        // OLM deletes a replaced version, so it belongs to the operator that replaces it. A cycle has no newest version.
        let has_newer: BTreeSet<Key> = self.csvs.keys().filter_map(older).collect();
        let newest = self.csvs.keys().filter(|key| !has_newer.contains(*key));
        let mut replaced = BTreeSet::new();
        for key in of_subscriptions.iter().chain(newest) {
            let older = successors(older(key), older);
            older
                .take_while(|key| replaced.insert(key.clone()))
                .for_each(drop);
        }
        let others = self
            .csvs
            .iter()
            .filter(|(key, _)| !of_subscriptions.contains(*key) && !replaced.contains(*key));
        operators.extend(others.map(|(key, csv)| Operator {
            installed: Some(csv),
            current: Some(csv),
            older: all_older(key),
            ..Operator::default()
        }));
        operators
    }

    /// Returns the versions that succeeded and that no Subscription names, with their namespaces and packages. OLM restarts the
    /// version before if a user deletes the new one during an upgrade.
    fn unnamed(&self) -> Vec<(Key, Version, &ClusterServiceVersion)> {
        let mut named = BTreeSet::new();
        for subscription in &self.subscriptions {
            let status = subscription.status.iter();
            let names = status.flat_map(|status| status.installed_csv.iter().chain(&status.current_csv));
            named.extend(names.map(|name| (subscription.namespace().unwrap_or_default(), name.clone())));
        }
        let all = self.csvs.iter();
        let runs = all.filter(|(key, csv)| *csv.phase() == Phase::Succeeded && !named.contains(*key));
        let known =
            runs.filter_map(|(key, csv)| Some(((key.0.clone(), package_of(csv)?), version_in(&key.1)?, csv)));
        known.collect()
    }

    /// Returns a Subscription of a namespace.
    pub(crate) fn subscription(&self, namespace: &str, name: &str) -> Option<&Subscription> {
        let mut all = self.subscriptions.iter();
        all.find(|found| found.namespace().as_deref() == Some(namespace) && found.name_any() == name)
    }

    /// Returns the name of the operator for a package: that of its Subscription, as in upstream's plugin, else the given name.
    pub(crate) fn of_package(&self, namespace: &str, package: &str) -> String {
        let mut own: Vec<String> = self
            .operators()
            .iter()
            .filter(|operator| operator.namespace() == namespace && operator.package() == Some(package))
            .map(Operator::name)
            .collect();
        match own.iter().any(|name| name == package) || own.is_empty() {
            true => package.to_owned(),
            false => own.swap_remove(0),
        }
    }

    /// Returns the operator of this name in a namespace, or else of this package. A Subscription takes precedence over a
    /// ClusterServiceVersion of the same name.
    ///
    /// # Errors
    /// There is no such operator; the text names those that exist.
    pub(crate) fn find(
        &self,
        namespace: &str,
        name: &str,
        commands: &CommandLine,
    ) -> anyhow::Result<Operator<'_>> {
        let mut own = self.operators();
        own.retain(|operator| operator.namespace() == namespace);
        let named = own.iter().position(|operator| operator.name() == name);
        let of_package = || own.iter().position(|operator| operator.package() == Some(name));
        if let Some(at) = named.or_else(of_package) {
            return Ok(own.swap_remove(at));
        }
        let names: Vec<String> = own.iter().map(Operator::name).collect();
        let known = match names.is_empty() {
            true => format!(
                "it has no operators; use `{}` for all namespaces",
                commands.suggest("list", &[], None)
            ),
            false => format!("it has {}", names.join(", ")),
        };
        bail!("namespace {namespace} has no operator {name}: {known}")
    }

    /// Returns all versions of an operator, oldest first: those of its Subscription, the ones that they replace, and the ones that
    /// replace them. A version that another Subscription refers to is omitted.
    pub(crate) fn chain(&self, operator: &Operator<'_>) -> Vec<&ClusterServiceVersion> {
        let (namespace, own) = (
            operator.namespace(),
            operator.subscription.map(|own| own.name_any()),
        );
        let current = operator.current.map(|csv| csv.name_any());
        let installed = operator.installed.map(|csv| csv.name_any());
        let names: BTreeSet<String> = installed.into_iter().chain(current.clone()).collect();
        let of_others: BTreeSet<&String> = self
            .subscriptions
            .iter()
            .filter(|found| found.namespace().as_deref() == Some(namespace.as_str()))
            .filter(|found| Some(found.name_any()) != own)
            .filter_map(|found| found.status.as_ref())
            .flat_map(|status| status.installed_csv.iter().chain(&status.current_csv))
            .collect();
        let all = self.csvs.iter().filter(|((of, _), _)| *of == namespace);
        let known: BTreeMap<&str, &ClusterServiceVersion> = all
            .filter(|((_, name), _)| names.contains(name) || !of_others.contains(name))
            .map(|((_, name), csv)| (name.as_str(), csv))
            .collect();
        let older = |csv: &&ClusterServiceVersion| {
            let replaces = csv.spec.replaces().filter(|older| *older != csv.name_any())?;
            known.get(replaces).copied()
        };
        // A cycle of versions has no end.
        let path = |csv| successors(Some(csv), older).take(known.len());
        let own = names.iter().filter_map(|name| known.get(name.as_str()).copied());
        let own: BTreeSet<String> = own.flat_map(path).map(|csv| csv.name_any()).collect();
        let mut chain: Vec<&ClusterServiceVersion> = known.values().copied().collect();
        chain.retain(|csv| path(*csv).any(|csv| own.contains(&csv.name_any())));
        // Without a link between them, the current version is the newer one.
        chain.sort_by_cached_key(|csv| (path(*csv).count(), current == Some(csv.name_any())));
        chain
    }
}

/// Returns the InstallPlan of a Subscription if it may be incomplete.
pub(crate) fn open_plan(subscription: &Subscription) -> Option<Key> {
    let status = subscription.status.as_ref()?;
    let name = plan_name(status)?;
    // A plan may still retry a step after its ClusterServiceVersion is installed.
    let is_open = status.state != SubscriptionState::AtLatestKnown
        || message_or_reason(subscription, condition::INSTALL_PLAN_PENDING).is_some()
        || message_or_reason(subscription, condition::INSTALL_PLAN_FAILED).is_some();
    let key = (subscription.namespace()?, name.to_owned());
    is_open.then_some(key)
}

/// Returns the name of the InstallPlan that a Subscription refers to.
pub(crate) fn plan_name(status: &SubscriptionStatus) -> Option<&str> {
    status.install_plan_ref.as_ref()?.name.as_deref()
}

/// Returns true if a Subscription refers to this InstallPlan, by UID if it has one.
pub(crate) fn refers(subscription: &Subscription, plan: &InstallPlan) -> bool {
    let Some(status) = &subscription.status else {
        return false;
    };
    let reference = status.install_plan_ref.as_ref();
    let uid = reference.and_then(|plan| plan.uid.as_ref());
    match (uid, plan.uid()) {
        (Some(uid), Some(found)) if !uid.is_empty() => *uid == found,
        _ => plan_name(status) == Some(plan.name_any().as_str()),
    }
}

/// Returns the names of the other Subscriptions than `own` that refer to this InstallPlan.
pub(crate) fn others_of(
    subscriptions: &[Subscription],
    own: Option<&Subscription>,
    plan: &InstallPlan,
) -> Vec<String> {
    let is_own = |other: &&Subscription| own.is_some_and(|own| own.name_any() == other.name_any());
    subscriptions
        .iter()
        .filter(|other| other.namespace() == plan.namespace() && !is_own(other))
        .filter(|other| refers(other, plan))
        .map(|other| other.name_any())
        .collect()
}

/// An operator as a row of a table, or as a document.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    /// Namespace of the operator.
    pub namespace: String,
    /// Name of the Subscription, or of the ClusterServiceVersion without one.
    pub name: String,
    /// True if there is a Subscription.
    pub subscribed: bool,
    /// Package of the Subscription.
    pub package: String,
    /// Channel of the Subscription; empty for all channels of the package.
    pub channel: String,
    /// NAMESPACE/NAME of the CatalogSource.
    pub catalog: String,
    /// Automatic or Manual.
    pub approval: String,
    /// Last version that succeeded.
    pub installed_version: String,
    /// Its ClusterServiceVersion.
    #[serde(rename = "installedCSV")]
    pub installed_csv: String,
    /// Version that is being installed or is installed.
    pub current_version: String,
    /// ClusterServiceVersion of the current version.
    #[serde(rename = "currentCSV")]
    pub current_csv: String,
    /// State of the operator.
    pub state: State,
    /// Reason for the state, or what it waits for.
    pub message: String,
}

/// Versions of an operator in its channel, by the names of their ClusterServiceVersions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The last one that succeeded; empty for none.
    pub installed: String,
    /// The one that follows it; empty for none.
    pub next: String,
    /// True if the next one is being installed, or failed.
    pub has_begun: bool,
}

impl Verdict {
    /// Returns true if the operator failed, or lacks something that a user can provide. One that does not resolve is not meant, as
    /// resolution says so itself, and one that is being installed or waits for approval has not failed.
    pub(crate) fn is_failure(&self) -> bool {
        match self.state {
            State::Failed => true,
            State::Installing | State::Upgrading | State::Pending => self.way_out != WayOut::Wait,
            _ => false,
        }
    }
}

impl Operator<'_> {
    /// Returns the namespace.
    pub(crate) fn namespace(&self) -> String {
        let of_subscription = self
            .subscription
            .and_then(|subscription| subscription.namespace());
        of_subscription
            .or_else(|| self.installed.and_then(|csv| csv.namespace()))
            .unwrap_or_default()
    }

    /// Returns the name of the Subscription, or of the ClusterServiceVersion.
    pub(crate) fn name(&self) -> String {
        let of_subscription = self.subscription.map(|subscription| subscription.name_any());
        of_subscription
            .or_else(|| self.installed.map(|csv| csv.name_any()))
            .unwrap_or_default()
    }

    /// Returns true for upstream's package-server, which needs no Subscription. `olm` is OLM's namespace.
    pub(crate) fn is_part_of_olm(&self, olm: &str) -> bool {
        self.subscription.is_none() && self.namespace() == olm && self.name() == "packageserver"
    }

    /// Returns the status of the Subscription.
    pub(crate) fn status(&self) -> Option<&SubscriptionStatus> {
        self.subscription?.status.as_ref()
    }

    /// Returns the package of the Subscription.
    pub(crate) fn package(&self) -> Option<&str> {
        self.subscription
            .map(|subscription| subscription.spec.name.as_str())
    }

    /// Returns the InstallPlan that waits for a user's approval.
    pub(crate) fn pending_plan(&self) -> Option<&InstallPlan> {
        self.plan.filter(|plan| plan.waits_for_approval())
    }

    /// Returns the version before the current one.
    pub(crate) fn former(&self) -> Option<&ClusterServiceVersion> {
        self.formers().next()
    }

    /// Returns the versions before the current one, newest first.
    fn formers(&self) -> impl Iterator<Item = &ClusterServiceVersion> {
        let is_current = |csv: &&ClusterServiceVersion| {
            self.current
                .is_some_and(|current| current.name_any() == csv.name_any())
        };
        let installed = self.installed.filter(|csv| !is_current(csv));
        installed.into_iter().chain(self.older.iter().copied())
    }

    /// Returns the newest version before the current one that succeeded.
    fn last_former(&self) -> Option<&ClusterServiceVersion> {
        self.formers().find(|csv| has_succeeded_once(csv))
    }

    /// Returns all its versions that exist, newest first.
    fn versions(&self) -> impl Iterator<Item = &ClusterServiceVersion> {
        self.current.into_iter().chain(self.formers())
    }

    /// Returns the last version that succeeded. OLM reports a version as installed as soon as it is created.
    fn last_succeeded(&self) -> Option<&ClusterServiceVersion> {
        let has_succeeded = |csv: &&ClusterServiceVersion| *csv.phase() == Phase::Succeeded;
        let succeeded = self.installed.filter(has_succeeded);
        let former = succeeded.or_else(|| self.last_former());
        former.or(self.installed.filter(|csv| has_succeeded_once(csv)))
    }

    /// Returns its versions that wait although OLM already works on a newer one, newest first. Their InstallPlan may have failed.
    pub(crate) fn left_behind(&self) -> impl Iterator<Item = &ClusterServiceVersion> {
        let current = self.status().and_then(|status| status.current_csv.as_deref());
        self.versions().filter(move |csv| {
            let waits = matches!(csv.phase(), Phase::None | Phase::Pending);
            waits && current.is_some_and(|current| current != csv.name_any())
        })
    }

    /// Returns the row of a table.
    pub(crate) fn row(&self) -> Row {
        let spec = self.subscription.map(|subscription| &subscription.spec);
        let status = self.status();
        let Verdict { state, message, .. } = self.verdict();
        let installed = self.last_succeeded();
        let installed_csv = match (installed, state) {
            (Some(csv), _) => csv.name_any(),
            // It never succeeded.
            (None, state) if state == State::Installing || self.installed.is_some() => String::new(),
            (None, _) => status
                .and_then(|status| status.installed_csv.clone())
                .unwrap_or_default(),
        };
        let current_csv = status.and_then(|status| status.current_csv.clone());
        let current_csv = current_csv
            .or_else(|| self.current.map(|csv| csv.name_any()))
            .unwrap_or_default();
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        Row {
            namespace: self.namespace(),
            name: self.name(),
            subscribed: spec.is_some(),
            package: text(spec.map(|spec| spec.name.as_str())),
            channel: text(spec.and_then(|spec| spec.channel())),
            catalog: spec.map_or_else(String::new, |spec| {
                format!("{}/{}", spec.source_namespace, spec.source)
            }),
            approval: spec.map_or_else(String::new, |spec| match spec.is_manual() {
                true => Approval::Manual.to_string(),
                false => Approval::Automatic.to_string(),
            }),
            installed_version: version(installed, &installed_csv),
            installed_csv,
            current_version: version(self.current, &current_csv),
            current_csv,
            state,
            message,
        }
    }

    /// Returns the position of the operator in its channel.
    pub(crate) fn position(&self) -> Position {
        let row = self.row();
        let is_other = row.current_csv != row.installed_csv;
        // The state is that of the version before then.
        let waits = self
            .pending_plan()
            .is_some_and(|plan| plan.spec.cluster_service_version_names.contains(&row.current_csv));
        let is_under_way = matches!(row.state, State::Installing | State::Upgrading | State::Failed);
        Position {
            installed: row.installed_csv,
            next: if is_other { row.current_csv } else { String::new() },
            has_begun: is_other && is_under_way && !waits,
        }
    }
}

/// Returns true if the phase or the history of a ClusterServiceVersion says that it has succeeded. One that never did was never
/// installed. One that failed is replaced, too, if the OperatorGroup lets upgrades fail forward.
fn has_succeeded_once(csv: &ClusterServiceVersion) -> bool {
    let history = || csv.status.iter().flat_map(|status| status.conditions.iter());
    let was = |phase: Phase| history().any(|entry| entry.phase == phase);
    let is_replaced = [Phase::Replacing, Phase::Deleting].contains(csv.phase());
    *csv.phase() == Phase::Succeeded || was(Phase::Succeeded) || is_replaced && !was(Phase::Failed)
}

/// Returns the version of a ClusterServiceVersion. One that does not exist yet may have it in its name; without any it is the name.
fn version(csv: Option<&ClusterServiceVersion>, name: &str) -> String {
    let version = match csv {
        Some(csv) => csv.spec.version.clone(),
        None => version_in(name).map(|version| version.to_string()),
    };
    version
        .filter(|version| !version.is_empty())
        .unwrap_or_else(|| name.to_owned())
}

/// Returns the version in the name of a ClusterServiceVersion, such as `etcd.v1.0.0`; `None` if there is none.
fn version_in(name: &str) -> Option<Version> {
    let mut rest = name;
    while let Some((_, after)) = rest.split_once('.') {
        if let Ok(version) = Version::parse_tolerant(after) {
            return Some(version);
        }
        rest = after;
    }
    None
}
