//! Checks of OperatorGroups: one per namespace, with targets, with a ServiceAccount that has permissions, and without API
//! conflicts. Pure.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use olm_api::api_key::{ApiKey, ApiSet, parse_api_set, provided_apis};
use olm_api::labels;
use olm_api::v1::OperatorGroup;

use super::finding::{Finding, object, word};
use super::observed::{Observed, Unread};
use crate::terminal::plain;

const KIND: &str = "OperatorGroup";
/// Maximum number of names in one finding.
const MAX_NAMED: usize = 3;
/// Maximum number of groups that are compared per API.
const MAX_RIVALS: usize = 100;
/// Maximum number of comparisons.
const MAX_PAIRS: usize = 100_000;

/// Checks that namespaces with operators have exactly one OperatorGroup.
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
            "it has operators but no OperatorGroup, so OLM installs nothing in it",
            format!("create one in namespace {0}, with spec {{}} for all namespaces, or spec.targetNamespaces: [{0}]; or use --create-operator-group of kubectl operator install", word(namespace)),
        ));
    }
    for (namespace, names) in by_namespace.iter().filter(|(_, names)| names.len() > 1) {
        let named: Vec<String> = names.iter().map(|name| plain(name)).collect();
        findings.push(Finding::error(
            object("Namespace", "", namespace),
            format!(
                "it has {} OperatorGroups, so OLM installs nothing in it: {}",
                names.len(),
                listed(&named)
            ),
            format!(
                "delete all but one: kubectl delete operatorgroup NAME -n {}",
                word(namespace)
            ),
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
    let status = group.status.as_ref();
    let selects_none = status.is_none_or(|status| status.namespaces.is_empty());
    let lacks_account = group.spec.service_account().is_some_and(|account| {
        let key = (namespace.to_owned(), account.to_owned());
        observed.accounts.get(&key) == Some(&Ok(false))
    });
    selects_none || lacks_account
}

/// Checks that OperatorGroups select namespaces.
pub(super) fn select_something(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let mut findings = Vec::new();
    for group in observed.groups.as_ref()? {
        findings.extend(targets(observed, group));
        let status = group.status.as_ref();
        let is_seen = status.is_some_and(|status| status.last_updated.is_some());
        let selects_none = status.is_none_or(|status| status.namespaces.is_empty());
        if !selects_none {
            continue;
        }
        let (namespace, name) = (group.namespace().unwrap_or_default(), group.name_any());
        let remedy = match group.spec.selector.is_some() {
            true => format!(
                "label a namespace to match spec.selector, or correct the selector: kubectl edit operatorgroup {} -n {}",
                word(&name),
                word(&namespace)
            ),
            false => format!(
                "check whether OLM runs, and the group's status: kubectl get operatorgroup {} -n {} -o yaml",
                word(&name),
                word(&namespace)
            ),
        };
        let cause = match is_seen {
            true => "it selects no namespace, so its operators do not run",
            false => "OLM has not processed it",
        };
        findings.push(match is_seen {
            true => Finding::error(object(KIND, &namespace, &name), cause, remedy),
            false => Finding::warning(object(KIND, &namespace, &name), cause, remedy),
        });
    }
    Ok(findings)
}

/// Returns findings for target namespaces that do not exist. OLM accepts them, and the operators then watch nothing.
fn targets(observed: &Observed, group: &OperatorGroup) -> Vec<Finding> {
    let (namespace, name) = (group.namespace().unwrap_or_default(), group.name_any());
    let about = || object(KIND, &namespace, &name);
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
            about(),
            format!("it targets namespaces that do not exist: {}", listed(&missing)),
            format!(
                "create them, or correct spec.targetNamespaces: kubectl edit operatorgroup {} -n {}",
                word(&name),
                word(&namespace)
            ),
        )
    });
    let unread = unread.map(|cause| Finding::not_checked(about(), cause));
    missing.into_iter().chain(unread).collect()
}

/// Checks that ServiceAccounts of OperatorGroups exist and have permissions.
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
                    format!("kubectl create serviceaccount {account_word} -n {place}, and grant it the permissions of the operators"),
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

