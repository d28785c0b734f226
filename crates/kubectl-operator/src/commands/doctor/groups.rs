//! Checks of OperatorGroups: one per namespace, with targets, and with a ServiceAccount that exists. Pure.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use olm_api::v1::OperatorGroup;

use super::finding::{Finding, about, at, object, word};
use super::observed::{Observed, Unread};
use crate::groups::{create_one, keep_one};
use crate::terminal::{listed, plain};

/// Maximum number of names in one finding.
pub(super) const MAX_NAMED: usize = 3;

/// Checks that namespaces with operators have exactly one OperatorGroup.
pub(super) fn one_each(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let groups = observed.groups.as_ref()?;
    let operators = observed.operators.as_ref()?;
    let mut by_namespace: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for group in groups {
        by_namespace
            .entry(group.namespace().unwrap_or_default())
            .or_default()
            .push(group.name_any());
    }
    let of_subscriptions = operators.subscriptions.iter();
    let of_subscriptions = of_subscriptions.filter_map(|subscription| subscription.namespace());
    let of_csvs = operators.csvs.keys().map(|(namespace, _)| namespace.clone());
    let with_operators: BTreeSet<String> = of_subscriptions.chain(of_csvs).collect();
    let mut findings = Vec::new();
    for namespace in with_operators
        .iter()
        .filter(|namespace| !by_namespace.contains_key(*namespace))
    {
        findings.push(Finding::error(
            object("Namespace", "", namespace),
            "it has operators but no OperatorGroup, so OLM installs nothing in it",
            create_one(word(namespace), &format!("-n {}", word(namespace))),
        ));
    }
    for (namespace, names) in by_namespace.iter().filter(|(_, names)| names.len() > 1) {
        let named: Vec<String> = names.iter().map(|name| plain(name)).collect();
        findings.push(Finding::error(
            object("Namespace", "", namespace),
            format!(
                "it has {} OperatorGroups, so OLM installs nothing in it: {}",
                names.len(),
                listed(&named, MAX_NAMED)
            ),
            keep_one(&format!("-n {}", word(namespace))),
        ));
    }
    Ok(findings)
}

/// Returns true if a check of this module reports that operators of the namespace cannot run. False if that is unknown.
pub(super) fn hold_up(observed: &Observed, namespace: &str) -> bool {
    let Ok(groups) = &observed.groups else {
        return false;
    };
    let mut own = groups
        .iter()
        .filter(|group| group.namespace().as_deref() == Some(namespace));
    let (Some(group), None) = (own.next(), own.next()) else {
        return true;
    };
    let lacks_account = group.spec.service_account().is_some_and(|account| {
        let key = (namespace.to_owned(), account.to_owned());
        observed.accounts.get(&key) == Some(&Ok(false))
    });
    selects_none(group) || lacks_account
}

fn selects_none(group: &OperatorGroup) -> bool {
    let status = group.status.as_ref();
    status.is_none_or(|status| status.namespaces.is_empty())
}

/// Checks that OperatorGroups select namespaces.
pub(super) fn select_something(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let mut findings = Vec::new();
    for group in observed.groups.as_ref()? {
        findings.extend(targets(observed, group));
        if !selects_none(group) {
            continue;
        }
        let remedy = match group.spec.selector.is_some() {
            true => format!(
                "label a namespace to match spec.selector, or correct the selector: kubectl edit operatorgroup {}",
                at(group)
            ),
            false => format!(
                "check whether OLM runs, and the group's status: kubectl get operatorgroup {} -o yaml",
                at(group)
            ),
        };
        let status = group.status.as_ref();
        findings.push(match status.is_some_and(|status| status.last_updated.is_some()) {
            true => Finding::error(
                about(group),
                "it selects no namespace, so its operators do not run",
                remedy,
            ),
            false => Finding::warning(about(group), "OLM has not processed it", remedy),
        });
    }
    Ok(findings)
}

/// Returns findings for target namespaces that do not exist. OLM accepts them, and the operators then watch nothing.
fn targets(observed: &Observed, group: &OperatorGroup) -> Vec<Finding> {
    let namespace = group.namespace().unwrap_or_default();
    let (mut missing, mut unread) = (BTreeSet::new(), None);
    for target in &*group.spec.target_namespaces {
        match observed.group_targets.get(&(namespace.clone(), target.clone())) {
            Some(Ok(false)) => {
                missing.insert(plain(target));
            }
            Some(Err(cause)) => unread = unread.or(Some(cause)),
            Some(Ok(true)) | None => {}
        }
    }
    let missing: Vec<String> = missing.into_iter().collect();
    let missing = (!missing.is_empty()).then(|| {
        Finding::warning(
            about(group),
            format!(
                "it targets namespaces that do not exist: {}",
                listed(&missing, MAX_NAMED)
            ),
            format!(
                "create them, or correct spec.targetNamespaces: kubectl edit operatorgroup {}",
                at(group)
            ),
        )
    });
    let unread = unread.map(|cause| Finding::not_checked(about(group), cause));
    missing.into_iter().chain(unread).collect()
}

/// Checks that ServiceAccounts of OperatorGroups exist.
pub(super) fn accounts(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let findings = observed.groups.as_ref()?.iter().filter_map(|group| {
        let (namespace, account) = (
            group.namespace().unwrap_or_default(),
            group.spec.service_account()?,
        );
        match observed.accounts.get(&(namespace.clone(), account.to_owned()))? {
            Ok(true) => None,
            Ok(false) => Some(Finding::error(
                about(group),
                format!(
                    "its ServiceAccount {} does not exist, so nothing is installed",
                    plain(account)
                ),
                format!(
                    "kubectl create serviceaccount {} -n {}, and grant it the permissions of the operators",
                    word(account),
                    word(&namespace)
                ),
            )),
            Err(cause) => Some(Finding::not_checked(about(group), cause)),
        }
    });
    Ok(findings.collect())
}
