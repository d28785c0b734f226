//! What the resolver says about a namespace. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use go_compat::error_chain;
use olm_api::condition::subscription as reasons;
use olm_resolver::explain::CONDITION_LIMIT;
use olm_resolver::{Advisor, Explanation, Hints, Problem, Resolution, Solution, Subscription};

use super::input::ResolutionInput;
use super::observed::Failure;
use crate::subscription::deprecation::DeprecationFact;

/// What the resolver and the catalogs say.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    /// What to install.
    pub solution: Solution,
    /// What fails, as Subscriptions are told of it. The explanations themselves are kept by nobody.
    pub failures: Vec<Failure>,
    /// What prevents resolution of the namespace as a whole.
    pub error: Option<String>,
    /// Deprecations by Subscription, for those whose catalog tells.
    pub deprecations: BTreeMap<String, DeprecationFact>,
}

/// Resolves `problem`, which was made from `input`; with what was left out of the choice as malformed. CPU work, no IO.
pub(crate) fn resolve(input: &ResolutionInput, problem: &Problem) -> (Resolved, Vec<String>) {
    let deprecations = input
        .subscriptions
        .iter()
        .filter_map(|subscription| {
            Some((
                subscription.name.clone(),
                find_deprecation(subscription, problem)?,
            ))
        })
        .collect();
    let mut resolved = Resolved {
        deprecations,
        ..Resolved::default()
    };
    if !input.resolve {
        return (resolved, Vec::new());
    }
    match olm_resolver::resolve(problem) {
        Ok(resolution) => {
            let Resolution {
                solution,
                failures,
                excluded,
            } = resolution;
            let (advisor, hints) = (Advisor::new(problem, &failures), Hints::new(problem));
            let failures = failures
                .iter()
                .map(|explanation| failure_of(problem, explanation, &advisor, &hints));
            resolved.failures = failures.collect();
            resolved.solution = solution;
            (resolved, excluded)
        }
        Err(error) => {
            resolved.error = Some(error_chain(&error));
            (resolved, Vec::new())
        }
    }
}

/// Deprecations that concern the installed version of a Subscription; none if its catalog does not have that version.
fn find_deprecation(subscription: &Subscription, problem: &Problem) -> Option<DeprecationFact> {
    let catalog = problem
        .catalogs
        .iter()
        .find(|catalog| catalog.key == subscription.catalog)?;
    let content = catalog.content.as_ref().ok()?;
    let mut entries = content.entries().iter().filter(|entry| {
        *entry.name == *subscription.installed_csv
            && *entry.package == *subscription.package
            && (subscription.channel.is_empty() || *entry.channel == *subscription.channel)
    });
    let entry = entries.next()?;
    let deprecation = entry.deprecation.clone().unwrap_or_default();
    let text = |message: &Option<Arc<str>>| message.as_deref().map(str::to_owned);
    Some(DeprecationFact {
        package: text(&deprecation.package),
        channel: text(&deprecation.channel).filter(|_| !subscription.channel.is_empty()),
        bundle: text(&deprecation.bundle),
    })
}

/// What Subscriptions are told of a failure: upstream's message as the first line, then the reasons as a tree and what was
/// found to resolve it.
fn failure_of(problem: &Problem, explanation: &Explanation, advisor: &Advisor<'_>, hints: &Hints) -> Failure {
    let reason = if explanation.is_unsatisfiable() {
        reasons::CONSTRAINTS_NOT_SATISFIABLE
    } else {
        reasons::ERROR_PREVENTED_RESOLUTION
    };
    let advice = advisor.advise(explanation).lines(&problem.namespace);
    Failure {
        subscriptions: explanation.subscriptions.clone(),
        reason,
        message: explanation.text(hints, &advice, CONDITION_LIMIT),
    }
}
