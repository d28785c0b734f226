//! Explains why Subscriptions of a namespace are not served or not upgraded. Looks no further ahead than the
//! next resolution.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::{HeldBack, NotSucceeded, Question, Unsatisfiable, held};
use crate::advice::Advisor;
use crate::enumeration::list;
use crate::explain::Hints;
use crate::one_line::OneLine;
use crate::problem::{Problem, Subscription};
use crate::resolve::{ResolveError, resolve};

/// Explanation of some Subscriptions. As JSON it is an [`ExplainedDocument`](super::ExplainedDocument).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explained {
    /// The namespace.
    pub namespace: String,
    /// Failures, one entry for each part of the namespace.
    pub unsatisfiable: Vec<Unsatisfiable>,
    /// The Subscriptions that can be resolved, in the order of their objects.
    pub standings: Vec<Standing>,
    /// Installed operators that do not run. Needs the objects: [`Question::explain`] fills it.
    pub not_succeeded: Vec<NotSucceeded>,
    /// Malformed bundles and channels that were left out of the choice, with the reason.
    pub excluded: Vec<String>,
}

/// State of a Subscription that can be resolved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// The Subscription.
    pub subscription: String,
    /// Its installed operator; empty if there is none.
    pub installed: String,
    /// The operator that the next resolution gives it; absent if nothing is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Description of both.
    pub state: String,
    /// What a user can do about the state; `None` if nothing is known. Needs the cluster: this crate sets none.
    #[serde(skip)]
    pub way_out: Option<String>,
    /// The reason why it gets less than its channel offers, if so.
    #[serde(skip)]
    pub held_back: Option<HeldBack>,
}

impl Question {
    /// Explains one Subscription by its name, or all of the namespace, and the installed operators that do
    /// not run.
    ///
    /// # Errors
    /// The namespace as a whole cannot be resolved.
    pub fn explain(&self, name: Option<&str>) -> Result<Explained, ResolveError> {
        let mut explained = explain(&self.problem, name)?;
        explained.not_succeeded = self.not_succeeded_of(name);
        self.add_causes(&mut explained.unsatisfiable);
        for standing in &mut explained.standings {
            let subscriptions = self.problem.subscriptions.iter();
            let mut awaiting = subscriptions.filter(|found| self.problem.awaits_plan(found));
            let mut plans = self.waiting.iter();
            let of_it = plans.find(|plan| plan.subscription == standing.subscription);
            if let (Some(plan), true) = (of_it, awaiting.any(|found| found.name == standing.subscription)) {
                standing.state = self.awaited_text(plan);
            }
        }
        Ok(explained)
    }
}

/// Explains one Subscription by its name, or all of the namespace and the installed operators.
///
/// # Errors
/// The namespace as a whole cannot be resolved.
pub fn explain(problem: &Problem, name: Option<&str>) -> Result<Explained, ResolveError> {
    let asked = |other: &str| name.is_none_or(|name| name == other);
    let resolution = resolve(problem)?;
    let advisor = Advisor::new(problem, &resolution.failures);
    let hints = Hints::new(problem);
    let failing: BTreeSet<String> = resolution
        .failures
        .iter()
        .flat_map(|failure| failure.subscriptions.iter().cloned())
        .collect();
    let failures = resolution.failures.iter();
    let unsatisfiable = failures
        .filter(|failure| name.is_none() || failure.subscriptions.iter().any(|name| asked(name)))
        .map(|failure| {
            let advice = advisor.advise(failure);
            Unsatisfiable::new(failure, &hints, advice, &BTreeSet::new())
        });
    let mut held = held(problem, &failing);
    let others = problem.subscriptions.iter();
    let standings = others
        .filter(|s| asked(&s.name) && !failing.contains(&s.name))
        .map(|subscription| {
            let mut updates = resolution.solution.updates.iter();
            let is_lost = was_deleted(problem, subscription);
            let next = updates.find(|update| update.subscription == subscription.name && !is_lost);
            let next = next.map(|update| update.current_csv.clone());
            let place = held
                .iter()
                .position(|held| held.subscription == subscription.name);
            let held_back = place
                .filter(|_| next.is_none() && !is_lost)
                .map(|place| held.swap_remove(place));
            Standing {
                subscription: subscription.name.clone(),
                installed: subscription.installed_csv.clone(),
                state: state_text(problem, subscription, next.as_deref()),
                next,
                way_out: None,
                held_back,
            }
        });
    Ok(Explained {
        namespace: problem.namespace.clone(),
        unsatisfiable: unsatisfiable.collect(),
        standings: standings.collect(),
        not_succeeded: Vec::new(),
        excluded: resolution.excluded,
    })
}

