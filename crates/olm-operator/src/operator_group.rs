//! The OperatorGroup controller: the target namespaces of a group, and the APIs its operators provide.
//!
//! # Expected flow
//! `observe` reads stores, and the ServiceAccount that a group names. [`decide`] computes targets,
//! conditions, and APIs without a provider. [`status`] writes targets, account and conditions at once. The
//! ClusterServiceVersion controller writes the membership, and the Namespace controller writes namespace
//! labels.
//!
//! # Guarantees
//! At most one status write per reconcile, and none when nothing changed. Fields of others in the status are
//! kept.

pub(crate) mod decide;
pub(crate) mod intersection;
pub(crate) mod observe;
pub(crate) mod status;
pub(crate) mod targets;
pub(crate) mod triggers;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use async_trait::async_trait;
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::{Client, ResourceExt, core::Selector};
use olm_api::{
    api_key::ApiSet, install_mode::NAMESPACE_ALL, labels::operator_group_uid_label, v1::OperatorGroup,
};
use olm_runtime::{
    NamespacedName, Timestamp,
    driver::{Reconciler, StatusUpdate},
    error::ObserveError,
    event::regarding,
    outcome::Outcomes,
    plan::Plan,
};

pub(crate) use olm_api::intersection::listed_apis as provided_apis;

use crate::{
    operator_group::{decide::Verdict, intersection::NamespaceSet, observe::Observed, targets::Selection},
    stores::Stores,
};

/// Namespaces where the operators of a group work, as far as known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Targets {
    /// The group selects namespaces, but its status does not list them yet.
    Unresolved,
    /// The selector of the group is invalid, and no targets were resolved before. Contains a message for
    /// users.
    Invalid(String),
    /// These namespaces; empty when nothing is selected, only `""` for all.
    Namespaces(BTreeSet<String>),
}

/// An OperatorGroup as its members see it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// Its resourceVersion, the precondition of changes of its list of APIs.
    pub(crate) resource_version: Option<String>,
    /// Namespaces where its operators work.
    pub(crate) targets: Targets,
    /// Label selector of its namespaces, if it has one.
    pub(crate) selector: Option<LabelSelector>,
    /// True when users maintain the list of provided APIs.
    pub(crate) static_apis: bool,
    /// True when failed operators may be upgraded (`upgradeStrategy`).
    pub(crate) fail_forward: bool,
    /// The account whose rights limit installs; `None` when OLM's own account is used.
    pub(crate) service_account: Option<String>,
    /// True while the status does not name that account. Until it does, nothing is written for members.
    pub(crate) awaits_service_account: bool,
    /// APIs its operators provide, as listed.
    pub(crate) provided: ApiSet,
}

impl Group {
    /// Reads a group; `matches_any` returns true if a namespace with matching labels exists.
    pub(crate) fn read(group: &OperatorGroup, matches_any: impl FnOnce(&Selector) -> bool) -> Self {
        let resolved = || -> BTreeSet<String> {
            group
                .status
                .iter()
                .flat_map(|status| &status.namespaces)
                .cloned()
                .collect()
        };
        let selection = Selection::read(&group.spec);
        let selector = match selection {
            Ok(Selection::Labels(_)) => group.spec.selector.clone(),
            _ => None,
        };
        let targets = match selection {
            // The status keeps the group's earlier targets, and so do its members, so that an invalid spec
            // stops no running operator.
            Err(text) if resolved().is_empty() => Targets::Invalid(text),
            Ok(Selection::Labels(selector)) if !matches_any(&selector) => {
                Targets::Namespaces(BTreeSet::new())
            }
            Ok(_) if resolved().is_empty() => Targets::Unresolved,
            Ok(_) | Err(_) => Targets::Namespaces(resolved()),
        };
        let service_account = group.spec.service_account().map(str::to_owned);
        let found = group
            .status
            .as_ref()
            .and_then(|status| status.service_account_ref.as_ref()?.name.as_ref());
        Self {
            awaits_service_account: service_account.is_some() && service_account.as_ref() != found,
            namespace: group.namespace().unwrap_or_default(),
            name: group.name_any(),
            uid: group.uid().unwrap_or_default(),
            resource_version: group.resource_version(),
            targets,
            selector,
            static_apis: group.spec.static_provided_apis == Some(true),
            fail_forward: group.spec.allows_fail_forward(),
            service_account,
            provided: provided_apis(group),
        }
    }

    /// True when the operators of this group work in all namespaces.
    pub(crate) fn targets_all(&self) -> bool {
        matches!(&self.targets, Targets::Namespaces(targets) if is_all(targets.iter()))
    }

    /// Returns the selector of the namespaces in which the webhooks of its operators are called: all
    /// namespaces, those matching the group's selector, or those that OLM labels as its targets.
    pub(crate) fn namespace_selector(&self) -> LabelSelector {
        match &self.selector {
            Some(selector) => selector.clone(),
            None if self.targets_all() => LabelSelector::default(),
            None => LabelSelector {
                match_labels: Some([(operator_group_uid_label(&self.uid), String::new())].into()),
                match_expressions: None,
            },
        }
    }

    /// Returns the targets for the intersection with other groups.
    pub(crate) fn intersection(&self) -> NamespaceSet {
        match &self.targets {
            Targets::Namespaces(targets) => NamespaceSet::of_group(&self.namespace, targets.iter().cloned()),
            Targets::Unresolved | Targets::Invalid(_) => NamespaceSet::default(),
        }
    }
}

/// True for the only name that means all namespaces.
pub(crate) fn is_all<'a>(mut targets: impl Iterator<Item = &'a String>) -> bool {
    targets.next().is_some_and(|first| first == NAMESPACE_ALL) && targets.next().is_none()
}

pub(crate) struct OperatorGroups {
    pub(crate) stores: Stores,
    /// For reads of the accounts that groups name.
    pub(crate) client: Client,
}

#[async_trait]
impl Reconciler for OperatorGroups {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = Verdict;
    /// Error about an invalid selector that was reported last.
    type Memory = String;

    const NAME: &'static str = "operator-group";

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        regarding(&self.stores.groups, key)
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        observe::observe(&self.stores, &self.client, key).await
    }

    fn decide(observed: &Observed, told: Option<&String>, _now: Timestamp) -> (Plan, Verdict) {
        decide::decide(observed, told.map(String::as_str))
    }

    fn status(
        observed: &Observed,
        verdict: Verdict,
        _outcomes: &Outcomes,
        now: Timestamp,
    ) -> StatusUpdate<String> {
        status::status(observed, verdict, now)
    }
}
