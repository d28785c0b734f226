//! Checks of operators that are not ready, by the model of `status`. Pure.

use std::collections::BTreeMap;

use olm_api::labels::OWNER_KIND_CSV;

use super::finding::{Finding, Severity, object, word};
use super::groups;
use super::groups::MAX_NAMED;
use super::observed::{Observed, Unread};
use crate::command_line::CommandLine;
use crate::commands::catalog::is_ready;
use crate::operators::{Operator, State};
use crate::terminal::listed;

/// Checks that operators are ready.
pub(super) fn ready(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let gathered = observed.operators.as_ref()?;
    let unasked = gathered.unasked.iter().map(|(namespace, name)| {
        let about = object("InstallPlan", namespace, name);
        Finding::not_checked(about, "there are too many InstallPlans")
    });
    let operators = gathered.operators();
    let unready = operators
        .iter()
        .filter_map(|operator| of_operator(observed, operator));
    Ok(unasked.chain(merged(unready)).collect())
}

/// Returns the findings without those of other operators of a namespace with the same cause, such as an InstallPlan for several
/// Subscriptions, or Subscriptions that exclude each other. The first one names the others.
fn merged(findings: impl Iterator<Item = Finding>) -> Vec<Finding> {
    let mut first: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut others: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    let mut merged: Vec<Finding> = Vec::new();
    for finding in findings {
        let key = (finding.namespace().to_owned(), finding.cause.clone());
        match first.get(&key) {
            Some(&at) => others.entry(at).or_default().push(finding.object),
            None => {
                first.insert(key, merged.len());
                merged.push(finding);
            }
        }
    }
    for (at, names) in others {
        if let Some(finding) = merged.get_mut(at) {
            finding.cause += &format!("; the same for {}", listed(&names, MAX_NAMED));
        }
    }
    merged
}

/// Returns true if another check reports what an operator in this state waits for: a version that cannot be read, the
/// OperatorGroup of its namespace, or its catalog. An operator that fails does not wait for its catalog.
fn has_finding_elsewhere(observed: &Observed, operator: &Operator<'_>, state: State) -> bool {
    let waits = matches!(state, State::Unresolved | State::Pending);
    let lacks_catalog = operator.subscription.is_some_and(|subscription| {
        let spec = &subscription.spec;
        let key = (spec.source_namespace.clone(), spec.source.clone());
        match observed.catalogs.get(&key) {
            Some(Ok(found)) => !found.as_ref().is_some_and(is_ready),
            Some(Err(_)) | None => false,
        }
    });
    operator.is_hidden || groups::hold_up(observed, &operator.namespace()) || (waits && lacks_catalog)
}

fn of_operator(observed: &Observed, operator: &Operator<'_>) -> Option<Finding> {
    let verdict = operator.verdict();
    let severity = Severity::of(verdict.state.mark())?;
    if has_finding_elsewhere(observed, operator, verdict.state) {
        return None;
    }
    let kind = match operator.subscription {
        Some(_) => "Subscription",
        None => OWNER_KIND_CSV,
    };
    let (namespace, name) = (operator.namespace(), operator.name());
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
