//! Predicts the changes of a namespace, step by step until nothing more is installed, without making them.

mod document;
mod explained;
mod failed_upgrade;
mod held;
mod notes;
mod question;
mod target;
mod text;
mod way;

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

pub use self::document::{Document, ExplainedDocument};
pub use self::explained::{Explained, Standing, explain};
pub use self::held::{HeldBack, held};
pub use self::question::{NotSucceeded, Question, Waiting};
pub use self::target::{TargetError, find_subscription, plan_to};
pub use self::way::Target;
use crate::advice::{Advice, Advisor};
use crate::catalog::CatalogKey;
use crate::explain::{Explanation, Hints, MAX_LINES, Tree, WIDTH, lines};
use crate::problem::Problem;
use crate::resolve::{Resolution, ResolveError, resolve};
use crate::simulate;
use crate::solution::Operator;

/// Maximum steps looked ahead. Only a faulty channel is longer.
pub const MAX_STEPS: usize = 1_000;

/// The plan for a namespace. As JSON it is a [`Document`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The namespace.
    pub namespace: String,
    /// Steps in order. Each is one resolution.
    pub steps: Vec<Step>,
    /// True if more steps follow that were not examined.
    pub more_steps: bool,
    /// Failures, one entry for each part of the namespace.
    pub unsatisfiable: Vec<Unsatisfiable>,
    /// Subscriptions whose channel offers more than they get, with the reason. OLM waits; this is not a
    /// failure.
    pub held_back: Vec<HeldBack>,
    /// Malformed bundles and channels that were left out of the choice, with the reason.
    pub excluded: Vec<String>,
    /// Further remarks.
    pub notes: Vec<String>,
}

/// One resolution and its prerequisites.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Its number, from 1.
    pub step: usize,
    /// Changes of Subscriptions that the way to a target needs first.
    pub change: Vec<Edit>,
    /// Installed bundles, in order.
    pub install: Vec<Install>,
    /// Subscriptions that require approval of the step's InstallPlan: all with manual approval, because the
    /// namespace has one plan.
    pub approvals: Vec<String>,
}

/// A change of a Subscription that a user makes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Edit {
    /// The Subscription.
    pub subscription: String,
    /// True if it must be recreated, because the fields matter for a first installation only.
    pub recreate: bool,
    /// The new channel, if it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The first version to install, if it changes.
    #[serde(rename = "startingCSV", default, skip_serializing_if = "Option::is_none")]
    pub starting_csv: Option<String>,
    /// The instruction in one line.
    pub text: String,
}

/// One bundle that will be installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Install {
    /// Name of the ClusterServiceVersion.
    pub name: String,
    /// Its package.
    pub package: String,
    /// Channel it is taken from.
    pub channel: String,
    /// Catalog it is taken from, in JSON as `namespace/name`.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub catalog: CatalogKey,
    /// Its version; empty if it states none.
    pub version: String,
    /// The installed ClusterServiceVersion it replaces; empty if there is none.
    pub replaces: String,
    /// Subscriptions it is for, separated by commas; the generated one for a dependency.
    pub for_subscription: String,
    /// Operators whose requirements brought it in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_by: Vec<String>,
}

fn as_text<S: Serializer>(key: &CatalogKey, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(key)
}

/// A part of the namespace that cannot be resolved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unsatisfiable {
    /// Subscriptions of the part.
    pub subscriptions: Vec<String>,
    /// Installed ClusterServiceVersions of the part.
    pub installed: Vec<String>,
    /// Upstream's message, whole.
    pub message: String,
    /// The same in fewer than 300 characters.
    pub summary: String,
    /// The reasons.
    pub tree: Vec<Tree>,
    /// Advice on the failure.
    #[serde(flatten)]
    pub advice: Advice,
}

impl Unsatisfiable {
    /// Returns a failure for people, without Subscriptions that do not exist yet.
    pub fn new(failure: &Explanation, hints: &Hints, advice: Advice, invented: &BTreeSet<String>) -> Self {
        let real = failure
            .subscriptions
            .iter()
            .filter(|name| !invented.contains(*name));
        Unsatisfiable {
            subscriptions: real.cloned().collect(),
            installed: failure.installed.clone(),
            message: failure.message(),
            summary: failure.summary(),
            tree: failure.tree(hints),
            advice,
        }
    }

    /// Returns the names of the Subscriptions, or of the installed operators if there are none.
    pub fn concerned(&self) -> &[String] {
        if self.subscriptions.is_empty() {
            &self.installed
        } else {
            &self.subscriptions
        }
    }

    /// Returns upgrades that failed, the summary, the reasons and the advice. Reasons and advice are lines of at most 118
    /// characters.
    pub fn lines(&self, namespace: &str) -> Vec<String> {
        let reasons = lines(&self.tree, MAX_LINES, WIDTH);
        let advice = self.advice.lines(namespace);
        self.failed_upgrade_lines(namespace)
            .chain([self.summary_line()])
            .chain(reasons)
            .chain(advice)
            .collect()
    }
}

