//! A namespace as it will be once something was installed, for looking ahead.

use crate::entry::Entry;
use crate::problem::{InstalledCsv, Problem, Subscription};
use crate::solution::{Operator, Solution};

const SUCCEEDED: &str = "Succeeded";

/// Installs what a solution says: new versions take the place of the ones they replace, generated Subscriptions exist.
pub(crate) fn carry_out(problem: &mut Problem, solution: &Solution) {
    for operator in &solution.operators {
        install(problem, &operator.entry, &operator.replaces);
        if let Some(generated) = &operator.generated_subscription {
            problem.subscriptions.push(Subscription {
                name: generated.name.clone(),
                package: generated.package.clone(),
                channel: generated.channel.clone(),
                starting_csv: generated.starting_csv.clone(),
                catalog: generated.catalog.clone(),
                current_csv: generated.starting_csv.clone(),
                installed_csv: generated.starting_csv.clone(),
                must_move: false,
            });
        }
        settle(problem, operator);
    }
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
        install(problem, &entry, &replaces);
        csv.clone_into(&mut problem.subscriptions[place].installed_csv);
    }
}

fn install(problem: &mut Problem, entry: &Entry, replaces: &str) {
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
    problem
        .installed
        .retain(|csv| csv.name != replaces && *csv.name != *entry.name);
    problem.installed.push(InstalledCsv {
        name: entry.name.to_string(),
        version: entry
            .version
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        phase: SUCCEEDED.to_owned(),
        properties: Some(format!(r#"{{"properties":[{}]}}"#, properties.join(","))),
        owned: entry.provided_apis.to_vec(),
        required: entry.required_apis.to_vec(),
        // What it replaced is gone.
        replaces: String::new(),
        copied: false,
    });
}

fn settle(problem: &mut Problem, operator: &Operator) {
    for subscription in problem
        .subscriptions
        .iter_mut()
        .filter(|s| operator.subscriptions.contains(&s.name))
    {
        subscription.current_csv = operator.entry.name.to_string();
        subscription.installed_csv = operator.entry.name.to_string();
    }
}
