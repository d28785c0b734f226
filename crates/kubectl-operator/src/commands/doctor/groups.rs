//! OperatorGroups: one a namespace, that selects something, with an account that has rights, and that shares no API. Pure.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use olm_api::api_key::{ApiKey, ApiSet, parse_api_set, provided_apis};
use olm_api::labels;
use olm_api::v1::OperatorGroup;

use super::finding::{Finding, object, word};
use super::observed::{Observed, Unread};
use crate::terminal::plain;

const KIND: &str = "OperatorGroup";
/// Things that are named in one finding.
const MAX_NAMED: usize = 3;
/// Groups of one API that are held against each other.
const MAX_RIVALS: usize = 100;

/// Namespaces with operators have one OperatorGroup.
pub(super) fn one_each(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let groups = observed.groups.as_ref()?;
    let subscriptions = observed.subscriptions.as_ref()?;
    let csvs = observed.csvs.as_ref()?;
    let mut by_namespace: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for group in groups {
        by_namespace
            .entry(group.namespace().unwrap_or_default())
            .or_default()
            .push(group.name_any());
    }
    let of_subscriptions = subscriptions
        .iter()
        .filter_map(|subscription| subscription.namespace());
    let of_csvs = csvs.iter().filter_map(|csv| csv.namespace());
    let with_operators: BTreeSet<String> = of_subscriptions.chain(of_csvs).collect();
    let mut findings = Vec::new();
    for namespace in with_operators
        .iter()
        .filter(|namespace| !by_namespace.contains_key(*namespace))
    {
        findings.push(Finding::error(
            object("Namespace", "", namespace),
            "it has operators and no OperatorGroup, so nothing is installed or runs in it",
            format!("make one in namespace {0}, with spec {{}} for operators of all namespaces, or spec.targetNamespaces: [{0}]; kubectl operator install has --create-operator-group", word(namespace)),
        ));
    }
    for (namespace, names) in by_namespace.iter().filter(|(_, names)| names.len() > 1) {
        let named: Vec<String> = names.iter().map(|name| plain(name)).collect();
        findings.push(Finding::error(
            object("Namespace", "", namespace),
            format!(
                "it has {} OperatorGroups, so OLM does nothing in it: {}",
                names.len(),
                listed(&named)
            ),
            format!(
                "keep one: kubectl delete operatorgroup NAME -n {}",
                word(namespace)
            ),
        ));
    }
    Ok(findings)
}

/// OperatorGroups select namespaces.
pub(super) fn select_something(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let mut findings = Vec::new();
    for group in observed.groups.as_ref()? {
        let status = group.status.as_ref();
        let is_seen = status.is_some_and(|status| status.last_updated.is_some());
        let selects_none = status.is_none_or(|status| status.namespaces.is_empty());
        if !selects_none {
            continue;
        }
        let (namespace, name) = (group.namespace().unwrap_or_default(), group.name_any());
        let remedy = match group.spec.selector.is_some() {
            true => format!(
                "label a namespace as spec.selector wants it, or correct it: kubectl edit operatorgroup {} -n {}",
                word(&name),
                word(&namespace)
            ),
            false => format!(
                "look whether OLM runs, and at its status: kubectl get operatorgroup {} -n {} -o yaml",
                word(&name),
                word(&namespace)
            ),
        };
        let cause = match is_seen {
            true => "it selects no namespace, so its operators do not run",
            false => "OLM has not looked at it",
        };
        findings.push(match is_seen {
            true => Finding::error(object(KIND, &namespace, &name), cause, remedy),
            false => Finding::warning(object(KIND, &namespace, &name), cause, remedy),
        });
    }
    Ok(findings)
}

