//! What will happen to a namespace, step by step until nothing more is to be done, without doing it.

mod target;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::target::{Target, TargetError, plan_to};
use crate::catalog::CatalogKey;
use crate::cluster_fit::KubernetesVersion;
use crate::explain::{CONDITION_LIMIT, Explanation, Tree};
use crate::problem::Problem;
use crate::remedy::remedies;
use crate::resolve::{Resolution, ResolveError, resolve};
use crate::simulate;
use crate::solution::Operator;

/// Most steps looked ahead. A channel is longer only by mistake.
pub const MAX_STEPS: usize = 1_000;

/// What the plan needs to know beside the [`Problem`].
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// The namespace with its catalogs.
    pub problem: Problem,
    /// Names of Subscriptions that ask for manual approval.
    pub manual: BTreeSet<String>,
    /// How many steps to look ahead.
    pub steps: Option<usize>,
}

impl Question {
    /// Takes it that the namespace has an OperatorGroup, where the objects leave it out as files often do. Returns what to
    /// tell whoever asks.
    pub fn assume_group(&mut self) -> Option<String> {
        if self.problem.operator_group.count > 0 {
            return None;
        }
        self.problem.operator_group.count = 1;
        Some(format!(
            "no OperatorGroup of namespace {} among the objects: one is assumed, without which OLM does nothing",
            self.problem.namespace
        ))
    }

    /// What to tell of catalogs that the namespace cannot use although they are given.
    pub fn out_of_reach(&self) -> impl Iterator<Item = String> {
        let Problem {
            namespace,
            global_namespace: global,
            catalogs,
            ..
        } = &self.problem;
        let keys = catalogs.iter().map(|catalog| &catalog.key);
        let others = keys.filter(move |key| key.namespace != *namespace && key.namespace != *global);
        others.map(move |key| {
            format!(
                "catalog {}/{} cannot be used from namespace {namespace}, only those of {namespace} and {global}: see \
                 --global-catalog-namespace",
                key.name, key.namespace
            )
        })
    }
}

/// The plan for a namespace. As JSON it has the fields `namespace`, `install` and `unsatisfiable`, and no others: `install`
/// holds everything in the order in which it will be installed, over all steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The namespace.
    pub namespace: String,
    /// What is installed, in order.
    pub install: Vec<Install>,
    /// What cannot be resolved, one entry for each part of the namespace.
    pub unsatisfiable: Vec<Unsatisfiable>,
    /// Malformed bundles and channels that were left out of the choice, with the reason.
    #[serde(skip)]
    pub excluded: Vec<String>,
    /// Subscriptions whose channel offers more than they get, with what holds it back. That is no failure: OLM waits.
    #[serde(skip)]
    pub held: Vec<Unsatisfiable>,
    /// Changes of Subscriptions that the way to a target needs first, in words, by the step before which they are made.
    #[serde(skip)]
    pub changes: BTreeMap<usize, Vec<String>>,
    /// What else is to be said.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// One bundle that will be installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Install {
    /// Name of the ClusterServiceVersion.
    pub name: String,
    /// Its package.
    pub package: String,
    /// Channel it is taken from.
    pub channel: String,
    /// Catalog it is taken from, `name/namespace`.
    pub catalog: String,
    /// Its version; empty if it states none.
    pub version: String,
    /// The ClusterServiceVersion it takes the place of; empty if nothing like it is installed.
    pub replaces: String,
    /// Subscriptions it is for, separated by commas; the generated one for a dependency.
    pub for_subscription: String,
    /// Counted from 1. What is in one step is in one round of resolution.
    #[serde(skip)]
    pub step: usize,
    /// Subscriptions that have to approve the step.
    #[serde(skip)]
    pub approval: Vec<String>,
    /// Operators whose requirements brought it in.
    #[serde(skip)]
    pub required_by: Vec<String>,
}

impl Install {
    /// The catalog it is taken from.
    pub fn catalog_key(&self) -> CatalogKey {
        let (name, namespace) = self.catalog.split_once('/').unwrap_or_default();
        CatalogKey {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
        }
    }
}

/// A part of the namespace that cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsatisfiable {
    /// Subscriptions of the part.
    pub subscriptions: Vec<String>,
    /// Upstream's message, and what would make it work.
    pub message: String,
    /// The reasons.
    pub tree: Vec<Tree>,
}

impl Unsatisfiable {
    fn new(problem: &Problem, explanation: &Explanation) -> Self {
        let namespace = &problem.namespace;
        let advice = remedies(problem, explanation).into_iter().map(|change| Tree {
            text: format!("to resolve: {}", change.text(namespace)),
            because: Vec::new(),
        });
        Unsatisfiable {
            subscriptions: explanation.subscriptions.clone(),
            message: crate::explain::cut(&explanation.message(), CONDITION_LIMIT),
            tree: explanation.tree().into_iter().chain(advice).collect(),
        }
    }
}

/// The way to the target, or where the channels lead if there is none.
///
/// # Errors
/// Those of [`plan_to`] and [`plan()`].
pub fn answer(question: &Question, target: Option<&Target>) -> Result<Plan, TargetError> {
    match target {
        Some(target) => plan_to(question, target),
        None => Ok(plan(question)?),
    }
}

