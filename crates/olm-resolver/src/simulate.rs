//! Simulates installations in a namespace, for looking ahead.

use std::collections::{BTreeMap, BTreeSet};

use crate::entry::Entry;
use crate::installed;
use crate::problem::{InstalledCsv, Problem, Subscription};
use crate::solution::{Operator, Solution};

const SUCCEEDED: &str = "Succeeded";

/// Installs a solution: new versions replace their predecessors, and generated Subscriptions are created.
pub(crate) fn carry_out(problem: &mut Problem, solution: &Solution) {
    // When a step is complete, operators that were being replaced before it are gone too.
    installed::drop_replaced(problem);
    let operators = &solution.operators;
    let gone: BTreeSet<&str> = operators
        .iter()
        .flat_map(|operator| [operator.replaces.as_str(), &*operator.entry.name])
        .collect();
    problem.installed.retain(|csv| !gone.contains(csv.name.as_str()));
    let mut served: BTreeMap<&str, &Operator> = BTreeMap::new();
    for operator in operators {
        problem.installed.push(installed_csv(&operator.entry));
        served.extend(
            operator
                .subscriptions
                .iter()
                .map(|name| (name.as_str(), operator)),
        );
    }
    for subscription in &mut problem.subscriptions {
        if let Some(operator) = served.get(subscription.name.as_str()) {
            subscription.current_csv = operator.entry.name.to_string();
            subscription.installed_csv = operator.entry.name.to_string();
        }
    }
    let generated = operators
        .iter()
        .filter_map(|operator| operator.generated_subscription.as_ref());
    problem
        .subscriptions
        .extend(generated.map(|generated| Subscription {
            current_csv: generated.starting_csv.clone(),
            installed_csv: generated.starting_csv.clone(),
            ..generated.clone()
        }));
}

/// Carries out the InstallPlan that waits for a Subscription's approval.
pub(crate) fn approve(problem: &mut Problem, subscription: &str, csv: &str) {
    let Some(place) = problem.subscriptions.iter().position(|s| s.name == subscription) else {
        return;
    };
    let wanted = &problem.subscriptions[place];
    let entry = problem
        .catalogs
        .iter()
        .filter(|catalog| catalog.key == wanted.catalog)
        .filter_map(|catalog| catalog.content.as_ref().ok())
        .flat_map(|snapshot| snapshot.entries())
        .find(|entry| *entry.name == *csv && *entry.package == *wanted.package)
        .cloned();
    let replaces = wanted.installed_csv.clone();
    if let Some(entry) = entry {
        let installed = &mut problem.installed;
        installed.retain(|csv| csv.name != replaces && *csv.name != *entry.name);
        installed.push(installed_csv(&entry));
        csv.clone_into(&mut problem.subscriptions[place].installed_csv);
    }
}

fn installed_csv(entry: &Entry) -> InstalledCsv {
    let properties: Vec<String> = entry
        .properties
        .iter()
        .map(|p| {
            format!(
                r#"{{"type":{},"value":{}}}"#,
                serde_json::Value::from(&*p.kind),
                p.value
            )
        })
        .collect();
    InstalledCsv {
        name: entry.name.to_string(),
        version: entry
            .version
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        phase: SUCCEEDED.to_owned(),
        properties: Some(format!(r#"{{"properties":[{}]}}"#, properties.join(",")).into()),
        owned: entry.provided_apis.to_vec(),
        required: entry.required_apis.to_vec(),
        // The replaced version is gone.
        ..InstalledCsv::default()
    }
}
