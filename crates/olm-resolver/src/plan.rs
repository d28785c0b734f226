//! What will happen to a namespace, step by step until nothing more is to be done, without doing it.

mod document;
mod explained;
mod held;
mod notes;
mod question;
mod target;
mod text;
mod way;

use std::collections::BTreeSet;

pub use self::document::{Document, ExplainedDocument};
pub use self::explained::{Explained, Standing, explain};
pub use self::held::{HeldBack, held};
pub use self::question::{NotSucceeded, Question, Waiting};
pub use self::target::{TargetError, plan_to};
pub use self::way::Target;
use crate::advice::{Advice, Advisor};
use crate::catalog::CatalogKey;
use crate::explain::{Explanation, Hints, MAX_LINES, Tree, WIDTH, lines};
use crate::problem::Problem;
use crate::resolve::{Resolution, ResolveError, resolve};
use crate::simulate;
use crate::solution::Operator;

/// Most steps looked ahead. A channel is longer only by mistake.
pub const MAX_STEPS: usize = 1_000;

/// The fields of a Subscription that a way to a target changes.
const CHANNEL: &str = "spec.channel";
const STARTING_CSV: &str = "spec.startingCSV";

/// The plan for a namespace. As JSON it is a [`Document`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The namespace.
    pub namespace: String,
    /// What is done, in order. What is in one step is in one round of resolution.
    pub steps: Vec<Step>,
    /// Whether more steps follow that were not looked at.
    pub more_steps: bool,
    /// What cannot be resolved, one entry for each part of the namespace.
    pub unsatisfiable: Vec<Unsatisfiable>,
    /// Subscriptions whose channel offers more than they get, with what holds it back. That is no failure: OLM waits.
    pub held_back: Vec<HeldBack>,
    /// Malformed bundles and channels that were left out of the choice, with the reason.
    pub excluded: Vec<String>,
    /// What else is to be said.
    pub notes: Vec<String>,
}

/// One round of resolution and what is needed for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Changes of Subscriptions that the way to a target needs before it.
    pub changes: Vec<Edit>,
    /// What is installed, in order.
    pub install: Vec<Install>,
    /// Subscriptions because of which the step's InstallPlan has to be approved: all that ask for manual approval, as the
    /// plan is one for the namespace.
    pub approvals: Vec<String>,
}

/// A change of a Subscription that a person makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// The Subscription.
    pub subscription: String,
    /// The fields with what they are now and what they become; empty for not set.
    pub fields: Vec<(&'static str, String, String)>,
    /// Whether it has to be created anew, as the fields count for a first installation only.
    pub recreate: bool,
}

impl Edit {
    /// What to do, in one line.
    pub fn text(&self) -> String {
        let Edit {
            subscription,
            fields,
            recreate,
        } = self;
        let texts: Vec<String> = fields
            .iter()
            .map(|(field, from, to)| match (recreate, from.as_str()) {
                (true, _) => format!("{field} {to}"),
                (false, "") => format!("{field} of subscription {subscription} to {to}"),
                (false, from) => format!("{field} of subscription {subscription} to {to} (now {from})"),
            })
            .collect();
        let fields = texts.join(" and ");
        if *recreate {
            format!("create subscription {subscription} with {fields}")
        } else {
            format!("set {fields}")
        }
    }
}

/// One bundle that will be installed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Install {
    /// Name of the ClusterServiceVersion.
    pub name: String,
    /// Its package.
    pub package: String,
    /// Channel it is taken from.
    pub channel: String,
    /// Catalog it is taken from.
    pub catalog: CatalogKey,
    /// Its version; empty if it states none.
    pub version: String,
    /// The ClusterServiceVersion it takes the place of; empty if nothing like it is installed.
    pub replaces: String,
    /// Subscriptions it is for, separated by commas; the generated one for a dependency.
    pub for_subscription: String,
    /// Operators whose requirements brought it in.
    pub required_by: Vec<String>,
}

/// A part of the namespace that cannot be resolved.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// What would resolve it.
    pub advice: Advice,
}

impl Unsatisfiable {
    /// `failure` for people; what does not exist yet is no part of it.
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

    /// Names of the Subscriptions, or of what is installed where it is nobody's.
    pub fn concerned(&self) -> &[String] {
        if self.subscriptions.is_empty() {
            &self.installed
        } else {
            &self.subscriptions
        }
    }

