//! What the resolver says about a namespace. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use go_compat::error_chain;
use olm_api::condition::subscription as reasons;
use olm_fbc::entry::Deprecation;
use olm_resolver::explain::CONDITION_LIMIT;
use olm_resolver::{Advisor, Explanation, Hints, Problem, Resolution, Solution, Subscription};

use super::choices::Choices;
use super::components;
use super::input::ResolutionInput;
use super::observed::Failure;

/// Maximum number of bundles in a message about catalogs that are not READY.
const OFFERED: usize = 6;

/// What the resolver and the catalogs say.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    /// What to install.
    pub solution: Solution,
    /// Failures, as reported to Subscriptions. The explanations themselves are not kept.
    pub failures: Vec<Failure>,
    /// What prevents resolution of the namespace as a whole.
    pub error: Option<String>,
    /// The result for the Subscriptions, also for those that wait for it already.
    pub choices: Arc<Choices>,
    /// Deprecations by Subscription, for those whose catalog declares some.
    pub deprecations: BTreeMap<String, Deprecation>,
}

/// Resolves `problem`, which was made from `input`; with what was left out of the choice as malformed. CPU work, no IO.
///
/// `last` is the same problem with what catalogs had that nothing can be installed from now, if that is known.
pub(crate) fn resolve(
    input: &ResolutionInput,
    problem: &Problem,
    last: Option<&Problem>,
) -> (Resolved, Vec<String>) {
    let deprecations = input
        .subscriptions
        .iter()
        .filter_map(|subscription| {
            Some((
                subscription.name.clone(),
                find_deprecation(subscription, last.unwrap_or(problem))?,
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
            resolved.choices = Arc::new(Choices::of(&input.subscriptions, &resolution));
            let Resolution {
                solution,
                failures,
                excluded,
            } = resolution;
            let with_last = last
                .filter(|_| !failures.is_empty())
                .and_then(|last| Some((last, olm_resolver::resolve(last).ok()?)));
            resolved.failures = match with_last {
                None => describe(problem, &failures),
                Some((last, known)) => beside_last_contents(problem, &failures, last, &known),
            };
            resolved.solution = solution;
            (resolved, excluded)
        }
        Err(error) => {
            resolved.error = Some(error_chain(&error));
            (resolved, Vec::new())
        }
    }
}

fn describe(problem: &Problem, failures: &[Explanation]) -> Vec<Failure> {
    let (advisor, hints) = (Advisor::new(problem, failures), Hints::new(problem));
    let failures = failures.iter();
    failures
        .map(|explanation| failure_of(problem, explanation, &advisor, &hints))
        .collect()
}

/// Returns the reports of `failures` if the content of catalogs from which nothing can be installed now is known.
///
/// Subscriptions that would get nothing new from these catalogs have no failure to report. Those that would fail with them, too,
/// report that reason, which remains when the catalogs return. The others report which bundles they wait for.
fn beside_last_contents(
    problem: &Problem,
    failures: &[Explanation],
    last: &Problem,
    known: &Resolution,
) -> Vec<Failure> {
    let mut described = describe(last, &known.failures);
    let failing: BTreeSet<&String> = failures
        .iter()
        .flat_map(|explanation| &explanation.subscriptions)
        .collect();
    // What was resolved without those catalogs stands: they could not have changed it.
    described.retain(|failure| failure.subscriptions.iter().any(|name| failing.contains(name)));
    let explained: BTreeSet<String> = described
        .iter()
        .flat_map(|failure| failure.subscriptions.clone())
        .collect();
    let components = components::split(&known.solution);
    for mut failure in describe(problem, failures) {
        let offered: BTreeSet<&str> = components
            .iter()
            .filter(|component| {
                let served = component.subscriptions();
                failure
                    .subscriptions
                    .iter()
                    .any(|name| served.contains(name.as_str()))
            })
            .flat_map(|component| &component.operators)
            .map(|operator| &*operator.entry.name)
            .collect();
        failure.subscriptions.retain(|name| !explained.contains(name));
        if offered.is_empty() || failure.subscriptions.is_empty() {
            continue;
        }
        let mut names: Vec<&str> = offered.into_iter().take(OFFERED).collect();
        if names.len() == OFFERED {
            names[OFFERED - 1] = "...";
        }
        let text = format!(
            "- catalogs that are not READY offered {}: it is installed once they are READY",
            names.join(", ")
        );
        failure.message = format!("{}\n{text}", failure.message);
        described.push(failure);
    }
    described
}

/// Deprecations that concern the installed version of a Subscription; none if its catalog does not have that version.
fn find_deprecation(subscription: &Subscription, problem: &Problem) -> Option<Deprecation> {
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
    let mut deprecation = entry.deprecation.as_deref().cloned().unwrap_or_default();
    if subscription.channel.is_empty() {
        deprecation.channel = None;
    }
    Some(deprecation)
}

/// Returns the report of a failure: upstream's message as the first line, then the reasons as a tree, and possible solutions.
fn failure_of(problem: &Problem, explanation: &Explanation, advisor: &Advisor<'_>, hints: &Hints) -> Failure {
    let reason = if explanation.is_unsatisfiable() {
        reasons::CONSTRAINTS_NOT_SATISFIABLE
    } else {
        reasons::ERROR_PREVENTED_RESOLUTION
    };
    let (advice, namespace) = (advisor.advise(explanation), &problem.namespace);
    let ways_back = advice.failed_upgrades.iter();
    let ways_back = ways_back.map(|failed| failed.way_out(namespace));
    let advice: Vec<String> = ways_back.chain(advice.lines(namespace)).collect();
    Failure {
        subscriptions: explanation.subscriptions.clone(),
        reason,
        message: explanation.text(hints, &advice, CONDITION_LIMIT),
    }
}