/// Returns the plan to reach the target, or without one to follow the channels.
///
/// # Errors
/// See [`plan_to`] and [`plan()`].
pub fn answer(question: &Question, target: Option<&Target>) -> Result<Plan, TargetError> {
    match target {
        Some(target) => plan_to(question, target),
        None => Ok(plan(question)?),
    }
}

/// Looks ahead until nothing more is installed.
///
/// # Errors
/// The namespace as a whole cannot be resolved.
pub fn plan(question: &Question) -> Result<Plan, ResolveError> {
    let mut problem = question.problem.clone();
    let mut plan = Plan {
        namespace: problem.namespace.clone(),
        notes: question.opening_notes(),
        ..Plan::default()
    };
    let hints = Hints::new(&problem);
    let mut told = Told::default();
    let mut invented: BTreeSet<String> = BTreeSet::new();
    let mut is_all = false;
    for _ in 0..question.steps.unwrap_or(MAX_STEPS).min(MAX_STEPS) {
        let resolution = resolve(&problem)?;
        plan.add_failures(&problem, &resolution, &hints, &mut told, &invented);
        plan.excluded.extend(resolution.excluded.iter().cloned());
        if resolution.solution.operators.is_empty() {
            is_all = true;
            break;
        }
        plan.add_step(&problem, &question.manual, Vec::new(), &resolution);
        invented.extend(generated(&resolution));
        simulate::carry_out(&mut problem, &resolution.solution);
    }
    plan.more_steps = !is_all && !resolve(&problem)?.solution.operators.is_empty();
    plan.held_back = held(&problem, &told.subscriptions);
    plan.notes.extend(notes::deprecations(&problem));
    plan.excluded.sort();
    plan.excluded.dedup();
    question.add_causes(&mut plan.unsatisfiable);
    Ok(plan)
}

/// Reported failures, by name: a failure recurs in all steps that follow.
#[derive(Default)]
struct Told {
    subscriptions: BTreeSet<String>,
    installed: BTreeSet<String>,
}

impl Told {
    /// Returns whether a failure concerns an object that was not reported yet. `invented` are generated
    /// Subscriptions.
    fn is_news(&self, failure: &Explanation, invented: &BTreeSet<String>) -> bool {
        let is_new = |name: &String| !self.subscriptions.contains(name) && !invented.contains(name);
        if failure.subscriptions.is_empty() {
            return failure.installed.iter().any(|csv| !self.installed.contains(csv));
        }
        failure.subscriptions.iter().any(is_new)
    }

    fn add(&mut self, failure: &Explanation) {
        self.subscriptions.extend(failure.subscriptions.iter().cloned());
        self.installed.extend(failure.installed.iter().cloned());
    }
}

/// Returns the names of the Subscriptions that a step creates.
fn generated(resolution: &Resolution) -> impl Iterator<Item = String> {
    let operators = resolution.solution.operators.iter();
    operators.filter_map(|operator| Some(operator.generated_subscription.as_ref()?.name.clone()))
}

impl Plan {
    /// Returns everything that is installed, in order over all steps.
    pub fn install(&self) -> impl Iterator<Item = &Install> {
        self.steps.iter().flat_map(|step| &step.install)
    }

    fn add_failures(
        &mut self,
        problem: &Problem,
        resolution: &Resolution,
        hints: &Hints,
        told: &mut Told,
        invented: &BTreeSet<String>,
    ) {
        let failures = resolution.failures.iter();
        let news: Vec<&Explanation> = failures.filter(|f| told.is_news(f, invented)).collect();
        if news.is_empty() {
            return;
        }
        let advisor = Advisor::new(problem, &resolution.failures).without(invented);
        for failure in news {
            let advice = advisor.advise(failure);
            self.unsatisfiable
                .push(Unsatisfiable::new(failure, hints, advice, invented));
            told.add(failure);
        }
    }

    fn add_step(
        &mut self,
        problem: &Problem,
        manual: &BTreeSet<String>,
        changes: Vec<Edit>,
        resolution: &Resolution,
    ) {
        let there: BTreeSet<&str> = problem.installed.iter().map(|csv| csv.name.as_str()).collect();
        let operators = resolution.solution.operators.iter();
        self.steps.push(Step {
            step: self.steps.len() + 1,
            change: changes,
            install: operators.map(|operator| install(&there, operator)).collect(),
            approvals: manual.iter().cloned().collect(),
        });
    }
}

/// Returns one install. `there` are the operators installed before the step.
fn install(there: &BTreeSet<&str>, operator: &Operator) -> Install {
    let generated = operator
        .generated_subscription
        .iter()
        .map(|generated| generated.name.clone());
    let subscriptions: Vec<String> = operator.subscriptions.iter().cloned().chain(generated).collect();
    // The catalog's predecessor has no meaning in this namespace unless it is installed.
    let replaces = there.get(operator.replaces.as_str());
    Install {
        name: operator.entry.name.to_string(),
        package: operator.entry.package.to_string(),
        channel: operator.entry.channel.to_string(),
        catalog: operator.catalog.clone(),
        version: operator
            .entry
            .version
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        replaces: replaces.map(|name| (*name).to_owned()).unwrap_or_default(),
        for_subscription: subscriptions.join(","),
        required_by: operator.required_by.clone(),
    }
}