/// Returns whether the Subscription's ClusterServiceVersion existed and was deleted. Nothing is resolved for
/// it then.
fn was_deleted(problem: &Problem, subscription: &Subscription) -> bool {
    let Subscription {
        current_csv,
        installed_csv,
        ..
    } = subscription;
    !installed_csv.is_empty()
        && installed_csv == current_csv
        && !problem.installed.iter().any(|csv| csv.name == *installed_csv)
}

fn state_text(problem: &Problem, subscription: &Subscription, next: Option<&str>) -> String {
    let Subscription {
        current_csv,
        installed_csv,
        ..
    } = subscription;
    if problem.awaits_plan(subscription) {
        return format!(
            "waits for {current_csv}: its InstallPlan is in progress or requires approval (kubectl get installplan -n \
             {})",
            problem.namespace
        );
    }
    if was_deleted(problem, subscription) {
        return format!(
            "{installed_csv}, which it has, was deleted, and OLM does not restore it; delete and recreate the subscription \
             with {installed_csv} in spec.startingCSV (kubectl delete subscription {} -n {})",
            subscription.name, problem.namespace
        );
    }
    match next {
        Some(next) if installed_csv.is_empty() => format!("resolves to {next}"),
        Some(next) => format!("will be upgraded from {installed_csv} to {next}"),
        None if installed_csv.is_empty() => "is resolved; nothing to install".to_owned(),
        None => match headed(problem, subscription) {
            Some(channels) => {
                format!("has {installed_csv}, the head of {channels}; there is no newer version")
            }
            None => format!("has {installed_csv}, and is not upgraded now"),
        },
    }
}

/// Returns the channels at whose head a Subscription is; `None` if it is at no head.
fn headed(problem: &Problem, subscription: &Subscription) -> Option<String> {
    let Subscription {
        package,
        channel,
        catalog,
        installed_csv: installed,
        ..
    } = subscription;
    let snapshot = problem.snapshot(catalog)?;
    let heads = snapshot.heads(package, channel);
    let headed: BTreeSet<&str> = heads
        .filter(|(_, head)| head == installed)
        .map(|(name, _)| name)
        .collect();
    (!headed.is_empty()).then(|| format!("channel {}", list(headed.into_iter())))
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.unsatisfiable {
            let names = failure.concerned().join(", ");
            writeln!(f, "{}: {}", OneLine(names), OneLine(failure.kind()))?;
            for line in failure.lines(&self.namespace) {
                writeln!(f, "  {}", OneLine(line))?;
            }
        }
        for Standing {
            subscription,
            state,
            way_out,
            held_back,
            ..
        } in &self.standings
        {
            writeln!(f, "{}: {}", OneLine(subscription), OneLine(state))?;
            if let Some(way_out) = way_out {
                writeln!(f, "  to resolve: {}", OneLine(way_out))?;
            }
            if let Some(held) = held_back {
                writeln!(f, "  its channel offers more, but")?;
                for line in held.lines() {
                    writeln!(f, "  {}", OneLine(line))?;
                }
            }
        }
        for found in &self.not_succeeded {
            writeln!(f, "{found}")?;
        }
        for excluded in &self.excluded {
            writeln!(f, "excluded: {}", OneLine(excluded))?;
        }
        Ok(())
    }
}