/// Checks that OperatorGroups with a common target namespace do not provide the same API.
pub(super) fn conflicts(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let groups = observed.all_groups.as_ref()?;
    let csvs = observed.csvs.as_ref()?;
    let mut of_csvs: BTreeMap<String, ApiSet> = BTreeMap::new();
    for csv in csvs {
        // A ClusterServiceVersion that cannot be read provides nothing.
        let apis = provided_apis(&csv.spec).unwrap_or_default();
        of_csvs
            .entry(csv.namespace().unwrap_or_default())
            .or_default()
            .extend(apis);
    }
    let mut providers: BTreeMap<ApiKey, Vec<usize>> = BTreeMap::new();
    for (at, group) in groups.iter().enumerate() {
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
            providers.entry(api).or_default().push(at);
        }
    }
    let rivals = Rivals::new(groups);
    let is_looked_at =
        |at: usize| observed.namespace.is_none() || rivals.namespace(at) == observed.namespace.as_deref();
    let mut shared: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
    let mut left = MAX_PAIRS;
    for (api, groups) in providers {
        let of_api = groups.get(..MAX_RIVALS).unwrap_or(&groups);
        for (at, one) in of_api.iter().enumerate() {
            for other in of_api
                .iter()
                .skip(at + 1)
                .filter(|other| is_looked_at(*one) || is_looked_at(**other))
            {
                left = left.saturating_sub(1);
                if left > 0 && rivals.meet(*one, *other) {
                    shared.entry((*one, *other)).or_default().push(api.to_string());
                }
            }
        }
    }
    let mut findings: Vec<Finding> = shared
        .into_iter()
        .map(|((one, other), apis)| rivals.finding(one, other, &apis))
        .collect();
    if left == 0 {
        let cause = format!("there are more than {MAX_PAIRS} pairs of OperatorGroups with the same API");
        findings.push(Finding::not_checked("OperatorGroups".to_owned(), cause));
    }
    Ok(findings)
}

/// OperatorGroups with their target namespaces. The number of comparisons is limited, because users can annotate groups with any
/// APIs.
struct Rivals<'a> {
    groups: Vec<(&'a OperatorGroup, BTreeSet<&'a str>)>,
}

impl<'a> Rivals<'a> {
    fn new(groups: &'a [OperatorGroup]) -> Self {
        let with_targets = groups.iter().map(|group| {
            let targets = group.status.iter().flat_map(|status| status.namespaces.iter());
            (group, targets.map(String::as_str).collect())
        });
        Self {
            groups: with_targets.collect(),
        }
    }

    fn namespace(&self, at: usize) -> Option<&'a str> {
        self.groups.get(at)?.0.metadata.namespace.as_deref()
    }

    /// Returns true if two groups have a common target namespace; the empty name means all. Two groups in one namespace are
    /// reported by [`one_each`].
    fn meet(&self, one: usize, other: usize) -> bool {
        let (Some((_, one_targets)), Some((_, other_targets))) =
            (self.groups.get(one), self.groups.get(other))
        else {
            return false;
        };
        if self.namespace(one) == self.namespace(other) || one_targets.is_empty() || other_targets.is_empty()
        {
            return false;
        }
        one_targets.contains("") || other_targets.contains("") || !one_targets.is_disjoint(other_targets)
    }

    fn finding(&self, one: usize, other: usize, apis: &[String]) -> Finding {
        let key = |at: usize| {
            let name = self.groups.get(at).map(|(group, _)| group.name_any());
            (self.namespace(at).unwrap_or_default(), name.unwrap_or_default())
        };
        let ((namespace, name), (other_namespace, other_name)) = (key(one), key(other));
        Finding::error(
            object(KIND, namespace, &name),
            format!(
                "it shares namespaces with {}, and both provide {}",
                object(KIND, other_namespace, &other_name),
                listed(apis)
            ),
            format!(
                "narrow one of them (kubectl edit operatorgroup {} -n {}), or uninstall one of the operators",
                word(&name),
                word(namespace)
            ),
        )
    }
}

/// Returns the first few names and the number of the others.
fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(MAX_NAMED);
    let named = names.get(..MAX_NAMED).unwrap_or(names).join(", ");
    match more {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