/// Looks ahead until nothing more is to be installed.
///
/// # Errors
/// When the namespace as a whole cannot be resolved.
pub fn plan(question: &Question) -> Result<Plan, ResolveError> {
    let mut problem = question.problem.clone();
    let mut plan = Plan {
        namespace: problem.namespace.clone(),
        ..Plan::default()
    };
    let mut failed: BTreeSet<Vec<String>> = BTreeSet::new();
    for step in 1..=question.steps.unwrap_or(MAX_STEPS).min(MAX_STEPS) {
        let resolution = resolve(&problem)?;
        for failure in &resolution.failures {
            if failed.insert(failure.subscriptions.clone()) {
                plan.unsatisfiable.push(Unsatisfiable::new(&problem, failure));
            }
        }
        plan.excluded.extend(resolution.excluded.iter().cloned());
        plan.add_step(&problem, &question.manual, step, &resolution);
        if resolution.solution.operators.is_empty() {
            break;
        }
        simulate::carry_out(&mut problem, &resolution.solution);
    }
    plan.held = held(&problem);
    plan.excluded.sort();
    plan.excluded.dedup();
    Ok(plan)
}

/// Subscriptions that stay where they are although their channel has an upgrade, with the reasons.
pub fn held(problem: &Problem) -> Vec<Unsatisfiable> {
    let mut held = Vec::new();
    for (place, subscription) in problem.subscriptions.iter().enumerate() {
        if subscription.installed_csv.is_empty() {
            continue;
        }
        let mut asked = problem.clone();
        asked.subscriptions[place].must_move = true;
        let Ok(resolution) = resolve(&asked) else {
            continue;
        };
        let concerned = resolution
            .failures
            .iter()
            .find(|f| f.subscriptions.contains(&subscription.name));
        // Without an upgrade in the channel there is nothing to hold back.
        let offered = concerned.is_some_and(|failure| failure.offers_something(&subscription.name));
        if let Some(failure) = concerned.filter(|_| offered) {
            held.push(Unsatisfiable {
                subscriptions: vec![subscription.name.clone()],
                message: format!(
                    "subscription {} stays at {}",
                    subscription.name, subscription.installed_csv
                ),
                tree: failure.tree(),
            });
        }
    }
    held.sort_by(|a, b| a.subscriptions.cmp(&b.subscriptions));
    held
}

impl Plan {
    fn add_step(
        &mut self,
        problem: &Problem,
        manual: &BTreeSet<String>,
        step: usize,
        resolution: &Resolution,
    ) {
        for operator in &resolution.solution.operators {
            self.install
                .push(install(problem, manual, step, operator, resolution));
        }
    }

    /// Notes what is installed and needs a newer Kubernetes than `kubernetes`. `csv_of` has the ClusterServiceVersion of an
    /// install, as far as its catalog tells it.
    pub fn note_unfit(
        &mut self,
        kubernetes: &KubernetesVersion,
        mut csv_of: impl FnMut(&Install) -> Option<Value>,
    ) {
        for install in &self.install {
            let unfit = csv_of(install).and_then(|csv| kubernetes.too_old_for(&install.name, &csv));
            self.notes.extend(unfit.map(|text| {
                format!("{text}: its ClusterServiceVersion will wait in phase Pending until the cluster is upgraded")
            }));
        }
    }

    /// How many steps it has.
    pub fn steps(&self) -> usize {
        self.install.iter().map(|install| install.step).max().unwrap_or(0)
    }
}

fn install(
    problem: &Problem,
    manual: &BTreeSet<String>,
    step: usize,
    operator: &Operator,
    resolution: &Resolution,
) -> Install {
    let generated = operator
        .generated_subscription
        .iter()
        .map(|generated| generated.name.clone());
    let subscriptions: Vec<String> = operator.subscriptions.iter().cloned().chain(generated).collect();
    // The catalog's own word for what comes before it says nothing about this namespace.
    let replaces = problem.installed.iter().find(|csv| csv.name == operator.replaces);
    let CatalogKey { name, namespace } = &operator.catalog;
    Install {
        name: operator.entry.name.to_string(),
        package: operator.entry.package.to_string(),
        channel: operator.entry.channel.to_string(),
        catalog: format!("{name}/{namespace}"),
        version: operator
            .entry
            .version
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        replaces: replaces.map(|csv| csv.name.clone()).unwrap_or_default(),
        for_subscription: subscriptions.join(","),
        step,
        approval: approvals(manual, operator, resolution),
        required_by: operator.required_by.clone(),
    }
}

/// Subscriptions that must approve: its own, and those of whoever brought it in, as they share an InstallPlan.
fn approvals(manual: &BTreeSet<String>, operator: &Operator, resolution: &Resolution) -> Vec<String> {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut found: BTreeSet<String> = BTreeSet::new();
    let mut open = vec![operator];
    while let Some(operator) = open.pop() {
        if !seen.insert(&operator.entry.name) {
            continue;
        }
        found.extend(
            operator
                .subscriptions
                .iter()
                .filter(|s| manual.contains(*s))
                .cloned(),
        );
        let holders = resolution.solution.operators.iter();
        open.extend(holders.filter(|holder| {
            operator
                .required_by
                .iter()
                .any(|name| **name == *holder.entry.name)
        }));
    }
    found.into_iter().collect()
}
