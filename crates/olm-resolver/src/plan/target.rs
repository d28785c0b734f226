//! The question how to get to one version.

use super::unreachable::no_way;
use super::way::{Target, is_at, search, versions_text};
use super::{Plan, Question};
use crate::problem::{Problem, Subscription};
use crate::resolve::ResolveError;

/// The question for a target cannot be put.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// No Subscription of this name.
    #[error("{0}")]
    UnknownSubscription(String),
    /// Several Subscriptions could get there.
    #[error("several subscriptions could go to {version}: {names}; name one with --subscription")]
    Ambiguous {
        /// The target.
        version: String,
        /// The Subscriptions.
        names: String,
    },
    /// No Subscription has the version in its package.
    #[error("no package subscribed to in namespace {namespace} has version {version}: {offers}")]
    UnknownVersion {
        /// The namespace.
        namespace: String,
        /// The target.
        version: String,
        /// What there is.
        offers: String,
    },
    /// The namespace cannot be resolved.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
}

/// Plans the way to a version. If there is none, the plan says so among what is unsatisfiable, with the reasons.
///
/// Of several ways, the one with the fewest changes of channel is taken, then the one with the fewest steps.
///
/// # Errors
/// When it is not clear which Subscription is meant, or the namespace cannot be resolved.
pub fn plan_to(question: &Question, target: &Target) -> Result<Plan, TargetError> {
    let subscription = find_subscription(&question.problem, target)?;
    if is_at(&question.problem, &subscription, target) {
        return Ok(Plan {
            namespace: question.problem.namespace.clone(),
            notes: vec![format!(
                "subscription {} has {} already",
                subscription.name, subscription.installed_csv
            )],
            ..Plan::default()
        });
    }
    let searched = search(&question.problem, &subscription.name, target)?;
    match searched.way {
        Some(way) => Ok(way.told(question, &subscription, target)),
        None => Ok(no_way(question, &subscription, target, &searched.reached)?),
    }
}

/// Whether the Subscription's package has the target's version.
fn offers_target(problem: &Problem, subscription: &Subscription, target: &Target) -> bool {
    problem.snapshot(&subscription.catalog).is_some_and(|snapshot| {
        let mut entries = snapshot
            .entries()
            .iter()
            .filter(|entry| *entry.package == *subscription.package);
        entries.any(|entry| target.is(&entry.name, entry.version.as_ref()))
    })
}

fn find_subscription(problem: &Problem, target: &Target) -> Result<Subscription, TargetError> {
    let namespace = problem.namespace.clone();
    let names = |subscriptions: &[&Subscription]| {
        let names: Vec<&str> = subscriptions.iter().map(|s| s.name.as_str()).collect();
        names.join(", ")
    };
    if let Some(name) = &target.subscription {
        let all: Vec<&Subscription> = problem.subscriptions.iter().collect();
        let found = all.iter().find(|s| s.name == *name).map(|s| (*s).clone());
        return found.ok_or_else(|| TargetError::UnknownSubscription(problem.unknown_subscription(name)));
    }
    let version = target.version.clone();
    let fitting: Vec<&Subscription> = problem
        .subscriptions
        .iter()
        .filter(|s| offers_target(problem, s, target))
        .collect();
    match fitting.as_slice() {
        [only] => Ok((*only).clone()),
        [] => {
            let texts: Vec<String> = problem
                .subscriptions
                .iter()
                .map(|s| versions_text(problem, s))
                .collect();
            Err(TargetError::UnknownVersion {
                namespace,
                version,
                offers: texts.join("; "),
            })
        }
        several => Err(TargetError::Ambiguous {
            version,
            names: names(several),
        }),
    }
}
