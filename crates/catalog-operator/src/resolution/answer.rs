//! The answer of the resolver for a namespace, and the memory that spares asking the same twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use go_compat::error_chain;
use olm_api::condition::subscription as words;
use olm_resolver::explain::CONDITION_LIMIT;
use olm_resolver::{CatalogKey, Explanation, InstalledCsv, OperatorGroup, Problem, Resolution, Subscription};

use super::observe::Failure;
use crate::snapshots::ContentId;
use crate::subscription::deprecation::DeprecationFact;

/// Everything an answer depends on. Two equal questions have the same answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// All Subscriptions.
    pub subscriptions: Vec<Subscription>,
    /// All ClusterServiceVersions.
    pub installed: Vec<InstalledCsv>,
    /// The OperatorGroup.
    pub operator_group: OperatorGroup,
    /// The catalogs, with priority and content or why there is none.
    pub catalogs: Vec<(CatalogKey, i32, Result<ContentId, String>)>,
    /// Whether anything is to be resolved; else only deprecations are looked up.
    pub resolve: bool,
}

/// What the resolver and the catalogs say.
#[derive(Debug, Default)]
pub struct Answer {
    /// Solution and failures.
    pub resolution: Resolution,
    /// The failures of the resolution, as Subscriptions are told of them.
    pub failures: Vec<Failure>,
    /// What prevents resolution of the namespace as a whole.
    pub error: Option<String>,
    /// Deprecations by Subscription, for those whose catalog tells.
    pub deprecations: BTreeMap<String, DeprecationFact>,
}

/// Answers `question` about `problem`, which it was made from. CPU work, no IO.
pub fn answer(question: &Question, problem: &Problem) -> Answer {
    let deprecations = question
        .subscriptions
        .iter()
        .filter_map(|subscription| {
            Some((
                subscription.name.clone(),
                find_deprecation(subscription, problem)?,
            ))
        })
        .collect();
    if !question.resolve {
        return Answer {
            deprecations,
            ..Answer::default()
        };
    }
    match olm_resolver::resolve(problem) {
        Ok(resolution) => Answer {
            failures: resolution
                .failures
                .iter()
                .map(|failure| told(problem, failure))
                .collect(),
            resolution,
            error: None,
            deprecations,
        },
        Err(error) => Answer {
            error: Some(error_chain(&error)),
            deprecations,
            ..Answer::default()
        },
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
    let told = entry.deprecation.clone().unwrap_or_default();
    let text = |message: &Option<Arc<str>>| message.as_deref().map(str::to_owned);
    Some(DeprecationFact {
        package: text(&told.package),
        channel: text(&told.channel).filter(|_| !subscription.channel.is_empty()),
        bundle: text(&told.bundle),
    })
}

/// The last answer of each namespace.
#[derive(Default)]
pub struct Memory {
    answers: Mutex<BTreeMap<String, (Question, Arc<Answer>)>>,
}

impl Memory {
    /// The answer given to the same question last time.
    pub fn recall(&self, namespace: &str, question: &Question) -> Option<Arc<Answer>> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, answer) = answers.get(namespace)?;
        (known == question).then(|| Arc::clone(answer))
    }

    /// Remembers an answer in place of the one before.
    pub fn remember(&self, namespace: &str, question: Question, answer: Arc<Answer>) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.insert(namespace.to_owned(), (question, answer));
    }

    /// Forgets a namespace.
    pub fn forget(&self, namespace: &str) {
        self.answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(namespace);
    }
}

/// What Subscriptions are told of a failure: upstream's message as the first line, then the reasons as a tree and what was
/// found to resolve it.
fn told(problem: &Problem, explanation: &Explanation) -> Failure {
    let reason = if explanation.is_unsatisfiable() {
        words::CONSTRAINTS_NOT_SATISFIABLE
    } else {
        words::ERROR_PREVENTED_RESOLUTION
    };
    let changes = olm_resolver::remedies(problem, explanation).into_iter();
    let advice: Vec<String> = changes.map(|change| change.text(&problem.namespace)).collect();
    Failure {
        subscriptions: explanation.subscriptions.clone(),
        reason,
        message: explanation.text(&advice, CONDITION_LIMIT),
    }
}