    /// The summary, the reasons and the advice, as lines of at most 118 characters but for the first.
    pub fn lines(&self, namespace: &str) -> Vec<String> {
        let reasons = lines(&self.tree, MAX_LINES, WIDTH);
        let advice = self.advice.lines(namespace);
        std::iter::once(self.summary.clone())
            .chain(reasons)
            .chain(advice)
            .collect()
    }
}

/// How far a plan has come, for who waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A step has been resolved.
    Step {
        /// Its number, from 1.
        number: usize,
        /// Bundles installed so far.
        installed: usize,
    },
    /// A failure is looked into.
    Advice {
        /// Its number, from 1.
        failure: usize,
        /// How many there are.
        of: usize,
    },
    /// What holds upgrades back is looked for.
    HeldBack,
}

/// The way to the target, or where the channels lead if there is none.
///
/// # Errors
/// Those of [`plan_to`] and [`plan()`].
pub fn answer(
    question: &Question,
    target: Option<&Target>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Plan, TargetError> {
    match target {
        Some(target) => plan_to(question, target),
        None => Ok(plan_telling(question, progress)?),
    }
}

/// Looks ahead until nothing more is to be installed.
///
/// # Errors
/// When the namespace as a whole cannot be resolved.
pub fn plan(question: &Question) -> Result<Plan, ResolveError> {
    plan_telling(question, &mut |_| {})
}

fn plan_telling(question: &Question, progress: &mut dyn FnMut(Progress)) -> Result<Plan, ResolveError> {
    let mut problem = question.problem.clone();
    let mut plan = Plan {
        namespace: problem.namespace.clone(),
        notes: question.opening_notes(),
        ..Plan::default()
    };
    let hints = Hints::new(&problem);
    let mut told = Told::default();
    let mut invented: BTreeSet<String> = BTreeSet::new();
    let (mut installed, mut is_all) = (0, false);
    for number in 1..=question.steps.unwrap_or(MAX_STEPS).min(MAX_STEPS) {
        let resolution = resolve(&problem)?;
        plan.add_failures(&problem, &resolution, &hints, &mut told, &invented, progress);
        plan.excluded.extend(resolution.excluded.iter().cloned());
        if resolution.solution.operators.is_empty() {
            is_all = true;
            break;
        }
        plan.add_step(&problem, &question.manual, Vec::new(), &resolution);
        installed += resolution.solution.operators.len();
        progress(Progress::Step { number, installed });
        invented.extend(generated(&resolution));
        simulate::carry_out(&mut problem, &resolution.solution);
    }
    plan.more_steps = !is_all && !resolve(&problem)?.solution.operators.is_empty();
    progress(Progress::HeldBack);
    plan.held_back = held(&problem, &told.subscriptions);
    plan.notes.extend(notes::deprecations(&problem));
    plan.excluded.sort();
    plan.excluded.dedup();
    Ok(plan)
}

/// Who was told of as failing: a failure stays in all steps that follow.
#[derive(Default)]
struct Told {
    subscriptions: BTreeSet<String>,
    installed: BTreeSet<String>,
}

impl Told {
    /// Whether a failure concerns somebody who was not told of; `invented` are Subscriptions nobody asked for.
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

/// Names of the Subscriptions that come into being with a step.
fn generated(resolution: &Resolution) -> impl Iterator<Item = String> {
    let operators = resolution.solution.operators.iter();
    operators.filter_map(|operator| Some(operator.generated_subscription.as_ref()?.name.clone()))
}

impl Plan {
    /// Everything that is installed, in order over all steps.
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
        progress: &mut dyn FnMut(Progress),
    ) {
        let failures = resolution.failures.iter();
        let news: Vec<&Explanation> = failures.filter(|f| told.is_news(f, invented)).collect();
        if news.is_empty() {
            return;
        }
        let advisor = Advisor::new(problem, &resolution.failures).without(invented);
        for (place, failure) in news.iter().enumerate() {
            progress(Progress::Advice {
                failure: place + 1,
                of: news.len(),
            });
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
            changes,
            install: operators.map(|operator| install(&there, operator)).collect(),
            approvals: manual.iter().cloned().collect(),
        });
    }
}

/// `there` is what is installed before the step.
fn install(there: &BTreeSet<&str>, operator: &Operator) -> Install {
    let generated = operator
        .generated_subscription
        .iter()
        .map(|generated| generated.name.clone());
    let subscriptions: Vec<String> = operator.subscriptions.iter().cloned().chain(generated).collect();
    // The catalog's own word for what comes before it says nothing about this namespace.
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