/// ServiceAccounts of OperatorGroups are there and have rights.
pub(super) fn accounts(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let mut findings = Vec::new();
    for group in observed.groups.as_ref()? {
        let Some(account) = group.spec.service_account() else {
            continue;
        };
        let (namespace, name) = (group.namespace().unwrap_or_default(), group.name_any());
        let about = object(KIND, &namespace, &name);
        let (account_word, place) = (word(account), word(&namespace));
        let account_name = plain(account);
        let key = (namespace.clone(), account.to_owned());
        match observed.accounts.get(&key) {
            Some(Ok(true)) => {}
            Some(Ok(false)) => {
                findings.push(Finding::error(
                    about,
                    format!("its ServiceAccount {account_name} does not exist, so nothing is installed"),
                    format!("kubectl create serviceaccount {account_word} -n {place}, and give it the rights that the operators bring"),
                ));
                continue;
            }
            Some(Err(cause)) => {
                findings.push(Finding::not_checked(about, cause));
                continue;
            }
            None => continue,
        }
        match &observed.bound {
            Ok(bound) if bound.accounts.contains(&key) || bound.namespaces.contains(&namespace) => {}
            Ok(_) => findings.push(Finding::error(
                about,
                format!("its ServiceAccount {account_name} has no rights: no RoleBinding or ClusterRoleBinding names it"),
                format!("kubectl create rolebinding NAME -n {place} --clusterrole ROLE --serviceaccount {place}:{account_word}"),
            )),
            Err(cause) => findings.push(Finding::not_checked(about, cause)),
        }
    }
    Ok(findings)
}

/// No two OperatorGroups of one namespace provide the same API.
pub(super) fn conflicts(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let groups = observed.all_groups.as_ref()?;
    let csvs = observed.csvs.as_ref()?;
    let mut of_csvs: BTreeMap<String, ApiSet> = BTreeMap::new();
    for csv in csvs {
        // One that cannot be read provides nothing.
        let apis = provided_apis(&csv.spec).unwrap_or_default();
        of_csvs
            .entry(csv.namespace().unwrap_or_default())
            .or_default()
            .extend(apis);
    }
    let mut providers: BTreeMap<ApiKey, Vec<&OperatorGroup>> = BTreeMap::new();
    for group in groups {
        let annotation = group.annotations().get(labels::PROVIDED_APIS);
        let mut apis = annotation.map(|text| parse_api_set(text)).unwrap_or_default();
        apis.extend(
            of_csvs
                .get(&group.namespace().unwrap_or_default())
                .into_iter()
                .flatten()
                .cloned(),
        );
        for api in apis {
            providers.entry(api).or_default().push(group);
        }
    }
    let key = |group: &OperatorGroup| (group.namespace().unwrap_or_default(), group.name_any());
    let mut shared: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for (api, groups) in providers {
        let rivals = groups.get(..MAX_RIVALS).unwrap_or(&groups);
        for (at, one) in rivals.iter().enumerate() {
            for other in rivals.iter().skip(at + 1) {
                let is_looked_at = |group: &OperatorGroup| {
                    observed.namespace.is_none() || group.namespace() == observed.namespace
                };
                // Two of one namespace are wrong whatever they provide.
                if one.namespace() != other.namespace()
                    && (is_looked_at(one) || is_looked_at(other))
                    && overlap(one, other)
                {
                    shared
                        .entry((key(one), key(other)))
                        .or_default()
                        .push(api.to_string());
                }
            }
        }
    }
    let conflict = |(((namespace, name), (other_namespace, other_name)), apis): (_, Vec<String>)| {
        let (namespace, name, other_namespace, other_name): (String, String, String, String) =
            (namespace, name, other_namespace, other_name);
        Finding::error(
            object(KIND, &namespace, &name),
            format!(
                "it shares namespaces with {}, and both provide {}",
                object(KIND, &other_namespace, &other_name),
                listed(&apis)
            ),
            format!(
                "narrow one of them (kubectl edit operatorgroup {} -n {}), or uninstall one of the operators",
                word(&name),
                word(&namespace)
            ),
        )
    };
    Ok(shared.into_iter().map(conflict).collect())
}

/// Whether they have a namespace in common; the empty one is all.
fn overlap(one: &OperatorGroup, other: &OperatorGroup) -> bool {
    let targets = |group: &OperatorGroup| -> BTreeSet<String> {
        group
            .status
            .iter()
            .flat_map(|status| status.namespaces.iter())
            .cloned()
            .collect()
    };
    let (one, other) = (targets(one), targets(other));
    if one.is_empty() || other.is_empty() {
        return false;
    }
    one.contains("") || other.contains("") || !one.is_disjoint(&other)
}

/// The first few, and how many more.
fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(MAX_NAMED);
    let named = names.get(..MAX_NAMED).unwrap_or(names).join(", ");
    match more {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
