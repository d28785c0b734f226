//! Checks of operators that are not ready, by the model of `status`. Pure.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use olm_api::labels::OWNER_KIND_CSV;

use super::finding::{Finding, Severity, object, word};
use super::observed::{Observed, Unread};
use super::{catalogs, groups};
use crate::command_line::CommandLine;
use crate::operators::{Operator, operators};
use crate::terminal::Mark;

/// Checks that operators are ready.
pub(super) fn ready(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let subscriptions = observed.subscriptions.as_ref()?;
    let csvs = observed.csvs.as_ref()?.iter();
    let csvs = csvs.map(|csv| ((csv.namespace().unwrap_or_default(), csv.name_any()), csv));
    let mut findings = Vec::new();
    let mut plans = BTreeMap::new();
    for (key, read) in &observed.plans {
        match read {
            Ok(plan) => plans.extend(plan.as_ref().map(|plan| (key.clone(), plan))),
            Err(cause) => findings.push(Finding::not_checked(object("InstallPlan", &key.0, &key.1), cause)),
        }
    }
    // Another check reports versions that are in no list.
    let all = operators(subscriptions, &plans, &csvs.collect(), &BTreeSet::new());
    findings.extend(all.iter().filter_map(|operator| of_operator(observed, operator)));
    Ok(findings)
}

/// Returns true if another check reports the cause in a message: a catalog that is missing or not ready, or the OperatorGroups of
/// the namespace.
fn has_finding_elsewhere(observed: &Observed, namespace: &str, message: &str) -> bool {
    let is_away = |(place, name): (&str, &str)| {
        let key = (place.to_owned(), name.to_owned());
        match observed.catalogs.get(&key) {
            Some(Ok(found)) => !found.as_ref().is_some_and(catalogs::is_ready),
            Some(Err(_)) | None => false,
        }
    };
    let message = message.to_lowercase();
    let names_groups = message.contains("operatorgroup") || message.contains("operator group");
    catalogs_in(&message).any(is_away) || (names_groups && groups::hold_up(observed, namespace))
}

/// Returns namespace and name of each catalog that a message of OLM names.
fn catalogs_in(message: &str) -> impl Iterator<Item = (&str, &str)> {
    message.split("catalogsource ").skip(1).filter_map(|text| {
        let word = text.split([' ', ':', ',', ';', '\n']).next()?;
        word.split_once('/')
    })
}

fn of_operator(observed: &Observed, operator: &Operator<'_>) -> Option<Finding> {
    // Another check reports ClusterServiceVersions that were deleted, or upgraded between two lists.
    let status = operator
        .subscription
        .and_then(|subscription| subscription.status.as_ref());
    let names_csv = status
        .and_then(|status| status.installed_csv.as_ref())
        .is_some_and(|csv| !csv.is_empty());
    if names_csv && operator.installed.is_none() {
        return None;
    }
    let verdict = operator.verdict();
    let severity = match verdict.state.mark() {
        Mark::Fine => return None,
        Mark::Waits => Severity::Warning,
        Mark::Bad => Severity::Error,
    };
    let kind = match operator.subscription {
        Some(_) => "Subscription",
        None => OWNER_KIND_CSV,
    };
    let (namespace, name) = (operator.namespace(), operator.name());
    if has_finding_elsewhere(observed, &namespace, &verdict.message) {
        return None;
    }
    // A note names the flags of the cluster.
    let commands = CommandLine::default();
    let way_out = operator.way_out(&verdict, &commands);
    let remedy =
        way_out.unwrap_or_else(|| commands.suggest("status {}", &[word(&name)], Some(word(&namespace))));
    Some(Finding::new(
        severity,
        object(kind, &namespace, &name),
        format!("{}: {}", verdict.state.as_str(), verdict.message),
        remedy,
    ))
}
